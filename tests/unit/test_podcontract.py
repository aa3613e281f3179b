"""A worker's pod: what the operator builds and what `headwater worker` reads are one contract."""

from __future__ import annotations

from typing import Any

from headwater.model import podcontract

MOUNTS = (
    podcontract.STREAMAPP_DIR,
    podcontract.TOPOLOGY_DIR,
    podcontract.KAFKA_DIR,
    podcontract.SERVICE_ACCOUNT_DIR,
    podcontract.STATE_DIR,
    podcontract.TMP_DIR,
)


def variables() -> dict[str, Any]:
    return {str(entry["name"]): entry for entry in podcontract.environment("orders")}


def test_every_path_told_lies_below_a_mount() -> None:
    paths = [
        str(entry["value"])
        for entry in variables().values()
        if str(entry.get("value", "")).startswith("/")
    ]

    assert len(paths) >= len(MOUNTS)
    assert [path for path in paths if not path.startswith(MOUNTS)] == []


def test_no_variable_is_there_twice() -> None:
    names = [entry["name"] for entry in podcontract.environment("orders")]

    assert len(names) == len(set(names))


def test_pod_worker_and_lease_have_one_name() -> None:
    source = variables()[podcontract.ENV_WORKER]["valueFrom"]

    assert source == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_a_worker_may_not_create_delete_or_write_a_spec() -> None:
    allowed = {
        (resource, verb)
        for rule in podcontract.role_rules()
        for resource in list(rule["resources"])  # type: ignore[call-overload]
        for verb in list(rule["verbs"])  # type: ignore[call-overload]
    }

    writing = {
        (resource, verb) for resource, verb in allowed if verb not in {"get", "list", "watch"}
    }
    assert writing == {("streamworkers/status", "patch"), ("leases", "update")}
