"""What all workers of an application share: deleted or changed by hand, it comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, count_budget, streamapp

from headwater_operator.kube.api import (
    BUDGETS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from headwater_operator.kube.errors import ForbiddenError
from headwater_operator.manifests.names import REVISION_LABEL

if TYPE_CHECKING:
    from headwater_operator.kube.api import Resource

AGAIN_MS = 750_000
"""After so long everything is applied again at the latest."""


@pytest.fixture
def ready(ready: KubeRig) -> KubeRig:
    ready.turn(40)
    return ready


def pass_time(rig: KubeRig, milliseconds: int) -> None:
    """Let time pass in steps in which Leases are kept."""
    end_ms = rig.now_ms + milliseconds
    while rig.now_ms < end_ms:
        rig.turn()
        rig.now_ms += 1_000


def times_shared(rig: KubeRig) -> float:
    """How often the operator has applied again, or tried to, what workers share."""
    return sum(
        sample.value
        for metric in rig.operator.metrics.reconciles.collect()
        for sample in metric.samples
        if sample.name.endswith("_count") and sample.labels["result"] == "shared"
    )


SHARED = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, BUDGETS, CONFIG_MAPS)


@pytest.mark.parametrize("resource", SHARED, ids=lambda resource: str(resource.plural))
def test_what_workers_share_comes_back_after_it_was_deleted(
    ready: KubeRig, resource: Resource
) -> None:
    before = ready.names(resource)
    assert before
    for name in before:
        ready.api.delete(resource, NAMESPACE, name)

    pass_time(ready, AGAIN_MS)

    assert ready.names(resource) == before
    assert not ready.operator.failures


@pytest.mark.parametrize("resource", SHARED, ids=lambda resource: str(resource.plural))
def test_what_workers_share_is_looked_after_before_a_silent_worker_is_taken_for_lost(
    ready: KubeRig, resource: Resource
) -> None:
    before = ready.names(resource)
    for name in before:
        ready.api.delete(resource, NAMESPACE, name)
    ready.workers["wc-w-0"].frozen = True

    ready.until(lambda: ready.names(resource) == before)

    assert len(ready.held()["wc-w-0"]) == 2
    assert not any(reason == "Silent" for reason, _ in ready.events())


def test_what_workers_share_is_changed_back_and_follows_the_streamapp(ready: KubeRig) -> None:
    ready.turn(20)
    operation = {"op": "replace", "path": "/rules", "value": []}
    ready.api.patch(ROLES, NAMESPACE, ready.names(ROLES)[0], [operation])
    pass_time(ready, AGAIN_MS)
    assert ready.api.list(ROLES, NAMESPACE)[0]["rules"]

    ready.set("/spec/threadsPerWorker", 3)
    ready.turn(20)
    [config] = ready.api.list(CONFIG_MAPS, NAMESPACE)
    assert '"threadsPerWorker": 3' in config["data"]["streamapp.json"]
    assert ready.names(PODS) == ["wc-w-0", "wc-w-1"]


def test_another_operator_applies_what_workers_share_at_its_start(ready: KubeRig) -> None:
    ready.turn(20)
    ready.api.delete(ROLES, NAMESPACE, ready.names(ROLES)[0])

    ready.operator = ready.new_operator()
    ready.turn(20)

    assert ready.names(ROLES)


def test_what_workers_share_is_applied_seldom(ready: KubeRig) -> None:
    count_budget(ready, "InsufficientPods")
    pass_time(ready, 20_000)  # until that was seen
    ready.api.calls.clear()

    pass_time(ready, AGAIN_MS - 200_000)

    kinds = {resource.plural for resource in SHARED}
    assert not [call for call in ready.api.calls if call[1] in kinds and call[0] == "apply"]


def test_an_application_without_workers_is_left_alone(ready: KubeRig) -> None:
    ready.set("/spec/replicas", 0)
    ready.until(lambda: ready.names(PODS) == [])
    before = times_shared(ready)

    pass_time(ready, 2 * AGAIN_MS)

    assert times_shared(ready) == before


def test_without_what_workers_share_none_is_started_and_it_says_why(rig: KubeRig) -> None:
    def refuse(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("apply", ROLES.plural):
            raise ForbiddenError("no Roles here")

    rig.api.on_call = refuse
    rig.apply(streamapp())
    rig.turn(60)

    assert rig.names(PODS) == []
    assert "no Roles here" in rig.condition("Degraded")[2]
    rig.api.on_call = lambda *_: None
    rig.until(rig.is_ready)


def write_late(rig: KubeRig) -> None:
    """Be an operator that was frozen in the middle of a write, and wakes up."""
    [late] = rig.api.list(CONFIG_MAPS, NAMESPACE)
    late["metadata"]["name"] = "wc-0123456789"
    late["metadata"]["labels"][REVISION_LABEL] = "0123456789"
    for written_by_the_server in ("uid", "resourceVersion", "creationTimestamp"):
        late["metadata"].pop(written_by_the_server, None)
    rig.api.create(CONFIG_MAPS, late)


def test_what_an_operator_wrote_after_its_time_is_deleted(ready: KubeRig) -> None:
    before = ready.names(CONFIG_MAPS)
    write_late(ready)

    pass_time(ready, AGAIN_MS)

    assert ready.names(CONFIG_MAPS) == before


def test_it_is_deleted_too_where_there_is_always_something_to_do(ready: KubeRig) -> None:
    before = ready.names(CONFIG_MAPS)
    write_late(ready)

    end_ms = ready.now_ms + AGAIN_MS
    while ready.now_ms < end_ms:
        # Each change is a round, and any of them may be the one that applies again.
        ready.set("/metadata/annotations", {"at": str(ready.now_ms)})
        pass_time(ready, 1)

    assert ready.names(CONFIG_MAPS) == before
