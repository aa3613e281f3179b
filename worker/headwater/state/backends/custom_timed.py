"""The backend of windows or sessions in a store of the user's own.

Rows have key, time and number as anywhere; the store has windows or sessions. What is too old is
never put. What has become so is deleted once time has gone on by a segment, as on a disk
(``docs/adr/0076-a-users-store-has-what-is-committed.md``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.model.durations import LONG_MAX
from headwater.model.stores import KeyLayout
from headwater.model.windows import Window, Windowed
from headwater.state.backends.custom import OwnStoreBackend
from headwater.state.expiry import Expiry
from headwater.state.keys import SESSION_SUFFIX, WINDOW_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.model.custom_stores import SessionBytesStore, WindowBytesStore
    from headwater.model.stores import StoreSpec
    from headwater.ports import Position

_NUMBER: Final = struct.Struct(">i")
_SESSIONS: Final = ("SessionBytesStore", "fetch_session", "find_sessions")
_WINDOWS: Final = ("WindowBytesStore", "fetch", "fetch_all")
_pack_window: Final = WINDOW_SUFFIX.pack
_pack_session: Final = SESSION_SUFFIX.pack


class _Rows(Protocol):
    """Rows in a store of the user's own."""

    def put(self, key: bytes, time: int, other: int, row: bytes | None) -> None:
        """Set or delete a row."""
        ...

    def forget(self, key: bytes, time: int, other: int) -> None:
        """Delete a row that is too old; others of its window are so, too."""
        ...

    def get(self, key: bytes, time: int, other: int) -> bytes | None:
        """Return a row."""
        ...

    def of_key(self, key: bytes, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows of a key, both times inclusive."""
        ...

    def of_all(self, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows of all keys, both times inclusive."""
        ...


class _Windows:
    """One row for each window."""

    def __init__(self, store: WindowBytesStore) -> None:
        self._store = store

    def put(self, key: bytes, time: int, other: int, row: bytes | None) -> None:
        del other
        self._store.put(key, row, time)

    def forget(self, key: bytes, time: int, other: int) -> None:
        del other
        self._store.put(key, None, time)

    def get(self, key: bytes, time: int, other: int) -> bytes | None:
        if other:
            return None
        found = next(iter(self._store.fetch(key, time, time)), None)
        return None if found is None else found[1]

    def of_key(self, key: bytes, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for start, row in self._store.fetch(key, first, last):
            yield key + _pack_window(start, 0), row

    def of_all(self, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for key, start, row in self._store.fetch_all(first, last):
            yield key + _pack_window(start, 0), row


class _Duplicates:
    """Several rows for each window; the number of each lies in front of its value."""

    def __init__(self, store: WindowBytesStore) -> None:
        self._store = store
        self._largest = -1

    def put(self, key: bytes, time: int, other: int, row: bytes | None) -> None:
        number = _NUMBER.pack(other)
        if other > self._largest and row is not None:
            self._largest = other
            self._store.put(key, number + row, time)
            return
        # There may be one of this number: in a changelog that another process has begun.
        held = dict(self._of_window(key, time))
        if number not in held:
            if row is not None:
                self._store.put(key, number + row, time)
            return
        held[number] = row
        self._store.put(key, None, time)
        for each, kept in held.items():
            if kept is not None:
                self._store.put(key, each + kept, time)

    def forget(self, key: bytes, time: int, other: int) -> None:
        del other
        self._store.put(key, None, time)

    def _of_window(self, key: bytes, time: int) -> Iterator[tuple[bytes, bytes | None]]:
        for _, value in self._store.fetch(key, time, time):
            yield value[: _NUMBER.size], value[_NUMBER.size :]

    def get(self, key: bytes, time: int, other: int) -> bytes | None:
        return dict(self._of_window(key, time)).get(_NUMBER.pack(other))

    def of_key(self, key: bytes, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for start, value in self._store.fetch(key, first, last):
            yield self._row(key, start, value)

    def of_all(self, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for key, start, value in self._store.fetch_all(first, last):
            yield self._row(key, start, value)

    @staticmethod
    def _row(key: bytes, start: int, value: bytes) -> tuple[bytes, bytes]:
        number: int = _NUMBER.unpack_from(value)[0]
        return key + _pack_window(start, number), value[_NUMBER.size :]


class _Sessions:
    """One row for each session; its time is the end."""

    def __init__(self, store: SessionBytesStore) -> None:
        self._store = store

    def put(self, key: bytes, time: int, other: int, row: bytes | None) -> None:
        self._store.put(Windowed(key, Window(other, time)), row)

    def forget(self, key: bytes, time: int, other: int) -> None:
        self.put(key, time, other, None)

    def get(self, key: bytes, time: int, other: int) -> bytes | None:
        return self._store.fetch_session(key, other, time)

    def of_key(self, key: bytes, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for (_, (start, end)), row in self._store.find_sessions(first, last, key):
            yield key + _pack_session(end, start), row

    def of_all(self, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        for (key, (start, end)), row in self._store.find_sessions(first, last):
            yield key + _pack_session(end, start), row


def _rows_of(spec: StoreSpec, store: Any) -> _Rows:
    if spec.kind.key_layout is KeyLayout.SESSION:
        return _Sessions(store)
    return (_Duplicates if spec.retain_duplicates else _Windows)(store)


class CustomTimedBackend(OwnStoreBackend["WindowBytesStore | SessionBytesStore"]):
    """Hands committed windows or sessions to a store of the user's own (a ``TimedBackend``).

    Args:
        spec: the store.
        store: what the supplier made.

    Attributes:
        stream_time: the largest time of all rows that were ever written; -1 before the first.

    Raises:
        StateError: it lacks a method.
    """

    def __init__(self, spec: StoreSpec, store: WindowBytesStore | SessionBytesStore) -> None:
        is_session = spec.kind.key_layout is KeyLayout.SESSION
        super().__init__(spec.name, store, *(_SESSIONS if is_session else _WINDOWS))
        self.stream_time = -1
        self._suffix = SESSION_SUFFIX if is_session else WINDOW_SUFFIX
        self._rows = _rows_of(spec, store)
        self._expiry = Expiry.of(spec)
        self._next_sweep = self._expiry.segment_ms

    def get(self, key: bytes) -> bytes | None:
        """Return the row of a key with its time."""
        return self._rows.get(*self._parts(key))

    def _parts(self, row_key: bytes) -> tuple[bytes, int, int]:
        at = len(row_key) - self._suffix.size
        time, other = self._suffix.unpack_from(row_key, at)
        return row_key[:at], time, other

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call."""
        found = (
            row
            for row in self._rows.of_all(0, LONG_MAX)
            if (start is None or row[0] >= start) and (end is None or row[0] <= end)
        )
        return iter(sorted(found, reverse=reverse))

    def fetch(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows of ``key`` from time ``first`` to ``last``, both inclusive, in order."""
        return sorted(self._rows.of_key(key, first, last))

    def fetch_all(
        self, first: int, last: int, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows from time ``first`` to ``last``, both inclusive, as of this call."""
        found = [
            row
            for row in self._rows.of_all(first, last)
            if (low is None or row[0] >= low) and (high is None or row[0] <= high)
        ]
        suffix = self._suffix.size
        found.sort(key=lambda row: self._expiry.order(row[0], suffix), reverse=reverse)
        return iter(found)

    def fetch_by_time(self, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the rows from time ``first`` to ``last``, both inclusive, in no order."""
        return list(self._rows.of_all(first, last))

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) and the position; leave out what is too old."""
        written = [(*self._parts(row_key), row) for row_key, row in entries]
        self.stream_time = max(self.stream_time, *(time for _, time, _, _ in written), -1)
        with self._writing(position):
            self._put(written, self._expiry.oldest_kept(self.stream_time))

    def _put(self, written: list[tuple[bytes, int, int, bytes | None]], oldest: int) -> None:
        put = self._rows.put
        for key, time, other, row in written:
            if row is None or time >= oldest:
                put(key, time, other, row)
        if oldest >= self._next_sweep:
            self._next_sweep = oldest + self._expiry.segment_ms
            for row_key, _ in list(self._rows.of_all(0, oldest - 1)):
                self._rows.forget(*self._parts(row_key))
