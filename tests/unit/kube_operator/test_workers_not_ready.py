"""How many workers are not ready, as the operator's metric says, which an alert is about."""

from __future__ import annotations

from tests.support.kube_rig import NAMESPACE, KubeRig

from headwater_operator.kube.api import JOBS
from headwater_operator.kube.errors import ForbiddenError

WHERE = {"streamapp_namespace": NAMESPACE, "streamapp": "wc"}


def not_ready(rig: KubeRig) -> float | None:
    """The number that is scraped; None if there is none."""
    name = "headwater_operator_streamapp_workers_not_ready"
    return rig.operator.metrics.registry.get_sample_value(name, WHERE)


def test_a_worker_without_a_pod_is_not_ready(ready: KubeRig) -> None:
    def refuse(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("create", "pods"):
            raise ForbiddenError("pods is forbidden: exceeded quota: pods=2")

    assert not_ready(ready) == 0
    ready.api.on_call = refuse
    ready.scale(3)

    ready.until(lambda: not_ready(ready) == 1)

    ready.turn(40)
    assert not_ready(ready) == 1
    ready.api.on_call = lambda *_: None
    ready.until(lambda: not_ready(ready) == 0, turns=2_000)


def test_workers_of_a_suspended_streamapp_are_not_missed(ready: KubeRig) -> None:
    ready.set("/spec/suspend", value=True)

    ready.until(lambda: ready.status()["state"] == "NOT_RUNNING")

    assert not_ready(ready) == 0


def test_workers_that_a_backfill_has_stopped_are_not_missed(ready: KubeRig) -> None:
    labels = {"headwater.dev/app": "wc"}
    metadata = {"name": "anew", "namespace": NAMESPACE, "labels": labels}
    ready.api.create(JOBS, {"metadata": metadata, "spec": {"suspend": True}})
    ready.act("anew", "Backfill", backfill={"job": "anew"})

    ready.until(lambda: ready.action("anew").get("step") == "Backfilling")

    ready.turn(40)
    assert ready.tasks() == []
    assert not_ready(ready) == 0
