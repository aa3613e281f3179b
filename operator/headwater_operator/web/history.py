"""The last hour of a set of series, in memory that does not grow.

Times and values are arrays of eight bytes each: 1,800 moments of 300 series take 4.3 MB.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SERIES: Final = 1_000
"""Beyond so many, new ones are kept only in place of lines that have left."""


class History:
    """A ring of moments, each with a value for every series.

    Args:
        moments: how many are kept.
        most: series that are kept.
    """

    def __init__(self, moments: int, most: int = MOST_SERIES) -> None:
        self._moments = moments
        self._most = most
        self._told: dict[str, int] = {}  # by series: the number of the last moment that has it
        self._times = array("d", [0.0]) * moments
        self._rings: dict[str, array[float]] = {}
        self._count = 0

    def __len__(self) -> int:
        return min(self._count, self._moments)

    @property
    def names(self) -> tuple[str, ...]:
        """The series, in the order in which they came."""
        return tuple(self._rings)

    def add(self, at_s: float, values: Mapping[str, float | None]) -> None:
        """Keep a moment; series without a value have a gap there.

        Args:
            at_s: wall-clock time, seconds since the epoch.
            values: by series.
        """
        place = self._count % self._moments
        self._times[place] = at_s
        for ring in self._rings.values():
            ring[place] = math.nan
        for name, value in values.items():
            if name not in self._rings:
                if len(self._rings) >= self._most and not self._made_room(values):
                    continue
                self._rings[name] = array("d", [math.nan]) * self._moments
            self._rings[name][place] = math.nan if value is None else value
            self._told[name] = self._count
        self._count += 1
        if place == 0:
            self._forget_empty()

    def times(self) -> list[float]:
        """All moments, the oldest first."""
        return self._in_order(self._times)

    def values(self, name: str) -> list[float | None]:
        """A series at these moments; ``None`` where it has a gap."""
        ring = self._rings.get(name)
        if ring is None:
            return [None] * len(self)
        return [None if math.isnan(value) else value for value in self._in_order(ring)]

    def _in_order(self, ring: array[float]) -> list[float]:
        if self._count <= self._moments:
            return ring[: self._count].tolist()
        place = self._count % self._moments
        return [*ring[place:], *ring[:place]]

    def _forget_empty(self) -> None:
        """Forget series that have had no value for a whole turn of the ring."""
        for name in [n for n, ring in self._rings.items() if all(map(math.isnan, ring))]:
            self._forget(name)

    def _made_room(self, values: Mapping[str, float | None]) -> bool:
        """Forget the series that left first, if one has left."""
        gone = [name for name in self._rings if name not in values]
        if gone:
            self._forget(min(gone, key=self._told.__getitem__))
        return bool(gone)

    def _forget(self, name: str) -> None:
        del self._rings[name], self._told[name]
