"""The wall clock of the machine."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000
