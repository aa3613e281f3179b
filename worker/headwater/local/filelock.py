"""An advisory lock on a file that names its holder; the kernel releases it when its holders end."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Self

from headwater.privatefiles import open_lock

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_POLL_S = 0.05


class FileLockHeldError(Exception):
    """The lock is held by another owner.

    Attributes:
        holder: process id written by the holder, or None if it could not be read.
    """

    def __init__(self, path: Path, holder: int | None) -> None:
        super().__init__(f"{path} is locked by process {holder or 'unknown'}")
        self.holder = holder


class FileLock:
    """Exclusive ``flock`` on one file.

    The lock belongs to the open descriptor, so two objects in one process exclude each other as two
    processes do, and a child that inherits :attr:`descriptor` keeps the lock until it ends as well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        """The open file descriptor, to hand to a child that must hold the lock too."""
        assert self._descriptor is not None, "the lock is not held"
        return self._descriptor

    def acquire(self, *, timeout_s: float) -> None:
        """Take the lock, waiting for at most ``timeout_s`` seconds.

        Raises:
            FileLockHeldError: somebody else still holds it.
        """
        deadline = time.monotonic() + timeout_s
        while (descriptor := self._try_open_locked()) is None:
            if time.monotonic() >= deadline:
                raise FileLockHeldError(self.path, read_holder(self.path))
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def _try_open_locked(self) -> int | None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_lock(self.path)
        # The holder before us may have deleted the file: a lock on a deleted file excludes nobody.
        if _try_lock(descriptor) and _is_same_file(self.path, descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Give the lock back; children that inherited the descriptor keep holding it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock on ``path`` right now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> int | None:
    """Process id that the last holder wrote into the lock file."""
    try:
        return int(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return None


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
