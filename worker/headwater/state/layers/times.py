"""Which uncommitted entries of a store with times belong to a key, in the order of their times.

Reading the windows of one key costs as much as it has, however many entries of other keys wait. So
does reading those of some time, once that was asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any

from headwater.state.layers.writeback import UNCOMMITTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.state.backends.timed import TimedBackend
    from headwater.state.layers.writeback import Entry


class WrittenTimes:
    """Uncommitted entries by key, each key's by time.

    A deletion is left out where nothing that is committed is so late: there it hides nothing.

    Args:
        backend: what is committed.

    Attributes:
        newest: the largest time among those that were ever added; -1 before the first.
        newest_below: the same of those that were written below the record cache.
    """

    __slots__ = ("_at", "_backend", "_of_part", "_times", "newest", "newest_below")

    def __init__(self, backend: TimedBackend) -> None:
        self._backend = backend
        self._at: dict[int, dict[Any, Entry]] | None = None
        self._times: list[int] = []
        self._of_part: dict[Any, tuple[list[tuple[int, int]], list[Entry]]] = {}
        self.newest = self.newest_below = -1

    def add(self, entry: Entry) -> None:
        """Add an entry; one of the same key and time is replaced."""
        part, time, other = entry.identity
        self.newest = max(self.newest, time)
        if time > self.newest_below and entry.flags & UNCOMMITTED:
            self.newest_below = time
        if entry.stored is None and time > self._backend.stream_time:
            self._remove(entry)
            return
        if self._at is not None:
            self._add_at(self._at, time, entry)
        held = self._of_part.get(part)
        at = (time, other)
        if held is None:
            self._of_part[part] = [at], [entry]
            return
        times, entries = held
        if times[-1] < at:
            times.append(at)
            entries.append(entry)
            return
        place = bisect_left(times, at)
        if times[place] == at:
            entries[place] = entry
        else:
            times.insert(place, at)
            entries.insert(place, entry)

    def _remove(self, entry: Entry) -> None:
        part, time, other = entry.identity
        held = self._of_part.get(part)
        if held is None:
            return
        times, entries = held
        place = bisect_left(times, (time, other))
        if place == len(times) or times[place] != (time, other):
            return
        del times[place], entries[place]
        if not times:
            del self._of_part[part]
        if self._at is not None:
            self._at[time].pop(entry.identity, None)

    def between(self, part: Any, first: int, last: int) -> list[Entry]:
        """Return the entries of a key from time ``first`` to ``last``, both inclusive, in order."""
        held = self._of_part.get(part)
        if held is None:
            return []
        times, entries = held
        if times[-1][0] < first:
            return []
        start = 0 if times[0][0] >= first else bisect_left(times, (first, _LOWEST))
        end = len(times) if times[-1][0] <= last else bisect_left(times, (last + 1, _LOWEST))
        return entries[start:end]

    def all_between(self, first: int, last: int) -> Iterator[Entry]:
        """Iterate the entries of all keys from time ``first`` to ``last``, both inclusive."""
        if self._at is None:
            self._at = {}
            for _, entries in self._of_part.values():
                for entry in entries:
                    self._add_at(self._at, entry.identity[1], entry)
        times = self._times
        for time in times[bisect_left(times, first) : bisect_right(times, last)]:
            yield from self._at[time].values()

    def _add_at(self, found: dict[int, dict[Any, Entry]], time: int, entry: Entry) -> None:
        of_time = found.get(time)
        if of_time is None:
            of_time = found[time] = {}
            insort(self._times, time)
        of_time[entry.identity] = entry

    def replace(self, entries: Iterable[Entry]) -> None:
        """Forget all entries but these."""
        self._of_part.clear()
        self._times.clear()
        if self._at is not None:
            self._at.clear()
        for entry in entries:
            self.add(entry)


_LOWEST = -1
