"""What a worker's main process does, step by step: the table driven with scripted children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.worker_table import (
    LEASE_LIMIT_MS,
    T0,
    T1,
    T2,
    T3,
    Worker,
    spec,
    told_threads,
    told_updaters,
)

from headwater.model.duties import DescribeGroup, Fence, IdsFenced
from headwater.model.lifecycle import ThreadState
from headwater.model.metrics import Snapshot
from headwater.native.messages import (
    AddTasks,
    Cancelled,
    CancelRestore,
    Failed,
    Go,
    Initialized,
    LeaseRenewed,
    Released,
    Restore,
    Restored,
    RevokeTasks,
    ShareCache,
    Stats,
    Stop,
    TaskRunning,
)
from headwater.service.decide.actions import (
    BeginDuty,
    End,
    KillThread,
    LookAtGroup,
    ReadSpec,
    RememberEpoch,
    StartThread,
    StartUpdater,
    TellThread,
    TellUpdater,
)
from headwater.service.decide.balance import PAUSE_MS, WINDOW_MS
from headwater.service.decide.observations import (
    DutyEnded,
    GroupSeen,
    StopAsked,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.decide.report import is_ready, status_of, thread_state
from headwater.service.decide.values import UPDATER_IDLE_MS, SlotPhase

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ids import TaskId


def test_a_granted_task_goes_through_init_reread_restore_and_thread_in_this_order() -> None:
    worker = Worker(threads=1)
    worker.sees()

    first = worker.gets(spec(1, T0))
    assert RememberEpoch(epoch=1) in first
    assert StartThread(slot=0) in first
    assert not told_threads(first)
    assert not told_updaters(first)

    second = worker.said(0, Initialized())
    assert second[0] == ReadSpec()
    assert told_threads(second) == [Go(epoch=1)]
    assert told_updaters(second) == [Restore(task=T0, epoch=1)]

    third = worker.updater_said(0, Restored(task=T0, records=17))
    assert told_threads(third) == [AddTasks(tasks=(T0,), epoch=1)]
    assert not is_ready(worker.table)

    worker.said(0, TaskRunning(task=T0))
    assert is_ready(worker.table)
    assert thread_state(worker.table, worker.table.slots[0]) is ThreadState.RUNNING


def test_a_task_without_state_needs_no_state_updater() -> None:
    worker = Worker(threads=1, stateful=False)
    worker.sees()
    worker.gets(spec(1, T0))

    actions = worker.said(0, Initialized())

    assert AddTasks(tasks=(T0,), epoch=1) in told_threads(actions)
    assert not told_updaters(actions)


def test_a_thread_does_not_go_while_the_spec_cannot_be_read() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0))
    worker.readable = False

    assert not told_threads(worker.said(0, Initialized()))
    assert not told_threads(worker.passes(100))

    worker.readable = True
    assert told_threads(worker.passes(100)) == [Go(epoch=1)]


def test_a_worker_that_lost_its_tasks_before_its_thread_had_its_id_never_runs_them() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0))
    worker.stored = spec(2)

    actions = worker.said(0, Initialized())

    assert not any(isinstance(message, AddTasks) for message in told_threads(actions))
    assert not told_updaters(actions)
    assert status_of(worker.table).acknowledged_epoch == 2
    assert status_of(worker.table).tasks == ()


def test_an_epoch_lower_than_the_highest_is_refused() -> None:
    worker = Worker(threads=1)
    worker.table.highest_epoch = 5
    worker.sees()

    actions = worker.gets(spec(4, T0))

    assert StartThread(slot=0) not in actions
    assert status_of(worker.table).acknowledged_epoch == 5


def test_tasks_granted_to_another_incarnation_are_not_ours() -> None:
    worker = Worker()
    worker.sees()

    actions = worker.gets(spec(1, T0, incarnation="incarnation-0"))

    assert not any(isinstance(action, StartThread) for action in actions)
    assert not is_ready(worker.table)


def test_a_worker_for_which_there_is_no_task_is_ready_after_a_while() -> None:
    worker = Worker()
    worker.sees()
    worker.gets(spec(1, incarnation=""))
    assert not is_ready(worker.table), "it may have come back, and its tasks wait for it"

    worker.passes(10_000)
    assert is_ready(worker.table)
    worker.gets(spec(2, incarnation="", acceptable_lag=5))
    assert is_ready(worker.table)

    worker.gets(spec(3, T0))
    assert not is_ready(worker.table)


def test_a_worker_that_lost_its_tasks_is_not_ready_before_it_is_fenced_and_idle() -> None:
    worker = Worker()
    worker.run(T0)
    assert is_ready(worker.table)

    worker.gets(spec(2, incarnation="", revoking=(T0,), fencing_epoch=2))
    worker.passes(20_000)
    assert not is_ready(worker.table)

    worker.gets(spec(3, incarnation=""))
    assert not is_ready(worker.table)
    worker.passes(10_000)
    assert is_ready(worker.table) == (not worker.table.held)


def test_tasks_are_spread_over_the_slots_and_stay_there() -> None:
    worker = Worker()
    worker.run(T0, T1, T2)
    before = {status.task: status.slot for status in status_of(worker.table).tasks}
    assert sorted(before.values()) == [0, 0, 1]

    worker.run(T0, T1, T2, T3, epoch=2)

    after = {status.task: status.slot for status in status_of(worker.table).tasks}
    assert {task: after[task] for task in before} == before
    assert sorted(after.values()) == [0, 0, 1, 1]


def test_a_revoked_task_is_reported_only_when_its_thread_has_released_it() -> None:
    worker = Worker(threads=1)
    worker.run(T0, T1)

    actions = worker.gets(spec(2, T0, revoking=(T1,)))
    assert told_threads(actions) == [RevokeTasks(tasks=(T1,), epoch=2)]
    assert status_of(worker.table).held == {T0, T1}

    worker.said(0, Released(task=T1, offsets={"lines-1": 17}, epoch=2))
    status = status_of(worker.table)
    assert status.held == {T0}
    assert [(item.task, item.epoch) for item in status.released] == [(T1, 2)]
    assert [item.offset for item in status.released[0].offsets] == [17]

    worker.gets(spec(3, T0))
    assert status_of(worker.table).released == ()


def test_a_restore_that_is_not_wanted_any_more_is_cancelled_before_the_task_is_given_up() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0))
    worker.said(0, Initialized())

    actions = worker.gets(spec(2, revoking=(T0,)))
    assert told_updaters(actions) == [CancelRestore(task=T0)]
    assert status_of(worker.table).held == {T0}

    worker.updater_said(0, Cancelled(task=T0))
    assert status_of(worker.table).held == frozenset()


def test_a_dead_slot_is_fenced_by_its_next_process_before_its_tasks_restore() -> None:
    worker = Worker()
    worker.run(T0, T1)
    slot = status_of(worker.table).tasks[0].slot

    actions = worker.sees(ThreadEnded(slot=slot, exit_code=-9))
    assert StartThread(slot=slot) in actions
    assert not told_updaters(actions)

    actions = worker.said(slot, Initialized())
    assert actions[0] == ReadSpec()
    assert [message.task for message in told_updaters(actions)] == [T0]


def test_no_other_slot_restores_while_a_dead_slot_owes_its_fence() -> None:
    worker = Worker()
    worker.run(T0, T1)
    worker.sees(ThreadEnded(slot=0, exit_code=-9))

    actions = worker.gets(spec(2, T0, T1, T2, T3))
    assert not told_updaters(actions)

    actions = worker.said(0, Initialized())
    assert {message.task for message in told_updaters(actions)} >= {T2, T3}


def test_a_slot_that_died_without_a_task_is_made_clean_when_another_slot_has_to_restore() -> None:
    worker = Worker()
    worker.run(T0, T1)
    slot_of = {task.id: task.slot for task in worker.table.tasks.values()}
    worker.gets(spec(2, T0, revoking=(T1,)))
    worker.said(slot_of[T1], Released(task=T1, offsets={}, epoch=2))
    worker.sees(ThreadEnded(slot=slot_of[T1], exit_code=-9))

    worker.sees(ThreadEnded(slot=slot_of[T0], exit_code=-9))
    worker.said(slot_of[T0], Initialized())
    worker.said(slot_of[T1], Initialized())

    assert worker.table.tasks[T0].on_updater


def test_a_task_whose_thread_died_is_not_released_before_the_slot_is_clean() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.sees(ThreadEnded(slot=0, exit_code=-9))

    worker.gets(spec(2, revoking=(T0,)))
    assert status_of(worker.table).held == {T0}

    worker.said(0, Initialized())
    assert status_of(worker.table).held == frozenset()


def test_a_fenced_slot_is_killed_and_starts_again_only_under_a_greater_epoch() -> None:
    worker = Worker(threads=1)
    worker.run(T0)

    actions = worker.said(0, Failed(error="FencedError", message="taken", fenced=True))
    assert any(isinstance(action, KillThread) for action in actions)
    assert status_of(worker.table).fenced_slots == (0,)
    assert status_of(worker.table).tasks == ()
    assert not any(isinstance(action, StartThread) for action in worker.passes(60_000))

    actions = worker.gets(spec(2, T0))
    assert StartThread(slot=0) in actions
    assert status_of(worker.table).fenced_slots == ()


def test_the_tasks_of_a_fenced_slot_do_not_move_to_another_slot_of_the_worker() -> None:
    worker = Worker()
    worker.run(T0, T1)
    slot = worker.table.tasks[T0].slot

    worker.said(slot, Failed(error="FencedError", message="taken", fenced=True))
    worker.passes(60_000)

    assert status_of(worker.table).held == {T1}


def test_a_restore_for_a_fenced_slot_is_cancelled_before_the_task_starts_again() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.gets(spec(2, T0, T1))
    worker.said(0, Failed(error="FencedError", message="taken", fenced=True))
    assert CancelRestore(task=T1) in told_updaters(worker.done)
    worker.gets(spec(3, T0, T1))
    actions = worker.said(0, Initialized())
    assert [message.task for message in told_updaters(actions)] == [T0]

    actions = worker.updater_said(worker.table.tasks[T1].updater, Cancelled(task=T1))

    assert Restore(task=T1, epoch=3) in told_updaters(actions)


def test_a_hung_thread_is_killed_and_replaced() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    for _ in range(100):
        worker.said(0, Stats(numbers=Snapshot()))
        assert not any(isinstance(action, KillThread) for action in worker.passes(4_000))

    killed: list[Any] = []
    for _ in range(80):
        killed += [action for action in worker.passes(4_000) if isinstance(action, KillThread)]

    assert len(killed) == 1
    assert killed[0].reason.startswith("no sign of life for 300 s")
    assert worker.table.slots[0].phase is SlotPhase.STARTING


def test_a_worker_that_was_frozen_itself_does_not_take_its_threads_for_hung() -> None:
    worker = Worker(threads=1)
    worker.run(T0)

    assert not any(isinstance(action, KillThread) for action in worker.passes(3_600_000))


def test_restarts_of_a_slot_wait_longer_and_longer() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    waits = []
    for _ in range(4):
        worker.sees(ThreadEnded(slot=0, exit_code=-11))
        waits.append(worker.table.slots[0].restart_ms - worker.now_ms)
        worker.passes(max(0, waits[-1]))
        assert worker.table.slots[0].alive

    assert waits == [0, 1_000, 2_000, 4_000]


def test_without_a_lease_exactly_once_goes_on_but_takes_on_nothing() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.leased = False

    assert told_updaters(worker.passes(LEASE_LIMIT_MS)) == [Stop()]
    assert not worker.gets(spec(2, T0, T1))
    assert status_of(worker.table).acknowledged_epoch == 1
    assert status_of(worker.table).held == {T0}

    worker.sees(ThreadEnded(slot=0, exit_code=-9))
    assert not any(isinstance(action, StartThread) for action in worker.passes(60_000))

    worker.leased = True
    actions = worker.passes(100)
    assert ReadSpec() in actions
    assert StartThread(slot=0) in actions
    assert status_of(worker.table).acknowledged_epoch == 2


def test_without_a_lease_at_least_once_commits_in_time_and_stops() -> None:
    worker = Worker(threads=1, exactly_once=False)
    worker.run(T0)
    worker.leased = False

    actions = worker.passes(LEASE_LIMIT_MS - 5_000)
    assert told_threads(actions) == [RevokeTasks(tasks=(T0,), epoch=1)]

    worker.said(0, Released(task=T0, offsets={}, epoch=1))
    assert not any(isinstance(action, KillThread) for action in worker.passes(LEASE_LIMIT_MS))
    assert worker.table.tasks == {}


def test_an_at_least_once_worker_that_wakes_without_a_lease_kills_its_threads_at_once() -> None:
    worker = Worker(threads=1, exactly_once=False)
    worker.run(T0)
    worker.leased = False

    actions = worker.passes(LEASE_LIMIT_MS)

    assert any(isinstance(action, KillThread) for action in actions)


def test_a_renewal_that_comes_after_the_lease_was_lost_does_not_save_at_least_once_threads() -> (
    None
):
    worker = Worker(threads=1, exactly_once=False)
    worker.run(T0)

    actions = worker.passes(LEASE_LIMIT_MS)

    assert any(isinstance(action, KillThread) for action in actions)
    assert not any(isinstance(message, LeaseRenewed) for message in told_threads(actions))


def test_under_at_least_once_threads_hear_of_every_renewal() -> None:
    worker = Worker(threads=1, exactly_once=False)
    worker.run(T0)

    told = told_threads(worker.passes(3_000))

    assert told == [LeaseRenewed(until_boot_ms=worker.now_ms + LEASE_LIMIT_MS)]


def test_a_state_updater_starts_beside_the_thread_whose_task_it_will_restore() -> None:
    worker = Worker()
    worker.sees()

    begun = worker.gets(spec(1, T0))

    assert StartUpdater(updater=0) in begun
    waited = worker.passes(2 * UPDATER_IDLE_MS)
    assert not any(isinstance(action, TellUpdater) for action in waited)
    told = [each for each in worker.said(0, Initialized()) if isinstance(each, TellUpdater)]
    assert [each.message for each in told] == [Restore(task=T0, epoch=1)]


def test_a_state_updater_that_dies_gives_its_restores_to_the_next() -> None:
    worker = Worker()
    worker.sees()
    actions = list(worker.gets(spec(1, T0, T1, T2)))
    actions += [*worker.said(0, Initialized()), *worker.said(1, Initialized())]
    assert [action for action in actions if isinstance(action, StartUpdater)] == [
        StartUpdater(updater=0),
        StartUpdater(updater=1),
    ]
    lost = {task.id for task in worker.table.tasks.values() if task.updater == 0}

    actions = worker.sees(UpdaterEnded(updater=0, exit_code=-9))

    assert lost
    assert {message.task for message in told_updaters(actions)} == lost


def test_an_idle_state_updater_ends() -> None:
    worker = Worker(threads=1)
    worker.run(T0)

    assert told_updaters(worker.passes(500)) == [Stop()]


def test_a_users_mistake_ends_the_worker_with_its_exit_code_after_the_others_have_committed() -> (
    None
):
    worker = Worker()
    worker.run(T0, T1)
    slot = worker.table.tasks[T0].slot

    actions = worker.said(slot, Failed(error="DeserializationError", message="bad", task=T0))
    assert told_threads(actions) == [RevokeTasks(tasks=(T1,), epoch=1)]

    worker.said(1 - slot, Released(task=T1, offsets={}, epoch=1))
    worker.sees(ThreadEnded(slot=1 - slot, exit_code=0))
    worker.sees(UpdaterEnded(updater=0, exit_code=0))
    actions = worker.sees(UpdaterEnded(updater=1, exit_code=0))
    assert actions == [End(exit_code=4)]
    error = status_of(worker.table).error
    assert error is not None
    assert (error.error, error.message, error.task) == ("DeserializationError", "bad", T0)


@pytest.mark.parametrize(
    ("error", "starts"),
    [("KafkaUnavailableError", 5), ("RuntimeError", 2)],
    ids=["a broker may come back", "an unknown exception is tried three times"],
)
def test_a_failing_thread_is_started_again(error: str, starts: int) -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.done.clear()

    for _ in range(5):
        worker.said(0, Failed(error=error, message="x"))
        if worker.table.stopping_since_ms is None:
            worker.passes(30_000)

    assert sum(isinstance(action, StartThread) for action in worker.done) == starts


def test_a_drain_releases_every_task_then_ends_with_0() -> None:
    worker = Worker(threads=1)
    worker.run(T0, T1)

    actions = worker.sees(StopAsked())
    assert told_threads(actions) == [RevokeTasks(tasks=(T0, T1), epoch=1)]

    actions = worker.said(
        0, Released(task=T0, offsets={}, epoch=1), Released(task=T1, offsets={}, epoch=1)
    )
    assert told_threads(actions) == [Stop()]
    worker.passes(2_000)
    worker.sees(UpdaterEnded(updater=0, exit_code=0))

    actions = worker.sees(ThreadEnded(slot=0, exit_code=0))
    assert actions[-1] == End(exit_code=0)


@pytest.mark.parametrize("messages", [(), (Initialized(),)], ids=["imports", "has its id"])
def test_a_thread_that_has_begun_nothing_when_the_worker_stops_is_no_failure(
    messages: tuple[Initialized, ...],
) -> None:
    worker = Worker(threads=1)
    worker.gets(spec(1, T0))
    worker.readable = False
    worker.said(0, *messages)

    actions = worker.sees(StopAsked())

    (killed,) = [action for action in actions if isinstance(action, KillThread)]
    assert not killed.is_failure
    assert killed.reason == "the worker stops, and this thread has nothing to commit yet"
    assert worker.sees(UpdaterEnded(updater=0, exit_code=0))[-1] == End(exit_code=0)


def test_a_drain_in_the_spec_is_the_same_as_being_asked_to_stop() -> None:
    worker = Worker(threads=1)
    worker.sees()

    assert worker.gets(spec(1, drain=True))[-1] == End(exit_code=0)


def test_a_drain_that_hangs_is_cut_short_and_says_so_in_its_exit_code() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.sees(StopAsked())

    actions = worker.passes(61_000)

    (killed,) = [action for action in actions if isinstance(action, KillThread)]
    assert killed.is_failure
    assert actions[-1] == End(exit_code=1)
    assert status_of(worker.table).held == {T0}


def test_a_duty_is_begun_once_and_its_result_stands_until_the_duty_is_withdrawn() -> None:
    fence = Fence(id="d1", epoch=1, worker="orders-w-1", transactional_ids=("orders-orders-w-1-0",))
    worker = Worker()
    worker.sees()

    assert BeginDuty(duty=fence) in worker.gets(spec(1, duties=(fence,)))
    assert not any(isinstance(action, BeginDuty) for action in worker.passes(100))

    worker.sees(DutyEnded(id="d1", result=IdsFenced(id="d1")))
    assert status_of(worker.table).duty_results == (IdsFenced(id="d1"),)
    assert not any(isinstance(a, BeginDuty) for a in worker.gets(spec(2, duties=(fence,))))

    worker.gets(spec(3))
    assert status_of(worker.table).duty_results == ()


def test_a_duty_waits_for_the_lease() -> None:
    duty = DescribeGroup(id="d1", epoch=1, group="orders")
    worker = Worker()
    worker.leased = False

    assert not worker.gets(spec(1, duties=(duty,)))

    worker.leased = True
    assert BeginDuty(duty=duty) in worker.passes(100)


def looks(actions: list[Any]) -> int:
    return sum(isinstance(action, LookAtGroup) for action in actions)


def test_the_holder_of_the_first_task_looks_at_the_group_now_and_then() -> None:
    worker = Worker(threads=1)
    worker.table.group_watch_ms = 30_000
    worker.run(T0)
    assert looks(worker.done) == 1
    assert looks(worker.passes(60_000)) == 0, "the first look has no answer yet"

    assert looks(worker.sees(GroupSeen(is_in_use=True))) == 1
    assert status_of(worker.table).group_in_use

    worker.sees(GroupSeen(is_in_use=None))
    assert status_of(worker.table).group_in_use, "no answer is no news"
    assert looks(worker.passes(29_000)) == 0
    assert looks(worker.passes(1_000)) == 1

    worker.sees(GroupSeen(is_in_use=False))
    assert not status_of(worker.table).group_in_use


def test_what_was_seen_in_the_group_goes_with_the_first_task() -> None:
    worker = Worker(threads=1)
    worker.table.group_watch_ms = 30_000
    worker.run(T0)
    worker.sees(GroupSeen(is_in_use=True))

    worker.gets(spec(2))
    worker.said(0, Released(task=T0, offsets={}, epoch=2))

    assert not status_of(worker.table).group_in_use
    assert looks(worker.passes(60_000)) == 0


def test_who_does_not_hold_the_first_task_or_is_not_told_to_never_looks() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    other = Worker(threads=1)
    other.table.group_watch_ms = 30_000
    other.run(T1)

    assert looks([*worker.done, *worker.passes(60_000)]) == 0
    assert looks([*other.done, *other.passes(60_000)]) == 0


def test_a_task_that_changes_its_slot_is_committed_first() -> None:
    worker = Worker()
    worker.run(T0, T1, T2, T3)
    slot = worker.table.tasks[T0].slot
    away = [task.id for task in worker.table.tasks.values() if task.slot != slot]
    stay = [task.id for task in worker.table.tasks.values() if task.slot == slot]
    actions = worker.gets(spec(2, *stay, revoking=tuple(away)))
    revoked = [m for m in told_threads(actions) if isinstance(m, RevokeTasks)]
    moved = next(task for message in revoked for task in message.tasks if task in stay)

    actions = worker.said(slot, Released(task=moved, offsets={}, epoch=2))

    assert told_updaters(actions) == [], "its stores were closed at what is committed"
    assert told_threads(actions) == [AddTasks(tasks=(moved,), epoch=2)]
    assert worker.table.tasks[moved].slot == 1 - slot
    assert all(item.task != moved for item in status_of(worker.table).released)


def slots_of(worker: Worker) -> dict[TaskId, int]:
    return {task.id: task.slot for task in worker.table.tasks.values()}


def obeyed(worker: Worker) -> list[Any]:
    """Answer as children that do as they are told; return all that was decided meanwhile."""
    actions: list[Any] = []
    while worker.done:
        actions += (todo := worker.done)
        worker.done = []
        for action in todo:
            if answers := answers_to(action):
                worker.sees(*answers)
    return actions


def answers_to(action: Any) -> list[Any]:
    match action:
        case StartThread(slot=slot):
            said: list[Any] = [Initialized()]
        case TellThread(slot=slot, message=AddTasks(tasks=tasks)):
            said = [TaskRunning(task=task) for task in tasks]
        case TellThread(slot=slot, message=RevokeTasks(tasks=tasks, epoch=epoch)):
            said = [Released(task=task, offsets={}, epoch=epoch) for task in tasks]
        case TellThread(slot=slot, message=Stop()):
            return [ThreadEnded(slot=slot, exit_code=0)]
        case TellUpdater(updater=updater, message=Restore(task=task)):
            return [UpdaterSaid(updater=updater, message=Restored(task=task, records=0))]
        case TellUpdater(updater=updater, message=Stop()):
            return [UpdaterEnded(updater=updater, exit_code=0)]
        case _:
            return []
    return [ThreadSaid(slot=slot, message=message) for message in said]


def test_more_threads_take_tasks_over_and_fewer_give_them_back_while_the_worker_runs() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0, T1, T2))
    obeyed(worker)
    assert slots_of(worker) == {T0: 0, T1: 0, T2: 0}
    assert worker.table.max_updaters == 1

    worker.gets(spec(2, T0, T1, T2, slots=(0, 1, 2), threads=3))
    grown = obeyed(worker)
    assert sorted(slots_of(worker).values()) == [0, 1, 2]
    assert [a.slot for a in grown if isinstance(a, StartThread)] == [1, 2]
    assert [len(m.tasks) for m in told_threads(grown) if isinstance(m, RevokeTasks)] == [2]
    assert told_threads(grown).count(ShareCache(threads=3)) == 1
    assert is_ready(worker.table)
    assert worker.table.max_updaters == 2

    worker.gets(spec(3, T0, T1, T2, slots=(0, 1, 2), threads=1))
    shrunk = obeyed(worker)
    assert slots_of(worker) == {T0: 0, T1: 0, T2: 0}
    told = [(a.slot, a.message) for a in shrunk if isinstance(a, TellThread) and a.slot > 0]
    assert [slot for slot, message in told if message == Stop()] == [1, 2]
    assert all(isinstance(message, RevokeTasks | Stop) for _, message in told)
    assert told_threads(shrunk).count(ShareCache(threads=1)) == 1
    assert worker.table.slots.keys() == {0}
    assert is_ready(worker.table)
    assert status_of(worker.table).released == ()


def test_tasks_change_their_slots_by_how_busy_they_keep_them() -> None:
    worker = Worker()
    worker.sees()
    worker.gets(spec(1, T0, T1, T2, T3))
    obeyed(worker)
    before = slots_of(worker)
    heavy, light = [[task for task, slot in before.items() if slot == at] for at in (0, 1)]

    def says_how_busy(seconds: float) -> None:
        for slot, tasks, load in ((0, heavy, 0.45), (1, light, 0.01)):
            worker.said(
                slot, Stats(numbers=Snapshot(), busy_s=dict.fromkeys(tasks, seconds * load))
            )

    worker.passes(PAUSE_MS)
    says_how_busy(0)
    assert slots_of(worker) == before
    worker.passes(WINDOW_MS)
    says_how_busy(WINDOW_MS / 1000)
    obeyed(worker)

    after = slots_of(worker)
    assert sorted(after[task] for task in heavy) == [0, 1]
    assert sorted(after[task] for task in light) == [0, 1]
    worker.passes(WINDOW_MS)
    obeyed(worker)
    assert slots_of(worker) == after
    assert status_of(worker.table).released == ()


def test_a_surplus_slot_is_told_to_stop_only_once_its_tasks_are_released() -> None:
    worker = Worker()
    worker.run(T0, T1)
    away = next(task for task, slot in slots_of(worker).items() if slot == 1)

    assert told_threads(worker.gets(spec(2, T0, T1, threads=1))) == [
        RevokeTasks(tasks=(away,), epoch=2),
        ShareCache(threads=1),
    ]
    worker.passes(1_000)
    assert worker.table.slots[1].phase is SlotPhase.RUNNING

    assert Stop() in told_threads(worker.said(1, Released(task=away, offsets={}, epoch=2)))


def is_starting(worker: Worker) -> None:
    worker.sees()
    worker.gets(spec(1, T0, T1))


def has_its_id(worker: Worker) -> None:
    is_starting(worker)
    worker.readable = False
    worker.said(1, Initialized())


def is_restoring(worker: Worker) -> None:
    is_starting(worker)
    worker.said(1, Initialized())


def runs(worker: Worker) -> None:
    worker.run(T0, T1)
    worker.done.clear()


def has_died(worker: Worker) -> None:
    runs(worker)
    worker.sees(ThreadEnded(slot=1, exit_code=-9))


def is_fenced(worker: Worker) -> None:
    runs(worker)
    worker.said(1, Failed(error="FencedError", message="fenced", fenced=True))
    worker.sees(ThreadEnded(slot=1, exit_code=1))


def is_stopping(worker: Worker) -> None:
    runs(worker)
    worker.gets(spec(1, T0, T1, threads=1))
    away = next(task for task, slot in slots_of(worker).items() if slot == 1)
    worker.said(1, Released(task=away, offsets={}, epoch=1))
    worker.gets(spec(1, T0, T1, threads=2))


@pytest.mark.parametrize(
    "state",
    [is_starting, has_its_id, is_restoring, runs, has_died, is_fenced, is_stopping],
    ids=lambda state: state.__name__,
)
def test_a_slot_becomes_surplus_and_is_needed_again_whatever_it_is_doing(
    state: Callable[[Worker], None],
) -> None:
    worker = Worker()
    state(worker)
    worker.readable = True

    worker.gets(spec(2, T0, T1, threads=1))
    obeyed(worker)
    worker.passes(60_000)
    obeyed(worker)
    assert slots_of(worker) == {T0: 0, T1: 0}
    assert worker.table.slots.keys() == {0}
    assert is_ready(worker.table)

    worker.gets(spec(3, T0, T1, threads=2))
    obeyed(worker)
    assert sorted(slots_of(worker).values()) == [0, 1]
    assert is_ready(worker.table)


def test_a_store_that_stays_locked_ends_the_worker_in_the_end() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0))
    worker.said(0, Initialized())

    tries = 0
    while worker.table.error is None:
        tries += 1
        worker.updater_said(0, Failed(error="StoreLockedError", message="in use", task=T0))
        worker.passes(30_000)

    assert tries == 5
    assert worker.table.exit_code == 3


def test_a_thread_that_is_slow_to_start_is_given_time() -> None:
    worker = Worker(threads=1)
    worker.table.hung_ms = 6_000
    worker.sees()
    worker.gets(spec(1, T0))

    killed: list[Any] = []
    for _ in range(30):
        killed += [action for action in worker.passes(4_000) if isinstance(action, KillThread)]
    assert not killed

    killed += [action for action in worker.passes(4_000) if isinstance(action, KillThread)]
    assert [action.reason for action in killed] == ["no sign of life for 120 s"]
