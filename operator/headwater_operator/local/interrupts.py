"""Signals of the terminal as something to wait for, instead of an exception anywhere."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts how often somebody has asked us to end, while it is entered; main thread only."""

    def __init__(self) -> None:
        self.count = 0
        """How often."""
        self._before: dict[signal.Signals, object] = {}

    def wait(self, timeout_s: float) -> bool:
        """Sleep, or until somebody asks; return whether somebody has since the last wait."""
        readable, _, _ = select.select([self._reader], [], [], timeout_s)
        if not readable:
            return False
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)
        return True

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in _ASKING:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it came from signal.signal
        os.close(self._reader)
        os.close(self._writer)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):
            os.write(self._writer, b"!")
