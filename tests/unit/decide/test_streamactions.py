"""What StreamActions do by the decision, when something else happens meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.decide.acting import CLOCK, Acting
from tests.unit.decide.cluster import make_app

from headwater.model.duties import Fence
from headwater.model.lifecycle import TaskState
from headwater.model.streamaction_status import ActionPhase, StreamActionStatus
from headwater_operator.decide.streamactions.objects import ObjectsView, SnapshotView

MINUTE = 60_000
AUTOSCALED = {"autoscaling": {"mode": "Auto", "minReplicas": 3, "maxReplicas": 4, "targetLag": 100}}


def serving(replicas: int = 3, lines: int = 2, **spec: object) -> Acting:
    """Workers that run all tasks; a minute has passed since."""
    cluster = Acting(app=make_app(replicas=replicas, **spec), topics={"lines": lines})
    cluster.rounds()
    cluster.now_ms += MINUTE
    cluster.rounds()
    return cluster


def unfenced(cluster: Acting) -> None:
    """Take back what workers have said of fencing: Kafka is slow."""
    for name, view in cluster.views.items():
        fences = {duty.id for duty in cluster.spec(name).duties if isinstance(duty, Fence)}
        results = view.worker.status.duty_results
        cluster.change(name, duty_results=tuple(x for x in results if x.id not in fences))


def of_snapshot() -> ObjectsView:
    return ObjectsView(snapshot=SnapshotView(is_ready=True), has_volume=True)


@pytest.mark.parametrize(
    ("kind", "part"),
    [("DrainWorker", "drainWorker"), ("RestoreVolume", "restoreVolume")],
)
def test_a_worker_that_is_to_go_is_not_drained_and_no_other_one_goes_for_it(
    kind: str, part: str
) -> None:
    cluster = serving(lines=6)
    cluster.slow = set(cluster.views)
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds(3)
    [goes] = cluster.leaving()

    more = {"snapshot": "s"} if kind == "RestoreVolume" else {}
    cluster.ask(kind, of_snapshot(), **{part: {"worker": goes, **more}})
    cluster.rounds(5)

    assert cluster.leaving() == {goes}
    assert cluster.asked.phase is ActionPhase.FAILED
    assert cluster.asked.message.startswith(f"{goes} ")


@pytest.mark.parametrize("more", [{}, AUTOSCALED], ids=["by hand", "autoscaled"])
def test_a_drain_waits_for_warm_ups_no_longer_than_drain_timeout(more: dict[str, object]) -> None:
    cluster = serving(**more)
    name = next(name for name in cluster.views if "1_0" in cluster.held(name))
    cluster.slow = set(cluster.views)
    cluster.ask("DrainWorker", drainWorker={"worker": name})
    for _ in range(30):
        cluster.now_ms += MINUTE
        cluster.rounds(4)

    assert cluster.asked.phase is ActionPhase.COMPLETE


def test_a_drain_of_a_silent_worker_goes_on_once_its_lease_has_run_out() -> None:
    cluster = serving()
    name = next(name for name in cluster.views if cluster.held(name))
    cluster.silent.add(name)
    cluster.ask("DrainWorker", drainWorker={"worker": name})
    cluster.rounds(3)
    assert cluster.asked.message.endswith(f"to leave {name}")
    held = cluster.held(name)

    cluster.now_ms += 12_000
    cluster.rounds(3)

    assert cluster.asked.message.endswith(
        "does not answer: others get them once its Lease has run out"
    )
    assert cluster.held(name) == held
    for _ in range(40):
        cluster.now_ms += 10_000
        cluster.rounds(2)
    assert cluster.asked.phase is ActionPhase.COMPLETE


def test_one_task_is_not_called_several() -> None:
    cluster = serving()
    cluster.slow = set(cluster.views)
    name = next(name for name in cluster.views if len(cluster.held(name)) == 1)
    cluster.ask("DrainWorker", drainWorker={"worker": name})

    cluster.decide()
    assert cluster.asked.message == f"1 task leaves {name}"
    cluster.rounds(2)
    assert cluster.asked.message == f"1 task is to leave {name}"


def test_of_actions_that_were_created_in_one_second_the_name_decides() -> None:
    cluster = serving()
    cluster.ask("Restart")
    [it] = cluster.actions
    cluster.actions = tuple(replace(it, name=name, uid=name) for name in ("b", "a", "c"))

    cluster.rounds(2)

    phases = {each.name: each.status.phase for each in cluster.actions}
    assert phases["a"] is not ActionPhase.WAITING
    assert phases["b"] is phases["c"] is ActionPhase.WAITING


def test_a_restart_replaces_a_worker_that_restores_for_ever() -> None:
    cluster = serving()
    for name, view in cluster.views.items():
        cluster.views[name] = replace(view, process_id=f"process of {name}")
    sick = next(name for name in cluster.views if cluster.held(name))
    before = cluster.views[sick].worker.status.incarnation
    follow = cluster.follow_one

    def follow_one(name: str) -> None:
        follow(name)
        status = cluster.views[name].worker.status
        if name == sick and status.incarnation == before:
            tasks = tuple(replace(each, state=TaskState.RESTORING) for each in status.tasks)
            cluster.change(name, tasks=tasks)

    cluster.follow_one = follow_one  # type: ignore[method-assign]
    cluster.rounds(3)
    cluster.ask("Restart", restart={"workers": [sick]})
    cluster.rounds(50)
    assert cluster.asked.phase is ActionPhase.RUNNING
    cluster.now_ms += 60 * MINUTE
    cluster.rounds(50)

    assert cluster.asked.phase is ActionPhase.COMPLETE


def test_a_task_is_still_to_move_while_its_worker_is_fenced() -> None:
    cluster = serving(lines=6)
    cluster.slow = set(cluster.views)
    taker = "wc-w-2"
    one = next(each for each in cluster.held("wc-w-0") if each.startswith("1_"))
    cluster.ask("MoveTask", moveTask={"task": one, "worker": taker})
    cluster.rounds(5)
    cluster.silent = {taker}
    for _ in range(400):
        cluster.round()
        unfenced(cluster)
        if cluster.spec(taker).is_fencing:
            break
    assert cluster.spec(taker).is_fencing
    cluster.silent = set()
    for _ in range(5):
        cluster.round()
        unfenced(cluster)

    assert cluster.asked.phase is ActionPhase.RUNNING, cluster.asked.message


def test_tasks_are_granted_after_a_crash_while_an_action_has_a_worker_away() -> None:
    cluster = serving(replicas=2)
    cluster.ask("RestoreVolume", of_snapshot(), restoreVolume={"worker": "wc-w-1", "snapshot": "s"})
    cluster.rounds(60)
    assert cluster.asked.step == "Replacing"
    cluster.end("wc-w-0")
    cluster.rounds(300)

    assert cluster.asked.step == "Replacing"
    assert cluster.held("wc-w-0") == ["0_0", "0_1", "1_0", "1_1"]


def test_a_restored_volume_of_an_application_that_is_suspended_is_not_said_to_be_used() -> None:
    cluster = serving(replicas=2)
    cluster.ask("RestoreVolume", of_snapshot(), restoreVolume={"worker": "wc-w-1", "snapshot": "s"})
    cluster.rounds(60)
    [view] = cluster.actions
    cluster.actions = (replace(view, objects=replace(view.objects, is_restored=True)),)
    cluster.app = make_app(replicas=2, suspend=True)
    cluster.rounds(20)

    assert cluster.asked.phase is ActionPhase.COMPLETE
    assert "not wanted any more" in cluster.asked.message


def test_a_message_about_thousands_of_workers_names_a_few_and_counts_the_rest() -> None:
    cluster = Acting(app=make_app(replicas=60), topics={"lines": 2})
    cluster.rounds(2)
    cluster.ask("DrainWorker", drainWorker={"worker": "wc-w-99"})
    cluster.decide()

    assert cluster.asked.reason == "UnknownWorker"
    assert "wc-w-19 and 40 more. Create" in cluster.asked.message


def test_a_message_is_not_written_anew_if_it_was_too_long_to_be_stored() -> None:
    cluster = serving()
    cluster.ask("SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
    begun = StreamActionStatus(phase=ActionPhase.RUNNING, step="Snapshotting", started_at=CLOCK)
    said = SnapshotView(made_for="it", error="x" * 40_000)
    [view] = cluster.actions
    cluster.actions = (replace(view, written=begun, objects=ObjectsView(snapshot=said)),)
    cluster.decide()
    stored = StreamActionStatus.from_dict(cluster.asked.to_dict())
    cluster.actions = (replace(cluster.actions[0], written=stored),)

    assert cluster.decide().rulings == ()


def test_a_restart_beside_a_halted_roll_out_names_why_it_has_halted() -> None:
    cluster = Acting(app=make_app(replicas=3, upgrade={"readyTimeout": "60s"}), revision="aaaa")
    cluster.rounds()
    cluster.now_ms += MINUTE
    cluster.rounds()
    cluster.restoring, cluster.revision = {"bbbb"}, "bbbb"
    cluster.rounds(60)
    cluster.now_ms += 2 * MINUTE
    cluster.rounds(20)
    for name, view in cluster.views.items():
        cluster.views[name] = replace(view, process_id=f"process of {name}")
    cluster.ask("Restart")
    cluster.rounds(5)

    assert "the roll-out has halted" in cluster.asked.message
    assert "correct the StreamApp" in cluster.asked.message
    assert "did not become ready within 60 s" in cluster.asked.message
