"""The table of speed: its rows have groups that run, and a run of some leaves the others alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import report, run, works

if TYPE_CHECKING:
    from pathlib import Path


def _run(system: str, rate: float) -> dict[str, Any]:
    return {"system": system, "rate": rate, "cpu_us": 1e6 / rate, "records": 1_000, "load": 0.1}


def test_every_row_has_a_group_that_runs() -> None:
    assert {row.group for row in report.ROWS} <= set(run.GROUPS)


@pytest.mark.parametrize("work", [*works.WINDOWED, *works.JOINS])
def test_every_window_and_join_has_a_row(work: str) -> None:
    assert callable(getattr(works, work))
    assert [row for row in report.ROWS if row.group == work]


def test_a_run_of_some_groups_keeps_the_rows_of_the_others(tmp_path: Path) -> None:
    raw, table = tmp_path / "results.json", tmp_path / "RESULTS.md"
    report.keep("count", [_run("headwater", 200_000.0), _run("java", 100_000.0)], raw)
    report.keep("table_join", [_run("headwater", 90_000.0), _run("java", 60_000.0)], raw)
    report.keep("table_join", [_run("headwater", 60_000.0), _run("java", 60_000.0)], raw)

    text = report.write(raw, table)

    rows = [line for line in text.splitlines() if line.startswith("| ") and "java: " in line]
    assert text == table.read_text()
    assert ["**2.00x**" in row for row in rows] == [True, False]
    assert "a stream joined with a table of 100,000 rows, 10 MB cache" in rows[1]
    assert "**1.00x**" in rows[1]
    assert "floor met" in rows[1]


def test_commits_stand_beside_the_rates_of_both_sides(tmp_path: Path) -> None:
    raw, table = tmp_path / "results.json", tmp_path / "RESULTS.md"
    ours = {**_run("headwater", 200_000.0), "seconds": 10.0, "commits": 98}
    java = {**_run("java", 100_000.0), "seconds": 20.0, "commits": 25}
    report.keep("count-eos-as-often", [ours, java], raw)

    text = report.write(raw, table)

    assert "| 200,000 records/s, 9.8 commits/s | java: 100,000 records/s, 1.2 commits/s |" in text
    assert "| count-eos-as-often | headwater | 200,000 | 5.00 | 98 |" in text


def test_the_known_runs_are_kept_as_they_were(tmp_path: Path) -> None:
    raw = tmp_path / "results.json"
    report.keep("count", [_run("headwater", 1.0)], raw)
    before = json.loads(raw.read_text())["count"]

    report.keep("session-0", [_run("headwater", 2.0)], raw)

    assert json.loads(raw.read_text())["count"] == before


def test_the_page_has_the_newest_notes_and_runs(tmp_path: Path) -> None:
    written = report.write(report.RAW, tmp_path / "RESULTS.md")

    assert report.TABLE.read_text() == written, "run `python -m benchmarks.report`"
    assert (report.HERE / "NOTES.md").read_text() in written


def test_each_group_is_named_with_the_machine_that_it_ran_on(tmp_path: Path) -> None:
    raw = tmp_path / "results.json"
    report.keep("count", [_run("headwater", 1.0)], raw)
    known = json.loads(raw.read_text())
    raw.write_text(json.dumps({**known, "old": {"ended": "2026-01-01 00:00", "runs": []}}))

    text = report.write(raw, tmp_path / "RESULTS.md")

    assert f"* {report.machine()}: count.\n* Not noted; see the notes below: old." in text
