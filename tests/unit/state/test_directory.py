"""A store directory is held by one at a time, refuses newer formats, is listed and wiped."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headwater import failpoints
from headwater.errors import StateError, StoreFormatError, StoreLockedError
from headwater.ids import TaskId
from headwater.model.topology import StoreSpec
from headwater.ports import Position
from headwater.state import RocksBackend, StateDirectory, open_backend
from headwater.state.directory import StoredStore

if TYPE_CHECKING:
    from pathlib import Path

TASK = TaskId(0, 3)
HERE = Position("topic-id", 17, 1)
SPEC = StoreSpec(name="counts")


def test_a_store_lies_where_kafka_streams_has_it(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")

    assert directory.path == tmp_path / "app" / "0_3" / "rocksdb" / "counts"
    assert not directory.path.exists()


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


@pytest.mark.parametrize("text", ["", "{}", '{"format": "x"}', "[]"])
def test_an_unreadable_format_is_refused(tmp_path: Path, text: str) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    open_backend(SPEC, directory, holder="me").close()
    (directory.path / "format").write_text(text)

    with pytest.raises(StoreFormatError, match="delete the directory"):
        open_backend(SPEC, directory, holder="me")


def test_a_database_without_a_format_is_not_ours_and_starts_empty(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    backend = open_backend(SPEC, directory, holder="me")
    backend.write([(b"k", b"v")], HERE)
    backend.close()
    (directory.path / "format").unlink()

    again = open_backend(SPEC, directory, holder="me")

    assert again.get(b"k") is None
    assert again.position() is None
    again.close()


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


def test_a_task_is_wiped_only_if_nobody_uses_it(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "app")
    backend = open_backend(SPEC, state.store(TASK, "counts"), holder="me")

    with pytest.raises(StoreLockedError):
        state.wipe_task(TASK)
    backend.close()
    state.wipe_task(TASK)

    assert state.stored() == []
    assert not (state.path / "0_3").exists()


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
