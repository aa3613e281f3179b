"""What every read of a store of windows or of sessions finds, as ``TimedScans.java`` tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater import ValueAndTimestamp, Window, Windowed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater import StoreSpec


def windows(spec: StoreSpec, store: Any, key: str, value: str | None, timestamp: int) -> str:
    """Put or delete a window; return what every read finds."""
    start = timestamp // 10 * 10
    stamp = [timestamp] if spec.kind.timestamped else []
    store.put(key, value, *stamp, start)
    times = max(0, start - 30), start + 10
    reads = (
        store.fetch(key, *times),
        store.backward_fetch(key, *times),
        store.fetch("a", key, *times),
        store.backward_fetch("a", key, *times),
        store.fetch_all(*times),
        store.backward_fetch_all(*times),
        store.all(),
        store.backward_all(),
    )
    return _told(store.fetch(key, start), reads)


def sessions(store: Any, key: str, value: str | None, timestamp: int) -> str:
    """Put or remove a session; return what every read finds."""
    start = timestamp - timestamp % 7
    session = Windowed(key, Window(start, timestamp))
    if value is None:
        store.remove(session)
    else:
        store.put(session, value)
    times = max(0, timestamp - 20), timestamp + 5
    # Over a record cache Java's backward reads miss what ends after the latest start.
    late = times[0], 1_000_000
    reads = (
        store.fetch(key),
        store.backward_fetch(key),
        store.fetch("a", key),
        store.backward_fetch("a", key),
        store.find_sessions(key, *times),
        store.backward_find_sessions(key, *late),
        store.find_sessions("a", key, *times),
        store.backward_find_sessions("a", key, *late),
    )
    return _told(store.fetch_session(key, start, timestamp), reads)


def _told(single: Any, reads: Iterable[Iterable[tuple[Any, Any]]]) -> str:
    return _value(single) + "".join(
        " |" + "".join(f" {_place(place)}{_value(value)}" for place, value in rows)
        for rows in reads
    )


def _value(value: Any) -> str:
    if isinstance(value, ValueAndTimestamp):
        return f"{value.value}@{value.timestamp}"
    return "null" if value is None else str(value)


def _place(place: Any) -> str:
    return f"{place.key}{place.window.start_ms}" if isinstance(place, Windowed) else str(place)
