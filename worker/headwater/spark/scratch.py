"""Directories of a backfill's tasks on this machine, and how those of killed processes go.

<temporary directory>/headwater-backfill-<random>/
    lock     held by the process whose stores lie beside it; the kernel drops it when that ends
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.local.filelock import FileLock, FileLockHeldError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "headwater-backfill-"
_LOCK: Final = "lock"


@contextmanager
def scratch_directory(root: Path | None = None) -> Iterator[Path]:
    """Give a directory that nobody else has, gone afterwards; remove what the killed have left.

    Args:
        root: holds such directories; the machine's temporary directory if not given.
    """
    root = root or Path(tempfile.gettempdir())
    remove_abandoned(root)
    path, lock = _made(root)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


def remove_abandoned(root: Path) -> None:
    """Remove the directories that no process holds, as far as they are this user's."""
    for path in root.glob(f"{_PREFIX}*"):
        # What another user has, or another version without locks, is not touched.
        with suppress(OSError, FileLockHeldError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            if not (path / _LOCK).is_file():
                continue
            with FileLock(path / _LOCK) as lock:
                lock.acquire(timeout_s=0)
                shutil.rmtree(path, ignore_errors=True)


def _made(root: Path) -> tuple[Path, FileLock]:
    # Locked under a name that nobody looks for, so nobody takes it for abandoned.
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=root))
    lock = FileLock(new / _LOCK)
    lock.acquire(timeout_s=0)
    path = root / new.name.removeprefix(".")
    new.rename(path)
    return path, lock
