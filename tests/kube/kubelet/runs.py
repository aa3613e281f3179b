"""One run of a container: a process with everything that it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHIM: Final = str(Path(__file__).with_name("shim.py"))
_KILLED: Final = 137
_REAP_S: Final = 30.0


class CannotRunError(Exception):
    """The program cannot be executed; the message says why."""


class Run:
    """A started program; it dies with this process.

    Args:
        command: program and arguments.
        environment: its variables, and no others.
        directory: where it starts.
        log: what it prints is written there.

    Attributes:
        pid: of the program itself.

    Raises:
        CannotRunError: it could not be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        log: Path,
    ) -> None:
        with log.open("ab") as file:
            try:
                # A session of its own: Ctrl-C reaches the tests alone.
                self._shim = subprocess.Popen(
                    [sys.executable, "-I", "-S", _SHIM, *command],
                    env=dict(environment),
                    cwd=directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    start_new_session=True,
                )
            except OSError as error:
                raise CannotRunError(str(error)) from error
        assert self._shim.stdout is not None
        with self._shim.stdout as report:
            said = report.readline().decode().strip()
        if not said.isdigit():
            self._end()
            raise CannotRunError(said.removeprefix("-") or "the process was killed as it started")
        self.pid = int(said)

    @property
    def exit_code(self) -> int | None:
        """As of a container: 137 after SIGKILL; ``None`` while anything of it is left."""
        code = self._shim.poll()
        if code is not None:
            self._end()
        # A shim that was killed has taken its program with it.
        return code if code is None or code >= 0 else _KILLED

    def terminate(self) -> None:
        """Send SIGTERM to the program."""
        self._tell(b"t")

    def kill(self) -> None:
        """Kill everything, and return when nothing is left."""
        self._tell(b"k")
        self._end()

    def freeze(self) -> None:
        """Stop the program and all its descendants in their tracks."""
        stopped: set[psutil.Process] = set()
        # One that was about to start another may just have done so.
        while fresh := set(self.processes()) - stopped:
            for process in fresh:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGSTOP)
            stopped |= fresh
        wait_for(lambda: all(map(_stands_still, stopped)), what="all to stand still", every_s=0.005)

    def thaw(self) -> None:
        """Let them go on."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def processes(self) -> list[psutil.Process]:
        """The program and all its descendants."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._shim.pid).children(recursive=True)
        return []

    def _tell(self, letter: bytes) -> None:
        assert self._shim.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            os.write(self._shim.stdin.fileno(), letter)

    def _end(self) -> None:
        self._shim.wait(_REAP_S)
        assert self._shim.stdin is not None
        with contextlib.suppress(OSError):
            self._shim.stdin.close()


def _stands_still(process: psutil.Process) -> bool:
    """Whether a process that was sent SIGSTOP has come to stop, or is gone."""
    try:
        status = process.status()
    except psutil.NoSuchProcess:
        return True
    return status in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
