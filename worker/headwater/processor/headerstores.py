"""What a processor gets for a store with headers (KIP-1271).

Kafka's ``TimestampedKeyValueStoreWithHeaders``, ``TimestampedWindowStoreWithHeaders`` and
``SessionStoreWithHeaders``. A deletion has the headers of the record under way in the changelog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.stored_headers import AggregationWithHeaders, ValueTimestampHeaders
from headwater.processor.stores import _StoreView
from headwater.processor.windowstores import ReadOnlySessionStore, ReadOnlyWindowStore, _millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater import ports
    from headwater.model.windows import Windowed
    from headwater.ports import Headers
    from headwater.processor.environment import Current
    from headwater.processor.windowstores import Time
    from headwater.serde import Serde


class ReadOnlyTimestampedKeyValueStoreWithHeaders(_StoreView):
    """The reading half of a store with timestamp and headers per value.

    Keys are ordered by their serialized bytes. An iterator does not see what is written later.
    """

    __slots__ = ("_written",)

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        super().__init__(store.with_headers(), current)
        self._written = store

    def get(self, key: Any) -> ValueTimestampHeaders[Any] | None:
        """Return value, timestamp and headers of ``key``, or ``None``."""
        return _made(self._store.get(key))

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
        """Iterate ``(key, (value, timestamp, headers))`` from ``start`` to ``end``, both inclusive.

        ``None`` leaves a side open.
        """
        return _each(self._store.range(start, end))

    def reverse_range(
        self, start: Any, end: Any
    ) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        return _each(self._store.range(start, end, reverse=True))

    def all(self) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
        """Iterate every entry."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
        """Iterate every entry, the last key first."""
        return self.reverse_range(None, None)

    def prefix_scan(
        self, prefix: Any, prefix_serde: Serde[Any] | None = None
    ) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
        """Iterate ``(key, (value, timestamp, headers))`` of the keys that begin with ``prefix``.

        ``prefix_serde`` serializes the prefix; without it the store's key serde does.
        """
        return _each(self._scan(prefix, prefix_serde))


class TimestampedKeyValueStoreWithHeaders(ReadOnlyTimestampedKeyValueStoreWithHeaders):
    """A store with timestamp and headers per value; timestamps are milliseconds since the epoch."""

    __slots__ = ()

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = None) -> None:
        """Set ``key`` at ``timestamp`` with ``headers``; a value of ``None`` deletes it."""
        if value is None:
            self._delete(key)
        else:
            held = AggregationWithHeaders(value, headers)
            self._written.put(key, held, timestamp, self._current.headers)

    def put_if_absent(
        self, key: Any, value: Any, timestamp: int, headers: Headers = None
    ) -> ValueTimestampHeaders[Any] | None:
        """Set ``key`` as ``put`` if it has no value; return what it had."""
        old = self.get(key)
        if old is None:
            self.put(key, value, timestamp, headers)
        return old

    def put_all(self, entries: Iterable[tuple[Any, tuple[Any, int, Headers] | None]]) -> None:
        """Set several keys to ``(value, timestamp, headers)``; ``None`` in their place deletes."""
        for key, found in entries:
            self.put(key, *(found or (None, -1, None)))

    def delete(self, key: Any) -> ValueTimestampHeaders[Any] | None:
        """Delete ``key``; return what it had."""
        old = self.get(key)
        self._delete(key)
        return old

    def _delete(self, key: Any) -> None:
        current = self._current
        self._written.put(key, None, current.timestamp, current.headers)


class ReadOnlyTimestampedWindowStoreWithHeaders(ReadOnlyWindowStore):
    """The reading half of a store of windows with timestamp and headers per value."""

    __slots__ = ("_written",)

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        super().__init__(store.with_headers(), current)
        self._written: Any = store

    def _value(self, value: Any, timestamp: int) -> Any:
        return ValueTimestampHeaders(value.aggregation, timestamp, value.headers)


class TimestampedWindowStoreWithHeaders(ReadOnlyTimestampedWindowStoreWithHeaders):
    """A store of windows with timestamp and headers per value."""

    __slots__ = ()

    def put(
        self, key: Any, value: Any, timestamp: int, window_start: Time, headers: Headers = None
    ) -> None:
        """Set the window of ``key`` that starts at ``window_start``; a value of ``None`` deletes.

        What is older than the retention is dropped and counted.
        """
        current, held = self._current, None
        if value is None:
            timestamp = current.timestamp
        else:
            held = AggregationWithHeaders(value, headers)
        self._written.append(key, _millis(window_start), held, timestamp, current.headers)


class ReadOnlySessionStoreWithHeaders(ReadOnlySessionStore):
    """The reading half of a store of sessions: its values are ``AggregationWithHeaders``."""

    __slots__ = ("_written",)

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        super().__init__(store.with_headers(), current)
        self._written = store


class SessionStoreWithHeaders(ReadOnlySessionStoreWithHeaders):
    """A store of sessions with headers per aggregate; writes are logged at the record's time."""

    __slots__ = ()

    def put(self, session: Windowed[Any], value: Any, headers: Headers = None) -> None:
        """Set a session, with its headers; a value of ``None`` deletes it.

        One that ends before the retention is dropped and counted.
        """
        (start, end), current = session.window, self._current
        held = None if value is None else AggregationWithHeaders(value, headers)
        self._written.put((session.key, end, start), held, current.timestamp, current.headers)

    def remove(self, session: Windowed[Any]) -> None:
        """Delete a session."""
        self.put(session, None)


def _made(found: tuple[Any, int] | None) -> ValueTimestampHeaders[Any] | None:
    if found is None:
        return None
    (value, headers), timestamp = found
    return ValueTimestampHeaders(value, timestamp, headers)


def _each(rows: Iterator[tuple[Any, Any, int]]) -> Iterator[tuple[Any, ValueTimestampHeaders[Any]]]:
    return (
        (key, ValueTimestampHeaders(value, timestamp, headers))
        for key, (value, headers), timestamp in rows
    )
