"""The wall clock of tests."""

from __future__ import annotations


class ManualClock:
    """A wall clock that stands still until it is moved."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward."""
        if milliseconds < 0:
            raise ValueError(f"time only moves forward, not by {milliseconds} ms")
        self._now_ms += milliseconds
