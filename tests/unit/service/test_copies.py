"""Standby and warm-up tasks in a worker's table: followed, promoted, given up, reported."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.support.worker_table import T0, T1, T2, Worker, spec, told_threads, told_updaters

from headwater.model.cluster import LAG_UNKNOWN, Role, TaskStatus
from headwater.model.lifecycle import TaskState
from headwater.native.messages import (
    AddTasks,
    Cancelled,
    CancelRestore,
    Failed,
    Follow,
    Following,
    Initialized,
    Released,
    Restore,
    Restored,
    Stop,
)
from headwater.service.decide.actions import StartThread, StartUpdater, TellUpdater
from headwater.service.decide.observations import StopAsked, UpdaterEnded
from headwater.service.decide.report import is_ready, status_of
from headwater.service.decide.values import UPDATER_IDLE_MS


def following(applied: int = 0, problem: str = "", **lags: int) -> Following:
    tasks = {"t0": T0, "t1": T1, "t2": T2}
    return Following(
        lags={tasks[name]: lag for name, lag in lags.items()}, applied=applied, problem=problem
    )


def status(worker: Worker, task: Any = T0) -> TaskStatus:
    return next(held for held in status_of(worker.table).tasks if held.task == task)


def failure(error: str, task: Any = T0) -> Failed:
    return Failed(error=error, message="why", task=task, following=True)


@pytest.fixture
def worker() -> Worker:
    made = Worker(threads=1)
    made.sees()
    return made


def test_a_standby_is_followed_and_the_thread_that_may_take_it_over_starts(worker: Worker) -> None:
    actions = worker.gets(spec(1, standby=(T0,), warmup=(T1,)))

    assert StartUpdater(updater=0) in actions
    assert StartUpdater(updater=1) not in actions
    assert told_updaters(actions) == [Follow(task=T0, epoch=1), Follow(task=T1, epoch=1)]
    assert StartThread(slot=0) in actions
    assert told_threads(actions) == []
    assert status(worker) == TaskStatus(
        task=T0, state=TaskState.RESTORING, role=Role.STANDBY, lag=LAG_UNKNOWN
    )
    assert status(worker, T1).role is Role.WARMUP


def test_a_copy_runs_once_its_lag_was_acceptable_and_far_behind_it_has_not_caught_up(
    worker: Worker,
) -> None:
    worker.gets(spec(1, standby=(T0,), acceptable_lag=100))

    worker.updater_said(0, following(t0=101))
    assert (status(worker).state, status(worker).caught_up) == (TaskState.RESTORING, False)
    worker.updater_said(0, following(t0=100))
    assert (status(worker).state, status(worker).caught_up) == (TaskState.RUNNING, True)
    worker.updater_said(0, following(t0=5_000))
    assert (status(worker).state, status(worker).caught_up) == (TaskState.RUNNING, False)


def test_a_copy_has_caught_up_at_once_and_fallen_behind_only_after_a_while(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.updater_said(0, following(t0=10_000))
    assert status(worker).caught_up

    worker.passes(9_000)
    worker.updater_said(0, following(t0=10_001))
    assert status(worker).caught_up
    worker.passes(1_000)
    worker.updater_said(0, following(t0=10_001))
    assert not status(worker).caught_up
    worker.updater_said(0, following(t0=10_000))
    assert status(worker).caught_up
    worker.updater_said(0, following(t0=20_001))
    assert not status(worker).caught_up


@pytest.mark.parametrize("every_ms", [500, 3_000, 12_000])
def test_a_lag_that_swings_around_what_is_acceptable_is_seldom_written(
    worker: Worker, every_ms: int
) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.updater_said(0, following(t0=9_000))
    begin_ms = worker.now_ms

    seen = [status(worker).caught_up]
    while (passed_ms := worker.now_ms - begin_ms) < 60_000:
        lag = 11_000 if passed_ms // every_ms % 2 else 9_000
        worker.updater_said(0, following(t0=lag))
        seen.append(status(worker).caught_up)
        worker.passes(500)

    changes = sum(before != now for before, now in pairwise(seen))
    assert changes <= (6 if every_ms > 10_000 else 0)


def test_a_copy_that_may_have_no_lag_swings_above_that_unnoticed(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,), acceptable_lag=0))

    for lag in (0, 700, 0, 1_000):
        worker.updater_said(0, following(t0=lag))
        assert status(worker).caught_up
    worker.updater_said(0, following(t0=1_001))
    assert not status(worker).caught_up


def test_the_lag_in_the_status_grows_at_once_and_shrinks_late(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))

    worker.updater_said(0, following(t0=2_000))
    assert status(worker).lag == 10_000
    worker.updater_said(0, following(t0=20_000))
    assert status(worker).lag == 100_000
    worker.passes(5_000)
    worker.updater_said(0, following(t0=0))
    assert status(worker).lag == 100_000
    worker.passes(5_000)
    worker.updater_said(0, following(t0=0))
    assert status(worker).lag == 0


def test_a_promoted_copy_is_followed_until_its_restore_may_begin_and_restores_where_it_is(
    worker: Worker,
) -> None:
    assert StartThread(slot=0) in worker.gets(spec(1, standby=(T0,)))
    worker.updater_said(0, following(t0=0))

    actions = worker.gets(spec(2, T0))
    assert not told_updaters(actions)
    assert status(worker).role is Role.ACTIVE

    actions = worker.said(0, Initialized())
    restore = Restore(task=T0, epoch=2)
    assert [a for a in actions if isinstance(a, TellUpdater)] == [
        TellUpdater(updater=0, message=restore)
    ]
    actions = worker.updater_said(0, following(t0=3), Restored(task=T0, records=3))
    assert told_threads(actions) == [AddTasks(tasks=(T0,), epoch=2)]
    assert not worker.table.copies


def test_a_promotion_waits_for_a_copy_that_is_being_closed(worker: Worker) -> None:
    worker.run(T1, epoch=1, standby=(T0,))
    worker.updater_said(0, following(t0=0))

    assert told_updaters(worker.gets(spec(2, T1))) == [CancelRestore(task=T0)]
    assert not told_updaters(worker.gets(spec(3, T0, T1)))

    assert told_updaters(worker.updater_said(0, Cancelled(task=T0))) == [Restore(task=T0, epoch=3)]


def test_a_task_that_is_taken_away_is_followed_only_once_its_release_is_known(
    worker: Worker,
) -> None:
    worker.run(T0)

    worker.gets(spec(2, revoking=(T0,), standby=(T0,)))
    actions = worker.said(0, Released(task=T0, offsets={}, epoch=2))
    assert not told_updaters(actions)
    assert status_of(worker.table).tasks == ()

    assert told_updaters(worker.gets(spec(3, standby=(T0,)))) == [Follow(task=T0, epoch=3)]


def test_a_copy_to_be_active_that_is_taken_away_again_is_closed(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.gets(spec(2, T0))

    actions = worker.gets(spec(3, revoking=(T0,), standby=(T0,)))

    assert told_updaters(actions) == [CancelRestore(task=T0)]
    assert worker.table.tasks == {}
    worker.updater_said(0, Cancelled(task=T0))
    assert status_of(worker.table).tasks == ()


def test_a_standby_becomes_a_warmup_without_a_break(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))

    assert not told_updaters(worker.gets(spec(2, warmup=(T0,))))

    assert status(worker).role is Role.WARMUP


def test_copies_of_another_process_are_not_followed(worker: Worker) -> None:
    assert not told_updaters(worker.gets(spec(1, standby=(T0,), incarnation="another")))


def test_a_state_updater_that_follows_is_not_idle(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    assert not told_updaters(worker.passes(10 * UPDATER_IDLE_MS))

    worker.gets(spec(2))
    worker.updater_said(0, Cancelled(task=T0))
    worker.passes(1)

    assert Stop() in told_updaters(worker.passes(UPDATER_IDLE_MS))


def test_a_state_updater_that_dies_while_it_follows_is_replaced(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.updater_said(0, following(t0=0))

    actions = worker.sees(UpdaterEnded(updater=0, exit_code=-9))

    assert StartUpdater(updater=0) in actions
    assert told_updaters(actions) == [Follow(task=T0, epoch=1)]
    told = status(worker)
    assert (told.state, told.lag, told.caught_up) == (TaskState.RUNNING, LAG_UNKNOWN, False)


@pytest.mark.parametrize(
    "error", ["DiskFullError", "MissingTopicError", "KafkaUnavailableError", "StoreFormatError"]
)
def test_whatever_keeps_a_copy_from_following_ends_no_worker_and_is_tried_again(
    worker: Worker, error: str
) -> None:
    worker.run(T1, standby=(T0,))
    for _ in range(10):
        worker.updater_said(0, failure(error))
        assert worker.table.copies[T0].problem == f"{error}: why"
        worker.said(0)
        worker.table.slots[0].heard_ms = worker.now_ms
        assert told_updaters(worker.passes(30_000)) == [Follow(task=T0, epoch=1)]

    assert worker.table.error is None
    assert is_ready(worker.table)
    worker.updater_said(0, following(t0=0))
    assert worker.table.copies[T0].problem == ""
    assert status(worker).caught_up


def test_a_state_updater_whose_copies_are_to_be_tried_again_does_not_end(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    for _ in range(8):
        worker.updater_said(0, failure("KafkaUnavailableError"))
        worker.passes(UPDATER_IDLE_MS)
        assert not told_updaters(worker.passes(UPDATER_IDLE_MS - 1))
        worker.passes(30_000)

    assert Stop() not in told_updaters(worker.done)


def test_a_failure_that_crossed_a_promotion_is_passed_over(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.gets(spec(2, T0))
    worker.said(0, Initialized())

    assert not worker.updater_said(0, failure("DiskFullError"))

    actions = worker.updater_said(0, Restored(task=T0, records=5))
    assert told_threads(actions) == [AddTasks(tasks=(T0,), epoch=2)]


def test_a_copy_of_stores_in_memory_has_nothing_to_keep_up() -> None:
    worker = Worker(threads=1, stateful=False)
    worker.sees()

    assert not told_updaters(worker.gets(spec(1, standby=(T0,))))
    assert status(worker).caught_up

    worker.gets(spec(2, T0))
    worker.said(0, Initialized())
    assert status(worker).role is Role.ACTIVE
    assert not worker.table.copies


def test_a_drain_closes_copies_before_their_state_updater_stops(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))

    assert told_updaters(worker.sees(StopAsked())) == [CancelRestore(task=T0)]
    assert told_updaters(worker.updater_said(0, Cancelled(task=T0))) == [Stop()]


def test_copies_are_kept_without_a_lease_but_none_is_taken_on(worker: Worker) -> None:
    worker.gets(spec(1, standby=(T0,)))
    worker.leased = False

    actions = worker.passes(60_000)
    assert not told_updaters(actions)
    actions = worker.sees(UpdaterEnded(updater=0, exit_code=-9))
    assert not told_updaters(actions)

    worker.leased = True
    assert told_updaters(worker.passes(1)) == [Follow(task=T0, epoch=1)]


def test_fewer_threads_leave_one_state_updater_which_goes_on_with_the_copies() -> None:
    worker = Worker()
    worker.run(T1, T2, epoch=1, standby=(T0,))
    second = worker.table.updaters[1]
    copy = worker.table.copies[T0]
    copy.updater = second.number
    worker.updater_said(1, following(t0=0))

    actions = worker.gets(spec(2, T1, T2, standby=(T0,), threads=1))
    assert TellUpdater(updater=1, message=CancelRestore(task=T0)) in actions
    assert (status(worker).lag, status(worker).caught_up) == (0, True)

    actions = worker.updater_said(1, Cancelled(task=T0))
    assert TellUpdater(updater=0, message=Follow(task=T0, epoch=2)) in actions
    assert (status(worker).lag, status(worker).caught_up) == (0, True)
    assert TellUpdater(updater=1, message=Stop()) in worker.passes(UPDATER_IDLE_MS)
