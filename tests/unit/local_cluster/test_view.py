"""What the live view draws and tells."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from headwater.ids import TaskId
from headwater.model.cluster import Role
from headwater_operator.local.lines import Narrator
from headwater_operator.local.render import driver_line, render, sparkline
from headwater_operator.overview.events import Event, EventKind
from headwater_operator.overview.rates import Rate
from headwater_operator.overview.snapshot import CopyRow, DriverRow, Snapshot, TaskRow, WorkerRow
from headwater_operator.overview.texts import duration


def tasks(count: int) -> tuple[TaskRow, ...]:
    return tuple(
        TaskRow(
            task=TaskId(0, number),
            state="RUNNING",
            worker="word-count-w-0",
            slot=0,
            lag=1_000 * number,
            records_per_s=10.0,
        )
        for number in range(count)
    )


def snapshot(rows: tuple[TaskRow, ...]) -> Snapshot:
    return Snapshot(
        app="word-count",
        state="RUNNING",
        guarantee="exactly_once_v2",
        epoch="3.17",
        replicas=1,
        kafka="127.0.0.1:9092",
        workers=(
            WorkerRow(
                name="word-count-w-0",
                state="running",
                pid=4711,
                is_alive=True,
                lease_age_s=2.0,
                tasks=len(rows),
            ),
        ),
        tasks=rows,
        events=(Event(at_ms=0, kind=EventKind.TASKS, text="takes 0_0", worker="word-count-w-0"),),
    )


def drawn(shown: Snapshot, *, height: int = 40, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(render(shown, height=height, width=width, footer="Ctrl-C stops"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_application_on_spark_shows_its_driver_with_the_last_batch_and_the_rates() -> None:
    driver = DriverRow(
        state="RUNNING",
        pid=4711,
        generation=3,
        last_batch=1_207,
        batch_rows=5_120,
        batch_ms=410,
        input_rows_per_s=9_876.0,
        processed_rows_per_s=12_345.0,
        tasks=4,
    )
    shown = replace(snapshot(()), engine="Spark", driver=driver, workers=())

    text = drawn(shown, width=120)

    wanted = (
        *("4 tasks on Spark", "Spark ● RUNNING", "driver 4711", "generation 3"),
        *("batch 1,207: 5,120 records in 410 ms", "in 9,876/s", "processed at 12,345/s"),
    )
    assert [word for word in wanted if word not in text] == []
    [line] = [line for line in Narrator().tell(shown) if "Spark" in line]
    assert "batch 1,207" in line
    ended = replace(driver, state="ended", pid=0, last_batch=None, problem="exit code 3: no broker")
    assert "no broker" in drawn(replace(shown, driver=ended))


def test_everything_one_looks_for_is_there() -> None:
    text = drawn(snapshot(tasks(2)))

    for expected in ("word-count", "RUNNING", "exactly_once_v2", "3.17", "4711", "0_1", "1,000",
                     "takes 0_0", "Ctrl-C stops", "127.0.0.1:9092"):  # fmt: skip
        assert expected in text


@pytest.mark.parametrize("height", [16, 24, 40])
@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("count", [0, 3, 200])
def test_the_view_fits_the_terminal(height: int, width: int, count: int) -> None:
    lines = drawn(snapshot(tasks(count)), height=height, width=width).splitlines()

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_when_there_are_too_many_tasks_those_that_do_not_run_are_shown() -> None:
    rows = (
        *tasks(60),
        TaskRow(task=TaskId(1, 7), state="RESTORING", worker="w", restored=30, remaining=70),
    )

    text = drawn(snapshot(rows), height=24, width=120)

    assert "1_7" in text
    assert "30%" in text
    assert "0_59" in text
    assert "more" in text


def test_standbys_and_warm_ups_are_shown_with_what_they_have_left() -> None:
    copies = (
        CopyRow(worker="word-count-w-1", role=Role.STANDBY, is_caught_up=True),
        CopyRow(worker="word-count-w-2", role=Role.WARMUP, behind=1_203),
    )
    shown = snapshot((replace(tasks(1)[0], copies=copies),))

    text = drawn(shown, width=140)

    assert "1/1 standbys · 1 warming up" in text
    assert "standby w-1 ●  warm-up w-2 ◐ 1,203 left" in text
    assert max(map(len, drawn(shown, width=70).splitlines())) <= 70
    assert list(Narrator().tell(shown))[-1].endswith(
        "1/1 standbys caught up, 1 warming up, 1,203 left"
    )


def test_a_rate_is_that_of_the_last_seconds_and_starts_anew_with_a_new_count() -> None:
    rate = Rate()

    assert rate.add(0, 0.0) == 0.0
    assert rate.add(100, 1.0) == 100.0
    assert [rate.add(100, second) for second in (2.0, 3.0, 4.0, 5.0)][-1] == 0.0
    assert rate.add(10, 6.0) == 0.0
    assert rate.add(40, 7.0) == 30.0


def test_times_and_bars_are_short() -> None:
    assert [duration(seconds) for seconds in (0, 65, 3_725)] == ["0:00", "1:05", "1:02:05"]
    assert sparkline([0.0, 4.0, 8.0]) == "▁▄█"
    assert sparkline([]) == ""


def test_lines_tell_each_event_once() -> None:
    narrator = Narrator()
    shown = snapshot(tasks(1))

    first, second = list(narrator.tell(shown)), list(narrator.tell(shown))

    assert [line for line in first if "takes 0_0" in line]
    assert second == []


@pytest.mark.parametrize("word", ["paused", "pausing"])
def test_a_pause_stands_beside_the_state(word: str) -> None:
    shown = replace(snapshot(tasks(1)), paused=word)

    assert f"RUNNING {word}" in drawn(shown).splitlines()[0]
    assert any(f"RUNNING, {word}" in line for line in Narrator().tell(shown))
    assert word not in drawn(snapshot(tasks(1)))


def test_a_long_problem_takes_no_room_from_the_numbers() -> None:
    worker = WorkerRow(name="word-count-w-0", state="ended", pid=4711, problem="it broke " * 40)
    shown = Snapshot(app="word-count", workers=(worker,))

    line = next(line for line in drawn(shown).splitlines() if "w-0" in line)

    assert "4711" in line
    assert "it broke" in line


def test_lines_say_what_the_start_waits_for() -> None:
    narrator = Narrator()
    shown = Snapshot(app="counts", state="starting", replicas=2, is_private_kafka=True)

    assert list(narrator.tell(shown)) == [
        "counts: starting the private Kafka",
        "counts: starting",
    ]
    assert list(narrator.tell(replace(shown, uptime_s=9.0))) == []
    told = replace(shown, uptime_s=9.1, kafka="localhost:9092", state="CREATED", reason="w-0 joins")
    [address, why] = narrator.tell(told)
    assert address == "counts: private Kafka at localhost:9092"
    assert why.startswith("counts: CREATED, 0/2 workers")
    assert why.endswith(": w-0 joins")
    [waiting] = narrator.tell(replace(told, uptime_s=9.2, reason="waiting for localhost:9092"))
    assert waiting.endswith(": waiting for localhost:9092")


def test_somebody_who_joins_a_cluster_is_not_told_that_its_workers_start() -> None:
    shown = replace(snapshot(()), state="starting", events=())

    assert list(Narrator().tell(shown)) == ["word-count: Kafka at 127.0.0.1:9092"]


def test_a_driver_that_has_ended_well_is_not_said_to_have_no_batch_yet() -> None:
    assert driver_line(DriverRow(state="ended", generation=5)) == "generation 5"


def test_global_stores_that_are_being_filled_are_shown_with_what_is_left() -> None:
    shown = snapshot(tasks(1))
    workers = (replace(shown.workers[0], filling=41_000), *shown.workers[1:])
    filling = replace(shown, workers=workers)

    assert "filling global stores, 41,000 left" in drawn(filling, width=140)
    told = list(Narrator().tell(filling))
    assert any("filling global stores, 41,000 left" in line for line in told)
    assert "filling" not in drawn(shown)
