"""Where a record would go: ``headwater journey`` as a process for each application that is asked.

The topology is the user's code. It is imported there, never here, and a process that does not
answer in time is killed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError
from headwater_operator.local import files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.local.layout import AppDir

_START_S: Final = 60.0
_ANSWER_S: Final = 10.0
_WORDS: Final = ("-m", "headwater.cli.main", "journey")


class JourneyProgram:
    """The process of one application; started at the first question, and anew after its end.

    Args:
        directory: of the application.
        import_path: directories from which the topology is imported.
        words: Python is started with these before what belongs to the application.
    """

    def __init__(
        self, directory: AppDir, import_path: tuple[str, ...], words: Sequence[str] = _WORDS
    ) -> None:
        self._words = words
        self.directory = directory
        self._import_path = import_path
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()

    def ask(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what became of a record.

        Raises:
            EnvironmentProblemError: the topology cannot be imported, or a function of it does not
                return.
        """
        with self._guard:
            is_new = self._process is None or self._process.poll() is not None
            process = self._started() if is_new or self._process is None else self._process
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(record).encode() + b"\n")
                process.stdin.flush()
                line = _line(process.stdout, _START_S if is_new else _ANSWER_S)
            except (BrokenPipeError, TimeoutError) as error:
                said = self._ended(str(error))
                raise EnvironmentProblemError(said) from error
            if not line:
                raise EnvironmentProblemError(self._ended("it ended"))
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError as error:
                said = self._ended(f"it answered with {line!r:.80}")
                raise EnvironmentProblemError(said) from error
            return found

    def close(self) -> None:
        """End the process."""
        with self._guard:
            if self._process is not None:
                self._ended("")

    def _started(self) -> subprocess.Popen[bytes]:
        paths = [word for path in self._import_path for word in ("--import-path", path)]
        with files.private_log(self._log) as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._words, "-f", str(self.directory.streamapp), *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._import_path[0] if self._import_path else None,
                env=os.environ,
            )
        return self._process

    def _ended(self, why: str) -> str:
        """End the process, and return what it said."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None
        told = files.tail(self._log)
        return f"the topology could not be run in memory ({why or 'it ended'}): {told}"

    @property
    def _log(self) -> Any:
        return self.directory.path / "journey.log"


def _line(stream: IO[bytes], timeout_s: float) -> bytes:
    """Return the next line of a pipe; empty at its end.

    Raises:
        TimeoutError: there is none in time.
    """
    deadline, found = time.monotonic() + timeout_s, b""
    while not found.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            raise TimeoutError(f"no answer within {timeout_s:.0f} s")
        data = os.read(stream.fileno(), 65_536)
        if not data:
            return b""
        found += data
    return found
