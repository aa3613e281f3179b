"""What somebody deletes by hand, or takes the labels from, costs nothing but a fence."""

from __future__ import annotations

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig

from headwater_operator.kube.api import CLAIMS, LEASES, PODS, STREAM_WORKERS, Resource
from headwater_operator.manifests.names import labels

TASKS = ["0_0", "0_1", "1_0", "1_1"]
FENCED = "wc-wc-w-0-0"


def take_labels(rig: KubeRig, resource: Resource, name: str) -> None:
    rig.api.patch(resource, NAMESPACE, name, [{"op": "remove", "path": "/metadata/labels"}])


def until_whole(rig: KubeRig) -> None:
    rig.until(lambda: rig.is_ready() and rig.tasks() == TASKS and all(rig.held().values()))
    assert sorted(rig.names(PODS)) == ["wc-w-0", "wc-w-1"]


@pytest.mark.parametrize("how", ["deleted", "without labels", "of another application"])
def test_tasks_of_a_streamworker_that_is_hidden_move_only_behind_a_fence(
    ready: KubeRig, how: str
) -> None:
    tasks = set(ready.held()["wc-w-0"])
    if how == "deleted":
        ready.api.delete(STREAM_WORKERS, NAMESPACE, "wc-w-0")
    elif how == "without labels":
        take_labels(ready, STREAM_WORKERS, "wc-w-0")
    else:
        ready.api.patch(
            STREAM_WORKERS,
            NAMESPACE,
            "wc-w-0",
            [{"op": "add", "path": "/metadata/labels", "value": labels("other")}],
        )

    fenced = ready.workers.of("wc").fenced
    ready.until(lambda: FENCED in fenced or tasks & set(ready.held().get("wc-w-1", ())))

    assert FENCED in fenced, "its tasks are granted to another one before it is fenced"
    until_whole(ready)
    found = ready.api.get(STREAM_WORKERS, NAMESPACE, "wc-w-0")
    assert found is not None
    assert found["metadata"]["labels"] == labels("wc", worker="wc-w-0")
    assert any(reason == "TamperedWorker" for reason, _ in ready.events())


def test_a_streamworker_that_lost_some_labels_keeps_those_of_others(ready: KubeRig) -> None:
    mine = {"headwater.dev/app": "wc", "app.kubernetes.io/managed-by": "headwater", "team": "blue"}
    change = {"op": "add", "path": "/metadata/labels", "value": mine}
    ready.api.patch(STREAM_WORKERS, NAMESPACE, "wc-w-0", [change])

    def found() -> dict[str, str]:
        manifest = ready.api.get(STREAM_WORKERS, NAMESPACE, "wc-w-0")
        assert manifest is not None
        kept: dict[str, str] = manifest["metadata"]["labels"]
        return kept

    ready.until(lambda: found() == {**labels("wc", worker="wc-w-0"), "team": "blue"})
    until_whole(ready)


def test_a_lease_without_labels_is_made_anew(ready: KubeRig) -> None:
    take_labels(ready, LEASES, "wc-w-0")

    ready.turn(60)
    until_whole(ready)

    found = ready.api.get(LEASES, NAMESPACE, "wc-w-0")
    assert found is not None
    assert found["metadata"]["labels"] == labels("wc", worker="wc-w-0")


@pytest.mark.parametrize(
    ("resource", "name"), [(PODS, "wc-w-0"), (CLAIMS, "wc-w-0-state")], ids=["pod", "claim"]
)
def test_what_has_the_name_of_a_worker_and_no_labels_is_named_with_the_next_step(
    ready: KubeRig, resource: Resource, name: str
) -> None:
    take_labels(ready, resource, name)
    if resource is CLAIMS:
        ready.api.delete(PODS, NAMESPACE, "wc-w-0")

    ready.until(lambda: ready.condition("Degraded")[1] == "NameTaken")

    state, _, said = ready.condition("Degraded")
    assert state == "True"
    assert f"there is a {resource.kind} {name} without the labels" in said
    assert "headwater.dev/app=wc" in said
    assert "put them there if it belongs to this StreamApp, else delete it" in said
    ready.until(lambda: ready.tasks() == TASKS and ready.is_ready())
    for _ in range(200):
        # Starts are tried ever more seldom, but why they fail is said all the time, and once.
        ready.turn()
        assert ready.condition("Degraded")[1] == "NameTaken"
    assert sum(reason == "NameTaken" for reason, _ in ready.events()) <= 2
    ready.api.delete(resource, NAMESPACE, name)
    until_whole(ready)
