"""Child processes that write stores until they are killed, or until the disk is full.

    python -m tests.support.store_child write|step|restore|fill|quota <directory> [<bytes>]

The history is fixed: commit ``n`` writes what ``entries(n)`` says under the position ``n``, so
whoever opens the store afterwards knows from the position alone what the store must hold.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import DiskFullError
from headwater.ids import TaskId
from headwater.model.topology import StoreKind, StoreSpec
from headwater.ports import Position
from headwater.state import ChangelogFacts, StateDirectory, StoreRestorer, open_backend

if TYPE_CHECKING:
    from collections.abc import Iterable

SPEC = StoreSpec(name="counts", kind=StoreKind.KEY_VALUE)
TASK = TaskId(0, 0)
KEYS = 400
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000


def entries(commit: int) -> list[tuple[bytes, bytes | None]]:
    """What commit number ``commit`` writes: some keys, some tombstones."""
    draw = random.Random(commit)
    return [
        (
            b"key-%03d" % draw.randrange(KEYS),
            None if draw.random() < 0.1 else b"%d:" % commit + draw.randbytes(60),
        )
        for _ in range(200)
    ]


def expected(commits: int) -> dict[bytes, bytes]:
    """What a store holds after that many commits."""
    held: dict[bytes, bytes] = {}
    for commit in range(1, commits + 1):
        for key, value in entries(commit):
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value
    return held


def check(directory: Path) -> int:
    """Open the store, compare it with its position, and return how many commits it holds."""
    backend = open_backend(
        SPEC, StateDirectory(directory, "app").store(TASK, "counts"), holder="check"
    )
    position = backend.position()
    commits = 0 if position is None else position.offset
    found = dict(backend.range(None, None))
    backend.close()
    assert found == expected(commits), f"position {commits} does not fit the data"
    return commits


def write(directory: Path) -> None:
    """Commit for ever, telling the number of each commit once it is done."""
    _write(directory, itertools.repeat(""))


def step(directory: Path) -> None:
    """Commit once for each line of the input, telling the number of each commit."""
    _write(directory, sys.stdin)


def _write(directory: Path, turns: Iterable[str]) -> None:
    backend = open_backend(
        SPEC, StateDirectory(directory, "app").store(TASK, "counts"), holder="child"
    )
    position = backend.position()
    commit = 0 if position is None else position.offset
    for _ in turns:
        commit += 1
        backend.write(entries(commit), Position("id", commit, commit))
        print(commit, flush=True)


def restore(directory: Path) -> None:
    """Apply a changelog for ever; batch ``n`` is commit ``n``."""
    facts = ChangelogFacts(topic_id="id", log_start=0, log_end=10**9, delete_retention_ms=10**9)
    store = StateDirectory(directory, "app").store(TASK, "counts")
    restorer = StoreRestorer(SPEC, store, facts, now_ms=10**6, holder="child")
    while True:
        commit = restorer.offset + 1
        restorer.apply(
            [(commit - 1, 1, key, value, None) for key, value in entries(commit)], commit
        )
        print(commit, flush=True)


def fill(directory: Path, small: _Quota | _Mount) -> None:
    """Commit until the disk is full, make room, and go on: nothing may be lost or half-written."""
    state = StateDirectory(directory, "app")
    backend = open_backend(SPEC, state.store(TASK, "counts"), holder="child")
    commit, message = 0, ""
    while not message:
        try:
            backend.write(entries(commit + 1), Position("id", commit + 1, 1))
            commit += 1
        except DiskFullError as error:
            message = str(error)
    backend.close()
    small.relieve()
    assert check(directory) == commit, commit
    backend = open_backend(SPEC, state.store(TASK, "counts"), holder="child")
    backend.write(entries(commit + 1), Position("id", commit + 1, 1))
    backend.close()
    assert check(directory) == commit + 1
    print(f"{small.kind}|{commit}|{message}", flush=True)


class _Quota:
    """A limit on the size of each file: the small disk of those who may not mount one."""

    kind = "file size limit"

    def __init__(self, size: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def relieve(self) -> None:
        """Allow files of any size."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class _Mount:
    """A file system in memory with a filler file, which only this process sees."""

    kind = "small disk"

    def __init__(self, directory: Path, size: int) -> None:
        self._filler = directory / "filler"
        self._filler.write_bytes(b"x" * (size // 2))

    def relieve(self) -> None:
        """Make room."""
        self._filler.unlink()


def _small_disk(directory: Path, size: int) -> _Quota | _Mount:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0 and libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER) != 0:
        return _Quota(size)
    libc.mount(b"none", b"/", None, 0x40000 | 0x4000, None)  # private, recursively
    if libc.mount(b"tmpfs", str(directory).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        return _Quota(size)
    return _Mount(directory, size)


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what in {"fill", "quota"}:
        size = int(sys.argv[3])
        fill(where, _small_disk(where, size) if what == "fill" else _Quota(size))
    else:
        {"write": write, "step": step, "restore": restore}[what](where)
