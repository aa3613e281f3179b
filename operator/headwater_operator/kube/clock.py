"""The operator's clocks: one that never goes back and counts sleep, one for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms() -> int:
    """Milliseconds since the machine was started, sleep counted where the system can tell."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def micro_time() -> str:
    """The time of day as Kubernetes' ``MicroTime``: for people, never compared."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_time() -> str:
    """The time of day as Kubernetes' ``Time``, without a fraction."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minutes_since_1970() -> int:
    """Return the time of day in whole minutes."""
    return int(time.time()) // 60
