"""What every backend promises, run on each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.support.stores import DictStore

from headwater import ConfigError, RocksDBConfigSetter, StoreSpec
from headwater.config import StreamsConfig
from headwater.ids import TaskId
from headwater.native.blocks import shared_blocks
from headwater.ports import Position
from headwater.state import BlockCache, MemoryBackend, RocksBackend, StateDirectory, open_backend
from headwater.state.backends.custom import CustomBackend
from headwater.state.backends.lru import LruBackend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from headwater.ports import Backend

ROWS = [
    (b"", b"empty"),
    (b"a", b"1"),
    (b"ab", b"2"),
    (b"b", b"3"),
    (b"\xff" * 8, b"high"),
    (b"\xff" * 9, b"higher"),
]
HERE = Position("topic-id", 17, 1_700_000_000_000)


@pytest.fixture(params=["memory", "lru", "custom", "rocks"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    in_memory: dict[str, Backend] = {
        "memory": MemoryBackend(),
        "lru": LruBackend(1_000),
        "custom": CustomBackend("counts", DictStore()),
    }
    opened = in_memory.get(request.param) or RocksBackend(tmp_path / "db")
    yield opened
    opened.close()


def test_what_was_written_is_read(backend: Backend) -> None:
    backend.write(ROWS, None)

    assert [backend.get(key) for key, _ in ROWS] == [value for _, value in ROWS]
    assert backend.get(b"absent") is None


def test_a_value_may_be_empty(backend: Backend) -> None:
    backend.write([(b"k", b"")], None)

    assert backend.get(b"k") == b""
    assert list(backend.range(None, None)) == [(b"k", b"")]


def test_a_later_write_replaces_an_earlier_one(backend: Backend) -> None:
    backend.write([(b"k", b"1"), (b"k", b"2")], None)
    assert backend.get(b"k") == b"2"

    backend.write([(b"k", b"3"), (b"k", None)], None)
    assert backend.get(b"k") is None


def test_deleting_an_absent_key_is_harmless(backend: Backend) -> None:
    backend.write([(b"k", None)], None)

    assert list(backend.range(None, None)) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, [b"", b"a", b"ab", b"b", b"\xff" * 8, b"\xff" * 9]),
        (b"a", b"b", [b"a", b"ab", b"b"]),
        (b"a", b"a", [b"a"]),
        (b"aa", None, [b"ab", b"b", b"\xff" * 8, b"\xff" * 9]),
        (None, b"aa", [b"", b"a"]),
        (b"c", b"d", []),
        (b"b", b"a", []),
        (b"\xff" * 8, None, [b"\xff" * 8, b"\xff" * 9]),
        (None, b"\xff" * 8, [b"", b"a", b"ab", b"b", b"\xff" * 8]),
        (b"\xff" * 20, None, []),
    ],
)
def test_a_range_has_both_ends_and_the_order_of_bytes(
    backend: Backend, start: bytes | None, end: bytes | None, expected: list[bytes]
) -> None:
    backend.write(ROWS, HERE)

    assert [key for key, _ in backend.range(start, end)] == expected
    assert [key for key, _ in backend.range(start, end, reverse=True)] == expected[::-1]


def test_a_range_shows_the_store_as_it_was_when_asked_for(backend: Backend) -> None:
    backend.write(ROWS[:3], None)
    seen = backend.range(None, None)

    backend.write([(b"a", None), (b"aa", b"new")], None)

    assert list(seen) == ROWS[:3]
    assert [key for key, _ in backend.range(None, None)] == [b"", b"aa", b"ab"]


def test_the_position_travels_with_the_data_and_is_no_key(backend: Backend) -> None:
    assert backend.position() is None

    backend.write(ROWS, HERE)
    backend.write([(b"more", b"data")], None)

    assert backend.position() == HERE
    assert len(list(backend.range(None, None))) == len(ROWS) + 1


def test_a_batch_that_cannot_be_built_changes_nothing(backend: Backend) -> None:
    def broken() -> Iterator[tuple[bytes, bytes | None]]:
        yield b"k", b"v"
        raise ValueError("a value does not fit its serde")

    with pytest.raises(ValueError, match="does not fit"):
        backend.write(broken(), HERE)

    assert backend.get(b"k") is None
    assert backend.position() is None


def test_the_number_of_entries_is_about_right(backend: Backend) -> None:
    backend.write([(b"%d" % n, b"v") for n in range(100)], HERE)

    assert 90 <= backend.approximate_num_entries() <= 110


def test_closing_twice_is_harmless_and_ends_open_ranges(backend: Backend) -> None:
    backend.write(ROWS, None)
    seen = backend.range(None, None)
    next(seen)

    backend.close()
    backend.close()


def test_rocks_keeps_data_and_position_across_a_close(tmp_path: Path) -> None:
    first = RocksBackend(tmp_path / "db")
    first.write(ROWS, HERE)
    unfinished = first.range(None, None)
    next(unfinished)
    first.close()

    second = RocksBackend(tmp_path / "db")

    assert list(second.range(None, None)) == ROWS
    assert second.position() == HERE
    second.close()


class Noting(RocksDBConfigSetter):
    """Notes what it is asked for, and sets what the files show."""

    noted: ClassVar[list[str]] = []

    def set_config(self, store_name: str, options: Any, configs: Mapping[str, object]) -> None:
        self.noted.append(f"{store_name} {configs['mine']}")
        options.set_num_levels(3)

    def close(self, store_name: str, options: Any) -> None:
        self.noted.append(f"{store_name} closed")


def test_rocks_takes_the_options_of_the_application(tmp_path: Path) -> None:
    Noting.noted.clear()
    blocks = BlockCache(config_setter=Noting, configs={"mine": 7})
    spec = StoreSpec(name="counts")
    for _ in range(2):
        directory = StateDirectory(tmp_path, "app").store(TaskId(0, 0), "counts")
        backend = open_backend(spec, directory, holder="test", block_cache=blocks)
        backend.write([(b"k", b"v")], HERE)
        backend.close()

    assert Noting.noted == ["counts 7", "counts closed"] * 2
    newest = max(tmp_path.glob("**/OPTIONS-*"))
    assert "num_levels=3" in newest.read_text()


def test_a_setter_that_is_none_is_refused() -> None:
    config = StreamsConfig.parse(
        {"application.id": "app", "rocksdb.config.setter": "headwater:Stores"}
    )

    with pytest.raises(ConfigError, match="is no RocksDBConfigSetter"):
        shared_blocks(config)
