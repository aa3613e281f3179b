"""A task's store of windows or sessions: the layers of any other, read by key and time.

What was written and is not committed lies above what is, as everywhere; ``WrittenTimes`` finds it
by key. Nothing older than the retention is read.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, Final

from headwater.model.durations import LONG_MAX
from headwater.state.expiry import Expiry, upper_bound
from headwater.state.keys import SessionKeys, TimedKeys
from headwater.state.layers.times import WrittenTimes
from headwater.state.layers.writeback import DIRTY
from headwater.state.store import LayeredStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.model.stores import StoreSpec
    from headwater.ports import Headers
    from headwater.state.backends.timed import TimedBackend
    from headwater.state.codec import StoreCodec
    from headwater.state.layers.cache import RecordCache
    from headwater.state.layers.writeback import Entry, WriteBack

_NUMBER_MASK: Final = 0x7FFFFFFF
_NUMBER_BYTES: Final = 4


class TimedStore(LayeredStore):
    """The ``TimedStore`` of ``ports``: its keys are ``(key, time, other)``.

    In a store of windows they are key, start and number among duplicates; in one of sessions key,
    end and start.

    Attributes:
        window_size_ms: how long a window is; of sessions 0.
        on_expired: called with each put that is too old to be kept.
    """

    def __init__(self, spec: StoreSpec, below: WriteBack, cache: RecordCache | None) -> None:
        super().__init__(spec, below, cache)
        assert isinstance(self._keys, TimedKeys), f"{spec.name} has no times"
        self._timed_keys: TimedKeys = self._keys
        self._backend: TimedBackend = below.backend  # type: ignore[assignment]  # as the kind says
        self._expiry = Expiry.of(spec)
        self._suffix_bytes = self._timed_keys.suffix.size
        self._newest = self._backend.stream_time
        self._duplicates = spec.retain_duplicates
        self._is_persistent = spec.persistent
        self._number = self._first_number()
        self.window_size_ms = spec.window_size_ms
        self.on_expired: Callable[[], None] = _nothing

    def _first_number(self) -> int:
        """Return a number after those of all duplicates in the changelog."""
        position = self._backend.position()
        return 0 if position is None else position.offset & _NUMBER_MASK

    def go_on_after(self, before: TimedStore) -> None:
        """Number duplicates after those of ``before``, which had the same backend until now.

        For a backend without a position, as that of the test driver.
        """
        self._number = max(self._number, before._number)

    @property
    def stream_time(self) -> int:
        """The largest time of all puts, in milliseconds; -1 before the first."""
        written = self._written_times().newest
        return max(self._newest, written, self._backend.stream_time)

    def _written_times(self) -> WrittenTimes:
        times = self._below.index
        if times is None:
            times = self._below.index = WrittenTimes(self._backend)
            times.replace(self._uncommitted())
        assert isinstance(times, WrittenTimes), f"{self.name} is scanned by key"
        return times

    @property
    def _time_below(self) -> int:
        """The largest time of what was written below the record cache.

        As in Kafka Streams it says what has expired, and what waits in the cache never has.
        """
        below = max(self._written_times().newest_below, self._backend.stream_time)
        return below if self._cache is not None else max(below, self._newest)

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return ``(value, timestamp)`` of a key with its time, as ``LayeredStore.get``.

        ``None`` also for what is older than the retention.
        """
        found = super().get(key)
        if found is None or key[1] >= self._expiry.oldest_read(self._time_below):
            return found
        waiting = self._written_times().between(self._timed_keys.part(key[0]), key[1], key[1])
        return found if any(e.flags & DIRTY and e.identity[2] == key[2] for e in waiting) else None

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = None) -> None:
        """Set a key with its time, or delete it with ``None``, as ``LayeredStore.put``.

        A record cache forwards the change with ``headers``.

        One that is too old is sent to the changelog, as in Kafka Streams, but never read.
        """
        identity = self._keys.identity(key)
        stored = None if value is None else self._codec.to_stored(value)
        if self._cache is None:
            self._below.put(identity, stored, timestamp, headers)
        else:
            self._cache.put(identity, stored, timestamp, headers)
        time = key[1]
        if time > self._newest:
            self._newest = time
            # With a retention of 0 not even the newest is kept in memory: it is told each time.
            if self._expiry.retention_ms:
                return
        self._tell_expired(time)

    def _tell_expired(self, time: int) -> None:
        """Tell that a put was too old, if it was."""
        newest = max(self._newest, self._written_times().newest, self._backend.stream_time)
        # Nothing within the retention has expired: the rest is only asked for of what lies before.
        if time <= newest - self._expiry.retention_ms and time < self._expiry.oldest_kept(newest):
            self.on_expired()

    def with_headers(self) -> TimedStore:
        """Return what reads the same store: each value is an ``AggregationWithHeaders``."""
        return _Reader(self, self._codec_with_headers())

    def append(
        self, key: Any, start: int, value: Any, timestamp: int, headers: Headers = None
    ) -> None:
        """Set the value of a window, or add one where duplicates are retained.

        ``None`` deletes; where duplicates are retained, it does nothing.
        """
        if not self._duplicates:
            self.put((key, start, 0), value, timestamp, headers)
            return
        self._number = (self._number + 1) & _NUMBER_MASK
        if value is not None:
            self.put((key, start, self._number), value, timestamp, headers)
        elif not self._is_persistent:
            # In Java, too, time goes on in memory only, and only there is such a put too old.
            if start > self._newest:
                self._newest = start
            else:
                self._tell_expired(start)

    def fetch(
        self, key: Any, first: int, last: int, *, reverse: bool = False
    ) -> list[tuple[int, int, Any, int]]:
        """Return ``(time, other, value, timestamp)`` of a key, in the order of times.

        Args:
            key: the key alone.
            first: smallest time.
            last: largest time, inclusive.
            reverse: the largest time first.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        part = self._timed_keys.part(key)
        first = max(first, 0)
        oldest = max(first, self._expiry.oldest_read(self._time_below))
        written = self._written_times().between(part, first, last)
        if first < oldest:
            written = [e for e in written if e.flags & DIRTY or e.identity[1] >= oldest]
        rows: list[tuple[bytes, bytes]] = []
        if oldest <= last and oldest <= self._below.newest_of(part):
            rows = self._backend.fetch(self._timed_keys.part_bytes(part), oldest, last)
            if not rows and self._below.newest is not None:
                self._below.newest.waste()
        if not rows and not written:
            return []
        found = self._found(rows, written) if rows else self._of_entries(written)
        if reverse:
            found.reverse()
        return found

    def _of_entries(self, written: list[Entry]) -> list[tuple[int, int, Any, int]]:
        """Return what entries of one key hold, in their order."""
        codec = self._codec
        if not codec.immutable:
            to_value, timestamped = codec.to_value, codec.timestamped
            return [
                (*e.identity[1:], to_value(e.stored), e.timestamp if timestamped else -1)
                for e in written
                if e.stored is not None
            ]
        if codec.timestamped:
            return [
                (e.identity[1], e.identity[2], e.stored, e.timestamp)
                for e in written
                if e.stored is not None
            ]
        return [
            (e.identity[1], e.identity[2], e.stored, -1) for e in written if e.stored is not None
        ]

    def _found(
        self, rows: list[tuple[bytes, bytes]], written: list[Entry]
    ) -> list[tuple[int, int, Any, int]]:
        """Return what committed rows and entries of one key hold, by time."""
        codec = self._codec
        to_value, from_row, timestamped = codec.to_value, codec.from_row, codec.timestamped
        unpack, suffix = self._timed_keys.suffix.unpack_from, self._suffix_bytes
        found: dict[tuple[int, ...], tuple[Any, int]] = {
            unpack(row_key, len(row_key) - suffix): from_row(row) for row_key, row in rows
        }
        for entry in written:
            found[entry.identity[1:]] = (
                entry.stored,
                entry.timestamp if timestamped else -1,
            )
        order = sorted(found) if written else found
        return [
            (at[0], at[1], to_value(found[at][0]), found[at][1])
            for at in order
            if found[at][0] is not None
        ]

    def fetch_all(
        self,
        first: int,
        last: int,
        *,
        low: Any = None,
        high: Any = None,
        reverse: bool = False,
    ) -> Iterator[tuple[Any, int, int, Any, int]]:
        """Iterate ``(key, time, other, value, timestamp)`` of all keys, in Kafka Streams' order.

        On disk segment by segment, each in the order of bytes; in memory by time, then by key. What
        is written after this call is not seen.

        Args:
            first: smallest time.
            last: largest time, inclusive.
            low: smallest key; ``None`` for no bound.
            high: largest key, inclusive; ``None`` for no bound.
            reverse: the other way round.

        Raises:
            SerializationError: the serde does not take a key.
        """
        oldest = self._expiry.oldest_read(self._time_below)
        return self._all(first, last, oldest, low, high, reverse=reverse)

    def num_keys(self) -> int:
        """Count the windows or sessions that are kept. All of it is read."""
        return sum(1 for _ in self.fetch_all(0, LONG_MAX))

    def fetch_closed(self, first: int, last: int) -> list[tuple[Any, int, int, Any, int]]:
        """Return as ``fetch_all`` what is forwarded now because it has closed.

        By time, then by key; on disk sessions of one end are ordered by their start before the key.
        """
        oldest = self._expiry.oldest_read(self._time_below)
        if self._expiry.persistent and isinstance(self._timed_keys, SessionKeys):
            # Of sessions Kafka Streams finds all that are there.
            oldest = self._expiry.oldest_kept(self._time_below)
        codec, keys = self._codec, self._timed_keys
        rows = self._written_rows(max(first, 0), last, oldest)
        oldest = max(first, oldest, 0)
        if oldest <= last:
            for key, row in self._backend.fetch_by_time(oldest, last):
                if key not in rows:
                    rows[key] = codec.from_row(row)
        return [
            (*keys.decode(key), codec.to_value(stored), timestamp if codec.timestamped else -1)
            for key in sorted(rows, key=self._order_of_closed)
            for stored, timestamp in [rows[key]]
            if stored is not None
        ]

    def _order_of_closed(self, row_key: bytes) -> Any:
        """Return what orders closed windows or sessions: on disk their keys with times in front.

        Kafka's ``TimeFirstWindowKeySchema`` and ``TimeFirstSessionKeySchema``.
        """
        suffix = self._suffix_bytes
        if not self._expiry.persistent:
            return self._expiry.order(row_key, suffix)
        if isinstance(self._timed_keys, SessionKeys):
            return row_key[-suffix:] + row_key[:-suffix]
        return row_key[-suffix:-_NUMBER_BYTES] + row_key[:-suffix] + row_key[-_NUMBER_BYTES:]

    def _written_rows(self, first: int, last: int, oldest: int) -> dict[bytes, tuple[Any, int]]:
        """Return what is not committed and either waits in the record cache or is not too old."""
        pack = self._timed_keys.bytes_of
        return {
            pack(entry.identity): (entry.stored, entry.timestamp)
            for entry in self._written_times().all_between(first, last)
            if entry.flags & DIRTY or entry.identity[1] >= oldest
        }

    def _all(
        self, first: int, last: int, oldest: int, low: Any, high: Any, *, reverse: bool
    ) -> Iterator[tuple[Any, int, int, Any, int]]:
        """Iterate what waits in the record cache, and of the rest what is not older than that."""
        keys, suffix = self._timed_keys, self._suffix_bytes
        low_key = None if low is None else keys.part_bytes(keys.part(low))
        high_key = None if high is None else keys.part_bytes(keys.part(high))
        first, last = max(first, 0), min(last, LONG_MAX)
        oldest = max(first, oldest)
        written = self._written_rows(first, last, oldest)
        bound = None if high_key is None else upper_bound(high_key, last, suffix)
        committed: Iterator[tuple[bytes, bytes]] = iter(())
        if oldest <= last:
            committed = self._backend.fetch_all(oldest, last, low_key, bound, reverse=reverse)
        return self._merged(written, committed, low_key, high_key, reverse=reverse)

    def _merged(
        self,
        written: dict[bytes, tuple[Any, int]],
        committed: Iterator[tuple[bytes, bytes]],
        low: bytes | None,
        high: bytes | None,
        *,
        reverse: bool,
    ) -> Iterator[tuple[Any, int, int, Any, int]]:
        codec, suffix, order_of = self._codec, self._suffix_bytes, self._expiry.order

        def order(row: tuple[bytes, Any]) -> Any:
            return order_of(row[0], suffix)

        rest = ((key, codec.from_row(row)) for key, row in committed if key not in written)
        rows = sorted(written.items(), key=order, reverse=reverse)
        decode = self._timed_keys.decode
        for row_key, (stored, timestamp) in merge(rows, rest, key=order, reverse=reverse):
            key = row_key[:-suffix]
            is_wanted = (low is None or key >= low) and (high is None or key <= high)
            if stored is not None and is_wanted:
                value = codec.to_value(stored)
                yield *decode(row_key), value, timestamp if codec.timestamped else -1

    def abort(self, *, resend: bool = False) -> None:
        """Forget every uncommitted write, as ``LayeredStore.abort``."""
        super().abort(resend=resend)
        self._newest = self._backend.stream_time


class _Reader(TimedStore):
    """Reads a store with another codec; what the other has seen, it has seen."""

    def __init__(self, of: TimedStore, codec: StoreCodec) -> None:
        self._time_of: Callable[[], int] = lambda: of._newest  # noqa: SLF001 - of its own kind
        super().__init__(of._spec, of._below, of._cache)  # noqa: SLF001 - likewise
        self._codec = codec

    @property
    def _newest(self) -> int:
        return self._time_of()

    @_newest.setter
    def _newest(self, _: int) -> None:
        """It is the other's."""


def _nothing() -> None:
    """Nobody counts what has expired."""
