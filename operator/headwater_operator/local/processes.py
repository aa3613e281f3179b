"""Processes of this machine: told apart for ever, started so that they end when we end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_EXIT_ORPHANED: Final = 70
# Fields of /proc/<pid>/stat counted from the one after the command's name.
_STATE, _START_TICKS = 0, 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process, never confused with a later one that was given the same number.

    Attributes:
        pid: its number.
        started: when it was started: the boot's id and the clock tick.
    """

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Whether this very process still runs; one that only waits to be reaped does not."""
        return _started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process; nothing happens if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            # The descriptor stands for one process, so its number cannot change hands in between.
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended; return whether it has."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():
                return True
            readable, _, _ = select.select([descriptor], [], [], timeout_s)
            return bool(readable)
        finally:
            os.close(descriptor)


def identify(pid: int) -> ProcessId | None:
    """Tell which process has the number ``pid`` now; ``None`` if none runs."""
    started = _started(pid)
    return None if started is None else ProcessId(pid=pid, started=started)


def spawn(
    command: Sequence[str],
    *,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own that the kernel kills when this process ends.

    To be called from the main thread only: the kernel sends the parent-death signal when the
    *thread* that started a process ends. Ctrl-C in the terminal does not reach it: its owner stops
    it in order.
    """
    libc, parent = _libc(), os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(_EXIT_ORPHANED)

    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=None if environment is None else {**os.environ, **environment},
        cwd=directory,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # we have one thread, and nothing is allocated there
    )


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that their end can be awaited."""
    _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_group(leader: int) -> bool:
    """Kill every process of the group that ``leader`` led; return whether none is left."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return False


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]


def _started(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may hold anything, parentheses included.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] in {"Z", "X"}:
        return None
    return f"{_boot()}-{fields[_START_TICKS]}"
