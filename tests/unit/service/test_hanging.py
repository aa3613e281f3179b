"""A function that does not return: its thread is asked where it is, then replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.worker_table import T0, Worker, told_threads

from headwater.ids import TopicPartition
from headwater.model.metrics import Snapshot
from headwater.native.messages import Go, Initialized, Locate, Located, Restored, Stats, TaskRunning
from headwater.service.decide.actions import KillThread, StartThread
from headwater.service.decide.observations import UpdaterEnded
from headwater.service.decide.report import status_of

LINES = TopicPartition("lines", 3)
PLACE = Located(task=T0, node="KSTREAM-MAPVALUES-1", partition=LINES, offset=17, stack="  app.py")
HUNG_MS = 300_000


def running() -> Worker:
    """A worker with one thread, whose StateUpdater has ended."""
    worker = Worker(threads=1)
    worker.run(T0)
    worker.passes(1_000)
    worker.sees(UpdaterEnded(updater=0, exit_code=0))
    return worker


def stats(offset: int) -> Stats:
    return Stats(numbers=Snapshot(), committed={T0: {"lines-3": offset}})


def hangs(worker: Worker, place: Located | None = PLACE) -> list[Any]:
    """Let the thread say nothing for so long that it is replaced; return all actions."""
    asked = passes(worker, HUNG_MS - 4_000)
    assert told_threads(asked) == [Locate()]
    done = [] if place is None else worker.said(0, place)
    assert not killed(done)
    return [*done, *passes(worker, 4_001)]


def passes(worker: Worker, milliseconds: int) -> list[Any]:
    """As a main process that is not asleep itself."""
    steps = [2_000] * (milliseconds // 2_000) + [milliseconds % 2_000]
    return [action for step in steps for action in worker.passes(step)]


def killed(actions: list[Any]) -> list[str]:
    return [action.reason for action in actions if isinstance(action, KillThread)]


def starts_again(worker: Worker) -> None:
    assert Go(epoch=1) in told_threads(worker.said(0, Initialized()))
    worker.updater_said(worker.table.tasks[T0].updater, Restored(task=T0, records=0))
    worker.said(0, TaskRunning(task=T0))
    worker.passes(1_000)
    worker.sees(UpdaterEnded(updater=0, exit_code=0))


def test_a_thread_that_hangs_is_killed_with_its_place_and_another_one_starts() -> None:
    worker = running()

    done = hangs(worker)

    (reason,) = killed(done)
    assert reason.startswith("no sign of life for 300 s (max.poll.interval.ms): task 0_0, ")
    assert "node KSTREAM-MAPVALUES-1, topic lines partition 3 offset 17 does not" in reason
    assert StartThread(slot=0) in done
    (hang,) = status_of(worker.table).hangs
    assert (hang.task, hang.node, hang.partition, hang.offset, hang.times) == (
        *(T0, "KSTREAM-MAPVALUES-1", LINES, 17),
        1,
    )


def test_it_is_no_sign_of_life_that_another_thread_of_the_process_answers() -> None:
    worker = running()
    passes(worker, HUNG_MS - 2_000)

    assert killed([*worker.said(0, PLACE), *passes(worker, 2_001)])


def test_a_thread_that_was_only_slow_goes_on_and_is_asked_again_another_time() -> None:
    worker = running()
    passes(worker, HUNG_MS - 2_000)
    worker.said(0, PLACE, stats(18))

    assert not passes(worker, 10_000)
    assert not status_of(worker.table).hangs
    assert worker.table.slots[0].place is None
    assert told_threads(passes(worker, HUNG_MS - 12_000)) == [Locate()]


def test_at_the_same_record_it_is_tried_again_later_and_later() -> None:
    worker = running()
    assert StartThread(slot=0) in hangs(worker)

    for times, pause_ms in ((2, 1_000), (3, 2_000), (4, 4_000)):
        starts_again(worker)
        worker.said(0, stats(17))
        assert StartThread(slot=0) not in hangs(worker)
        assert status_of(worker.table).hangs[0].times == times
        assert StartThread(slot=0) not in worker.passes(pause_ms - 1)
        assert StartThread(slot=0) in worker.passes(1)


def test_at_another_record_it_begins_anew_and_behind_it_all_is_forgotten() -> None:
    worker = running()
    hangs(worker)
    starts_again(worker)

    assert StartThread(slot=0) in hangs(worker, replace(PLACE, offset=18))
    assert status_of(worker.table).hangs[0].times == 1

    starts_again(worker)
    worker.said(0, stats(18))
    assert status_of(worker.table).hangs
    worker.said(0, stats(19))
    assert not status_of(worker.table).hangs


def test_a_punctuation_that_hung_is_forgotten_when_the_thread_has_run_for_as_long() -> None:
    worker = running()
    hangs(worker, Located(task=T0, node="KSTREAM-PROCESSOR-1"))
    assert status_of(worker.table).hangs[0].place.endswith("with no record under way")
    starts_again(worker)

    worker.said(0, stats(17))
    assert status_of(worker.table).hangs
    for _ in range(31):
        passes(worker, 10_000)
        worker.said(0, stats(17))
    assert not status_of(worker.table).hangs


def test_a_thread_that_cannot_say_where_it_is_is_replaced_all_the_same() -> None:
    worker = running()

    done = hangs(worker, None)

    (reason,) = killed(done)
    assert [action.shows_stacks for action in done if isinstance(action, KillThread)] == [True]
    assert "nor does it say where it is: a native call may hold Python's global lock" in reason
    assert not status_of(worker.table).hangs
