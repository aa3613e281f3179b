"""Drivers that somebody started with ``headwater spark``, as other commands see them.

A driver holds a lock for as long as it lives, whatever it does meanwhile: one in the directory of
`headwater up`, one in its state directory. The file says who it is. The kernel gives the lock back,
so a driver that was killed has none.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import InstanceRunningError
from headwater.privatefiles import NotOursError, open_lock, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_DRIVERS: Final = "spark"
"""Below the directory of `headwater up`."""
_IN_STATE_DIR: Final = "driver.lock"
_LOOK_S: Final = 0.2
"""For longer nobody holds a lock who only looks whether it is held."""
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class HandDriver:
    """A driver that runs.

    Attributes:
        app: name of its StreamApp.
        pid: its process; 0 if it has not said so yet.
        http: ``host:port`` where it serves ``/status``; empty while it has not said so.
    """

    app: str
    pid: int = 0
    http: str = ""

    def __str__(self) -> str:
        where = ", ".join(
            filter(None, (f"process {self.pid}" if self.pid else "", self.http and self.url))
        )
        return f"`headwater spark` runs {self.app} ({where or 'another process'})"

    @property
    def url(self) -> str:
        """Where it says how it is."""
        return f"http://{self.http}/status"

    def refusal(self, again: str) -> InstanceRunningError:
        """Return why something else does not begin beside it.

        Args:
            again: what to do when it has ended.
        """
        return InstanceRunningError(f"{self}; end it first (Ctrl-C there), then {again}")


def driver_of(root: Path, application_id: str) -> HandDriver | None:
    """Return the driver that runs an application beside this directory of `headwater up`."""
    return _holder(_lock_in(root, application_id), application_id)


def drivers_of(root: Path) -> list[HandDriver]:
    """Return all drivers that run beside this directory of `headwater up`, by application id."""
    paths = sorted((root / _DRIVERS).glob("*.lock"))
    return [found for path in paths if (found := _holder(path, path.stem)) is not None]


@contextmanager
def held(
    root: Path, state_dir: Path, app: str, application_id: str, *, again: str
) -> Iterator[Callable[[str], None]]:
    """Be the driver of an application for the others of this machine.

    Args:
        root: the directory of `headwater up`; passed over if no lock can be had there.
        state_dir: of the driver.
        app: name of the StreamApp.
        application_id: its application id.
        again: what to do when the one that runs has ended.

    Yields:
        Takes ``host:port`` of the driver's HTTP server, once that is known.

    Raises:
        InstanceRunningError: another driver runs it in one of the directories.
        NotOursError: the state directory is another user's.
    """
    with ExitStack() as stack:
        descriptors = []
        with suppress(OSError, NotOursError):
            own(root, _DRIVERS)
            lock = _locked(_lock_in(root, application_id), app, again)
            descriptors.append(stack.enter_context(lock))
        own(state_dir)
        descriptors.append(stack.enter_context(_locked(state_dir / _IN_STATE_DIR, app, again)))

        def tell(http: str) -> None:
            said = json.dumps({"app": app, "pid": os.getpid(), "http": http}).encode()
            for descriptor in descriptors:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, said, 0)

        tell("")
        yield tell


def _lock_in(root: Path, application_id: str) -> Path:
    return root / _DRIVERS / f"{application_id}.lock"


@contextmanager
def _locked(path: Path, app: str, again: str) -> Iterator[int]:
    deadline = time.monotonic() + _LOOK_S
    while True:
        descriptor = open_lock(path)
        try:
            if _lock(descriptor):
                # Whoever had it before us deletes the file: a lock on that excludes nobody.
                if _is_at(path, descriptor):
                    try:
                        yield descriptor
                    finally:
                        path.unlink(missing_ok=True)
                    return
            elif time.monotonic() > deadline:
                raise _told(descriptor, app).refusal(again)
        finally:
            os.close(descriptor)
        time.sleep(_POLL_S)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(path: Path, application_id: str) -> HandDriver | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _lock(descriptor) else _told(descriptor, application_id)
    finally:
        os.close(descriptor)


def _told(descriptor: int, app: str) -> HandDriver:
    """Read who holds the lock; it may be about to write that."""
    try:
        said = json.loads(os.pread(descriptor, 4096, 0))
        return HandDriver(app=str(said["app"]), pid=int(said["pid"]), http=str(said["http"]))
    except (ValueError, KeyError, TypeError):
        return HandDriver(app=app)
