"""What a processor gets for a store of windows or of sessions.

Kafka's ``WindowStore``, ``TimestampedWindowStore`` and ``SessionStore``. Times are milliseconds
since the epoch, or aware datetimes. What is older than the store's retention is never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.durations import LONG_MAX, epoch_millis
from headwater.model.windows import Window, Windowed
from headwater.processor.stores import ValueAndTimestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import TypeAlias

    from headwater import ports
    from headwater.processor.environment import Current

    Time: TypeAlias = "int | datetime"


class _TimedView:
    """A view of a task's store; what names no timestamp is logged at that of the record."""

    __slots__ = ("_current", "_store")

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        self._store = cast("ports.TimedStore", store)
        self._current = current

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def approximate_num_entries(self) -> int:
        """About how many windows or sessions there are, of all keys."""
        return self._store.approximate_num_entries()


class ReadOnlyWindowStore(_TimedView):
    """The reading half of a store of windows; timestamps do not count."""

    __slots__ = ()

    def _value(self, value: Any, timestamp: int) -> Any:
        del timestamp
        return value

    def fetch(self, key: Any, *arguments: Any) -> Any:
        """Read windows, as one of Kafka's three methods of this name.

        ``fetch(key, time)`` gives the value of the window that starts at ``time``, or ``None``.

        ``fetch(key, time_from, time_to)`` iterates ``(start, value)`` of the windows of ``key``
        whose starts lie between, both inclusive, by start.

        ``fetch(key_from, key_to, time_from, time_to)`` iterates ``(windowed key, value)`` of all
        keys between, both inclusive; ``None`` leaves a side open.

        Args:
            key: the key, or with four arguments the smallest one.
            arguments: the largest key if there are four arguments, then the start of one window,
                or the earliest and the latest start.

        Raises:
            SerializationError: a key is null or its serde does not take it.
            TypeError: the number of arguments is another one.
        """
        match arguments:
            case (time,):
                found = self._store.get((key, _millis(time), 0))
                return None if found is None else self._value(*found)
            case (first, last):
                return self._of_key(key, first, last, reverse=False)
            case (key_to, first, last):
                return self._of_keys(key, key_to, first, last, reverse=False)
            case _:
                raise _arguments("fetch", "(key, time), (key, time_from, time_to)")

    def backward_fetch(self, key: Any, *arguments: Any) -> Iterator[Any]:
        """Iterate as ``fetch`` with two times, the latest window first.

        Raises:
            SerializationError: a key is null or its serde does not take it.
        """
        match arguments:
            case (first, last):
                return self._of_key(key, first, last, reverse=True)
            case (key_to, first, last):
                return self._of_keys(key, key_to, first, last, reverse=True)
            case _:
                raise _arguments("backward_fetch", "(key, time_from, time_to)")

    def fetch_all(self, time_from: Time, time_to: Time) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate ``(windowed key, value)`` of all keys by start.

        Args:
            time_from: the earliest start, inclusive.
            time_to: the latest start, inclusive.
        """
        return self._of_keys(None, None, time_from, time_to, reverse=False)

    def backward_fetch_all(
        self, time_from: Time, time_to: Time
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate as ``fetch_all``, the other way round."""
        return self._of_keys(None, None, time_from, time_to, reverse=True)

    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate ``(windowed key, value)`` of every window."""
        return self._of_keys(None, None, 0, LONG_MAX, reverse=False)

    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate as ``all``, the other way round."""
        return self._of_keys(None, None, 0, LONG_MAX, reverse=True)

    def _of_key(
        self, key: Any, first: Time, last: Time, *, reverse: bool
    ) -> Iterator[tuple[int, Any]]:
        found = self._store.fetch(key, _millis(first), _millis(last), reverse=reverse)
        return ((start, self._value(value, at)) for start, _, value, at in found)

    def _of_keys(
        self, low: Any, high: Any, first: Time, last: Time, *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        size = self._store.window_size_ms
        found = self._store.fetch_all(
            _millis(first), _millis(last), low=low, high=high, reverse=reverse
        )
        return (
            (Windowed(key, Window(start, min(start + size, LONG_MAX))), self._value(value, at))
            for key, start, _, value, at in found
        )


class WindowStore(ReadOnlyWindowStore):
    """A store of windows without timestamps; writes are logged at the time of the record."""

    __slots__ = ()

    def put(self, key: Any, value: Any, window_start: Time) -> None:
        """Set the window of ``key`` that starts at ``window_start``; ``None`` deletes it.

        Where duplicates are retained it adds a value. What is older than the retention is dropped
        and counted.
        """
        current = self._current
        self._store.append(key, _millis(window_start), value, current.timestamp, current.record[4])


class ReadOnlyTimestampedWindowStore(ReadOnlyWindowStore):
    """The reading half of a store of windows with a timestamp per value."""

    __slots__ = ()

    def _value(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp)


class TimestampedWindowStore(ReadOnlyTimestampedWindowStore):
    """A store of windows with a timestamp per value, in milliseconds since the epoch."""

    __slots__ = ()

    def put(self, key: Any, value: Any, timestamp: int, window_start: Time) -> None:
        """Set the window of ``key`` that starts at ``window_start``; a value of ``None`` deletes.

        What is older than the retention is dropped and counted.
        """
        at = self._current.timestamp if value is None else timestamp
        self._store.append(key, _millis(window_start), value, at, self._current.record[4])


class ReadOnlySessionStore(_TimedView):
    """The reading half of a store of sessions."""

    __slots__ = ()

    def fetch_session(self, key: Any, start: Time, end: Time) -> Any:
        """Return the value of the session of ``key`` from ``start`` to ``end``, or ``None``."""
        found = self._store.get((key, _millis(end), _millis(start)))
        return None if found is None else found[0]

    def fetch(self, key: Any, key_to: Any = None) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate ``(session, value)`` of a key, or of a range of keys, by end.

        Args:
            key: the key, or the smallest key of the range.
            key_to: the largest key of the range, inclusive; ``None`` for ``key`` alone.

        Raises:
            SerializationError: a key is null or its serde does not take it.
        """
        return self._fetched(key, key_to, reverse=False)

    def backward_fetch(self, key: Any, key_to: Any = None) -> Iterator[tuple[Windowed[Any], Any]]:
        """Iterate as ``fetch``, the latest session first."""
        return self._fetched(key, key_to, reverse=True)

    def find_sessions(self, *arguments: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """Find sessions, as one of Kafka's three methods of this name.

        ``find_sessions(key, earliest_end, latest_start)`` iterates ``(session, value)`` of the
        sessions of ``key`` that end at ``earliest_end`` or later and start at ``latest_start`` or
        earlier, by end.

        ``find_sessions(key_from, key_to, earliest_end, latest_start)`` does so for all keys
        between, both inclusive; ``None`` leaves a side open.

        ``find_sessions(earliest_end, latest_end)`` iterates the sessions of all keys that end
        between, both inclusive.
        """
        return self._found(arguments, reverse=False)

    def backward_find_sessions(self, *arguments: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """Find as ``find_sessions`` with keys, the latest session first."""
        return self._found(arguments, reverse=True)

    def _fetched(
        self, key: Any, key_to: Any, *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        if key_to is None:
            return self._of_key(key, 0, LONG_MAX, reverse=reverse)
        return self._of_keys(key, key_to, 0, LONG_MAX, LONG_MAX, reverse=reverse)

    def _found(
        self, arguments: tuple[Any, ...], *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        match arguments:
            case (end, latest_end):
                return self._of_keys(
                    None, None, _millis(end), LONG_MAX, _millis(latest_end), reverse=reverse
                )
            case (key, end, start):
                return self._of_key(key, _millis(end), _millis(start), reverse=reverse)
            case (low, high, end, start):
                return self._of_keys(
                    low, high, _millis(end), _millis(start), LONG_MAX, reverse=reverse
                )
            case _:
                raise _arguments("find_sessions", "(key, earliest_end, latest_start)")

    def _of_key(
        self, key: Any, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        found = self._store.fetch(key, earliest_end, LONG_MAX, reverse=reverse)
        return (
            (Windowed(key, Window(start, end)), value)
            for end, start, value, _ in found
            if start <= latest_start
        )

    def _of_keys(
        self,
        low: Any,
        high: Any,
        earliest_end: int,
        latest_start: int,
        latest_end: int,
        *,
        reverse: bool,
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        found = self._store.fetch_all(earliest_end, latest_end, low=low, high=high, reverse=reverse)
        return (
            (Windowed(key, Window(start, end)), value)
            for key, end, start, value, _ in found
            if start <= latest_start
        )


class SessionStore(ReadOnlySessionStore):
    """A store of sessions; writes are logged at the time of the record."""

    __slots__ = ()

    def put(self, session: Windowed[Any], value: Any) -> None:
        """Set a session; ``None`` deletes it.

        One that ends before the retention is dropped and counted.
        """
        (start, end), current = session.window, self._current
        self._store.put((session.key, end, start), value, current.timestamp, current.record[4])

    def remove(self, session: Windowed[Any]) -> None:
        """Delete a session."""
        self.put(session, None)


def _millis(time: Time) -> int:
    return time if time.__class__ is int else epoch_millis("a window's time", time)


def _arguments(method: str, first: str) -> TypeError:
    return TypeError(f"{method} takes {first} or (key_from, key_to, ...); see its documentation")
