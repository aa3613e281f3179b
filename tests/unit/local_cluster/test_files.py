"""Resource files are whole, and changed by one writer at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from headwater.errors import SpecError
from headwater_operator.local import files
from headwater_operator.local.events import read_events, write_event
from headwater_operator.overview.events import Event, EventKind

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_file_is_nothing(tmp_path: Path) -> None:
    assert files.read(tmp_path / "app.json") is None
    assert files.read(tmp_path / "no" / "directory" / "app.json") is None


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "app.json"
    path.write_text(text)

    with pytest.raises(SpecError, match=r"app\.json"):
        files.read(path)


def test_changes_by_many_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "count.json"
    files.replace(path, {"count": 0})

    def add_one(_: int) -> None:
        files.update(path, lambda data: {"count": int(str((data or {})["count"])) + 1})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, range(64)))

    assert files.read(path) == {"count": 64}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock", "count.json"]


def test_an_update_that_changes_nothing_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.json"
    files.replace(path, {"a": 1})
    before = path.stat().st_ino

    files.update(path, lambda data: data)
    files.update(path, lambda _: None)

    assert path.stat().st_ino == before


def test_events_are_read_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = Event(at_ms=1, kind=EventKind.STATE, text="RUNNING")
    second = Event(at_ms=2, kind=EventKind.TASKS, text="takes 0_1", worker="w-0")

    write_event(path, first)
    events, position = read_events(path, since=-1)
    write_event(path, second)
    later, _ = read_events(path, since=position)

    assert events == [first]
    assert later == [second]


def test_half_a_line_of_events_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    event = Event(at_ms=1, kind=EventKind.STATE, text="RUNNING")
    write_event(path, event)
    whole = path.read_bytes()
    path.write_bytes(whole[:10])

    none, position = read_events(path, since=0)
    path.write_bytes(whole)

    assert none == []
    assert read_events(path, since=position)[0] == [event]
