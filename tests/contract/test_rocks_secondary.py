"""A secondary reads what a primary has written, as of the last time it caught up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.errors import StateError
from headwater.ports import Position
from headwater.state import RocksBackend, RocksOptions
from headwater.state.backends.rocks_secondary import RocksSecondary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = [(b"", b"empty"), (b"a", b"1"), (b"b", b"2"), (b"\xff" * 8, b"high")]
HERE = Position("topic-id", 17, 1_700_000_000_000)
SMALL = RocksOptions(write_buffer_bytes=64 * 1024)


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[RocksBackend]:
    opened = RocksBackend(tmp_path / "db", options=SMALL)
    opened.write(ROWS, HERE)
    yield opened
    opened.close()


@pytest.fixture
def secondary(primary: RocksBackend, tmp_path: Path) -> Iterator[RocksSecondary]:
    opened = RocksSecondary(primary.path, tmp_path / "secondary")
    yield opened
    opened.close()


def test_a_secondary_reads_what_was_there_when_it_was_opened(secondary: RocksSecondary) -> None:
    assert [secondary.get(key) for key, _ in ROWS] == [value for _, value in ROWS]
    assert list(secondary.range(None, None)) == ROWS
    assert list(secondary.range(b"a", None, reverse=True)) == ROWS[:0:-1]
    assert secondary.position() == HERE


def test_it_shows_what_came_since_once_it_has_caught_up(
    primary: RocksBackend, secondary: RocksSecondary
) -> None:
    later = Position("topic-id", 18, 1_700_000_000_001)
    primary.write([(b"a", None), (b"c", b"3")], later)

    assert (secondary.get(b"a"), secondary.get(b"c"), secondary.position()) == (b"1", None, HERE)
    assert secondary.catch_up()
    assert (secondary.get(b"a"), secondary.get(b"c"), secondary.position()) == (None, b"3", later)
    assert not secondary.catch_up(), "nothing is new"


def test_an_open_range_goes_on_showing_what_it_showed(
    primary: RocksBackend, secondary: RocksSecondary
) -> None:
    seen = secondary.range(None, None)
    assert next(seen) == ROWS[0]
    primary.write([(b"a", None), (b"aa", b"new")], None)
    secondary.catch_up()

    assert list(seen) == ROWS[1:]
    assert [key for key, _ in secondary.range(None, None)] == [b"", b"aa", b"b", b"\xff" * 8]


def test_it_follows_flushes_and_compactions(
    primary: RocksBackend, secondary: RocksSecondary
) -> None:
    for turn in range(100):
        value = b"%d" % turn * 100
        primary.write([(b"key-%d" % n, value) for n in range(500)], None)
        secondary.catch_up()
        # Nothing is missed when a log is flushed and deleted meanwhile.
        assert {secondary.get(b"key-%d" % n) for n in range(500)} == {value}
    assert len(list(secondary.range(b"key-", b"key-:"))) == 500


def test_it_does_not_follow_from_one_writer_to_the_next(
    primary: RocksBackend, secondary: RocksSecondary, tmp_path: Path
) -> None:
    primary.write([(b"c", b"3")], None)
    primary.close()
    again = RocksBackend(primary.path)
    again.write([(b"d", b"4")], None)

    with pytest.raises(StateError, match="another process has begun to write it"):
        secondary.catch_up()
    anew = RocksSecondary(primary.path, tmp_path / "anew")
    assert (anew.get(b"c"), anew.get(b"d")) == (b"3", b"4")
    anew.close()
    again.close()


def test_several_read_one_database(primary: RocksBackend, tmp_path: Path) -> None:
    readers = [RocksSecondary(primary.path, tmp_path / f"reader-{n}") for n in range(3)]
    primary.write([(b"c", b"3")], None)

    assert [reader.catch_up() for reader in readers] == [True] * 3
    assert [reader.get(b"c") for reader in readers] == [b"3"] * 3
    for reader in readers:
        reader.close()
    assert not any((tmp_path / f"reader-{n}").exists() for n in range(3))


def test_a_secondary_is_not_written_to(secondary: RocksSecondary) -> None:
    with pytest.raises(StateError, match="open for reading only"):
        secondary.write([(b"a", b"9")], None)


def test_there_is_nothing_to_read_before_the_writer_has_begun(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="its writer has not opened it"):
        RocksSecondary(tmp_path / "db", tmp_path / "secondary")
