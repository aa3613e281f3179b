"""A worker whose spec is paused: its StreamThreads commit, and process nothing until it is not."""

from __future__ import annotations

from tests.support.worker_table import T0, T1, T2, Worker, spec, told_threads

from headwater.native.messages import (
    AddTasks,
    Failed,
    Go,
    Initialized,
    Pause,
    Paused,
    Restored,
    Resume,
    TaskRunning,
)
from headwater.service.decide.report import status_of


def test_every_thread_is_told_once_and_the_worker_has_paused_when_all_say_so() -> None:
    worker = Worker()
    worker.run(T0, T1)

    assert told_threads(worker.gets(spec(2, T0, T1, paused=True))) == [Pause(), Pause()]
    assert told_threads(worker.passes(1_000)) == []
    assert not status_of(worker.table).paused

    worker.said(0, Paused())
    assert not status_of(worker.table).paused
    worker.said(1, Paused())
    assert status_of(worker.table).paused

    assert told_threads(worker.gets(spec(3, T0, T1))) == [Resume(), Resume()]
    assert not status_of(worker.table).paused


def test_a_thread_that_starts_while_it_is_paused_hears_of_it_before_it_gets_tasks() -> None:
    worker = Worker(threads=1)
    worker.sees()
    worker.gets(spec(1, T0, paused=True))

    first = told_threads(worker.said(0, Initialized()))
    then = told_threads(worker.updater_said(0, Restored(task=T0, records=0)))

    assert (first, then) == ([Go(epoch=1), Pause()], [AddTasks(tasks=(T0,), epoch=1)])
    worker.said(0, Paused(), TaskRunning(task=T0))
    assert status_of(worker.table).paused, "restores go on, and what is restored waits"


def test_a_thread_that_died_has_not_paused_before_its_successor_has() -> None:
    worker = Worker(threads=1)
    worker.run(T0, paused=True)
    worker.said(0, Paused())
    assert status_of(worker.table).paused

    worker.said(0, Failed(error="KafkaUnavailableError", message="gone"))
    assert not status_of(worker.table).paused

    told = told_threads(worker.said(0, Initialized()))
    assert told == [Go(epoch=1), Pause()]


def test_a_late_answer_to_an_earlier_pause_does_not_count() -> None:
    worker = Worker(threads=1)
    worker.run(T0)
    worker.gets(spec(2, T0, paused=True))
    worker.gets(spec(3, T0))

    worker.said(0, Paused())

    assert not status_of(worker.table).paused


def test_a_worker_without_tasks_has_paused_at_once() -> None:
    worker = Worker()
    worker.sees()
    worker.gets(spec(1, paused=True))
    assert status_of(worker.table).paused

    worker.gets(spec(2, T2, paused=True))
    assert status_of(worker.table).paused, "a task that nobody runs is not processed"
