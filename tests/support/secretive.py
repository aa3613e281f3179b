"""A Spark that is told a password: whether it has it, and who else sees it.

``python -m tests.support.secretive MASTER`` in a process of its own prints one JSON document.
"""

from __future__ import annotations

import json
import subprocess
import sys

from headwater.spark.cluster import start

NAME = "spark.hadoop.fs.s3a.secret.key"
VALUE = "hunter2 = hunter3"


def main(master: str) -> None:
    """Start Spark, run a job, and look at the processes of the machine."""
    session = start(master, {NAME: VALUE, "spark.driver.memory": "512m"})
    session.range(4).count()  # executors, too, are there
    seen = subprocess.run(
        ["ps", "-e", "-ww", "-o", "args"], capture_output=True, text=True, check=True
    ).stdout
    context = session.sparkContext
    said = {
        "conf": context.getConf().get(NAME),
        "hadoop": context._jsc.hadoopConfiguration().get("fs.s3a.secret.key"),
        "memory": context._jvm.System.getProperty("spark.driver.memory"),  # type: ignore[union-attr]
        "shown": [line for line in seen.splitlines() if "hunter" in line],
        "java": sum("org.apache.spark" in line for line in seen.splitlines()),
    }
    session.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
