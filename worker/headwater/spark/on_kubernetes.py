"""A driver in a pod: where its Spark finds the API server, and how executors are made.

What the user says in ``spec.spark.config`` wins, but where nothing else can work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError
from headwater.model import drivercontract as contract
from headwater.model.podcontract import ENV_HTTP_HOST, ENV_NAMESPACE, ENV_STATE_DIR
from headwater.spark import masters

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")

_NEEDED: Final[Mapping[str, str]] = {
    # Each pod has a disk of its own, so a partition of Spark's state is where it was made, and
    # nowhere else: its executor is waited for. If that has gone, the query is begun anew (crew.py).
    "spark.locality.wait": "5m",
    # The first micro-batch would make all of them where its one map task has run.
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    **masters.ONLY_PODS,
    masters.CONTAINER: contract.EXECUTOR,
    "spark.driver.port": str(contract.RPC_PORT),
    "spark.driver.blockManager.port": str(contract.BLOCKS_PORT),
    "spark.blockManager.port": str(contract.BLOCKS_PORT),
    "spark.dynamicAllocation.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """What a driver in a pod tells Spark.

    Attributes:
        master: of Spark.
        settings: which the user may change.
        fixed: which he may not.
    """

    master: str
    settings: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Make sure that executors in pods are those of a driver that the operator has made.

    Args:
        master: that the user has named.
        environment: the variables of the process.

    Raises:
        ConfigError: it is a Kubernetes: a driver in a pod finds it by itself, and one that was
            started by hand shares no directory with its executors.
    """
    if not masters.is_kubernetes(master):
        return
    if contract.ENV_POD in environment:
        raise ConfigError(
            f"spec.spark.master is {master}: leave it out of the StreamApp, the executors are pods "
            "of this driver"
        )
    raise ConfigError(
        f"headwater spark does not run with a master {master}, its executors would not reach the "
        "state directory: give the StreamApp to the operator with engine: Spark and without "
        "spec.spark.master, then executors are pods; a backfill may have such a master"
    )


def executors(app: str, environment: Mapping[str, str]) -> Executors | None:
    """Return how executors are made; ``None`` if this is no driver in a pod.

    Args:
        app: the StreamApp's name.
        environment: the variables of the process.

    Raises:
        ConfigError: a variable is missing that every driver's pod has.
    """
    if contract.ENV_POD not in environment:
        return None
    try:
        host, port = (environment[name] for name in _SERVER)
        address = environment[ENV_HTTP_HOST]
        told = {
            "spark.app.name": app,
            "spark.kubernetes.namespace": environment[ENV_NAMESPACE],
            "spark.kubernetes.driver.pod.name": environment[contract.ENV_POD],
            "spark.kubernetes.container.image": environment[contract.ENV_EXECUTOR_IMAGE],
            "spark.kubernetes.container.image.pullPolicy": environment[
                contract.ENV_EXECUTOR_PULL_POLICY
            ],
            masters.TEMPLATE: environment[contract.ENV_EXECUTOR_TEMPLATE],
            "spark.executor.instances": environment[contract.ENV_EXECUTORS],
            # Executors dial either of the two, by a setting whose default has changed.
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.local.dir": f"{environment[ENV_STATE_DIR]}/spark",
        }
    except KeyError as error:
        raise ConfigError(
            f"the variable {error.args[0]} is missing: the pod of a driver is made by the "
            f"operator, by hand leave out {contract.ENV_POD}"
        ) from error
    if ":" in host:
        host = f"[{host}]"
    return Executors(
        master=f"k8s://https://{host}:{port}", settings=masters.EXECUTORS, fixed={**_NEEDED, **told}
    )
