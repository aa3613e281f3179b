"""Average, greatest and least of what was recorded in the last windows; rates of counters.

As Kafka's ``SampledStat`` a value counts for ``metrics.num.samples`` windows of
``metrics.sample.window.ms``. Nothing here asks for the time: whoever reads says it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.model.metrics import RATES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.model.metrics import Labels, Metric, Spread

_INFINITE = float("inf")


class Window:
    """What was recorded lately; recording is four comparisons, reading is for once a second."""

    __slots__ = ("_count", "_former", "_max", "_min", "_total")

    def __init__(self, samples: int) -> None:
        self._former: deque[tuple[int, float, float, float]] = deque(maxlen=max(1, samples - 1))
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._total = 0.0
        self._max, self._min = -_INFINITE, _INFINITE

    def record(self, value: float) -> None:
        """Take in one value."""
        self._count += 1
        self._total += value
        self._max = max(self._max, value)
        self._min = min(self._min, value)

    def roll(self) -> None:
        """Begin another window; the eldest is forgotten."""
        self._former.append((self._count, self._total, self._max, self._min))
        self._begin()

    def values(self, spread: Spread) -> dict[Metric, float | None]:
        """Return what is declared of it; ``None`` if nothing was recorded lately."""
        samples = [*self._former, (self._count, self._total, self._max, self._min)]
        count = sum(sample[0] for sample in samples)
        if not count:
            return {}
        found: dict[Metric, float | None] = {}
        if spread.avg is not None:
            found[spread.avg] = sum(sample[1] for sample in samples) / count
        if spread.max is not None:
            found[spread.max] = max(sample[2] for sample in samples)
        if spread.min is not None:
            found[spread.min] = min(sample[3] for sample in samples)
        return found


class Windows:
    """The windows of one thing, which end together.

    Args:
        samples: how many windows a value counts for (``metrics.num.samples``).
        window_s: how long each is (``metrics.sample.window.ms``).
    """

    def __init__(self, samples: int, window_s: float) -> None:
        self._samples = samples
        self._window_s = window_s
        self._windows: list[Window] = []
        self._rolled_s: float | None = None

    def new(self) -> Window:
        """Return one more window."""
        self._windows.append(Window(self._samples))
        return self._windows[-1]

    def drop(self, window: Window) -> None:
        """End a window for good."""
        self._windows.remove(window)

    def roll_if_due(self, now_s: float) -> None:
        """Begin other windows if these are over; to be called about once a second."""
        if self._rolled_s is None:
            self._rolled_s = now_s
        if now_s - self._rolled_s >= self._window_s:
            self._rolled_s = now_s
            for window in self._windows:
                window.roll()


class Rates:
    """How fast counters grow, over the same windows.

    Args:
        samples: as of ``Windows``.
        window_s: as of ``Windows``.
        rates: which of them; all of the table if not given.
    """

    def __init__(self, samples: int, window_s: float, rates: Iterable[Metric] = RATES) -> None:
        self._window_s = window_s
        self._rates = tuple(rates)
        self._counters = {rate.rate_of for rate in self._rates}
        self._former: deque[tuple[float, Mapping[str, Mapping[Labels, float]]]] = deque(
            maxlen=max(1, samples)
        )

    def of(self, numbers: Snapshot, now_s: float) -> Snapshot:
        """Return the rates of these counters since the eldest window began.

        A counter that is new, or that has begun again, is taken to have begun at 0.
        """
        counters = {name: numbers.values[name] for name in self._counters & numbers.values.keys()}
        is_due = not self._former or now_s - self._former[-1][0] >= self._window_s
        then_s, then = self._former[0] if self._former else (now_s, counters)
        if is_due:
            self._former.append((now_s, counters))
        elapsed_s = now_s - then_s
        if elapsed_s <= 0:
            return Snapshot()
        found: dict[str, dict[Labels, float]] = {}
        for rate in self._rates:
            rows = counters.get(rate.rate_of, {})
            before = then.get(rate.rate_of, {})
            found[rate.name] = {
                labels: _grown(value, before.get(labels, 0.0)) / elapsed_s
                for labels, value in rows.items()
            }
        return Snapshot({name: rows for name, rows in found.items() if rows})


def _grown(value: float, before: float) -> float:
    return value - before if value >= before else value
