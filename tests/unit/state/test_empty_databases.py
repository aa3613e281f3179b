"""The databases that a process makes after its first one are copies of that one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from headwater.model.rocksdb import RocksDBConfigSetter
from headwater.ports import Position
from headwater.state.backends.copies import EmptyDatabase
from headwater.state.backends.rocks import BlockCache, RocksBackend
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.expiry import Expiry

if TYPE_CHECKING:
    from pathlib import Path

HERE = Position("id", 1, 1)


def opened_before(path: Path) -> int:
    """The number of the manifest, which grows with each opening of a database."""
    return int((path / "CURRENT").read_text().strip().partition("-")[2])


@pytest.fixture
def blocks(tmp_path: Path) -> BlockCache:
    """Those of a process that has made a database, and used it."""
    blocks = BlockCache()
    first = RocksBackend(tmp_path / "first", block_cache=blocks)
    first.write([(b"k", b"of the first")], HERE)
    first.close()
    return blocks


def is_new(backend: RocksBackend) -> bool:
    """Whether a store holds nothing, and keeps what it is given."""
    held = list(backend.range(None, None)), backend.position()
    backend.write([(b"k", b"v")], HERE)
    return held == ([], None) and backend.get(b"k") == b"v"


def test_the_second_database_is_a_copy_that_holds_nothing(
    tmp_path: Path, blocks: BlockCache
) -> None:
    second = RocksBackend(tmp_path / "second", block_cache=blocks)

    assert opened_before(tmp_path / "second") > opened_before(tmp_path / "first")
    assert is_new(second)
    second.close()
    again = RocksBackend(tmp_path / "second")
    assert list(again.range(None, None)) == [(b"k", b"v")]
    assert again.position() == HERE
    again.close()
    first = RocksBackend(tmp_path / "first")
    assert first.get(b"k") == b"of the first"
    first.close()


def test_a_store_of_windows_begins_as_a_copy_too(tmp_path: Path, blocks: BlockCache) -> None:
    expiry = Expiry(segment_ms=10, retention_ms=20, persistent=True)
    windows = SegmentedRocksBackend(tmp_path / "windows", expiry, 8, block_cache=blocks)
    row = b"k" + (25).to_bytes(8, "big"), b"v"

    windows.write([row], HERE)

    assert opened_before(tmp_path / "windows") > opened_before(tmp_path / "first")
    assert list(windows.range(None, None)) == [row]
    windows.close()


def test_an_end_at_any_moment_leaves_what_can_be_opened(tmp_path: Path, blocks: BlockCache) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert not blocks.empty.lay(whole)
    for left in ("nothing", "no CURRENT", "an identity without text", "all"):
        path = tmp_path / left
        shutil.copytree(whole, path)
        if left == "an identity without text":
            (path / "IDENTITY").write_bytes(b"")
        for file in list(path.iterdir()):
            if left == "nothing" or (left == "no CURRENT" and file.name == "CURRENT"):
                file.unlink()

        backend = RocksBackend(path, block_cache=blocks)

        assert is_new(backend), left
        backend.close()


def test_what_is_there_stays(tmp_path: Path, blocks: BlockCache) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")

    assert not blocks.empty.lay(tmp_path / "kept")

    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["file"]


class Setting(RocksDBConfigSetter):
    """Sets nothing, but could."""

    def set_config(self, store_name: str, options: object, configs: object) -> None:
        del store_name, options, configs


def test_with_options_of_a_user_each_database_is_made_for_itself(tmp_path: Path) -> None:
    blocks = BlockCache(config_setter=Setting)
    for name in ("first", "second"):
        RocksBackend(tmp_path / name, block_cache=blocks).close()

    assert opened_before(tmp_path / "second") == opened_before(tmp_path / "first")
    assert EmptyDatabase().lay(tmp_path / "first") is False
