"""Wait for a condition with a deadline: the one place in the tests that sleeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T | None], *, what: str, timeout_s: float = 300.0, every_s: float = 0.05
) -> T:
    """Return the first truthy value of ``condition``; fail with ``what`` when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"waited {timeout_s:g} s in vain for {what}; last value: {value!r}"
            )
        time.sleep(every_s)
