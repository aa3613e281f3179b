"""Windows and sessions in RocksDB: one column family for each segment of time, in one database.

A segment that has expired is dropped with its files; no row of it is looked at. The default column
family holds the position, and the stream time up to which the store has seen; both are written in
one batch with the rows of all segments.

A store whose results are emitted when windows close has a second family for each segment: times in
front of keys, so that what has closed is found without a look at what has not.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from rocksdict import Rdict, ReadOptions, WriteBatch

from headwater import failpoints
from headwater.state.backends.rocks import POSITION_KEY, RocksBackend
from headwater.state.expiry import bounds, time_at
from headwater.state.position import encode_position

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from headwater.ports import Position
    from headwater.state.expiry import Expiry

STREAM_TIME_KEY: Final = b"stream-time"
_TIME: Final = struct.Struct(">q")
_PREFIX: Final = "segment."
_TIMES: Final = "times."


def stream_time_of(data: bytes | None) -> int:
    """Return the stream time that a database holds; -1 before the first row."""
    return -1 if data is None else int(_TIME.unpack(data)[0])


class SegmentedRocksBackend(RocksBackend):
    """Holds the committed windows or sessions of one store.

    Kafka's ``RocksDBSegmentedBytesStore``.

    Args:
        path: directory of the database; made if missing.
        expiry: how long rows are kept.
        suffix_bytes: what lies behind the key in a row's key, the time first.
        by_time: segments made from now on have their rows by time, too.
        others: as of ``RocksBackend``.

    Attributes:
        stream_time: the largest time of all rows that were ever written; -1 before the first.
    """

    def __init__(
        self,
        path: Path,
        expiry: Expiry,
        suffix_bytes: int,
        *,
        by_time: bool = False,
        **others: Any,
    ) -> None:
        self._expiry = expiry
        self._suffix_bytes = suffix_bytes
        self._by_time = by_time
        super().__init__(path, **others)
        self._segments: dict[int, Any] = {}
        self._handles: dict[int, Any] = {}
        self._times: dict[int, Any] = {}
        self._time_handles: dict[int, Any] = {}
        self._cursors: dict[int, Any] = {}
        try:
            for family in sorted(self._found):
                kind, _, number = family.partition(".")
                self._add(f"{kind}.", int(number))
            data = self._newest(STREAM_TIME_KEY)
        except Exception as error:
            self.close()
            raise self._explain(error, "opened") from error
        self.stream_time = stream_time_of(data)

    def _families(self) -> list[str]:
        self._found: list[str] = []
        families = super()._families()
        if (self.path / "CURRENT").exists():
            listed = Rdict.list_cf(str(self.path), self._built)
            self._found = [family for family in listed if family.startswith((_PREFIX, _TIMES))]
        return families + self._found

    def _add(self, prefix: str, segment: int) -> None:
        families, handles = (
            (self._segments, self._handles)
            if prefix == _PREFIX
            else (self._times, self._time_handles)
        )
        families[segment] = self._db.get_column_family(f"{prefix}{segment}")
        handles[segment] = self._db.get_column_family_handle(f"{prefix}{segment}")

    def _make(self, segment: int) -> None:
        for prefix in (_PREFIX, _TIMES) if self._by_time else (_PREFIX,):
            self._db.create_column_family(f"{prefix}{segment}", self._built)
            self._add(prefix, segment)

    def get(self, key: bytes) -> bytes | None:
        """Return the row of ``key``.

        Raises:
            StoreCorruptedError: its block is damaged.
        """
        time = time_at(key, self._suffix_bytes)
        if time > self.stream_time:
            return None
        segment = self._segments.get(time // self._expiry.segment_ms)
        if segment is None:
            return None
        try:
            value: bytes | None = segment.get(key)
        except Exception as error:
            raise self._explain(error, "read") from error
        return value

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, segment by segment."""
        return self._kept(self._rows(sorted(self._segments), start, end, reverse=reverse))

    def fetch(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows of ``key`` from time ``first`` to ``last``, both inclusive, in order.

        Raises:
            StoreCorruptedError: a block is damaged.
        """
        if first > self.stream_time:
            return []
        low, high = bounds(key, first, last, self._suffix_bytes)
        length = len(low)
        found: list[tuple[bytes, bytes]] = []
        try:
            for segment in self._between(first, last):
                cursor = self._cursors.get(segment) or self._cursor(segment)
                cursor.seek(low)
                while cursor.valid():
                    row = cursor.key()
                    if row > high:
                        break
                    # A longer key may lie in between.
                    if len(row) == length:
                        found.append((row, cursor.value()))
                    cursor.next()
                else:
                    cursor.status()
        except Exception as error:
            raise self._explain(error, "read") from error
        return found

    def _cursor(self, segment: int) -> Any:
        """Return a cursor of a segment, to be used again until the next write."""
        cursor = self._cursors[segment] = self._segments[segment].iter(ReadOptions())
        return cursor

    def fetch_all(
        self, first: int, last: int, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows from time ``first`` to ``last``, both inclusive, segment by segment.

        Raises:
            StoreCorruptedError: a block is damaged.
        """
        suffix = self._suffix_bytes
        rows = self._rows(self._between(first, last), low, high, reverse=reverse)
        return self._kept(row for row in rows if first <= time_at(row[0], suffix) <= last)

    def fetch_by_time(self, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows from time ``first`` to ``last``, both inclusive, in no order.

        It costs as much as there are, but for segments that do not have their rows by time.

        Raises:
            StoreCorruptedError: a block is damaged.
        """
        found: list[tuple[bytes, bytes]] = []
        for segment in self._between(first, last):
            if segment not in self._times:
                rows = self._rows([segment], None, None, reverse=False)
                suffix = self._suffix_bytes
                found += (row for row in rows if first <= time_at(row[0], suffix) <= last)
                continue
            row_of = self._segments[segment].get
            try:
                found += ((key, row_of(key)) for key in self._keys_at(segment, first, last))
            except Exception as error:
                raise self._explain(error, "read") from error
        return found

    def _keys_at(self, segment: int, first: int, last: int) -> Iterator[bytes]:
        """Iterate the keys of one segment's rows from time ``first`` to ``last``."""
        cursor = self._times[segment].iter(ReadOptions())
        cursor.seek(_TIME.pack(first))
        end = _TIME.pack(last)
        while cursor.valid():
            key = cursor.key()
            if key[: _TIME.size] > end:
                return
            yield key[_TIME.size :]
            cursor.next()
        cursor.status()

    def _kept(self, rows: Generator[Any, None, None]) -> Iterator[tuple[bytes, bytes]]:
        """Return ``rows``, which end when the store is closed."""
        self._iterators.add(rows)
        return rows

    def _between(self, first: int, last: int) -> list[int]:
        low, high = first // self._expiry.segment_ms, last // self._expiry.segment_ms
        if low == high:
            return [low] if low in self._segments else []
        return sorted(segment for segment in self._segments if low <= segment <= high)

    def _rows(
        self, segments: list[int], low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        try:
            for segment in reversed(segments) if reverse else segments:
                cursor = self._segments[segment].iter(ReadOptions())
                if reverse:
                    cursor.seek_to_last() if high is None else cursor.seek_for_prev(high)
                else:
                    cursor.seek_to_first() if low is None else cursor.seek(low)
                while cursor.valid():
                    key = cursor.key()
                    if (low is not None and key < low) or (high is not None and key > high):
                        break
                    yield key, cursor.value()
                    cursor.prev() if reverse else cursor.next()
                else:
                    cursor.status()
        except Exception as error:
            raise self._explain(error, "read") from error

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes, the position and the stream time in one atomic batch.

        Rows of expired segments are left out, and segments that have expired are dropped.

        Raises:
            DiskFullError: nothing of the batch was applied.
        """
        written = list(entries)
        suffix, interval = self._suffix_bytes, self._expiry.segment_ms
        time_in = _TIME.unpack_from
        times = [time_in(key, len(key) - suffix)[0] for key, _ in written]
        stream_time = max(self.stream_time, *times) if times else self.stream_time
        oldest = self._expiry.oldest_kept(stream_time)
        self._cursors.clear()
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        current, handle, time_handle = None, None, None
        try:
            for (key, row), time in zip(written, times, strict=True):
                if time < oldest:
                    continue
                segment = time // interval
                if segment != current:
                    if segment not in self._handles:
                        if row is None:
                            continue
                        self._make(segment)
                    current, handle = segment, self._handles[segment]
                    time_handle = self._time_handles.get(segment)
                if row is None:
                    batch.delete(key, handle)
                else:
                    put(key, row, handle)
                if time_handle is not None:
                    at = _TIME.pack(time) + key
                    if row is None:
                        batch.delete(at, time_handle)
                    else:
                        put(at, b"", time_handle)
            self._note(batch, position, stream_time)
            failpoints.hit("rocks.write")
            self._db.write(batch)
        except Exception as error:
            raise self._explain(error, "written") from error
        self.stream_time = stream_time
        if position is not None:
            self._position = position
        failpoints.hit("rocks.written")
        self._drop_before(oldest)

    def _note(self, batch: Any, position: Position | None, stream_time: int) -> None:
        if position is not None:
            batch.put(POSITION_KEY, encode_position(position))
        if stream_time != self.stream_time:
            batch.put(STREAM_TIME_KEY, _TIME.pack(stream_time))

    def _drop_before(self, oldest: int) -> None:
        first = oldest // self._expiry.segment_ms
        for prefix, families, handles in (
            (_PREFIX, self._segments, self._handles),
            (_TIMES, self._times, self._time_handles),
        ):
            for segment in [each for each in families if each < first]:
                del families[segment], handles[segment]
                try:
                    self._db.drop_column_family(f"{prefix}{segment}")
                except Exception as error:
                    raise self._explain(error, "written") from error

    def _all(self) -> Sequence[Any]:
        """Return the column families: the default one, and those of all segments."""
        return [self._db, *self._segments.values(), *self._times.values()]

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate of the number of rows of all segments."""
        estimates = (
            family.property_int_value("rocksdb.estimate-num-keys")
            for family in self._segments.values()
        )
        return sum(estimate or 0 for estimate in estimates)

    def flush_later(self) -> None:
        """Begin to write the write buffers to tables, so that closing the store has little to do.

        Raises:
            DiskFullError: there is no room.
            StoreCorruptedError: an earlier one failed because of damage.
        """
        super().flush_later()
        try:
            for family in (*self._segments.values(), *self._times.values()):
                family.flush(wait=False)
        except Exception as error:
            raise self._explain(error, "flushed") from error

    def close(self) -> None:
        """Release the files; another process may open them after this returns."""
        for held in (
            self._cursors,
            self._handles,
            self._segments,
            self._time_handles,
            self._times,
        ):
            held.clear()
        super().close()
