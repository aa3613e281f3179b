"""What a writer flushes is seen by readers whose memory holds an older part of the same log.

RocksDB's ``get`` in a secondary returns that older part, its iterators the newest, until the writer
writes again.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from headwater.errors import StateError
from headwater.ids import TaskId
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.queries.secondaries import DiskOpening, Pace, SecondaryStore
from headwater.ports import Position
from headwater.state import BlockCache
from headwater.state.backends.rocks import RocksBackend
from headwater.state.backends.rocks_shared import SharedRocks, SharedRocksReader
from headwater.state.backends.secondary import StoreSecondary, open_secondary
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.directory import StateDirectory
from headwater.state.expiry import Expiry
from headwater.state.keys import suffix_bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.state.backends.secondary import StoreSecondary as Reader

WINDOWS = StoreSpec(
    name="windows", kind=StoreKind.WINDOW, retention_ms=600_000, window_size_ms=10_000
)


def row_of(key: bytes, start: int) -> bytes:
    """The key of a window's row."""
    return key + struct.pack(">qi", start, 0)


def at(number: int) -> Position:
    return Position("id", number, number)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RocksBackend]:
    opened = RocksBackend(tmp_path / "db")
    yield opened
    opened.close()


def test_position_keys_and_ranges_are_of_one_commit(writer: RocksBackend, tmp_path: Path) -> None:
    writer.write([(b"a", b"1"), (b"b", b"1")], at(1))
    reader = StoreSecondary(writer.path, tmp_path / "scratch")
    writer.write([(b"a", b"2")], at(2))
    reader.catch_up()
    writer.write([(b"a", b"3"), (b"b", b"3"), (b"c", b"3")], at(3))
    writer._db.flush()  # as when a write buffer is full: the log is deleted

    assert reader.catch_up()

    assert reader.position() == at(3)
    assert dict(reader.range(None, None)) == {b"a": b"3", b"b": b"3", b"c": b"3"}
    assert [reader.get(key) for key in (b"a", b"b", b"c", b"d", b"")] == [
        b"3",
        b"3",
        b"3",
        None,
        None,
    ]
    reader.close()


def test_a_window_is_read_as_it_is_in_the_range_of_all(tmp_path: Path) -> None:
    suffix = suffix_bytes_of(WINDOWS)
    writer = SegmentedRocksBackend(tmp_path / "db", expiry=Expiry.of(WINDOWS), suffix_bytes=suffix)
    row = row_of(b"k", 10_000)
    writer.write([(row, b"1")], at(1))
    reader: Reader = open_secondary(WINDOWS, writer.path, tmp_path / "scratch", name="windows")
    writer.write([(row, b"2")], at(2))
    writer._db.flush()
    for segment in writer._segments.values():
        segment.flush()

    with pytest.raises(StateError, match="cannot be followed: it has other tables"):
        reader.catch_up()

    reader = open_secondary(WINDOWS, writer.path, tmp_path / "again", name="windows")
    assert reader.position() == at(2)
    assert dict(reader.range(None, None)) == {row: b"2"}
    assert reader.get(row) == b"2"
    assert reader.get(row_of(b"k", 20_000)) is None
    reader.close()
    writer.close()


def test_who_looks_up_global_rows_finds_the_newest(tmp_path: Path) -> None:
    writer = SharedRocks(tmp_path / "db")
    writer.write([(b"a", b"1")], at(1))
    reader = SharedRocksReader(writer.path, tmp_path / "scratch")
    writer.write([(b"a", b"2")], at(2))
    assert reader.changes() == [b"a"]
    writer.write([(b"a", b"3"), (b"b", b"3")], at(3))
    writer._db.flush()

    assert reader.changes() == [b"a", b"b"]
    assert [reader.get(key) for key in (b"a", b"b", b"c")] == [b"3", b"3", None]

    writer.write([(b"a", b"4")], at(4))
    assert reader.changes() == [b"a"]
    assert [reader.get(key) for key in (b"a", b"b")] == [b"4", b"3"]
    reader.close()
    writer.close()


@pytest.mark.seeded(20)
def test_position_and_segments_are_of_one_commit_whatever_is_flushed(
    tmp_path: Path, seed: str
) -> None:
    """RocksDB flushes column families one by one; each has its part of a commit in memory, too."""
    draw, starts = random.Random(seed), (10_000, 700_000)
    directory = StateDirectory(tmp_path, "app").store(TaskId(0, 0), WINDOWS.directory_name)
    directory.path.mkdir(parents=True)
    writer = SegmentedRocksBackend(
        directory.database, expiry=Expiry.of(WINDOWS), suffix_bytes=suffix_bytes_of(WINDOWS)
    )
    store = SecondaryStore(DiskOpening(WINDOWS, directory, BlockCache()), lambda _: None, Pace())
    for number in range(1, 60):
        value = b"%d" % number
        rows = [(row_of(b"key-%d" % key, start), value) for key in range(20) for start in starts]
        writer.write(rows, at(number))
        for flushed in draw.sample([writer._db, *writer._segments.values()], draw.randrange(3)):
            flushed.flush()
        if draw.random() < 0.7:
            with store.reading(is_newest=True) as (backend, _):
                assert backend.position() == at(number)
                assert {value for _, value in backend.range(None, None)} == {value}
                assert backend.get(rows[0][0]) == value
    writer.close()
