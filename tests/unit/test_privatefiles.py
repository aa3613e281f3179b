"""What an application keeps is its user's alone, on a machine with other users and in a pod."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headwater import privatefiles
from headwater.errors import StateError
from headwater.ids import TaskId
from headwater.privatefiles import LockWaitError, NotOursError
from headwater.service.epoch import EpochFile
from headwater.service.settings import with_state_dir
from headwater.state.directory import StateDirectory
from headwater_operator.local import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK = TaskId(0, 0)
SOMEBODY = 12_345
"""A user who is neither root nor us."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def _on_a_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@contextmanager
def another_users(path: Path) -> Iterator[Path]:
    """A directory that another user could have made; where we are not root, one of root's."""
    path.mkdir(parents=True)
    os.chown(path, SOMEBODY, -1)
    yield path


def open_store(root: Path) -> None:
    store = StateDirectory(root, "app").store(TASK, "counts")
    store.acquire(holder="test")
    store.release()


def test_directories_and_locks_of_a_store_are_closed_to_others(tmp_path: Path) -> None:
    root = tmp_path / "state"
    open_store(root)

    store = root / "app" / "0_0" / "rocksdb" / "counts"
    assert [mode(place) for place in (root, *store.parents[:3], store)] == [0o700] * 5
    assert mode(store / "lock") == 0o600


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    store = tmp_path / "app" / "0_0" / "rocksdb" / "counts"
    store.mkdir(parents=True)
    (tmp_path / "app").chmod(0o777)
    (store / "lock").touch(0o644)

    open_store(tmp_path)

    assert (mode(tmp_path / "app"), mode(store / "lock")) == (0o700, 0o600)


def test_in_a_pod_the_volumes_group_keeps_its_access(tmp_path: Path, in_a_pod: None) -> None:
    tmp_path.chmod(0o2775)  # as a kubelet leaves a volume
    privatefiles.keep_private()
    open_store(tmp_path)

    store = tmp_path / "app" / "0_0" / "rocksdb" / "counts"
    assert {mode(place) & 0o777 for place in (*store.parents[:3], store)} == {0o770}
    assert {mode(store / name) for name in ("lock", "format")} == {0o660}


@needs_root
def test_in_a_pod_a_volume_of_another_user_is_taken(tmp_path: Path, in_a_pod: None) -> None:
    with another_users(tmp_path / "state"), another_users(tmp_path / "state" / "app"):
        open_store(tmp_path / "state")


@needs_root
@pytest.mark.parametrize("place", ["", "app", "app/0_0", "app/0_0/rocksdb/counts"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, place: str) -> None:
    root = tmp_path / "state"
    with (
        another_users(root / place) as theirs,
        pytest.raises(StateError, match=f"{re.escape(str(theirs))} belongs to user {SOMEBODY}"),
    ):
        open_store(root)
    if place in {"", "app"}:
        with pytest.raises(StateError, match="belongs to user"):
            StateDirectory(root, "app").own()
        with pytest.raises(StateError, match="belongs to user"):
            EpochFile(root / "app" / "w-0.epoch.json").write(1)


@needs_root
def test_a_link_of_another_user_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    link = tmp_path / "state"
    link.symlink_to(tmp_path / "documents")
    os.lchown(link, SOMEBODY, -1)

    with pytest.raises(StateError, match="belongs to user"):
        open_store(link)


@pytest.mark.parametrize(
    "place",
    ["app", "app/0_0", "app/0_0/rocksdb", "app/0_0/rocksdb/counts", "app/0_0/rocksdb/counts/db"],
)
def test_a_planted_link_is_never_followed(tmp_path: Path, place: str) -> None:
    victim = tmp_path / "victim"
    (victim / "db" / "precious").mkdir(parents=True)
    root = tmp_path / "state"
    planted = root / place
    planted.parent.mkdir(parents=True)
    planted.symlink_to(victim)

    with pytest.raises(StateError, match=f"{re.escape(str(planted))} is a link"):
        open_store(root)
    assert StateDirectory(root, "app").stored() == []
    assert (victim / "db" / "precious").exists()


def test_a_planted_lock_does_not_empty_another_file(tmp_path: Path) -> None:
    store = tmp_path / "app" / "0_0" / "rocksdb" / "counts"
    store.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (store / "lock").symlink_to(victim)

    with pytest.raises(StateError):
        open_store(tmp_path)
    assert victim.read_text() == "precious"


def test_resources_on_one_machine_are_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "apps" / "shop" / "app.json"
    files.replace(path, {"a": 1})
    files.append_line(path.parent / "events.jsonl", {"b": 2})

    assert {mode(path.parents[number]) for number in range(2)} == {0o700}
    assert {mode(each) for each in path.parent.iterdir()} == {0o600}


def test_a_lock_that_is_held_names_its_holder_and_is_not_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print()"
    command = [sys.executable, "-c", f"{code}; sys.stdout.flush(); input()", tmp_path / ".lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        with (
            pytest.raises(LockWaitError, match=rf"\.lock .* by process {holder.pid} \(.*fcntl"),
            files.locked(tmp_path, timeout_s=0.1),
        ):
            pass
        holder.communicate(b"\n")
    with files.locked(tmp_path, timeout_s=0.1):
        pass


def test_an_open_lock_of_an_earlier_version_is_closed(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(0o644)
    with files.locked(tmp_path):
        assert mode(tmp_path / ".lock") == 0o600


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateError, match=r"state\.dir: .*Not a directory; name a directory"):
            StateDirectory(root, "app").own()


def test_a_strict_directory_was_never_open(tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir(mode=0o755)
    with pytest.raises(NotOursError, match="open to others"):
        privatefiles.own_directory(tmp_path / "sockets", is_strict=True)


@pytest.mark.usefixtures("in_a_pod")
def test_a_strict_directory_is_its_users_alone_in_a_pod_too(tmp_path: Path) -> None:
    for _ in range(2):
        made = privatefiles.own_directory(tmp_path / "sockets", is_strict=True)
        assert mode(made) == 0o700


def test_the_default_state_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert with_state_dir({})["state.dir"] == "/home/somebody/.local/state/headwater"
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert with_state_dir({})["state.dir"] == "/var/state/headwater"
    assert with_state_dir({"state_dir": "/data"}) == {"state_dir": "/data"}
