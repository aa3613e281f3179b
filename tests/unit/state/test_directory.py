"""A store directory is held by one at a time, refuses newer formats, is listed and wiped."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater import failpoints
from headwater.errors import (
    StateError,
    StoreCorruptedError,
    StoreFormatError,
    StoreLockedError,
)
from headwater.ids import TaskId
from headwater.model.topology import StoreSpec
from headwater.ports import Position
from headwater.state import (
    ChangelogFacts,
    RocksBackend,
    StateDirectory,
    StoreRestorer,
    open_backend,
)
from headwater.state.directory import StoredStore, prepare
from headwater.state.position import Rebuild, RebuildReason

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.state.directory import StoreDirectory

TASK = TaskId(0, 3)
HERE = Position("topic-id", 17, 1)
SPEC = StoreSpec(name="counts")


def test_a_store_lies_where_kafka_streams_has_it(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")

    assert directory.path == tmp_path / "app" / "0_3" / "rocksdb" / "counts"
    assert not directory.path.exists()


def test_the_room_is_that_of_the_file_system(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    assert state.room() is None
    state.own()

    room = state.room()

    assert room is not None
    assert 0 < room.available <= room.size == shutil.disk_usage(tmp_path).total


def test_a_store_in_use_is_refused_and_the_holder_named(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    backend = open_backend(SPEC, state.store(TASK, "counts"), holder="StreamThread w-0-1")

    with pytest.raises(
        StoreLockedError, match=r"counts of task 0_3 .* by StreamThread w-0-1 \(process \d"
    ):
        open_backend(SPEC, state.store(TASK, "counts"), holder="second")

    backend.close()
    open_backend(SPEC, state.store(TASK, "counts"), holder="second").close()


def test_a_store_in_use_by_another_process_is_refused_until_that_one_ends(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from headwater.ids import TaskId\n"
        "from headwater.state import StateDirectory\n"
        "held = StateDirectory(pathlib.Path(sys.argv[1]), 'app').store(TaskId(0, 3), 'counts')\n"
        "held.acquire(holder='StateUpdater w-0'); print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")

    with pytest.raises(
        StoreLockedError, match=rf"StateUpdater w-0 \(process {child.pid}\); stop it"
    ):
        directory.acquire(holder="me")

    child.kill()
    child.communicate()
    directory.acquire(holder="me")
    directory.release()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    open_backend(SPEC, directory, holder="me").close()
    (directory.path / "format").write_text('{"format": 2}\n')

    with pytest.raises(StoreFormatError, match=r"format 2, written by a newer version; .* up to 1"):
        open_backend(SPEC, directory, holder="me")

    assert (directory.database / "CURRENT").exists()
    (directory.path / "format").write_text('{"format": 1}\n')
    open_backend(SPEC, directory, holder="me").close()


UNREADABLE = [None, b"", b"{}", b'{"format": "x"}', b'{"format": 0}', b"[]", b"\xff\xfe"]


def with_format(tmp_path: Path, text: bytes | None) -> StoreDirectory:
    """A store that was written, with another format file, or without one."""
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    backend = open_backend(SPEC, directory, holder="me")
    backend.write([(b"k", b"v")], HERE)
    backend.close()
    if text is None:
        (directory.path / "format").unlink()
    else:
        (directory.path / "format").write_bytes(text)
    return directory


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_store_whose_format_cannot_be_read_is_set_aside_and_rebuilt(
    tmp_path: Path, text: bytes | None
) -> None:
    directory = with_format(tmp_path, text)

    for _ in range(2):  # whoever is killed in between finds it so again
        with pytest.raises(StoreCorruptedError, match=r"format .* cannot be read; it must be"):
            open_backend(SPEC, directory, holder="me")
    facts = ChangelogFacts(
        topic_id=HERE.topic_id, log_start=0, log_end=99, delete_retention_ms=1 << 40
    )
    rebuilt = StoreRestorer(SPEC, directory, facts, now_ms=HERE.committed_at_ms, holder="me")

    assert rebuilt.verdict == Rebuild(RebuildReason.UNREADABLE_FORMAT, 0)
    assert rebuilt.kept == directory.path / "db.set-aside-1"
    rebuilt.close()
    kept = RocksBackend(rebuilt.kept)
    assert kept.get(b"k") == b"v"
    kept.close()
    assert json.loads((directory.path / "format").read_text()) == {"format": 1}
    open_backend(SPEC, directory, holder="me").close()


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_store_without_changelog_is_left_alone_if_its_format_cannot_be_read(
    tmp_path: Path, text: bytes | None
) -> None:
    directory = with_format(tmp_path, text)

    with pytest.raises(StoreFormatError, match="no changelog from which it could be rebuilt"):
        open_backend(replace(SPEC, logging=False), directory, holder="me")

    kept = RocksBackend(directory.database)
    assert kept.get(b"k") == b"v"
    kept.close()


def test_what_is_set_aside_never_replaces_what_was_set_aside_before(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    kept = []
    for _ in range(2):
        open_backend(SPEC, directory, holder="me").close()
        directory.acquire(holder="me")
        kept.append(directory.set_aside())
        assert directory.set_aside() is None
        directory.release()

    assert kept == [directory.path / "db.set-aside-1", directory.path / "db.set-aside-2"]


def test_wiping_empties_one_store_and_keeps_the_lock(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    for name in ("counts", "other"):
        backend = open_backend(SPEC, state.store(TASK, name), holder="me")
        backend.write([(b"k", b"v")], HERE)
        backend.close()
    directory = state.store(TASK, "counts")

    directory.acquire(holder="me")
    directory.wipe()
    with pytest.raises(StoreLockedError):
        state.store(TASK, "counts").acquire(holder="other")
    directory.release()

    assert state.stored() == [StoredStore(TASK, "other", HERE)]


def test_a_wipe_that_was_cut_short_is_finished_by_the_next_to_come(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    backend = open_backend(SPEC, directory, holder="me")
    backend.write([(b"k", b"v")], HERE)
    backend.close()
    directory.acquire(holder="me")
    failpoints.arm("directory.wiping=error")
    with pytest.raises(failpoints.FailpointError):
        directory.wipe()
    failpoints.disarm()
    directory.release()

    again = open_backend(SPEC, directory, holder="me")

    assert again.position() is None
    assert {path.name for path in directory.path.iterdir()} == {"lock", "format", "db"}
    again.close()


def test_stored_lists_every_store_with_its_position_even_while_it_is_open(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    assert state.stored() == []
    closed = open_backend(SPEC, state.store(TaskId(1, 0), "b"), holder="me")
    closed.write([(b"k", b"v")], HERE)
    closed.close()
    held = open_backend(SPEC, state.store(TaskId(0, 3), "a"), holder="me")
    held.write([(b"k", b"v")], HERE._replace(offset=18))
    open_backend(SPEC, state.store(TaskId(0, 4), "empty"), holder="me").close()
    (state.path / "not-a-task" / "rocksdb" / "x" / "db").mkdir(parents=True)

    assert state.stored() == [
        StoredStore(TaskId(0, 3), "a", HERE._replace(offset=18)),
        StoredStore(TaskId(0, 4), "empty", None),
        StoredStore(TaskId(1, 0), "b", HERE),
    ]
    assert [stored.store for stored in state.stored({TaskId(1, 0), TaskId(9, 9)})] == ["b"]
    held.write([(b"l", b"v")], HERE._replace(offset=19))
    assert state.stored()[0].position == HERE._replace(offset=19)
    held.close()


def test_options_survive_a_re_open(tmp_path: Path) -> None:
    for _ in range(2):
        RocksBackend(tmp_path / "db").close()

    log = (tmp_path / "db" / "LOG").read_text()

    assert "filter_policy: bloomfilter" in log
    assert "Options.write_buffer_size: 4194304" in log
    assert "Options.compression: NoCompression" in log
    assert "Options.max_write_buffer_number: 3" in log


def test_a_path_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("a file where a directory should be")

    with pytest.raises(StateError, match="check state_dir and its owner"):
        open_backend(SPEC, StateDirectory(tmp_path, "app").store(TASK, "counts"), holder="me")


def test_cleaning_deletes_every_store_and_nothing_else(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    other = StateDirectory(tmp_path, "other").store(TASK, "counts")
    for directory in (state.store(TASK, "counts"), state.global_store("names"), other):
        open_backend(SPEC, directory, holder="first").close()
    epoch = state.path / "worker.epoch.json"
    epoch.write_text("1")

    state.clean(holder="second")

    assert list(state.path.iterdir()) == [epoch]
    assert other.path.exists()
    state.clean(holder="second")
    StateDirectory(tmp_path, "never there").clean(holder="second")


def test_nothing_is_deleted_while_a_store_is_in_use(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    open_backend(SPEC, state.store(TaskId(0, 1), "counts"), holder="first").close()
    backend = open_backend(SPEC, state.store(TASK, "counts"), holder="first")

    with pytest.raises(StoreLockedError, match=r"counts of 0_3 .* in use by first"):
        state.clean(holder="second")

    backend.close()
    assert len(state.stored()) == 2
    state.clean(holder="second")
    assert not state.stored()


def test_a_link_in_the_place_of_a_task_is_not_followed(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "rocksdb" / "counts").mkdir(parents=True)
    state.own()
    (state.path / "0_0").symlink_to(elsewhere)

    with pytest.raises(StateError):
        state.clean(holder="second")

    assert (elsewhere / "rocksdb" / "counts").exists()


def test_directories_that_are_prepared_are_free_and_have_their_format(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    held = state.store(TaskId(0, 0), "counts")
    held.acquire(holder="me")
    newer = state.store(TaskId(0, 1), "counts")
    newer.acquire(holder="me")
    newer.release()
    (newer.path / "format").write_text('{"format": 2}\n')
    names = [TaskId(0, number) for number in range(20)]

    prepare([state.store(name, "counts") for name in names], holder="me")

    assert all((state.store(name, "counts").path / "format").exists() for name in names)
    for name in names[2:]:
        state.store(name, "counts").acquire(holder="me")
    with pytest.raises(StoreLockedError):
        state.store(names[0], "counts").acquire(holder="me")
    with pytest.raises(StoreFormatError):
        newer.acquire(holder="me")


def test_a_directory_that_cannot_be_prepared_says_so_when_it_is_acquired(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    state.own()
    (state.path / "0_0").write_text("in the way")
    stores = [state.store(TaskId(0, number), "counts") for number in range(2)]

    prepare(stores, holder="me")

    stores[1].acquire(holder="me")
    with pytest.raises(StateError, match="0_0"):
        stores[0].acquire(holder="me")
