"""A long-running program that ends when we end: the owner's side of the guard."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_GUARD = str(Path(__file__).with_name("guard.py"))
_REAP_S = 5.0


class GuardedProgram:
    """A program running under a guard.

    Attributes:
        pid: process id of the program itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_file: Path,
        descriptors: Collection[int] = (),
        remove_if_orphaned: Path | None = None,
    ) -> None:
        """Start the program.

        Args:
            command: program and arguments.
            log_file: what it prints is appended here.
            descriptors: open files that it and its guard inherit, for example a held lock.
            remove_if_orphaned: directory to delete when we end without ending the program.
        """
        options = [] if remove_if_orphaned is None else ["--remove", str(remove_if_orphaned)]
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches the owner alone, which then stops the program.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", _GUARD, *options, "--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=tuple(descriptors),
                start_new_session=True,
                umask=0o077,  # what Kafka keeps is nobody else's to read
            )
        assert self._guard.stdout is not None
        with self._guard.stdout as report:
            self.pid = int(report.readline() or b"0")

    def is_running(self) -> bool:
        """Whether the program (or at least its guard) still runs."""
        return self._guard.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Its exit code, or the number of the signal that ended it; ``None`` while it runs."""
        return self._guard.poll()

    def stop(self, *, grace_s: float) -> None:
        """Terminate the program, kill it after ``grace_s`` seconds, return when it has ended."""
        self._tell(f"stop {grace_s}\n", wait_s=grace_s + _REAP_S)

    def kill(self) -> None:
        """Kill the program and return when it has ended."""
        self._tell("kill\n", wait_s=_REAP_S)

    def _tell(self, command: str, *, wait_s: float) -> None:
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._guard.stdin.write(command.encode())
            self._guard.stdin.flush()
        try:
            self._guard.wait(wait_s)
        except subprocess.TimeoutExpired:
            # The kernel kills the program when its guard dies.
            self._guard.kill()
            self._guard.wait()
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.close()
