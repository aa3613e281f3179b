"""Standbys as a cluster shows them: the condition, the counts, where pods run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater_operator.kube.api import NODES, PODS, STREAM_WORKERS
from headwater_operator.kube.errors import ForbiddenError
from headwater_operator.manifests.settings import Installation
from headwater_operator.observe.pods import read_pod
from headwater_operator.observe.snapshot import Observer


@pytest.fixture
def rig() -> KubeRig:
    rig = KubeRig()
    rig.apply(streamapp(assignment={"standbyReplicas": 1}))
    rig.until(rig.is_ready)
    return rig


def test_standbys_that_have_caught_up_are_counted(rig: KubeRig) -> None:
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")

    assert rig.condition("StandbysReady")[1:] == ("CaughtUp", "2 of 2 standbys have caught up")
    tasks = rig.status()["tasks"]
    assert (tasks["standby"], tasks["caughtUp"], tasks["warmup"]) == (2, 2, 0)


def test_a_streamworker_says_why_each_task_is_where_it_is(rig: KubeRig) -> None:
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")

    for worker in rig.api.list(STREAM_WORKERS, NAMESPACE):
        spec = worker["spec"]
        said = sorted(task for why in spec["why"] for task in why["tasks"])
        assert said == sorted([*spec["active"], *spec.get("standby", [])])


def test_more_standbys_than_other_workers_are_reported_not_refused(rig: KubeRig) -> None:
    rig.scale(1)

    rig.until(lambda: rig.condition("StandbysReady")[1] == "TooFewWorkers")

    state, _, message = rig.condition("StandbysReady")
    assert state == "False"
    assert "raise spec.replicas or lower spec.assignment.standbyReplicas" in message
    assert rig.is_ready()


def test_who_wants_no_standbys_is_told_that_none_are_wanted() -> None:
    rig = KubeRig()
    rig.apply(streamapp())
    rig.until(rig.is_ready)

    assert rig.condition("StandbysReady")[:2] == ("True", "NoneWanted")


def test_a_worker_that_goes_is_named_while_its_tasks_warm_up_elsewhere(rig: KubeRig) -> None:
    rig.set("/spec/assignment", {"standbyReplicas": 0})
    rig.until(lambda: rig.condition("StandbysReady")[1] == "NoneWanted")
    phases: list[tuple[str, str]] = []

    def has_one_worker() -> bool:
        operation = rig.status().get("operation")
        if operation is not None:
            phases.append((operation["target"], operation["phase"]))
        return rig.names(PODS) == ["wc-w-0"]

    rig.scale(1)
    rig.until(has_one_worker)

    assert phases[0] == ("wc-w-1", "WarmingUpElsewhere")
    assert phases[-1] == ("wc-w-1", "Stopping")


@pytest.mark.parametrize(
    ("spec", "labels", "place"),
    [
        pytest.param({}, {}, {}, id="not scheduled"),
        pytest.param({"nodeName": "n-1"}, {}, {"kubernetes.io/hostname": "n-1"}, id="no zone"),
        pytest.param(
            {"nodeName": "n-1"},
            {"topology.kubernetes.io/zone": "a", "team": "search"},
            {"kubernetes.io/hostname": "n-1", "topology.kubernetes.io/zone": "a"},
            id="a zone",
        ),
    ],
)
def test_a_pod_says_where_it_runs(
    spec: dict[str, Any], labels: dict[str, str], place: dict[str, str]
) -> None:
    pod = read_pod({"metadata": {"name": "wc-w-0", "uid": "u", "labels": labels}, "spec": spec})

    assert pod.labels == place


def test_labels_that_a_pod_does_not_carry_are_read_from_its_node_once_in_a_while() -> None:
    rig = KubeRig()
    labels = {"rack": "r-1", "team": "search"}
    rig.api.create(NODES, {"metadata": {"name": "node-1", "labels": labels}})
    rig.apply(streamapp(assignment={"topologyKeys": ["rack", "kubernetes.io/hostname"]}))
    rig.until(rig.is_ready)
    now_ms = 0
    observer = Observer(rig.api, Installation(), lambda: now_ms)
    rig.api.calls.clear()

    views = [observer.look(NAMESPACE, "wc") for _ in range(3)]

    for view in views:
        assert view is not None
        places = {worker.worker.name: dict(worker.labels) for worker in view.workers}
        place = {"kubernetes.io/hostname": "node-1", "rack": "r-1"}
        assert places == {"wc-w-0": place, "wc-w-1": place}
    assert rig.api.calls.count(("get", "nodes")) == 1
    now_ms = 600_000
    observer.look(NAMESPACE, "wc")
    assert rig.api.calls.count(("get", "nodes")) == 2


def test_who_may_not_read_nodes_spreads_by_what_the_pods_say() -> None:
    def refused(verb: str, plural: str, name: str) -> None:
        if plural == "nodes":
            raise ForbiddenError(f'nodes "{name}" is forbidden')

    rig = KubeRig()
    rig.api.on_call = refused
    rig.apply(streamapp(assignment={"topologyKeys": ["rack"], "standbyReplicas": 1}))

    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")
