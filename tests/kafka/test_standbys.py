"""Standby and warm-up tasks of real workers: followed, promoted, given back, followed again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker
from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

T0, T1 = TaskId(0, 0), TaskId(0, 1)


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name)


@pytest.fixture
def first(counting: Counting, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(counting, tmp_path, threads=1) as process:
        yield process


@pytest.fixture
def second(counting: Counting, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(counting, tmp_path, name="counting-w-1", threads=1) as process:
        yield process


def view(worker: WorkerProcess) -> dict[str, Any]:
    code, text = worker.get("/tasks")
    assert code == 200
    document: dict[str, Any] = json.loads(text)
    return document


def task_view(worker: WorkerProcess, task: TaskId) -> dict[str, Any]:
    found: dict[str, Any] = next(
        item for item in view(worker)["tasks"] if item["task"] == str(task)
    )
    return found


def follows(worker: WorkerProcess, *tasks: TaskId) -> None:
    """Wait until a worker has caught up with copies of exactly these tasks."""

    def caught_up() -> bool:
        copies = {held.task for held in worker.status.tasks if held.caught_up}
        exact = all(task_view(worker, task)["remaining"] == 0 for task in copies)
        return copies == set(tasks) and exact

    wait_for(caught_up, what=f"{worker.name} to catch up with {' '.join(map(str, tasks))}")


def moves(*tasks: TaskId, source: WorkerProcess, target: WorkerProcess, **changes: Any) -> None:
    """Do what the control loop does: revoke, wait for the release, grant; the source follows."""
    source.grant(revoking=tasks)
    wait_for(
        lambda: source.status.acknowledged_epoch == source.spec.epoch and not source.status.tasks,
        what="the release",
    )
    target.grant(*tasks, standby=(), warmup=(), **changes)
    source.grant(revoking=(), standby=tasks)


def test_a_standby_is_followed_said_to_be_caught_up_and_stays_on_disk_when_it_is_given_up(
    first: WorkerProcess, second: WorkerProcess, counting: Counting
) -> None:
    counting.send(2_000, keys=1_000)
    first.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    second.start()
    second.incarnation()

    second.grant(standby=(T0,), warmup=(T1,))

    follows(second, T0, T1)
    told = second.status.tasks
    assert [(held.task, held.role, held.state) for held in told] == [
        (T0, Role.STANDBY, TaskState.RUNNING),
        (T1, Role.WARMUP, TaskState.RUNNING),
    ]
    assert all(held.caught_up and held.lag <= 1_000 for held in told)
    assert view(second)["followedTotal"] >= 1_000
    assert view(second)["restoredTotal"] == 0
    assert "stream_state_updater_standby_caught_up_tasks{" in second.get("/metrics")[1]

    second.grant(standby=(), warmup=(T1,))

    wait_for(lambda: second.status.held == {T1}, what="the copy to be given up")
    assert [item.task for item in second.status.stored] == [T0]
    assert second.stop() == 0
    assert {item.task for item in second.status.stored} == {T0, T1}


@pytest.mark.sampled
def test_a_promotion_reads_only_the_tail_and_the_demoted_keeps_its_store(
    first: WorkerProcess, second: WorkerProcess, counting: Counting
) -> None:
    counting.send(2_000, keys=1_000)
    first.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    second.start()
    second.incarnation()
    second.grant(standby=(T0, T1))
    follows(second, T0, T1)

    moves(T0, T1, source=first, target=second)

    second.runs(T0, T1)
    assert view(second)["restoredTotal"] <= 2
    follows(first, T0, T1)
    assert view(first)["followedTotal"] <= 2
    before = len(counting.read(counting.changelog))
    counting.send(200, keys=100)
    wait_for(counting.all_counted, what="all counts")
    # Several commits may have brought them.
    new = len(counting.read(counting.changelog)) - before
    assert new >= 100
    wait_for(lambda: view(first)["followedTotal"] >= new, what="the demoted to follow")

    follows(first, T0, T1)
    moves(T0, T1, source=second, target=first)

    first.runs(T0, T1)
    assert view(first)["restoredTotal"] <= 2
    counting.send(100)
    wait_for(counting.all_counted, what="all counts")


@pytest.mark.sampled
def test_a_state_updater_killed_while_it_follows_is_replaced_and_goes_on(
    first: WorkerProcess, second: WorkerProcess, counting: Counting
) -> None:
    counting.send(2_000, keys=1_000)
    first.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    second.start(HEADWATER_FAILPOINTS="")
    second.incarnation()
    second.grant(standby=(T0, T1))
    follows(second, T0, T1)
    before = view(second)["followedTotal"]
    counting.send(20_000, keys=1_000)

    killed = second.child("StateUpdater-0")
    killed.kill()

    wait_for(counting.all_counted, what="all counts")
    follows(second, T0, T1)
    assert second.child("StateUpdater-0").pid != killed.pid
    written = len(counting.read(counting.changelog))
    assert view(second)["followedTotal"] >= before
    moves(T0, T1, source=first, target=second)
    second.runs(T0, T1)
    assert view(second)["restoredTotal"] < written
    counting.send(100)
    wait_for(counting.all_counted, what="all counts")


@pytest.mark.sampled
def test_a_full_disk_is_named_and_a_copy_goes_on_when_there_is_room(
    first: WorkerProcess, second: WorkerProcess, counting: Counting
) -> None:
    counting.send(2_000, keys=1_000)
    first.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    second.start(HEADWATER_FAILPOINTS="rocks.write=disk_full@2")
    second.incarnation()

    second.grant(standby=(T0, T1))

    follows(second, T0, T1)
    said = second.log.read_text()
    assert "DiskFullError: store counts of task 0_" in said
    assert "free space or enlarge the volume" in said
    assert second.status.error is None
    assert "ended with" not in said  # the process lives on, and with it every other copy


@pytest.mark.slow
@pytest.mark.sampled
def test_a_broker_that_is_away_is_named_and_a_copy_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", heap_mb=256) as mortal:
        counting = Counting(mortal.bootstrap_servers, "mortal")
        with (
            WorkerProcess(counting, tmp_path, threads=1) as first,
            WorkerProcess(counting, tmp_path, name="counting-w-1", threads=1) as second,
        ):
            counting.send(2_000, keys=1_000)
            first.started_with(T0, T1)
            wait_for(counting.all_counted, what="all counts")
            second.start()
            second.incarnation()
            second.grant(standby=(T0, T1))
            follows(second, T0, T1)
            entries = len(counting.read(counting.changelog))
            followed = view(second)["followedTotal"]

            mortal.kill()
            wait_for(
                lambda: "no broker has answered for" in task_view(second, T0)["problem"],
                what="the problem",
            )
            mortal.restart()
            counting.send(400, keys=200)

            wait_for(counting.all_counted, what="all counts", timeout_s=120)
            wait_for(lambda: not task_view(second, T0)["problem"], what="the end of the problem")
            # How far the changelogs go it knows only once it has read them again.
            new = len(counting.read(counting.changelog)) - entries
            wait_for(
                lambda: view(second)["followedTotal"] >= followed + new, what="the copies to follow"
            )
            follows(second, T0, T1)
            moves(T0, T1, source=first, target=second)
            second.runs(T0, T1)
            assert view(second)["restoredTotal"] <= 2
            counting.send(100)
            wait_for(counting.all_counted, what="all counts")
