"""Tools that wait for a StreamApp go on when what was asked for serves, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kstatus import (
    CURRENT,
    FAILED,
    IN_PROGRESS,
    TERMINATING,
    kstatus,
    wait_returns,
)
from tests.support.kube_fakes import IMAGE
from tests.support.kube_rig import NAMESPACE, streamapp

from headwater_operator.kube.api import PODS, STREAM_APPS, Manifest
from headwater_operator.kube.errors import ForbiddenError
from headwater_operator.manifests.names import PAUSE_ANNOTATION

if TYPE_CHECKING:
    from tests.support.kube_rig import KubeRig

NEXT, MISSING = "example/worker:2", "example/worker:none"


def stored(rig: KubeRig) -> Manifest:
    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    return found


def images(rig: KubeRig) -> set[str]:
    """What the pods run now."""
    return {pod["spec"]["containers"][0]["image"] for pod in rig.api.list(PODS, NAMESPACE)}


def watched(rig: KubeRig) -> list[str]:
    """Look on until a StreamApp is done, as `helm --wait` does; return what was seen."""
    seen: list[str] = []

    def is_over() -> bool:
        app = stored(rig)
        now = kstatus(app)
        if wait_returns(app, "Ready"):
            assert images(rig) == {app["spec"]["image"]}
        if seen[-1:] != [now]:
            seen.append(now)
        return now in (CURRENT, FAILED)

    rig.until(is_over)
    return seen


@pytest.mark.parametrize(
    ("metadata", "status", "said"),
    [
        ({"generation": 1}, {}, CURRENT),
        ({"generation": 1}, {"observedGeneration": -1}, IN_PROGRESS),
        ({"generation": 2}, {"observedGeneration": 1, "conditions": ["Ready"]}, IN_PROGRESS),
        ({"generation": 1}, {"observedGeneration": 1, "conditions": ["Ready"]}, CURRENT),
        ({"generation": 1}, {"conditions": ["Ready", "Reconciling"]}, IN_PROGRESS),
        ({"generation": 1}, {"conditions": ["Ready", "Stalled"]}, FAILED),
        ({"generation": 1, "deletionTimestamp": "now"}, {"conditions": ["Ready"]}, TERMINATING),
    ],
)
def test_the_rules_are_those_of_kstatus(metadata: Manifest, status: Manifest, said: str) -> None:
    conditions = [{"type": kind, "status": "True"} for kind in status.get("conditions", ())]

    assert kstatus({"metadata": metadata, "status": {**status, "conditions": conditions}}) == said


def test_a_new_streamapp_is_in_progress_until_it_serves(rig: KubeRig) -> None:
    rig.api.create(STREAM_APPS, streamapp())

    assert kstatus(stored(rig)) == IN_PROGRESS, "the operator has not seen it yet"
    assert watched(rig) == [IN_PROGRESS, CURRENT]
    assert rig.is_ready()


def test_an_upgrade_is_over_when_every_worker_is_a_new_one(ready: KubeRig) -> None:
    ready.set("/spec/image", NEXT)

    assert watched(ready) == [IN_PROGRESS, CURRENT]
    assert images(ready) == {NEXT}


def test_an_upgrade_to_an_image_that_does_not_exist_fails(ready: KubeRig) -> None:
    ready.node.images = {IMAGE}
    ready.set("/spec/image", MISSING)

    assert watched(ready) == [IN_PROGRESS, FAILED]
    ready.turn(20)
    assert kstatus(stored(ready)) == FAILED
    assert ready.condition("Ready")[0] == "False"
    assert ready.condition("Stalled")[2] == ready.condition("Ready")[2]
    assert MISSING in ready.condition("Stalled")[2]

    ready.set("/spec/image", IMAGE)
    assert watched(ready) == [IN_PROGRESS, CURRENT]


def test_a_first_image_that_does_not_exist_fails(rig: KubeRig) -> None:
    rig.node.images = {IMAGE}
    rig.api.create(STREAM_APPS, streamapp(image=MISSING))

    assert watched(rig) == [IN_PROGRESS, FAILED]


def test_scaling_is_over_when_the_new_workers_are_there(ready: KubeRig) -> None:
    ready.scale(3)

    assert watched(ready) == [IN_PROGRESS, CURRENT]
    assert ready.status()["readyReplicas"] == 3


def test_a_specification_that_cannot_be_used_fails_although_the_last_one_runs(
    ready: KubeRig,
) -> None:
    ready.set("/spec/topology", {"configMapRef": {"name": "missing"}})

    assert watched(ready) == [IN_PROGRESS, FAILED]
    assert ready.status()["tasks"]["running"] == ready.status()["tasks"]["total"]


def test_what_a_paused_operator_does_not_carry_out_is_in_progress(ready: KubeRig) -> None:
    ready.set("/metadata/annotations", {PAUSE_ANNOTATION: "true"})
    ready.until(lambda: ready.condition("Paused")[0] == "True")
    assert kstatus(stored(ready)) == CURRENT

    ready.set("/spec/image", NEXT)
    ready.turn(20)

    assert kstatus(stored(ready)) == IN_PROGRESS
    assert wait_returns(stored(ready), "Paused")
    assert not wait_returns(stored(ready), "Ready")

    ready.set("/metadata/annotations", {})
    assert watched(ready) == [IN_PROGRESS, CURRENT]


def test_what_the_api_server_refuses_is_in_progress(ready: KubeRig) -> None:
    def refuse(verb: str, plural: str, name: str) -> None:
        if ready.is_operator_at_work and (verb, plural) == ("list", PODS.plural):
            raise ForbiddenError("no")

    ready.api.on_call = refuse
    ready.set("/spec/image", NEXT)
    ready.until(lambda: ready.condition("Degraded")[1] == "ReconcileError")

    assert kstatus(stored(ready)) == IN_PROGRESS
    assert not wait_returns(stored(ready), "Ready")


def test_a_worker_that_is_lost_in_the_moment_of_an_upgrade_does_not_make_it_done(
    ready: KubeRig,
) -> None:
    ready.scale(1)
    watched(ready)
    [name] = ready.names(PODS)
    ready.node.end(name, 137)
    ready.set("/spec/image", NEXT)

    assert watched(ready) == [IN_PROGRESS, CURRENT]
    assert images(ready) == {NEXT}


def test_a_streamapp_that_is_suspended_is_not_ready(ready: KubeRig) -> None:
    ready.set("/spec/suspend", value=True)
    ready.until(lambda: ready.status()["state"] == "NOT_RUNNING")

    assert wait_returns(stored(ready), "Suspended")
    assert kstatus(stored(ready)) == IN_PROGRESS
    assert ready.condition("Reconciling")[0] == "False"
