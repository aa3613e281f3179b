"""The processor ``hold`` of the oracle's catalogue, and stores of windows and sessions for it.

``tests/java/oracle/Holding.java`` is its twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater import (
    AggregationWithHeaders,
    Serdes,
    Stores,
    StoreSpec,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Window,
    Windowed,
)
from headwater.model.stores import KeyLayout
from tests.oracle.functions import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ports import Headers


def timed_store(given: Mapping[str, Any]) -> StoreSpec:
    """Return a store of ``windows`` or ``sessions``, as a step of a processor describes it."""
    store = _plain_store(given)
    if given.get("caching"):
        store = store.with_caching_enabled()
    return store if given.get("logging", True) else store.with_logging_disabled()


def _plain_store(given: Mapping[str, Any]) -> StoreSpec:
    name, kept = given["store"], given["retention_ms"]
    in_memory = not given.get("persistent", True)
    if given.get("headers"):
        return _store_with_headers(given, in_memory=in_memory)
    if given["kind"] == "sessions":
        make = Stores.in_memory_session_store if in_memory else Stores.persistent_session_store
        return Stores.session_store_builder(make(name, kept), Serdes.string, Serdes.string)
    if in_memory:
        memory = Stores.in_memory_window_store(name, kept, given["size"])
        if given.get("timestamped", True):
            return Stores.timestamped_window_store_builder(memory, Serdes.string, Serdes.string)
        return Stores.window_store_builder(memory, Serdes.string, Serdes.string)
    if given.get("timestamped", True):
        stamped = Stores.persistent_timestamped_window_store(name, kept, given["size"])
        return Stores.timestamped_window_store_builder(stamped, Serdes.string, Serdes.string)
    plain = Stores.persistent_window_store(name, kept, given["size"])
    return Stores.window_store_builder(plain, Serdes.string, Serdes.string)


def _store_with_headers(given: Mapping[str, Any], *, in_memory: bool) -> StoreSpec:
    name, kept = given["store"], given["retention_ms"]
    serdes = Serdes.string, Serdes.string
    if given["kind"] == "sessions":
        on_disk = Stores.persistent_session_store_with_headers
        sessions = (Stores.in_memory_session_store if in_memory else on_disk)(name, kept)
        return Stores.session_store_with_headers_builder(sessions, *serdes)
    stamped = Stores.persistent_timestamped_window_store_with_headers
    made = Stores.in_memory_window_store if in_memory else stamped
    windows = made(name, kept, given["size"])
    return Stores.timestamped_window_store_with_headers_builder(windows, *serdes)


def hold(
    spec: StoreSpec, store: Any, key: str, value: Any, timestamp: int, headers: Headers
) -> str:
    """Put a value, or delete if it is ``None``; tell what was there.

    A window starts at ``timestamp``, a session starts and ends there. A store with headers gets
    those of the record.
    """
    held = None if value is None else text(value)
    stamp = [timestamp] if spec.kind.timestamped else []
    more = [headers] if spec.kind.keeps_headers else []
    if spec.kind.key_layout is KeyLayout.SESSION:
        session = Windowed(key, Window(timestamp, timestamp))
        old = store.fetch_session(key, timestamp, timestamp)
        store.put(session, held, *more)
    elif spec.kind.key_layout is KeyLayout.WINDOW:
        old = store.fetch(key, timestamp)
        store.put(key, held, *stamp, timestamp, *more)
    else:
        old = store.get(key)
        store.put(key, held, *stamp, *more)
    if isinstance(old, ValueTimestampHeaders):
        return f"{old.value}@{old.timestamp}{_shown(old.headers)}"
    if isinstance(old, AggregationWithHeaders):
        return f"{old.aggregation}{_shown(old.headers)}"
    if isinstance(old, ValueAndTimestamp):
        return f"{old.value}@{old.timestamp}"
    return text(old)


def _shown(headers: Headers) -> str:
    return "".join(
        f" {name}={'null' if value is None else value.hex()}" for name, value in headers or ()
    )
