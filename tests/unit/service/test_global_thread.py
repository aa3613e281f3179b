"""The GlobalStreamThread among a worker's processes: before tasks, after failures, at the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.worker_table import T0, T1, Worker, spec, told_threads

from headwater.errors import MissingTopicError, StoreCorruptedError
from headwater.native.messages import (
    AddTasks,
    Failed,
    GlobalProgress,
    Go,
    Initialized,
    Released,
    Stop,
    Stopped,
    TaskRunning,
)
from headwater.native.process import ChildProcess
from headwater.service.decide.actions import (
    End,
    KillGlobalThread,
    StartGlobalThread,
    TellGlobalThread,
)
from headwater.service.decide.global_thread import GlobalThread, note_end, note_progress
from headwater.service.decide.observations import (
    GlobalThreadEnded,
    GlobalThreadSaid,
    StopAsked,
    ThreadEnded,
)
from headwater.service.global_child import GlobalChild

FILLED = GlobalThreadSaid(message=GlobalProgress(records=10, remaining=0, filled=True))
FILLING = GlobalThreadSaid(message=GlobalProgress(records=4, remaining=6, filled=False))
ENDED = GlobalThreadEnded(exit_code=-9)


def with_globals(**given: Any) -> Worker:
    worker = Worker(stateful=False, threads=1, **given)
    worker.table.global_thread = GlobalThread()
    return worker


def running() -> Worker:
    worker = with_globals()
    worker.sees()
    worker.gets(spec(1, T0))
    worker.sees(FILLED)
    worker.said(0, Initialized())
    worker.said(0, TaskRunning(task=T0))
    return worker


def started(actions: list[Any]) -> list[int]:
    return [action.number for action in actions if isinstance(action, StartGlobalThread)]


def test_no_task_starts_before_the_global_stores_are_filled() -> None:
    worker = with_globals()
    worker.sees()
    assert started(worker.gets(spec(1, T0))) == [0]

    assert told_threads(worker.said(0, Initialized())) == [Go(epoch=1)]
    assert not told_threads(worker.sees(FILLING))
    assert worker.table.global_thread is not None
    assert worker.table.global_thread.remaining == 6

    assert told_threads(worker.sees(FILLED)) == [AddTasks(tasks=(T0,), epoch=1)]


def test_a_worker_without_global_stores_starts_no_process_for_them() -> None:
    worker = Worker(stateful=False, threads=1)
    worker.sees()

    assert not started(worker.gets(spec(1, T0)))
    assert AddTasks(tasks=(T0,), epoch=1) in told_threads(worker.said(0, Initialized()))


def test_a_worker_without_tasks_or_without_a_lease_does_not_start_it() -> None:
    worker = with_globals()
    worker.sees()
    assert not started(worker.gets(spec(1)))

    worker = with_globals()
    worker.leased = False
    worker.stored = spec(1, T0)
    assert not started(worker.sees())


def test_one_that_is_killed_is_started_again_while_tasks_go_on_and_new_ones_start() -> None:
    worker = running()

    actions = worker.sees(ENDED)

    assert started(actions) == [1]
    assert not told_threads(actions)
    assert AddTasks(tasks=(T1,), epoch=2) in told_threads(worker.gets(spec(2, T0, T1)))


def test_tasks_that_come_while_it_is_away_and_nobody_reads_wait_until_it_has_caught_up() -> None:
    worker = running()
    worker.gets(spec(2))
    worker.said(0, Released(task=T0, offsets={}, epoch=2))
    assert not started(worker.sees(ENDED)), "nobody needs it"

    actions = worker.gets(spec(3, T1))

    assert started(actions) == [1]
    assert not any(isinstance(message, AddTasks) for message in told_threads(actions))
    assert AddTasks(tasks=(T1,), epoch=3) in told_threads(worker.sees(FILLED))


def test_one_that_fails_again_and_again_is_started_after_longer_and_longer_pauses() -> None:
    worker = running()
    worker.sees(ENDED)

    assert not started(worker.sees(ENDED))
    assert not started(worker.passes(900))
    assert started(worker.passes(200)) == [2]
    assert not started(worker.sees(ENDED))
    assert not started(worker.passes(1_900))
    assert started(worker.passes(200)) == [3]


def test_what_no_other_try_can_cure_ends_the_worker_and_is_told() -> None:
    worker = running()
    failure = Failed(error=MissingTopicError.__name__, message="topic places was deleted")

    actions = worker.sees(GlobalThreadSaid(message=failure))

    assert KillGlobalThread(reason="") in actions
    assert worker.table.error is not None
    assert worker.table.error.message == "topic places was deleted"
    assert not started(worker.sees(ENDED))
    actions = worker.said(0, Released(task=T0, offsets={}, epoch=1))
    assert told_threads(actions) == [Stop()]
    actions = worker.sees(ThreadEnded(slot=0, exit_code=0))
    assert End(exit_code=MissingTopicError.exit_code) in actions


def test_a_store_that_is_to_be_filled_anew_is_filled_by_the_next_process() -> None:
    worker = running()
    failure = Failed(error=StoreCorruptedError.__name__, message="records were deleted")

    actions = worker.sees(GlobalThreadSaid(message=failure))

    assert worker.table.error is None
    assert started(actions) == [1]


def test_one_that_is_silent_for_too_long_is_killed() -> None:
    worker = running()

    assert not any(isinstance(a, KillGlobalThread) for a in worker.passes(4_000))
    for _ in range(100):
        worker.said(0, TaskRunning(task=T0))
        killed = [a for a in worker.passes(4_000) if isinstance(a, KillGlobalThread)]
        if killed:
            break

    assert killed == [KillGlobalThread(reason="no sign of life for 300 s")]
    assert worker.table.global_thread is not None
    assert worker.table.global_thread.problem == "no sign of life for 300 s"


def test_why_a_silent_one_is_killed_is_shown_until_the_next_process_reads() -> None:
    thread = GlobalThread(alive=True, doomed=True, problem="no sign of life for 300 s")
    progress = GlobalProgress(records=10, remaining=0, filled=True)

    note_progress(thread, progress)  # Sent before the kill, received with it.
    note_end(thread, 0)
    assert thread.problem == "no sign of life for 300 s"

    note_progress(thread, progress)
    assert not thread.problem


@pytest.mark.processes
@pytest.mark.parametrize("reason", ["no sign of life for 300 s", ""])
def test_the_reason_for_a_kill_is_logged(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    def start(target: str, name: str, number: int) -> ChildProcess:
        return ChildProcess("tests.support.children:echo", number, name=name)

    child = GlobalChild(start, lambda ended: ended.kill())
    child.act(StartGlobalThread(number=0))

    assert child.act(KillGlobalThread(reason=reason))[-1] == ENDED
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ([f"killing the GlobalStreamThread: {reason}"] if reason else [])


def test_it_ends_behind_the_last_stream_thread_and_the_worker_behind_it() -> None:
    worker = running()
    worker.sees(StopAsked())
    actions = worker.said(0, Released(task=T0, offsets={}, epoch=1))
    assert TellGlobalThread(message=Stop()) not in actions

    actions = worker.sees(ThreadEnded(slot=0, exit_code=0))
    assert TellGlobalThread(message=Stop()) in actions
    assert not any(isinstance(action, End) for action in actions)

    actions = worker.sees(GlobalThreadSaid(message=Stopped()), GlobalThreadEnded(exit_code=0))
    assert actions == [End(exit_code=0)]


@pytest.mark.parametrize("begun", [True, False])
def test_a_drain_that_takes_too_long_kills_it(begun: bool) -> None:
    worker = running()
    worker.sees(StopAsked())
    worker.said(0, Released(task=T0, offsets={}, epoch=1))
    if begun:
        worker.sees(ThreadEnded(slot=0, exit_code=0))

    actions = worker.passes(61_000)
    actions += worker.sees(ENDED)

    assert any(isinstance(action, KillGlobalThread) for action in worker.done)
    assert isinstance(actions[-1], End)
