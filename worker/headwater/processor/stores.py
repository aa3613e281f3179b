"""A user's view of a store, with the operations of Kafka's ``KeyValueStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.ports import KeyValueStore
    from headwater.processor.environment import Current


class ValueAndTimestamp(NamedTuple):
    """What a timestamped store holds per key."""

    value: Any
    timestamp: int


class _StoreView:
    __slots__ = ("_store",)

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        return self._store.approximate_num_entries()


class PlainStore(_StoreView):
    """A store without timestamps; writes are logged at the time of the record under way."""

    __slots__ = ("_current",)

    def __init__(self, store: KeyValueStore, current: Current) -> None:
        super().__init__(store)
        self._current = current

    def get(self, key: Any) -> Any:
        """Return the value of ``key``, or ``None``."""
        found = self._store.get(key)
        return None if found is None else found[0]

    def put(self, key: Any, value: Any) -> None:
        """Set ``key``; a value of ``None`` deletes it."""
        self._store.put(key, value, self._current.timestamp)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set ``key`` if it has no value; return the value it had."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Set several keys."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Delete ``key``; return the value it had."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate ``(key, value)`` from ``start`` to ``end`` inclusive, in the keys' byte order."""
        return ((key, value) for key, value, _ in self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        return ((key, value) for key, value, _ in self._store.range(start, end, reverse=True))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate every ``(key, value)`` in the keys' byte order."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate every ``(key, value)`` in reverse byte order."""
        return self.reverse_range(None, None)


class TimestampedStore(_StoreView):
    """A store with a timestamp per value (Kafka's ``TimestampedKeyValueStore``)."""

    __slots__ = ()

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """Return value and timestamp of ``key``, or ``None``."""
        found = self._store.get(key)
        return None if found is None else ValueAndTimestamp(*found)

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        """Set ``key`` at ``timestamp`` (milliseconds); a value of ``None`` deletes it."""
        self._store.put(key, value, timestamp)

    def delete(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """Delete ``key``; return what it had. ``timestamp`` is the changelog tombstone's."""
        old = self.get(key)
        self._store.put(key, None, timestamp)
        return old

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate ``(key, (value, timestamp))``, ``start`` to ``end`` inclusive, in byte order."""
        return _paired(self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        return _paired(self._store.range(start, end, reverse=True))

    def all(self) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate every entry in byte order."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Iterate every entry in reverse byte order."""
        return self.reverse_range(None, None)


def _paired(rows: Iterator[tuple[Any, Any, int]]) -> Iterator[tuple[Any, ValueAndTimestamp]]:
    return ((key, ValueAndTimestamp(value, timestamp)) for key, value, timestamp in rows)
