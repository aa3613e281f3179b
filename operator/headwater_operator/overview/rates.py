"""Rates of counts that are looked at again and again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_WINDOW_S: Final = 3.0


class Rate:
    """Turns a growing count into a rate over the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, count: int, now_s: float) -> float:
        """Take in a count and return the rate per second."""
        samples = self._samples
        if samples and count < samples[-1][1]:
            samples.clear()  # somebody else counts now, from the beginning
        samples.append((now_s, count))
        while len(samples) > 2 and samples[1][0] < now_s - _WINDOW_S:
            samples.popleft()
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


class Rates:
    """The rates of several counts.

    Args:
        now_s: a clock that never goes back.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._rates: dict[Hashable, Rate] = {}

    def add(self, key: Hashable, count: int) -> float | None:
        """Take in a count; return its rate per second, ``None`` at the first look."""
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = Rate()
            rate.add(count, self._now_s())
            return None
        return rate.add(count, self._now_s())
