"""StreamActions on the model API server: what each does, which wait, how they end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.kube_life import TASKS
from tests.support.kube_rig import NAMESPACE, KubeRig

from headwater import failpoints
from headwater.model.streamaction import ActionType
from headwater_operator.decide.streamactions.exclusion import EXCLUDES
from headwater_operator.kube.api import (
    CLAIMS,
    JOBS,
    PODS,
    STREAM_ACTIONS,
    STREAM_APPS,
    VOLUME_SNAPSHOTS,
)
from headwater_operator.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.kube.api import Manifest

WORKERS = ("wc-w-0", "wc-w-1")


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    failpoints.disarm()


def pods(rig: KubeRig) -> dict[str, str]:
    return {name: rig.uid(PODS, name) for name in rig.names(PODS)}


def condition(rig: KubeRig, name: str, kind: str) -> tuple[str, str, str]:
    [found] = [each for each in rig.action(name)["conditions"] if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


def finish(rig: KubeRig, name: str) -> str:
    rig.until(lambda: rig.phase(name) in ("Complete", "Failed"), turns=800)
    return rig.phase(name)


def steps(rig: KubeRig, name: str) -> list[str]:
    return [each["step"] for each in rig.action(name)["history"]]


def test_a_restart_replaces_each_process_once_and_one_at_a_time(ready: KubeRig) -> None:
    before, seen = pods(ready), set()
    ready.act("again", "Restart")

    def look() -> bool:
        now = pods(ready)
        gone = [name for name in WORKERS if now.get(name) != before[name]]
        late = [name for name in gone if name not in ready.held() or not ready.is_ready()]
        seen.update(now.values())
        assert len(late) <= 1, late
        return ready.phase("again") == "Complete"

    ready.until(look)

    assert ready.tasks() == TASKS
    ready.turn(40)
    assert pods(ready).keys() == before.keys()
    assert not set(pods(ready).values()) & set(before.values())
    assert len(seen) == 4
    assert ready.action("again")["progress"] == "2/2"
    assert condition(ready, "again", "Complete")[0] == "True"
    assert condition(ready, "again", "Failed")[0] == "False"
    assert ready.tasks() == TASKS


def test_a_restart_of_one_worker_leaves_the_others_alone(ready: KubeRig) -> None:
    before = pods(ready)
    ready.act("again", "Restart", restart={"workers": ["wc-w-1"]})
    assert finish(ready, "again") == "Complete"
    now = pods(ready)
    assert now["wc-w-0"] == before["wc-w-0"]
    assert now["wc-w-1"] != before["wc-w-1"]


def test_a_drained_worker_gives_its_tasks_away_ends_and_runs_anew(ready: KubeRig) -> None:
    before = pods(ready)
    held: list[list[str]] = []
    ready.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0"})

    def look() -> bool:
        if pods(ready).get("wc-w-0") != before["wc-w-0"]:
            held.append(ready.held().get("wc-w-0", []))
        return ready.phase("drain") == "Complete"

    ready.until(look, turns=800)

    assert held[0] == []
    assert pods(ready)["wc-w-0"] != before["wc-w-0"]
    assert pods(ready)["wc-w-1"] == before["wc-w-1"]
    assert steps(ready, "drain") == ["Draining", "Returning", "Complete"]
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
    ready.until(lambda: len(ready.held().get("wc-w-0", [])) == 2)


def test_a_worker_that_is_kept_out_is_replaced_by_another_one(ready: KubeRig) -> None:
    ready.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0", "keepOut": True})
    assert finish(ready, "drain") == "Complete"
    ready.until(ready.is_ready)
    ready.turn(40)
    assert ready.names(PODS) == ["wc-w-1", "wc-w-2"]
    assert ready.tasks() == TASKS
    ready.scale(3)
    ready.until(lambda: ready.names(PODS) == ["wc-w-0", "wc-w-1", "wc-w-2"])


def test_the_only_worker_is_not_drained(rig: KubeRig) -> None:
    from tests.support.kube_rig import streamapp

    rig.apply(streamapp(replicas=1))
    rig.until(rig.is_ready)
    rig.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0"})
    assert finish(rig, "drain") == "Failed"
    status, reason, message = condition(rig, "drain", "Failed")
    assert (status, reason) == ("True", "NobodyTakesItsTasks")
    assert "keepOut" in message


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("DrainWorker", {"drainWorker": {"worker": "wc-w-7"}}),
        ("Restart", {"restart": {"workers": ["wc-w-0", "wc-w-7"]}}),
    ],
)
def test_an_unknown_worker_is_named_and_so_are_the_known_ones(
    ready: KubeRig, kind: str, part: Manifest
) -> None:
    before = pods(ready)
    ready.act("it", kind, **part)
    assert finish(ready, "it") == "Failed"
    _, reason, message = condition(ready, "it", "Failed")
    assert reason == "UnknownWorker"
    assert "wc-w-7" in message
    assert "wc-w-0 wc-w-1" in message
    assert pods(ready) == before


def test_of_two_that_exclude_each_other_the_second_waits_and_names_the_first(
    ready: KubeRig,
) -> None:
    ready.act("one", "DrainWorker", drainWorker={"worker": "wc-w-0"})
    ready.act("two", "Restart", restart={"workers": ["wc-w-1"]})
    ready.until(lambda: ready.phase("two") == "Waiting")
    assert condition(ready, "two", "Waiting")[1] == "WaitsForAnother"
    assert "one (DrainWorker)" in condition(ready, "two", "Waiting")[2]

    def look() -> bool:
        assert not (ready.phase("one") == "Running" and ready.phase("two") == "Running")
        return ready.phase("two") == "Complete"

    ready.until(look, turns=1200)
    assert ready.phase("one") == "Complete"


def test_a_cancelled_drain_leaves_the_worker_as_it_was(ready: KubeRig) -> None:
    before = pods(ready)
    ready.workers.workers["wc-w-0"].holds_on = True
    ready.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0"})
    ready.until(lambda: ready.phase("drain") == "Running")
    cancel = {"op": "add", "path": "/spec/cancel", "value": True}
    ready.api.patch(STREAM_ACTIONS, NAMESPACE, "drain", [cancel])
    assert finish(ready, "drain") == "Failed"
    assert condition(ready, "drain", "Failed")[1] == "Cancelled"
    ready.workers.workers["wc-w-0"].holds_on = False
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
    assert pods(ready) == before


def test_a_drain_of_a_worker_that_lets_go_of_nothing_runs_out_of_time(
    ready: KubeRig,
) -> None:
    ready.workers.workers["wc-w-0"].holds_on = True
    ready.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0"}, timeout="60s")
    assert finish(ready, "drain") == "Failed"
    _, reason, message = condition(ready, "drain", "Failed")
    assert reason == "DeadlineExceeded"
    assert "60s" not in message or "1m" in message
    assert "leave wc-w-0" in message
    ready.workers.workers["wc-w-0"].holds_on = False
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


def test_an_action_is_deleted_when_its_time_to_live_is_over(ready: KubeRig) -> None:
    ready.act("short", "Restart", ttlSecondsAfterFinished=30)
    ready.act("long", "Restart")
    assert finish(ready, "long") == "Complete"
    ready.until(lambda: ready.names(STREAM_ACTIONS) == ["long"])


@pytest.mark.parametrize("step", ["write_action", "delete_pod", "write_spec", "create_pod"])
@pytest.mark.parametrize(
    ("kind", "part"),
    [("Restart", {}), ("DrainWorker", {"drainWorker": {"worker": "wc-w-1"}})],
)
def test_an_action_of_an_operator_that_is_killed_goes_on_under_the_next(
    ready: KubeRig, step: str, kind: str, part: Manifest
) -> None:
    before, seen = pods(ready), set()
    ready.act("it", kind, **part)
    failpoints.arm(f"operator.{step}=error@2")

    def look() -> bool:
        seen.update(pods(ready).values())
        return ready.phase("it") == "Complete"

    ready.until(look, turns=1200)

    assert len(seen) == 2 + (2 if kind == "Restart" else 1)
    assert pods(ready).keys() == before.keys()
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


def test_an_action_of_an_application_that_is_not_there_says_so(rig: KubeRig) -> None:
    rig.act("it", "Restart", app="nobody")
    rig.now_ms = 0
    rig.until(lambda: rig.phase("it") == "Waiting")
    assert rig.action("it")["reason"] == "ApplicationNotFound"
    assert "nobody" in rig.action("it")["message"]
    assert finish(rig, "it") == "Failed"
    assert condition(rig, "it", "Failed")[1] == "ApplicationNotFound"


def test_an_action_ends_with_its_application(ready: KubeRig) -> None:
    ready.act("drain", "DrainWorker", drainWorker={"worker": "wc-w-0"})
    ready.until(lambda: ready.phase("drain") == "Running")
    ready.delete()
    ready.until(lambda: not ready.names(STREAM_APPS))
    assert ready.action("drain")["phase"] == "Failed"
    assert ready.action("drain")["reason"] == "ApplicationDeleted"


def owner(rig: KubeRig, task: str) -> list[str]:
    return [name for name, tasks in rig.held().items() if task in tasks]


def test_a_moved_task_runs_where_it_is_to_be_and_stays_there(ready: KubeRig) -> None:
    [source] = owner(ready, "1_0")
    [target] = set(WORKERS) - {source}
    ready.act("move", "MoveTask", moveTask={"task": "1_0", "worker": target})
    assert finish(ready, "move") == "Complete"
    assert owner(ready, "1_0") == [target]
    ready.turn(80)
    assert owner(ready, "1_0") == [target]
    assert {name: len(tasks) for name, tasks in ready.held().items()} == dict.fromkeys(WORKERS, 2)
    assert ready.tasks() == TASKS


def test_a_task_that_is_not_there_is_named(ready: KubeRig) -> None:
    ready.act("move", "MoveTask", moveTask={"task": "7_0", "worker": "wc-w-0"})
    assert finish(ready, "move") == "Failed"
    _, reason, message = condition(ready, "move", "Failed")
    assert reason == "UnknownTask"
    assert "7_0" in message
    assert "0_0 0_1 1_0 1_1" in message


def test_a_reset_is_carried_out_once_and_the_application_begins_anew(ready: KubeRig) -> None:
    claims = {name: ready.uid(CLAIMS, name) for name in ready.names(CLAIMS)}
    ready.act("reset", "Reset", reset={"to": "earliest"})
    ready.act("after", "Restart")
    ready.until(lambda: ready.condition("Ready")[:2] == ("False", "Resetting"))
    assert finish(ready, "reset") == "Complete"
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
    assert finish(ready, "after") == "Complete"
    assert ready.workers.of("wc").resets == 1
    assert all(ready.uid(CLAIMS, name) != uid for name, uid in claims.items())


def test_a_reset_that_says_nothing_known_resets_nothing(ready: KubeRig) -> None:
    before = pods(ready)
    ready.act("reset", "Reset", reset={"to": "sometime"})
    assert finish(ready, "reset") == "Failed"
    _, reason, message = condition(ready, "reset", "Failed")
    assert reason == "ResetNotUnderstood"
    assert "sometime" in message
    ready.turn(20)
    assert pods(ready) == before
    assert ready.workers.of("wc").resets == 0


def test_a_reset_that_is_cancelled_before_its_duty_leaves_everything(ready: KubeRig) -> None:
    ready.workers.workers["wc-w-0"].holds_on = True
    ready.act("reset", "Reset")
    ready.until(lambda: ready.phase("reset") == "Running")
    cancel = {"op": "add", "path": "/spec/cancel", "value": True}
    ready.api.patch(STREAM_ACTIONS, NAMESPACE, "reset", [cancel])
    assert finish(ready, "reset") == "Failed"
    ready.workers.workers["wc-w-0"].holds_on = False
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
    assert ready.workers.of("wc").resets == 0


def test_of_two_types_either_each_excludes_the_other_or_neither_does() -> None:
    for one, others in EXCLUDES.items():
        for other in ActionType:
            assert (other in others) == (one in EXCLUDES[other]), (one, other)
    assert EXCLUDES.keys() == set(ActionType)


def snapshot_status(rig: KubeRig, name: str, **status: object) -> None:
    rig.api.set_status(VOLUME_SNAPSHOTS, NAMESPACE, name, status)


def bind(rig: KubeRig) -> None:
    for name in rig.names(CLAIMS):
        rig.api.set_status(CLAIMS, NAMESPACE, name, {"phase": "Bound"})


def test_a_volume_is_copied_and_brought_back(ready: KubeRig) -> None:
    bind(ready)
    before = {name: ready.uid(CLAIMS, name) for name in ready.names(CLAIMS)}
    ready.act("copy", "SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
    ready.until(lambda: "copy" in ready.names(VOLUME_SNAPSHOTS))
    found = ready.api.get(VOLUME_SNAPSHOTS, NAMESPACE, "copy")
    assert found is not None
    assert found["spec"]["source"]["persistentVolumeClaimName"] in before
    assert ready.phase("copy") == "Running"
    snapshot_status(ready, "copy", readyToUse=True)
    assert finish(ready, "copy") == "Complete"
    assert ready.action("copy")["result"] == "copy"

    ready.act("back", "RestoreVolume", restoreVolume={"worker": "wc-w-0", "snapshot": "copy"})
    assert finish(ready, "back") == "Complete"
    assert steps(ready, "back") == ["Draining", "Replacing", "Returning", "Complete"]
    now = {each["metadata"]["name"]: each for each in ready.api.list(CLAIMS, NAMESPACE)}
    changed = [name for name, uid in before.items() if now[name]["metadata"]["uid"] != uid]
    [name] = changed
    assert name.startswith("wc-w-0")
    assert now[name]["spec"]["dataSource"]["name"] == "copy"
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


def test_a_cluster_without_volume_snapshots_says_what_is_missing(ready: KubeRig) -> None:
    def refuse(_: str, plural: str, __: str) -> None:
        if plural == VOLUME_SNAPSHOTS.plural:
            raise NotFoundError("the server could not find the requested resource")

    ready.api.on_call = refuse
    ready.act("copy", "SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
    assert finish(ready, "copy") == "Failed"
    assert condition(ready, "copy", "Failed")[1] == "NoVolumeSnapshots"


def test_a_snapshot_that_is_not_there_is_not_restored_from(ready: KubeRig) -> None:
    before = pods(ready)
    ready.act("back", "RestoreVolume", restoreVolume={"worker": "wc-w-0", "snapshot": "none"})
    assert finish(ready, "back") == "Failed"
    assert condition(ready, "back", "Failed")[1] == "SnapshotNotReady"
    assert pods(ready) == before


def job(rig: KubeRig, *, suspend: bool = True, app: str = "wc") -> None:
    labels = {"headwater.dev/app": app} if app else {}
    metadata = {"name": "anew", "namespace": NAMESPACE, "labels": labels}
    rig.api.create(JOBS, {"metadata": metadata, "spec": {"suspend": suspend}})


def is_any_running(rig: KubeRig) -> bool:
    phases = [(pod.get("status") or {}).get("phase") for pod in rig.api.list(PODS, NAMESPACE)]
    return "Running" in phases


def job_says(rig: KubeRig, kind: str) -> None:
    condition = {"type": kind, "status": "True", "reason": "Because", "message": "of the test"}
    rig.api.set_status(JOBS, NAMESPACE, "anew", {"conditions": [condition]})


def test_a_backfill_begins_when_all_workers_have_ended_and_they_go_on_then(ready: KubeRig) -> None:
    job(ready)
    ready.act("anew", "Backfill", backfill={"job": "anew"})

    def is_begun() -> bool:
        found = ready.api.get(JOBS, NAMESPACE, "anew")
        assert found is not None
        begun = not found["spec"]["suspend"]
        assert not (begun and (is_any_running(ready) or ready.tasks()))
        return begun

    ready.until(is_begun)
    ready.turn(40)
    assert ready.condition("Ready")[:2] == ("False", "Backfilling")
    assert ready.tasks() == []
    job_says(ready, "Complete")
    assert finish(ready, "anew") == "Complete"
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


def test_a_backfill_that_fails_says_why_and_lets_the_workers_start(ready: KubeRig) -> None:
    job(ready)
    ready.act("anew", "Backfill", backfill={"job": "anew"})
    ready.until(lambda: ready.action("anew").get("step") == "Backfilling")
    job_says(ready, "Failed")
    assert finish(ready, "anew") == "Failed"
    _, reason, message = condition(ready, "anew", "Failed")
    assert reason == "JobFailed"
    assert "of the test" in message
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_backfill_needs_a_job_that_waits(ready: KubeRig, is_there: bool) -> None:
    before = pods(ready)
    if is_there:
        job(ready, suspend=False)
    ready.act("anew", "Backfill", backfill={"job": "anew"})
    assert finish(ready, "anew") == "Failed"
    assert "spec.suspend: true" in condition(ready, "anew", "Failed")[2]
    assert pods(ready) == before


@pytest.mark.parametrize("app", ["", "another"])
def test_a_backfill_lets_no_job_run_that_does_not_name_its_streamapp(
    ready: KubeRig, app: str
) -> None:
    before = pods(ready)
    job(ready, app=app)
    ready.act("anew", "Backfill", backfill={"job": "anew"})
    assert finish(ready, "anew") == "Failed"
    _, reason, message = condition(ready, "anew", "Failed")
    assert reason == "JobOfAnother"
    assert "kubectl label job anew headwater.dev/app=wc" in message
    found = ready.api.get(JOBS, NAMESPACE, "anew")
    assert found is not None
    assert found["spec"]["suspend"]
    assert pods(ready) == before


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_the_end_of_a_job_is_seen_though_nobody_watches_jobs(ready: KubeRig, kind: str) -> None:
    job(ready)
    ready.act("anew", "Backfill", backfill={"job": "anew"})
    ready.until(lambda: ready.action("anew").get("step") == "Backfilling")
    ready.turn(4 * 120)  # two minutes, after which rounds are rare
    job_says(ready, kind)
    # Sweeps compare only what is watched.
    ready.until(lambda: ready.phase("anew") == kind, turns=100)


def test_what_the_api_server_refuses_an_action_does_not_hold_up_the_application(
    ready: KubeRig,
) -> None:
    bind(ready)

    def refuse(verb: str, plural: str, _: str) -> None:
        if verb == "create" and plural == VOLUME_SNAPSHOTS.plural:
            raise ForbiddenError("exceeded quota: count/volumesnapshots")

    ready.api.on_call = refuse
    ready.act("copy", "SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
    ready.until(lambda: ready.phase("copy") == "Running")
    ready.turn(10)
    before = pods(ready)
    ready.node.end("wc-w-1")
    ready.until(lambda: pods(ready).get("wc-w-1") not in (None, before["wc-w-1"]), turns=800)
    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS, turns=800)

    said = [message for reason, message in ready.events() if reason == "ActionRefused"]
    assert said == ["exceeded quota: count/volumesnapshots"]
    ready.api.on_call = lambda *_: None
    ready.until(lambda: "copy" in ready.names(VOLUME_SNAPSHOTS))
    ready.until(lambda: ready.action("copy")["reason"] == "Snapshotting")


def test_each_action_says_itself_what_the_api_server_refuses_it(ready: KubeRig) -> None:
    bind(ready)

    def refuse(verb: str, plural: str, name: str) -> None:
        if verb == "create" and plural == VOLUME_SNAPSHOTS.plural:
            raise ForbiddenError(f"exceeded quota: {name}")

    ready.api.on_call = refuse
    for number in (0, 1):
        worker = {"worker": f"wc-w-{number}"}
        ready.act(f"copy-{number}", "SnapshotVolume", snapshotVolume=worker, timeout="60s")
    for name in ("copy-0", "copy-1"):
        ready.until(partial(is_refused, ready, name))
        _, _, message = condition(ready, name, "Running")
        assert f"exceeded quota: {name}" in message
        assert "cancel this StreamAction" in message
    written = {name: version(ready, name) for name in ("copy-0", "copy-1")}
    ready.turn(40)
    assert {name: version(ready, name) for name in written} == written, "it is said once"
    ready.operator = ready.new_operator()
    assert finish(ready, "copy-0") == "Failed"
    assert "exceeded quota: copy-0" in condition(ready, "copy-0", "Failed")[2]


def is_refused(rig: KubeRig, name: str) -> bool:
    return rig.action(name).get("reason") == "ActionRefused"


def version(rig: KubeRig, name: str) -> str:
    found = rig.api.get(STREAM_ACTIONS, NAMESPACE, name)
    assert found is not None
    return str(found["metadata"]["resourceVersion"])


def test_a_claim_of_somebody_else_does_not_hold_up_the_application(ready: KubeRig) -> None:
    bind(ready)
    ready.act("copy", "SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
    ready.until(lambda: "copy" in ready.names(VOLUME_SNAPSHOTS))
    snapshot_status(ready, "copy", readyToUse=True)
    assert finish(ready, "copy") == "Complete"

    def refuse(verb: str, plural: str, _: str) -> None:
        if verb == "create" and plural == CLAIMS.plural:
            raise AlreadyExistsError("persistentvolumeclaims already exists")

    ready.api.on_call = refuse
    ready.act("back", "RestoreVolume", restoreVolume={"worker": "wc-w-0", "snapshot": "copy"})
    ready.until(lambda: "ActionRefused" in {reason for reason, _ in ready.events()}, turns=800)
    before = pods(ready)
    ready.node.end("wc-w-1")
    ready.until(lambda: pods(ready).get("wc-w-1") not in (None, before["wc-w-1"]), turns=800)
    ready.api.on_call = lambda *_: None
    assert finish(ready, "back") == "Complete"
