"""A store that one process writes and others read: what readers are told of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.errors import StateError
from headwater.state.backends.rocks_shared import SharedRocks, SharedRocksReader
from headwater.state.position import (
    RebuildReason,
    decode_position,
    encode_position,
    judge_all,
    positions,
)
from headwater.state.published import Mark, Published

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[SharedRocks]:
    opened = SharedRocks(tmp_path / "db")
    opened.write([(b"a", b"1")], None)
    yield opened
    opened.close()


@pytest.fixture
def reader(writer: SharedRocks, tmp_path: Path) -> Iterator[SharedRocksReader]:
    opened = SharedRocksReader(writer.path, tmp_path / "reader")
    yield opened
    opened.close()


def test_a_reader_is_told_which_keys_changed(
    writer: SharedRocks, reader: SharedRocksReader
) -> None:
    assert reader.changes() == []
    writer.write([(b"a", b"2"), (b"\xff" * 9, b"x")], None)
    writer.write([(b"b", None)], None)

    assert reader.changes() == [b"a", b"\xff" * 9, b"b"]
    assert reader.batch == writer.batch
    assert reader.changes() == []


def test_what_says_so_is_no_entry(writer: SharedRocks, reader: SharedRocksReader) -> None:
    writer.write([(b"\xff" * 9, b"x")], positions("id", [3, 4], 5))
    reader.changes()

    assert list(reader.range(None, None)) == [(b"a", b"1"), (b"\xff" * 9, b"x")]
    assert list(writer.range(None, None, reverse=True)) == [(b"\xff" * 9, b"x"), (b"a", b"1")]
    assert reader.position() == positions("id", [3, 4], 5)


def test_what_says_so_is_not_counted(writer: SharedRocks, reader: SharedRocksReader) -> None:
    for number in range(300):
        writer.write([(b"b", b"%d" % number)], positions("id", [number], 5))
    reader.changes()
    assert reader.approximate_num_entries() == 2


def test_too_many_changes_are_all_changes(writer: SharedRocks, reader: SharedRocksReader) -> None:
    writer.write([(b"%d" % n, b"x") for n in range(2_001)], None)
    assert reader.changes() is None
    for _ in range(257):
        writer.write([(b"a", b"3")], None)
    assert reader.changes() is None
    writer.write([(b"a", b"4")], None)
    assert reader.changes() == [b"a"]


def test_a_writer_that_does_not_tell_has_changed_everything(
    writer: SharedRocks, reader: SharedRocksReader
) -> None:
    writer.tells = False
    writer.write([(b"a", b"2")], None)
    assert reader.changes() is None

    writer.tells = True
    writer.write([(b"a", b"3")], None)
    assert reader.changes() == [b"a"]


def test_batches_are_counted_on_after_a_restart(
    writer: SharedRocks, reader: SharedRocksReader
) -> None:
    before = writer.batch
    writer.close()
    again = SharedRocks(writer.path)
    again.write([(b"c", b"1")], None)

    assert again.batch == before + 1
    with pytest.raises(StateError, match="another process has begun to write it"):
        reader.changes()
    reader.reopen()
    assert (reader.batch, reader.get(b"c")) == (again.batch, b"1")
    again.close()


def test_a_log_that_is_deleted_while_it_is_looked_for_has_all_looked_at_again(
    writer: SharedRocks, reader: SharedRocksReader
) -> None:
    log = writer.path / "000001.log"
    log.touch()
    looks: list[bool] = []

    class Deleting:
        """The database of a reader, whose writer deletes a log meanwhile."""

        def try_catch_up_with_primary(self) -> None:
            looks.append(log.exists())
            log.unlink(missing_ok=True)

    assert reader._follows(Deleting())
    assert looks == [True, False]


def test_numbers_are_seen_by_whoever_maps_them(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be used"):
        Published(tmp_path / "published")
    ours = Published(tmp_path / "published", create=True)
    theirs = Published(tmp_path / "published")
    assert theirs.read() == Mark(0, 0)

    ours.write(Mark(1, 17))

    assert theirs.read() == Mark(1, 17)
    ours.close()
    assert Published(tmp_path / "published", create=True).read() == Mark(1, 17)
    theirs.close()


def test_a_position_of_a_whole_topic_is_read_as_it_was_written() -> None:
    position = positions("topic-id", [5, 0, 12], 1_700_000_000_000)

    assert decode_position(encode_position(position)) == position
    assert position.offset == 17
    assert decode_position(encode_position(position)[:20]).format == 0


@pytest.mark.parametrize(
    ("offsets", "topic_id", "now_ms", "expected"),
    [
        ([5, 7], "id", 1_000, (5, 7, 2)),
        ([5, 7, 2], "id", 1_000, (5, 7, 2)),
        ([5, 7, 2, 0], "id", 1_000, RebuildReason.OTHER_TOPIC),
        ([5, 7], "other", 1_000, RebuildReason.OTHER_TOPIC),
        ([5, 1], "id", 1_000, RebuildReason.BELOW_LOG_START),
        ([11, 7], "id", 1_000, RebuildReason.ABOVE_LOG_END),
        ([5, 7], "id", 86_400_000, RebuildReason.TOO_OLD),
    ],
)
def test_where_a_store_made_of_a_whole_topic_goes_on(
    offsets: list[int], topic_id: str, now_ms: int, expected: object
) -> None:
    found = judge_all(
        positions("id", offsets, 0),
        topic_id=topic_id,
        starts=[0, 2, 2],
        ends=[10, 10, 10],
        now_ms=now_ms,
        delete_retention_ms=86_400_000,
    )

    assert found == expected


def test_a_store_that_never_committed_begins_anew() -> None:
    facts = {"topic_id": "id", "starts": [0], "ends": [0], "now_ms": 0, "delete_retention_ms": 0}

    assert judge_all(None, **facts) is RebuildReason.NO_POSITION  # type: ignore[arg-type]
