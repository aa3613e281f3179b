"""What Spark is told for each kind of master, where the user has not said otherwise. Pure.

local[n], local-cluster[...]  everything is on this machine
spark://...                   executors have the same Python at the same path
k8s://...                     executors are pods, made by the driver from an image of the user's
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError
from headwater.model import drivercontract as contract
from headwater.model.podcontract import TMP_DIR, security_context

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = "docs/backfill.md"
TEMPLATE: Final = "spark.kubernetes.executor.podTemplateFile"
CONTAINER: Final = "spark.kubernetes.executor.podTemplateContainerName"
_PYTHON: Final = "spark.pyspark.python"

DRIVER_JAVA: Final = "spark.driver.extraJavaOptions"
LOG_FILE: Final = "spark-log4j2.properties"
LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""Spark's own, but for the level, which is that of ``spark.log.level``."""

EXECUTORS: Final[Mapping[str, str]] = {
    # The heap carries no records: those are in the Python processes beside it.
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1536m",
    # Who can reach the driver's port is not asked for more by default.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
"""Executors in pods."""
ONLY_PODS: Final[Mapping[str, str]] = {
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
"""The driver need not have a right to anything but pods."""
_NEEDED: Final[Mapping[str, str]] = {
    "spark.kubernetes.container.image": (
        "the image of the executors, which has Spark and the modules of the topology"
    ),
    "spark.driver.host": "the address of this machine, or of this pod, that executors reach",
}


_HOST: Final = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
_FORM: Final = re.compile(
    r"local|local\[(?:[0-9]+|\*)(?: *, *[0-9]+)?\]"
    r"|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]"
    rf"|spark://{_HOST}(?:,{_HOST})*|k8s://\S+|yarn"
)


def is_here(master: str) -> bool:
    """Whether everything runs on this machine."""
    return master.startswith("local")


def is_kubernetes(master: str) -> bool:
    """Whether executors are pods."""
    return master.startswith("k8s://")


def check(master: str) -> None:
    """Refuse what is no master, before anything is started.

    Raises:
        ConfigError: Spark would not know it.
    """
    if _FORM.fullmatch(master) is None:
        raise ConfigError(
            f"{master!r} is no master of Spark: expected local[4], local[*], "
            "local-cluster[2,1,1024], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"
        )


def addresses(master: str) -> list[tuple[str, int]]:
    """Return where a ``spark://`` master is to be reached; nothing for others."""
    if not master.startswith("spark://"):
        return []
    pairs = (one.rpartition(":") for one in master.removeprefix("spark://").split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def defaults(master: str, given: Mapping[str, str], template: str) -> dict[str, str]:
    """Return the settings of this master; what is given wins over them.

    Args:
        master: of Spark.
        given: what the user has said.
        template: a file with ``executor_template``.

    Raises:
        ConfigError: something is missing that nobody but the user knows.
    """
    if is_here(master):
        # This machine's name need not lead to it.
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not is_kubernetes(master):
        return {}
    for name, what in _NEEDED.items():
        if not given.get(name):
            raise ConfigError(
                f"{name} is missing, {what}: with a master {master} set it in spec.spark.config of "
                f"the StreamApp, or give --spark-config {name}=...; {PAGE} has an example"
            )
    made = {
        **EXECUTORS,
        **ONLY_PODS,
        # Else executors dial the address that the driver binds, which outside of a pod is another.
        "spark.kubernetes.executor.useDriverPodIP": "false",
    }
    if TEMPLATE in given:
        return made
    return {**made, TEMPLATE: template, CONTAINER: contract.EXECUTOR}


def quiet(master: str, given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the file of log4j settings that Spark's driver begins with; empty for its own.

    Its own let it write half a dozen lines about itself before ``spark.log.level`` is heard.

    Args:
        master: of Spark.
        given: what the user has said of Spark.
        environment: the variables of this process.
    """
    has_own = DRIVER_JAVA in given or "SPARK_CONF_DIR" in environment
    return "" if has_own or not is_here(master) else LOG_FILE


def executor_template() -> dict[str, Any]:
    """Return the pod of an executor for whoever names no template: Spark adds all the rest."""
    container = {
        "name": contract.EXECUTOR,
        # In place of the shell script that Spark's own images begin with.
        "command": list(contract.EXECUTOR_COMMAND),
        "securityContext": security_context(),
        "env": [{"name": name, "value": TMP_DIR} for name in ("TMPDIR", "HOME")],
        "volumeMounts": [{"name": "headwater-tmp", "mountPath": TMP_DIR}],
    }
    spec = {
        # An executor does not speak to the API server.
        "automountServiceAccountToken": False,
        "containers": [container],
        # The stores of tasks lie here.
        "volumes": [{"name": "headwater-tmp", "emptyDir": {}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def python_of(
    master: str, given: Mapping[str, str], environment: Mapping[str, str], ours: str
) -> str:
    """Return the Python that Python workers are.

    Args:
        master: of Spark.
        given: what the user has said of Spark.
        environment: the variables of this process.
        ours: this interpreter. On this machine it is taken: Spark would take the first on the path.
    """
    if is_here(master):
        return ours
    return given.get(_PYTHON) or environment.get("PYSPARK_PYTHON") or ours
