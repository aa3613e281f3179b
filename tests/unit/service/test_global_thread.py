"""The GlobalStreamThread among a worker's processes: before tasks, after failures, at the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.worker_table import T0, T1, Worker, spec, told_threads

from headwater.errors import MissingTopicError, StoreCorruptedError
from headwater.ids import TaskId, TopicPartition
from headwater.native.messages import (
    AddTasks,
    Failed,
    GlobalProgress,
    Go,
    Initialized,
    Locate,
    Located,
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
from headwater.service.decide.report import status_of
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


PLACES = TopicPartition("places", 2)
PLACE = Located(
    task=TaskId(1, 0), node="KTABLE-SOURCE-1", partition=PLACES, offset=17, stack="  app.py"
)


def silent(worker: Worker, milliseconds: int) -> list[Any]:
    """Let it say nothing for so long while the StreamThread goes on; return what is done then."""
    done = []
    for _ in range(0, milliseconds, 2_000):
        worker.said(0, TaskRunning(task=T0))
        done += worker.passes(2_000)
    kinds = (KillGlobalThread, TellGlobalThread, StartGlobalThread)
    return [action for action in done if isinstance(action, kinds)]


def hangs(worker: Worker, place: Located | None = PLACE) -> list[Any]:
    """Let it hang, and answer where it is."""
    assert silent(worker, 296_000) == [TellGlobalThread(message=Locate())]
    if place is not None:
        assert not worker.sees(GlobalThreadSaid(message=place)), "no sign of life"
    return silent(worker, 6_000)


def test_one_that_hangs_is_killed_with_its_place_and_another_one_starts() -> None:
    worker = running()

    kill, start = hangs(worker)

    said = (
        "no sign of life for 300 s (max.poll.interval.ms): task 1_0, node KTABLE-SOURCE-1, topic "
        "places partition 2 offset 17 does not return:\n  app.py"
    )
    assert (kill, start) == (KillGlobalThread(reason=said), StartGlobalThread(number=1))
    (hang,) = status_of(worker.table).hangs
    assert (hang.partition, hang.offset, hang.times) == (PLACES, 17, 1)
    worker.sees(FILLING)
    assert status_of(worker.table).hangs == (hang,)
    worker.sees(FILLED)
    assert not status_of(worker.table).hangs


def test_at_the_same_record_it_is_tried_again_later_and_later() -> None:
    worker = running()
    hangs(worker)

    for times, pause_ms in ((2, 1_000), (3, 2_000), (4, 4_000)):
        worker.sees(FILLING)
        started_at = len(worker.done)
        assert silent(worker, 296_000) == [TellGlobalThread(message=Locate())]
        worker.sees(GlobalThreadSaid(message=PLACE))
        while not any(isinstance(a, KillGlobalThread) for a in worker.done[started_at:]):
            worker.said(0, TaskRunning(task=T0))
            worker.passes(1_000)
        assert status_of(worker.table).hangs[0].times == times
        assert not started(worker.passes(pause_ms - 1))
        assert started(worker.passes(1)) == [times]


def test_one_that_hangs_and_does_not_answer_writes_its_stacks() -> None:
    kill, _ = hangs(running(), place=None)

    assert kill.shows_stacks
    assert "its stacks are in the log" in kill.reason


def test_one_that_speaks_again_was_only_slow() -> None:
    worker = running()
    silent(worker, 296_000)
    worker.sees(GlobalThreadSaid(message=PLACE), FILLED)

    assert not silent(worker, 290_000)
    assert silent(worker, 6_000) == [TellGlobalThread(message=Locate())]


def test_one_that_fills_its_stores_for_the_first_time_is_given_the_time_of_a_start() -> None:
    worker = with_globals()
    worker.table.hung_ms = 10_000
    worker.sees()
    worker.gets(spec(1, T0))

    assert not silent(worker, 110_000)
    assert silent(worker, 6_000) == [TellGlobalThread(message=Locate())]
    worker.sees(FILLED)
    assert len(silent(worker, 12_000)) == 3, "asked, killed and started"


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
