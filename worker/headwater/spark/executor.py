"""An executor of Spark in a pod: ``python -m headwater.spark.executor executor``.

Spark's own images begin with a shell script that understands this one argument. What an executor
is to be stands in variables, which Spark has put into its pod.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError, HeadwaterError
from headwater.spark.java import java_home
from headwater_entry import heed_sigterm

if TYPE_CHECKING:
    from collections.abc import Mapping

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION: Final = "SPARK_JAVA_OPT_"
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_TOLD: Final[Mapping[str, str]] = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--bind-address": "SPARK_EXECUTOR_POD_IP",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(environment: Mapping[str, str], java: str, jars: str) -> list[str]:
    """Return the command that an executor is.

    Args:
        environment: the variables of its pod.
        java: the program.
        jars: the directory with Spark's.

    Raises:
        ConfigError: a variable is missing.
    """
    numbered = {
        int(name.removeprefix(_OPTION)): value
        for name, value in environment.items()
        if name.startswith(_OPTION) and name.removeprefix(_OPTION).isdigit()
    }
    try:
        memory = environment[_MEMORY]
        told = [part for option, name in _TOLD.items() for part in (option, environment[name])]
    except KeyError as error:
        raise ConfigError(
            f"the variable {error.args[0]} is missing: executors are started by Spark's driver, "
            "see docs/engines.md"
        ) from error
    return [
        java,
        *(numbered[number] for number in sorted(numbered)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        *("-cp", f"{jars}/*", _BACKEND),
        *told,
    ]


def main() -> None:
    """Become the executor."""
    heed_sigterm()
    try:
        import pyspark  # noqa: PLC0415 - an extra

        home = java_home()
        jars = str(Path(pyspark.__file__).parent / "jars")
        words = command(os.environ, str(home / "bin" / "java"), jars)
    except ImportError:
        sys.exit("error: this image has no Spark; build it with the target `spark`")
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    os.environ["JAVA_HOME"] = str(home)
    os.execv(words[0], words)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
