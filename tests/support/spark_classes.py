"""Class data of Spark's Java: a session of the tests starts with half of the processor time.

    python -m tests.support.spark_classes

``make caches`` writes the archive (150 MB) into the virtual environment, for it is of the jars that
lie there. Java passes over one that does not fit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from headwater.spark.java import java_home

OPTIONS: Final = "SPARK_SUBMIT_OPTS"
QUICK: Final = "-XX:TieredStopAtLevel=1"
"""What Spark does in a test is over before Java's second compiler has earned what it costs."""
_WRITTEN_S: Final = 600
_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_ROWS: Final = 1000


def archive() -> Path:
    """Return where the class data lie: beside what they are of."""
    return Path(sys.prefix) / "spark-classes.jsa"


def options() -> str:
    """Return the options of Java for a Spark of the tests."""
    found = archive()
    return f"{QUICK} -XX:SharedArchiveFile={found} {_SILENT}" if found.exists() else QUICK


def write() -> None:
    """Write them unless they are there: run Spark for a moment.

    Raises:
        subprocess.CalledProcessError: Spark does not run.
    """
    target = archive()
    if target.exists():
        return
    print("preparing Spark's classes, so that it starts faster from now on")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing-") as staging:
        fresh = Path(staging, target.name)
        command = f"{QUICK} {_SILENT} -XX:ArchiveClassesAtExit={fresh}"
        subprocess.run(
            [sys.executable, "-m", "tests.support.spark_classes"],
            env={**os.environ, OPTIONS: command, "JAVA_HOME": str(java_home())},
            timeout=_WRITTEN_S,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        fresh.replace(target)


def run() -> None:
    """Run a query and end Spark's Java in order, which is when it writes its classes down."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.range(_ROWS).selectExpr("id % 10 AS k", "id AS v").groupBy("k").sum("v").collect()
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_WRITTEN_S)


if __name__ == "__main__":
    run()
