"""The clock that leases are judged by: it goes on while the machine sleeps or we are frozen."""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms() -> int:
    """Milliseconds since the machine was started, sleep counted where the system can tell."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
