"""The two programs that the supervisor owns beside the workers: private Kafka and control loop."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Final

from headwater_operator.local.processes import identify, kill_group, spawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater_operator.local.processes import ProcessId

log = logging.getLogger(__name__)

_BACKOFF_FIRST_S: Final = 0.1
_BACKOFF_MOST_S: Final = 10.0
_STABLE_S: Final = 10.0


class OwnedProgram:
    """A program that is started again when it ends, tied to us by its standard input.

    Its standard input ends when we do. What it writes to standard output comes to us.

    Args:
        name: for the log.
        log_file: where its standard error goes.
    """

    def __init__(self, name: str, log_file: Path) -> None:
        self.name = name
        """For the log."""
        self._log_file = log_file
        self._popen: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._heard_at = 0.0
        self._start_after = 0.0
        self._failures = 0
        self._is_wanted = True

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return None if self._popen is None else self._popen.pid

    @property
    def identity(self) -> ProcessId | None:
        """Which process it is, while it runs."""
        return None if self._popen is None else identify(self._popen.pid)

    @property
    def failures(self) -> int:
        """How often in a row it ended by itself soon after its start."""
        return self._failures

    @property
    def output(self) -> IO[bytes] | None:
        """What it writes to us, unbuffered and never waited for."""
        return None if self._popen is None else self._popen.stdout

    @property
    def silence_s(self) -> float:
        """For how long it has not said anything; 0 while it does not run."""
        return 0.0 if self._popen is None else time.monotonic() - self._heard_at

    def hear(self) -> bytes:
        """Return what it has written since the last time, without waiting."""
        if self.output is None:
            return b""
        said = self.output.read() or b""
        if said:
            self._heard_at = time.monotonic()
        return said

    def is_due(self) -> bool:
        """Whether it does not run and may be started now."""
        return self._popen is None and time.monotonic() >= self._start_after

    def start(self, command: Sequence[str]) -> None:
        """Start it with ``python -m`` and these arguments."""
        with self._log_file.open("ab") as log_file:
            self._popen = spawn(
                [sys.executable, "-m", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
            )
        assert self._popen.stdout is not None
        assert self._popen.stdin is not None
        os.set_blocking(self._popen.stdout.fileno(), False)
        os.set_blocking(self._popen.stdin.fileno(), False)
        self._started_at = self._heard_at = time.monotonic()
        log.info("%s is process %d", self.name, self._popen.pid)

    def nudge(self) -> None:
        """Wake it up: something that it looks at has changed."""
        if self._popen is not None and self._popen.stdin is not None:
            try:
                os.write(self._popen.stdin.fileno(), b"\n")
            except (BlockingIOError, BrokenPipeError):
                return  # it is awake already, or will not wake again

    def ended(self, exit_code: int) -> None:
        """Hear that its process was awaited."""
        assert self._popen is not None
        self._popen.returncode = exit_code
        kill_group(self._popen.pid)
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                stream.close()
        lived = time.monotonic() - self._started_at
        if lived >= _STABLE_S:
            self._failures = 0
        elif self._is_wanted:
            self._failures += 1
        pause = (
            0.0
            if self._failures <= 1
            else min(_BACKOFF_FIRST_S * 2**self._failures, _BACKOFF_MOST_S)
        )
        self._start_after = time.monotonic() + pause
        log.warning("%s, process %d, ended with %d", self.name, self._popen.pid, exit_code)
        self._popen = None

    def let_go(self) -> None:
        """End its standard input, which asks it to end: no failure."""
        self._is_wanted = False
        if self._popen is not None and self._popen.stdin is not None:
            self._popen.stdin.close()

    def stop(self) -> None:
        """Kill it for good: that it ends now is no failure."""
        self._is_wanted = False
        self.kill()

    def kill(self) -> None:
        """Kill it and all it started in its session."""
        if self._popen is not None:
            kill_group(self._popen.pid)


class PrivateKafka(OwnedProgram):
    """``headwater kafka start``, and what it says when the broker answers.

    Args:
        data: the broker's directory.
        log_file: where the broker's owner complains.
    """

    def __init__(self, data: Path, log_file: Path) -> None:
        super().__init__("private Kafka", log_file)
        self._data = data
        self._said = b""
        self.bootstrap_servers = ""
        """Its address; empty until it answers."""
        self.broker_pid = 0
        """Process id of the broker itself; 0 until it answers."""

    def start_broker(self) -> None:
        """Start the broker's owner, or share the broker that runs there already.

        :attr:`bootstrap_servers` follows when the broker answers.
        """
        self._said = b""
        self.start(
            (
                "headwater.cli.main",
                "kafka",
                "start",
                "--data",
                str(self._data),
                "--json",
                "--until-eof",
                "--share",
            )
        )

    def listen(self) -> bool:
        """Take in what it said; return whether it has just become ready."""
        self._said += self.hear()
        line, newline, self._said = self._said.partition(b"\n")
        if not newline:
            self._said = line
            return False
        state = json.loads(line)
        self.bootstrap_servers = state["bootstrap_servers"]
        self.broker_pid = state["pid"]
        return True

    def ended(self, exit_code: int) -> None:
        """Hear that its process was awaited."""
        super().ended(exit_code)
        self.broker_pid = 0
