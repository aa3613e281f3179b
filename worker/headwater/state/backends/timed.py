"""Windows and sessions in memory: for each key its times in order, and for each time its rows.

Rows that are older than the retention are forgotten with the write that makes them so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Protocol

from headwater.state.expiry import bounds, time_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.ports import Position
    from headwater.state.expiry import Expiry


class TimedBackend(Protocol):
    """A ``Backend`` whose keys carry a time, and which forgets by stream time.

    Attributes:
        stream_time: the largest time of all rows that were ever written; -1 before the first.
    """

    persistent: bool
    stream_time: int

    def get(self, key: bytes) -> bytes | None:
        """Return the row of a key with its time."""
        ...

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as ``Backend.range``, segment by segment."""
        ...

    def fetch(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows of ``key`` from time ``first`` to ``last``, both inclusive, in order.

        Args:
            key: its bytes, without time.
            first: at least 0.
            last: at least ``first``.
        """
        ...

    def fetch_all(
        self, first: int, last: int, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows from time ``first`` to ``last``, both inclusive.

        On disk segment by segment, each in the order of bytes; in memory by time, then by key.

        Args:
            first: at least 0.
            last: at least ``first``.
            low: rows whose keys are lower are left out.
            high: rows whose keys are higher are left out.
            reverse: the other way round.
        """
        ...

    def fetch_by_time(self, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows from time ``first`` to ``last``, both inclusive, in no order.

        Args:
            first: at least 0.
            last: at least ``first``.
        """
        ...

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Write as ``Backend.write``; rows that are too old are left out, and forgotten."""
        ...

    def position(self) -> Position | None:
        """Return the stored position."""
        ...

    def flush_later(self) -> None:
        """Begin to write out what is buffered."""
        ...

    def approximate_num_entries(self) -> int:
        """About how many rows there are."""
        ...

    def close(self) -> None:
        """Release what is held."""
        ...


class TimedMemoryBackend:
    """Holds the committed windows or sessions of one store in memory.

    Args:
        expiry: how long rows are kept.
        suffix_bytes: what lies behind the key in a row's key, the time first.

    Attributes:
        stream_time: the largest time of all rows that were ever written; -1 before the first.
    """

    persistent = False

    def __init__(self, expiry: Expiry, suffix_bytes: int) -> None:
        self.stream_time = -1
        self._expiry = expiry
        self._suffix_bytes = suffix_bytes
        self._rows: dict[bytes, bytes] = {}
        self._of_key: dict[bytes, list[bytes]] = {}
        self._at: dict[int, set[bytes]] = {}
        self._times: list[int] = []
        self._position: Position | None = None
        self.get = self._rows.get

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call."""
        keys = sorted(
            (
                key
                for key in self._rows
                if (start is None or key >= start) and (end is None or key <= end)
            ),
            reverse=reverse,
        )
        return iter([(key, self._rows[key]) for key in keys])

    def fetch(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows of ``key`` from time ``first`` to ``last``, both inclusive, in order."""
        held = self._of_key.get(key)
        if held is None:
            return []
        low, high = bounds(key, first, last, self._suffix_bytes)
        rows = self._rows
        found = held[bisect_left(held, low) : bisect_right(held, high)]
        return [(each, rows[each]) for each in found]

    def fetch_all(
        self, first: int, last: int, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows from time ``first`` to ``last``, both inclusive, as of this call."""
        suffix = self._suffix_bytes
        found = [
            row
            for row in self.fetch_by_time(first, last)
            if (low is None or row[0] >= low) and (high is None or row[0] <= high)
        ]
        found.sort(key=lambda row: self._expiry.order(row[0], suffix), reverse=reverse)
        return iter(found)

    def fetch_by_time(self, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows from time ``first`` to ``last``, both inclusive, in no order."""
        rows, times = self._rows, self._times
        near = times[bisect_left(times, first) : bisect_right(times, last)]
        return [(key, rows[key]) for time in near for key in self._at[time]]

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) and the position; forget what is too old."""
        written = list(entries)
        suffix = self._suffix_bytes
        times = [time_at(key, suffix) for key, _ in written]
        if times:
            self.stream_time = max(self.stream_time, *times)
        oldest = self._expiry.oldest_kept(self.stream_time)
        for (key, row), time in zip(written, times, strict=True):
            if row is None:
                self._delete(key, time)
            elif time >= oldest:
                self._put(key, row, time)
        self._forget(oldest)
        if position is not None:
            self._position = position

    def _put(self, key: bytes, row: bytes, time: int) -> None:
        if key not in self._rows:
            held = self._of_key.setdefault(key[: -self._suffix_bytes], [])
            if held and held[-1] > key:
                insort(held, key)
            else:
                held.append(key)
            if time not in self._at:
                self._at[time] = set()
                insort(self._times, time)
            self._at[time].add(key)
        self._rows[key] = row

    def _delete(self, key: bytes, time: int) -> None:
        if self._rows.pop(key, None) is None:
            return
        part = key[: -self._suffix_bytes]
        held = self._of_key[part]
        del held[bisect_left(held, key)]
        if not held:
            del self._of_key[part]
        self._at[time].discard(key)
        if not self._at[time]:
            del self._at[time]
            del self._times[bisect_left(self._times, time)]

    def _forget(self, oldest: int) -> None:
        times = self._times
        for time in times[: bisect_left(times, oldest)]:
            for key in list(self._at[time]):
                self._delete(key, time)

    def position(self) -> Position | None:
        """Return the position of the last write that carried one."""
        return self._position

    def flush_later(self) -> None:
        """Nothing is buffered."""

    def approximate_num_entries(self) -> int:
        """How many rows there are, exactly."""
        return len(self._rows)

    def close(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._of_key.clear()
        self._at.clear()
        self._times.clear()
        self._position = None
