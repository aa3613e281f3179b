"""How late the committed rows of a key can be, in constant memory. Pure.

A window that is new, and a join that finds nothing, ask for rows that are later than all a key has.
RocksDB would have to look for them; a number says so at once.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_FIRST_SLOTS: Final = 1 << 10
_MOST_SLOTS: Final = 1 << 19
_WASTED_PER_SLOT: Final = 0.25


class NewestTimes:
    """For each key a time that none of its rows is later than.

    Keys share slots by their hash, so the time may be that of another key: then a look finds
    nothing, as it would have without this. After many such looks there are twice as many slots, up
    to 4 MiB of them.

    Args:
        newest: the largest time of all rows that are there already, in milliseconds; -1 if none is.
    """

    __slots__ = ("_slots", "_wasted")

    def __init__(self, newest: int) -> None:
        self._slots = array("q", [newest]) * _FIRST_SLOTS
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
        slots = self._slots
        while self._wasted > len(slots) * _WASTED_PER_SLOT and len(slots) < _MOST_SLOTS:
            self._wasted -= int(len(slots) * _WASTED_PER_SLOT)
            # Of a hash one bit more counts: both halves know what the whole knew.
            slots = self._slots = slots * 2
        mask = len(slots) - 1
        for key, time, _ in rows:
            slot = hash(key) & mask
            if slots[slot] >= time:
                continue
            slots[slot] = time
