"""An operator whose Role is that of an earlier release: it goes on, and names what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_life import TASKS
from tests.support.kube_rig import NAMESPACE, STEP_MS, KubeRig

from headwater_operator.handlers.sweep import SWEEP_MS
from headwater_operator.kube.api import JOBS, PODS
from headwater_operator.kube.errors import ForbiddenError

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest

ALL = ("streamactions", "jobs", "volumesnapshots")


def forbid(rig: KubeRig, *plurals: str) -> None:
    """A Role that lacks the rights to some kinds."""

    def refuse(verb: str, plural: str, _: str) -> None:
        if plural in plurals:
            raise ForbiddenError(f"{plural} is forbidden: cannot {verb}")

    rig.api.on_call = refuse


def condition(rig: KubeRig, name: str, kind: str) -> tuple[str, str]:
    """Reason and message of a condition that is True."""
    its = {each["type"]: each for each in rig.action(name)["conditions"]}
    assert its[kind]["status"] == "True"
    return its[kind]["reason"], its[kind]["message"]


def test_an_operator_with_the_role_of_the_last_release_goes_on_without_actions(
    ready: KubeRig, caplog: pytest.LogCaptureFixture
) -> None:
    forbid(ready, *ALL)
    ready.operator = ready.new_operator()

    ready.scale(3)

    ready.until(lambda: ready.held().get("wc-w-2"))
    ready.turn(3 * SWEEP_MS // STEP_MS)
    assert not ready.operator.sweep.closed
    assert ready.operator.sweep.without_actions == {None}
    assert ready.tasks() == TASKS
    told = [it.getMessage() for it in caplog.records if "StreamActions" in it.getMessage()]
    assert len(told) == 1
    assert "list, watch and delete streamactions" in told[0]

    ready.api.on_call = lambda *_: None
    ready.turn(2 * SWEEP_MS // STEP_MS)
    assert not ready.operator.sweep.without_actions


@pytest.mark.parametrize(
    ("kind", "part", "right"),
    [
        ("Backfill", {"backfill": {"job": "anew"}}, "get and patch jobs"),
        ("SnapshotVolume", {"snapshotVolume": {"worker": "wc-w-0"}}, "volumesnapshots"),
        (
            "RestoreVolume",
            {"restoreVolume": {"worker": "wc-w-0", "snapshot": "copy"}},
            "list and create volumesnapshots",
        ),
    ],
)
def test_an_action_waits_for_a_right_that_the_operator_lacks(
    ready: KubeRig, kind: str, part: Manifest, right: str
) -> None:
    forbid(ready, "jobs", "volumesnapshots")
    before = ready.names(PODS)
    ready.act("one", kind, **part)

    ready.until(lambda: ready.action("one").get("conditions"))
    ready.turn(20)

    assert ready.phase("one") == "Waiting"
    reason, message = condition(ready, "one", "Waiting")
    assert reason == "Forbidden"
    assert right in message
    assert ready.names(PODS) == before
    assert ready.is_ready()


def test_a_backfill_goes_on_once_it_has_its_right_back(ready: KubeRig) -> None:
    labels = {"headwater.dev/app": "wc"}
    metadata = {"name": "anew", "namespace": NAMESPACE, "labels": labels}
    ready.api.create(JOBS, {"metadata": metadata, "spec": {"suspend": True}})
    ready.act("anew", "Backfill", backfill={"job": "anew"})
    ready.until(lambda: ready.action("anew").get("step") == "Backfilling")
    forbid(ready, "jobs")
    ready.until(lambda: "get and patch jobs" in condition(ready, "anew", "Running")[1])
    assert ready.tasks() == []

    ready.api.on_call = lambda *_: None
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    ready.api.set_status(JOBS, NAMESPACE, "anew", complete)

    ready.until(lambda: ready.phase("anew") == "Complete")
