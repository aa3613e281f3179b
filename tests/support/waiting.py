"""Wait for a condition with a deadline: the one place in the tests that sleeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_FIRST_S: Final = 0.03
_LONGEST_S: Final = 0.25
_GROWTH: Final = 1.25
"""A look often reads a whole topic, which costs the broker 30 ms of the processor."""


def wait_for(
    condition: Callable[[], T | None],
    *,
    what: str,
    timeout_s: float = 300.0,
    every_s: float | None = None,
) -> T:
    """Return the first truthy value of ``condition``; fail with ``what`` when the time is up.

    Args:
        condition: is looked at again and again.
        what: is waited for.
        timeout_s: how long.
        every_s: the pause between two looks; if None it grows with the time that was waited.
    """
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_S if every_s is None else every_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"waited {timeout_s:g} s in vain for {what}; last value: {value!r}"
            )
        time.sleep(pause)
        if every_s is None:
            pause = min(pause * _GROWTH, _LONGEST_S)


def take(seconds: float) -> None:
    """Take so long, as a slow function does."""
    time.sleep(seconds)
