"""The whole life of a StreamApp on the model API server: all that the operator ever writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.cluster import StreamWorker
from headwater_operator.decide.judge import listed_as_active
from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    PODS,
    STREAM_ACTIONS,
    STREAM_APPS,
    STREAM_WORKERS,
    VOLUME_SNAPSHOTS,
)
from headwater_operator.manifests.names import RESET_ANNOTATION, Owner, metadata
from tests.support.kube_drivers import executors
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TASKS = ["0_0", "0_1", "1_0", "1_1"]


def go_on(rig: KubeRig, condition: Callable[[], object]) -> None:
    """Turn until something is so, and look after every turn that nothing is held twice."""

    def is_so() -> object:
        held = [
            task
            for manifest in rig.api.list(STREAM_WORKERS, NAMESPACE)
            for task in held_by_the_living(rig, StreamWorker.from_dict(manifest))
        ]
        assert len(held) == len(set(held)), held
        return condition()

    rig.until(is_so, turns=600)


def held_by_the_living(rig: KubeRig, worker: StreamWorker) -> Iterator[str]:
    player = rig.workers.workers.get(worker.name)
    if player is not None and player.incarnation == worker.status.incarnation:
        yield from map(str, listed_as_active(worker.status))


def stray_pod(rig: KubeRig) -> None:
    """What an operator leaves behind that was frozen while another one deleted the worker."""
    owner = Owner(name="wc", namespace=NAMESPACE, uid="somebody")
    spec = {"containers": [{"name": "worker", "image": "example/worker:1"}]}
    made = metadata(owner, "wc-w-9", worker="wc-w-9", is_owned=False)
    rig.api.create(PODS, {"metadata": made, "spec": spec})


def to_spark_and_back(rig: KubeRig) -> None:
    """Hand a StreamApp with one worker over to Spark, whose driver ends once, and back."""

    def runs() -> bool:
        is_it = (rig.status().get("engine") or {}).get("name") == "Spark"
        pods = ["wc-driver", *executors(rig.api, NAMESPACE)]
        return is_it and rig.is_ready() and len(pods) == 2 and rig.names(PODS) == sorted(pods)

    rig.set("/spec/engine", "Spark")
    go_on(rig, runs)
    before = rig.uid(PODS, "wc-driver")
    rig.node.end("wc-driver")
    go_on(rig, lambda: rig.uid(PODS, "wc-driver") not in ("", before) and runs())
    rig.set("/spec/engine", "Native")
    go_on(rig, lambda: rig.is_ready() and rig.tasks() == TASKS and len(rig.names(PODS)) == 1)
    # A kill between the duty and its answer in the status costs another take-over.
    assert rig.workers.of("wc").generation >= 2


def is_resetting(rig: KubeRig) -> bool:
    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    return bool(found["metadata"].get("annotations"))


def actions(rig: KubeRig) -> None:
    """A restart, a copy of a volume and a backfill, each of which leaves nothing to see to."""
    rig.act("again", "Restart", restart={"workers": ["wc-w-0"]}, ttlSecondsAfterFinished=0)
    for name in rig.names(CLAIMS):
        rig.api.set_status(CLAIMS, NAMESPACE, name, {"phase": "Bound"})
    rig.act(
        "copy", "SnapshotVolume", snapshotVolume={"worker": "wc-w-1"}, ttlSecondsAfterFinished=0
    )
    go_on(rig, lambda: rig.names(VOLUME_SNAPSHOTS))
    rig.api.set_status(VOLUME_SNAPSHOTS, NAMESPACE, "copy", {"readyToUse": True})
    labels = {"headwater.dev/app": "wc"}
    metadata = {"name": "anew", "namespace": NAMESPACE, "labels": labels}
    rig.api.create(JOBS, {"metadata": metadata, "spec": {"suspend": True}})
    rig.act("anew", "Backfill", backfill={"job": "anew"}, ttlSecondsAfterFinished=0)
    go_on(rig, lambda: not rig.api.list(JOBS, NAMESPACE)[0]["spec"]["suspend"])
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    rig.api.set_status(JOBS, NAMESPACE, "anew", complete)
    go_on(rig, lambda: not rig.names(STREAM_ACTIONS))
    go_on(rig, lambda: rig.is_ready() and rig.tasks() == TASKS)


def whole_life(rig: KubeRig) -> None:
    """Everything that is ever written, at least once."""
    keep = {"retention": {"whenScaled": "Delete", "whenDeleted": "Delete"}}
    rig.apply(streamapp(state=keep))
    go_on(rig, lambda: rig.is_ready() and len(rig.names(PODS)) == 2 and rig.tasks() == TASKS)
    rig.scale(3)
    go_on(rig, lambda: rig.status()["readyReplicas"] == 3 and rig.tasks() == TASKS)
    incarnation = rig.workers["wc-w-1"].incarnation
    rig.node.end("wc-w-1")
    go_on(rig, lambda: rig.workers["wc-w-1"].incarnation not in ("", incarnation))
    go_on(rig, lambda: rig.is_ready() and rig.tasks() == TASKS)
    actions(rig)
    stray_pod(rig)
    rig.scale(1)
    left = (CLAIMS, PODS, LEASES, STREAM_WORKERS)
    go_on(rig, lambda: all(len(rig.names(resource)) == 1 for resource in left))
    go_on(rig, lambda: rig.is_ready() and rig.tasks() == TASKS)
    to_spark_and_back(rig)
    for name in rig.names(CLAIMS):
        rig.api.set_status(CLAIMS, NAMESPACE, name, {"phase": "Bound"})
    rig.set("/spec/state", {"retention": {"whenDeleted": "Retain"}, "size": "20Gi"})
    rig.set("/spec/suspend", True)
    go_on(rig, lambda: not rig.names(PODS))
    rig.set("/spec/config", {"commit.interval.ms": 200})
    rig.set("/spec/suspend", False)
    go_on(rig, lambda: rig.is_ready() and rig.tasks() == TASKS)
    go_on(rig, lambda: len(rig.names(CONFIG_MAPS)) == 1)
    go_on(rig, lambda: not rig.api.list(CLAIMS, NAMESPACE)[0]["metadata"]["ownerReferences"])
    rig.set("/metadata/annotations", {RESET_ANNOTATION: "now"})
    go_on(rig, lambda: not is_resetting(rig) and rig.is_ready() and rig.tasks() == TASKS)
    rig.delete()
    go_on(rig, lambda: not rig.names(STREAM_APPS))
