"""What the pods of Spark's driver and executors are made of: one contract, as ``podcontract``.

    driver    ``headwater spark`` with the arguments below; paths as in a worker's pod
    executor  made by the driver from a template that lies beside the StreamApp (``EXECUTOR_KEY``)

What the driver is told about the cluster stands in variables, because two of them (its address and
its name) are known to Kubernetes alone.
"""

from __future__ import annotations

from typing import Final

from headwater.model.podcontract import (
    CA_FILE,
    ENV_HTTP_AUTH_DIR,
    ENV_HTTP_HOST,
    ENV_KAFKA_DIR,
    ENV_LOG_LEVEL,
    ENV_NAMESPACE,
    ENV_OPERATOR_ACCOUNT,
    ENV_REVISION,
    ENV_SERVICE_ACCOUNT_DIR,
    ENV_STATE_DIR,
    ENV_STREAMAPP,
    ENV_TOPOLOGY_DIR,
    HTTP_PORT,
    KAFKA_DIR,
    PORT_NAME,
    SERVICE_ACCOUNT_DIR,
    STATE_DIR,
    STREAMAPP_DIR,
    STREAMAPP_KEY,
    TMP_DIR,
    TOKEN_FILE,
    TOPOLOGY_DIR,
    Json,
    environment,
    probes,
)

DRIVER: Final = "driver"
"""The driver's container."""
EXECUTOR: Final = "executor"
"""An executor's container."""

COMMAND: Final = ("headwater", "spark")
EXECUTOR_COMMAND: Final = ("python3", "-m", "headwater.spark.executor")
"""Spark adds one argument, which says what it already is."""

EXECUTOR_KEY: Final = "executor.json"
"""The ConfigMap's key with the executors' pod template, beside the StreamApp."""

END_WORDS: Final = "ended with "
"""What the last line but one of a driver that has failed begins with; an error's class follows."""

ENV_POD: Final = "HEADWATER_POD"
"""Where it is set, executors are pods of this one."""
ENV_EXECUTORS: Final = "HEADWATER_EXECUTORS"
ENV_EXECUTOR_IMAGE: Final = "HEADWATER_EXECUTOR_IMAGE"
ENV_EXECUTOR_PULL_POLICY: Final = "HEADWATER_EXECUTOR_PULL_POLICY"
ENV_EXECUTOR_TEMPLATE: Final = "HEADWATER_EXECUTOR_TEMPLATE"

CLIENT_TOKEN: Final = "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN"  # noqa: S105 - the name of a variable
"""Spark's client of the API server reads the token that this variable names, again and again."""
CLIENT_CA: Final = "KUBERNETES_CERTS_CA_FILE"

RPC_PORT: Final = 7078
"""Executors speak to the driver here."""
BLOCKS_PORT: Final = 7079
"""Of what executors fetch from the driver, and from each other."""

GRACE_S: Final = 60
"""A driver that is told to end (SIGTERM) finishes its micro-batch."""

ACCOUNT_PREFIX: Final = "headwater-driver-"
"""The admission policy knows drivers by it."""


def driver_account(app: str) -> str:
    """Return the name of the ServiceAccount, Role and RoleBinding of an application's driver."""
    return ACCOUNT_PREFIX + app


def driver_rules() -> list[Json]:
    """Return what a driver may do in its namespace: make executors, see them, and delete them.

    A Role cannot say "with your own label"; for writing, the admission policy adds that.
    """
    verbs = ["get", "list", "watch", "create", "delete", "deletecollection"]
    return [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]


def arguments(generation: int) -> list[str]:
    """Return the arguments of the driver's container; Kubernetes fills the variables in.

    Args:
        generation: of the take-over that it is started for.
    """
    return [
        *("--file", f"$({ENV_STREAMAPP})"),
        *("--generation", str(generation)),
        *("--state-dir", f"$({ENV_STATE_DIR})"),
        *("--kafka-dir", f"$({ENV_KAFKA_DIR})"),
        *("--import-path", f"$({ENV_TOPOLOGY_DIR})"),
        *("--http-host", f"$({ENV_HTTP_HOST})"),
        *("--http-port", str(HTTP_PORT)),
    ]


def driver_environment(
    *, executors: int, image: str, pull_policy: str, log_level: str = "INFO"
) -> list[Json]:
    """Return the variables of the driver's container; the user's own come before them.

    Args:
        executors: how many there are to be.
        image: of the executors.
        pull_policy: for that image.
        log_level: of its processes.
    """
    entries = _variables(
        {
            ENV_STREAMAPP: f"{STREAMAPP_DIR}/{STREAMAPP_KEY}",
            ENV_EXECUTOR_TEMPLATE: f"{STREAMAPP_DIR}/{EXECUTOR_KEY}",
            ENV_EXECUTORS: str(executors),
            ENV_EXECUTOR_IMAGE: image,
            ENV_EXECUTOR_PULL_POLICY: pull_policy,
            ENV_SERVICE_ACCOUNT_DIR: SERVICE_ACCOUNT_DIR,
            CLIENT_TOKEN: f"{SERVICE_ACCOUNT_DIR}/{TOKEN_FILE}",
            CLIENT_CA: f"{SERVICE_ACCOUNT_DIR}/{CA_FILE}",
            **_shared(log_level),
        }
    )
    for name, path in {
        ENV_POD: "metadata.name",
        ENV_NAMESPACE: "metadata.namespace",
        ENV_HTTP_HOST: "status.podIP",
    }.items():
        entries.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    return entries


def executor_environment(*, log_level: str = "INFO") -> list[Json]:
    """Return the variables of an executor's container; Spark adds its own."""
    return _variables(_shared(log_level))


def own_variables() -> tuple[str, ...]:
    """Return the variables that Headwater sets in its containers, whatever they run; sorted."""
    ours = (
        *environment(""),
        *driver_environment(executors=0, image="", pull_policy=""),
        *executor_environment(),
    )
    asked_for = {
        ENV_HTTP_AUTH_DIR,
        ENV_OPERATOR_ACCOUNT,
        ENV_REVISION,
    }
    return tuple(sorted({str(entry["name"]) for entry in ours} | asked_for))


def driver_probes(import_timeout_ms: int) -> dict[str, Json]:
    """Return the probes of the driver's container by field name.

    Ready is that it can be dialled: Spark waits for that before it makes executors, and before
    those are there it cannot run.

    Args:
        import_timeout_ms: how long importing the topology may take.
    """
    found = probes(import_timeout_ms)
    return {**found, "readinessProbe": {**found["readinessProbe"], **_ask("/healthz")}}


def _ask(path: str) -> Json:
    return {"httpGet": {"path": path, "port": PORT_NAME}}


def _shared(log_level: str) -> dict[str, str]:
    return {
        ENV_TOPOLOGY_DIR: TOPOLOGY_DIR,
        ENV_KAFKA_DIR: KAFKA_DIR,
        ENV_STATE_DIR: STATE_DIR,
        ENV_LOG_LEVEL: log_level,
        "TMPDIR": TMP_DIR,
        "HOME": TMP_DIR,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _variables(told: dict[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in told.items()]


def pull_policy_of(image: str, chosen: str | None) -> str:
    """Return what Kubernetes would take where nobody has chosen: Spark takes another default."""
    if chosen is not None:
        return chosen
    name = image.partition("@")[0]
    _, colon, tag = name.rpartition("/")[2].partition(":")
    is_moving = "@" not in image and (not colon or tag == "latest")
    return "Always" if is_moving else "IfNotPresent"
