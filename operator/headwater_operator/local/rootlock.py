"""The lock that one supervisor holds for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from headwater.privatefiles import holder_of, open_lock

if TYPE_CHECKING:
    from pathlib import Path

_POLL_S = 0.02


class RootLock:
    """An exclusive lock on a file, given back by the kernel when its holder ends.

    Args:
        path: the file; created if missing.

    Attributes:
        holder: who held it when it was not to be had, as ``process 17 (its command)``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self.holder = ""

    def acquire(self, *, timeout_s: float = 0.0) -> bool:
        """Take the lock, waiting for at most ``timeout_s``; return whether we hold it now."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Not inherited by what we start: the lock is to end with us alone.
        descriptor = open_lock(self._path)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self.holder = holder_of(descriptor)
                    os.close(descriptor)
                    return False
                time.sleep(_POLL_S)
            else:
                self._descriptor = descriptor
                return True

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Whether somebody holds it."""
        if not self._path.exists():
            return False
        probe = RootLock(self._path)
        if probe.acquire():
            probe.release()
            return False
        return True
