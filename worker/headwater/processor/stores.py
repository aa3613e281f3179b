"""What a processor gets for a store: Kafka's ``KeyValueStore`` and ``TimestampedKeyValueStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater import ports
    from headwater.processor.environment import Current
    from headwater.serde import Serde


class ValueAndTimestamp(NamedTuple):
    """What a timestamped store holds per key; the timestamp is in milliseconds since the epoch."""

    value: Any
    timestamp: int


class _StoreView:
    """A view of a task's store; a deletion is logged at the time of the record under way."""

    __slots__ = ("_current", "_store")

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        self._store = store
        self._current = current

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        return self._store.approximate_num_entries()

    def _scan(self, prefix: Any, serde: Serde[Any] | None) -> Iterator[tuple[Any, Any, int]]:
        # As Kafka Streams does, the prefix is serialized for no topic.
        encode = None if serde is None else serde.serializer("")
        return self._store.prefix_scan(prefix, encode)


class ReadOnlyKeyValueStore(_StoreView):
    """The reading half of a store without timestamps, or of one whose timestamps do not count.

    Keys are ordered by their serialized bytes. An iterator does not see what is written later.
    """

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Return the value of ``key``, or ``None``."""
        found = self._store.get(key)
        return None if found is None else found[0]

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate ``(key, value)`` from ``start`` to ``end`` inclusive; ``None`` leaves it open."""
        return ((key, value) for key, value, _ in self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        return ((key, value) for key, value, _ in self._store.range(start, end, reverse=True))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate every ``(key, value)``."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate every ``(key, value)``, the last key first."""
        return self.reverse_range(None, None)

    def prefix_scan(
        self, prefix: Any, prefix_serde: Serde[Any] | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Iterate ``(key, value)`` of the keys whose bytes begin with those of ``prefix``.

        ``prefix_serde`` serializes the prefix; without it the store's key serde does.
        """
        return ((key, value) for key, value, _ in self._scan(prefix, prefix_serde))


class KeyValueStore(ReadOnlyKeyValueStore):
    """A store without timestamps; writes are logged at the time of the record under way."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set ``key``; a value of ``None`` deletes it."""
        self._store.put(key, value, self._current.timestamp)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set ``key`` if it has no value; return the value it had."""
        old = self._store.put_if_absent(key, value, self._current.timestamp)
        return None if old is None else old[0]

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Set several keys; a value of ``None`` deletes."""
        timestamp = self._current.timestamp
        self._store.put_all((key, value, timestamp) for key, value in entries)

    def delete(self, key: Any) -> Any:
        """Delete ``key``; return the value it had."""
        old = self._store.delete(key, self._current.timestamp)
        return None if old is None else old[0]


class ReadOnlyTimestampedKeyValueStore(_StoreView):
    """The reading half of a store with a timestamp per value.

    Keys are ordered by their serialized bytes. An iterator does not see what is written later.
    """

    __slots__ = ()

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """Return value and timestamp of ``key``, or ``None``."""
        found = self._store.get(key)
        return None if found is None else ValueAndTimestamp(*found)

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate ``(key, (value, timestamp))`` from ``start`` to ``end``, both inclusive.

        ``None`` leaves a side open.
        """
        return _paired(self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        return _paired(self._store.range(start, end, reverse=True))

    def all(self) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate every entry."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate every entry, the last key first."""
        return self.reverse_range(None, None)

    def prefix_scan(
        self, prefix: Any, prefix_serde: Serde[Any] | None = None
    ) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate ``(key, (value, timestamp))`` of the keys whose bytes begin with the prefix's.

        ``prefix_serde`` serializes the prefix; without it the store's key serde does.
        """
        return _paired(self._scan(prefix, prefix_serde))


class TimestampedKeyValueStore(ReadOnlyTimestampedKeyValueStore):
    """A store with a timestamp per value, in milliseconds since the epoch."""

    __slots__ = ()

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        """Set ``key`` at ``timestamp``; a value of ``None`` deletes it."""
        self._store.put(key, value, timestamp)

    def put_if_absent(self, key: Any, value: Any, timestamp: int) -> ValueAndTimestamp | None:
        """Set ``key`` at ``timestamp`` if it has no value; return what it had."""
        old = self._store.put_if_absent(key, value, timestamp)
        return None if old is None else ValueAndTimestamp(*old)

    def put_all(self, entries: Iterable[tuple[Any, tuple[Any, int] | None]]) -> None:
        """Set several keys, each to ``(value, timestamp)``; ``None`` in their place deletes."""
        nothing = (None, self._current.timestamp)
        self._store.put_all((key, *(found or nothing)) for key, found in entries)

    def delete(self, key: Any) -> ValueAndTimestamp | None:
        """Delete ``key``; return what it had."""
        old = self._store.delete(key, self._current.timestamp)
        return None if old is None else ValueAndTimestamp(*old)


def _paired(rows: Iterator[tuple[Any, Any, int]]) -> Iterator[tuple[Any, ValueAndTimestamp]]:
    return ((key, ValueAndTimestamp(value, timestamp)) for key, value, timestamp in rows)
