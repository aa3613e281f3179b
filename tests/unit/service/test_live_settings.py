"""A worker's processes take over settings of its spec once, before any process is started."""

from __future__ import annotations

from typing import Any

from tests.support.worker_table import T0, Worker, spec

from headwater.model.livesettings import LiveSettings
from headwater.service.decide.actions import ApplyLive, StartThread

LOUD = LiveSettings(logging_level="DEBUG")


def applied(actions: list[Any]) -> list[LiveSettings]:
    return [action.settings for action in actions if isinstance(action, ApplyLive)]


def test_settings_are_taken_over_once_and_again_when_they_change() -> None:
    worker = Worker(threads=1)
    worker.run(T0)

    assert applied(worker.gets(spec(2, T0, live=LOUD))) == [LOUD]
    assert applied(worker.passes(1_000)) == []
    assert applied(worker.gets(spec(3, T0, live=LOUD))) == []
    assert applied(worker.gets(spec(4, T0, live=LiveSettings()))) == [LiveSettings()]


def test_a_spec_that_says_nothing_leaves_what_the_processes_were_started_with() -> None:
    worker = Worker(threads=1)
    worker.table.live = LOUD

    worker.run(T0)

    assert applied(worker.done) == []
    assert applied(worker.gets(spec(2, T0, live=LOUD))) == [], "they were started with that"


def test_a_process_that_starts_knows_of_them() -> None:
    worker = Worker(threads=1)
    worker.sees()

    done = worker.gets(spec(1, T0, live=LOUD))

    kinds = [type(action) for action in done if isinstance(action, ApplyLive | StartThread)]
    assert kinds == [ApplyLive, StartThread]
