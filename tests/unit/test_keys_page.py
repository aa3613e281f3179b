"""The page of what a record costs by how much is held: its input, its figures, its words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import keys, report, works

if TYPE_CHECKING:
    from pathlib import Path

_STEPS = (keys.Step(100, 150, 1_000), keys.Step(1_000, 900, 1_000))


def _run(system: str, cpu_us: float, grown: float, *, factor: float = 1.0) -> dict[str, Any]:
    parts = [{"us": cost * factor, "cpu_us": cost} for cost in (cpu_us, cpu_us * grown)]
    return {"system": system, "parts": parts, "outputs": 1, "others": 0.1}


@pytest.mark.parametrize("row", keys.ROWS.values(), ids=list(keys.ROWS))
def test_every_row_has_a_work_and_grows(row: keys.Row) -> None:
    held = [step.held for step in row.steps]

    assert callable(getattr(works, row.work))
    assert held == sorted(set(held))
    assert len(held) == (4 if row.work == "count" else 3)


def test_each_step_holds_its_keys_before_it_is_measured() -> None:
    records = [key for key, _ in keys.growing(_STEPS)]
    row = keys.Row("", "tumbling", _STEPS, "keys")

    begun, ended, begun_again, _ = row.marks
    assert len(set(records[:begun])) == 100
    assert max(records[:ended]) < 100
    assert len(set(records[:begun_again])) == 1_000
    assert len(records) == row.marks[-1]


def test_records_lie_closer_together_where_there_are_more_keys() -> None:
    at = [time for _, time in keys.growing(_STEPS)]

    assert at == sorted(at)
    assert at[1_149] - at[149] == pytest.approx(1_000 * 100, rel=0.01)
    assert at[-1] - at[-1_000] == pytest.approx(1_000 * 10, rel=0.01)


def test_so_many_records_of_a_key_lie_within_a_second() -> None:
    steps = (keys.Step(10, 0, 1_000), keys.Step(100, 0, 1_000))
    records = list(keys.dense(steps))

    for number, step in enumerate(steps):
        part = records[number * 1_000 : (number + 1) * 1_000]
        assert part[-1][1] - part[0][1] == 999
        assert len(Counter(key for key, _ in part)) == 1_000 // step.held
    assert records[1_000][1] - records[999][1] > 10_000


def test_a_part_costs_what_lies_between_its_marks() -> None:
    marks = [(100, 1.0, 0.5), (300, 2.0, 0.9), (400, 5.0, 5.0), (500, 5.5, 5.1)]

    assert keys.parts_of(marks) == [
        {"us": 5_000.0, "cpu_us": 2_000.0},
        {"us": 5_000.0, "cpu_us": 1_000.0},
    ]


def test_growth_is_that_of_cpu_time_over_the_step_before_by_medians() -> None:
    row = keys.Row("count", "tumbling", _STEPS, "keys")
    ours = [_run("headwater", 5.0, 1.5), _run("headwater", 4.0, 9.0), _run("headwater", 6.0, 1.5)]
    java = [_run("java", 20.0, 1.1) for _ in range(3)]

    first, second = keys.lines_of(row, [*ours, *java])

    assert first == (
        "| count | 100 keys | 200,000, 50,000 | **4.00x** (3.33 to 5.00) | 5.0, 20.0 |  | 0.1 |"
    )
    assert "| 9.0, 22.0 | 1.80, 1.10 |" in second


def test_a_single_round_beside_others_is_provisional() -> None:
    row = keys.Row("count", "tumbling", _STEPS, "keys")

    lines = keys.lines_of(row, [_run("headwater", 5.0, 1.0), _run("java", 20.0, 1.0)])

    assert all(line.endswith("| 0.1 (provisional) |") for line in lines)


def test_what_a_cache_costs_stands_beside_what_none_does() -> None:
    row = keys.Row("count", "count", _STEPS, "keys")
    without = [_run("headwater", 5.0, 1.5), _run("java", 20.0, 1.0)]
    cached = [_run("headwater", 4.0, 2.0), _run("java", 10.0, 2.5)]

    assert keys.beside(row, without, cached) == [
        "| count | 100 keys | 5.0, 4.0 | 0.80 | 20.0, 10.0 | 0.50 |",
        "| count | 1,000 keys | 7.5, 8.0 | 1.07 | 20.0, 25.0 | 1.25 |",
    ]


def test_rows_of_one_work_and_as_many_keys_run_in_turn() -> None:
    assert keys.in_turn(["count", "hopping", "count-cached"]) == [
        ["count", "count-cached"],
        ["hopping"],
    ]
    assert ["sliding"] in keys.in_turn(keys.ROWS)


def test_every_row_with_a_cache_has_one_without() -> None:
    cached = {name: row for name, row in keys.ROWS.items() if row.cache}

    assert cached
    for name, row in cached.items():
        other = keys.ROWS[name.removesuffix(keys.CACHED)]
        assert not other.cache
        assert (row.topic, row.work) == (other.topic, other.work)


def test_the_page_has_the_newest_runs_and_words(tmp_path: Path) -> None:
    written = keys.write(keys.RAW, tmp_path / "KEYS.md")

    assert keys.PAGE.read_text() == written, "run `python -m benchmarks.keys --page`"


def test_a_quick_run_has_two_steps_and_its_own_input() -> None:
    row = keys.ROWS["session"]
    quick = keys.shortened(row)

    assert [step.held for step in quick.steps] == [10_000, 100_000]
    assert quick.topic != row.topic
    assert report.HERE / "KEYS.md" == keys.PAGE
