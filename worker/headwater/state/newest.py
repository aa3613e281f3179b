"""How late the committed rows of a key can be, in little memory. Pure.

A window that is new, and a join that finds nothing, ask for rows that are later than all a key has.
RocksDB would have to look for them; a number says so at once.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_FIRST_SLOTS: Final = 1 << 10
_GROWTH: Final = 8
_STEPS: Final = 3
MOST_SLOTS: Final = _FIRST_SLOTS * _GROWTH**_STEPS
"""Four MiB of them."""
_WASTED_PER_SLOT: Final = 0.25


class NewestTimes:
    """For each key a time that none of its rows is later than.

    Keys share slots by their hash, so the time may be that of another key: then a look finds
    nothing, as it would have without this. After many such looks there are eight times as many
    slots, if a third of them is in use: 160 bytes a key at most. All begin with the newest time.

    Args:
        newest: the largest time of all rows that are there already, in milliseconds; -1 if none is.
    """

    __slots__ = ("_begun", "_newest", "_slots", "_wasted")

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._begin(_FIRST_SLOTS)

    def _begin(self, slots: int) -> None:
        self._begun = self._newest
        self._slots = array("q", [self._begun]) * slots
        self._wasted = 0

    def of(self, key: Hashable) -> int:
        """Return a time in milliseconds that no row of ``key`` is later than; -1 if none is there.

        Args:
            key: the key without its times.
        """
        slots = self._slots
        return slots[hash(key) & (len(slots) - 1)]

    def waste(self) -> None:
        """Count a look that ``of`` did not spare, and that has found nothing."""
        self._wasted += 1

    def note(self, rows: Iterable[tuple[Hashable, int, int]]) -> None:
        """Note the times of rows, before they can be read.

        Args:
            rows: key, time in milliseconds, and what else tells the rows of a store apart.
        """
        if self._wasted > len(self._slots) * _WASTED_PER_SLOT:
            self._grow()
        slots, newest = self._slots, self._newest
        mask = len(slots) - 1
        for key, time, _ in rows:
            slot = hash(key) & mask
            if slots[slot] >= time:
                continue
            slots[slot] = time
            newest = max(newest, time)
        self._newest = newest

    def _grow(self) -> None:
        """Have more slots if keys are likely to share them."""
        size = len(self._slots)
        self._wasted = 0
        in_use = size - self._slots.count(self._begun)
        if in_use > size // 3 and size < MOST_SLOTS:
            self._begin(size * _GROWTH)
