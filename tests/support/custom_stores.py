"""Windows, sessions and versions in dictionaries: stores of a user's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headwater import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
    Windowed,
)
from headwater.model.stores import KeyLayout
from tests.support.stores import DictStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater import (
        KeyValueBytesStore,
        SessionBytesStore,
        StoreSpec,
        VersionedBytesStore,
        WindowBytesStore,
    )
    from headwater.model.custom_stores import CustomStore


class _Counted:
    """What all of them do beside keeping entries."""

    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}
        self.flushes = 0
        self.closed = 0

    def approximate_num_entries(self) -> int:
        """How many entries there are."""
        return len(self.held)

    def flush(self) -> None:
        """Count."""
        self.flushes += 1

    def close(self) -> None:
        """Forget everything."""
        self.closed += 1
        self.held.clear()


class DictWindowStore(_Counted):
    """Keeps the values of windows, one or several of each."""

    def __init__(self, *, retain_duplicates: bool) -> None:
        super().__init__()
        self.retain_duplicates = retain_duplicates

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set a window, or add a value to it."""
        at = window_start, key
        if value is None:
            self.held.pop(at, None)
        elif self.retain_duplicates:
            self.held.setdefault(at, []).append(value)
        else:
            self.held[at] = [value]

    def fetch(self, key: bytes, time_from: int, time_to: int) -> Iterator[tuple[int, bytes]]:
        """Iterate the windows of a key by start."""
        for (start, whose), values in sorted(self.held.items()):
            if whose == key and time_from <= start <= time_to:
                for value in values:
                    yield start, value

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Iterate the windows of all keys."""
        for (start, key), values in self.held.items():
            if time_from <= start <= time_to:
                for value in values:
                    yield key, start, value


class DictSessionStore(_Counted):
    """Keeps the values of sessions."""

    def put(self, session: Windowed[bytes], value: bytes | None) -> None:
        """Set or delete a session."""
        if value is None:
            self.held.pop(session, None)
        else:
            self.held[session] = value

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session."""
        return self.held.get((key, (start, end)))

    def find_sessions(
        self, earliest_end: int, latest_end: int, key: bytes | None = None
    ) -> Iterator[tuple[Windowed[bytes], bytes]]:
        """Iterate the sessions that end in a span."""
        for session, value in self.held.items():
            is_wanted = key is None or key == session.key
            if is_wanted and earliest_end <= session.window.end_ms <= latest_end:
                yield session, value


class DictVersionedStore(_Counted):
    """Keeps versions."""

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Add or replace a version."""
        self.held[key, timestamp] = value

    def fetch(self, key: bytes, time_from: int, time_to: int) -> Iterator[tuple[int, bytes | None]]:
        """Iterate the versions of a key, the newest first."""
        for (whose, time), value in sorted(self.held.items(), reverse=True):
            if whose == key and time_from <= time <= time_to:
                yield time, value

    def all(self) -> Iterator[tuple[bytes, int, bytes | None]]:
        """Iterate all versions."""
        return iter([(*at, value) for at, value in self.held.items()])

    def forget(self, key: bytes, timestamp: int) -> None:
        """Forget a version."""
        del self.held[key, timestamp]


Made = TypeVar("Made")
MADE: list[Any] = []
"""The stores that the suppliers below have made, the newest last; to be cleared by who looks."""


def noted(store: Made) -> Made:
    """Return a store that was made, noted."""
    MADE.append(store)
    return store


class OwnKeyValues(KeyValueBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> KeyValueBytesStore:
        """Make one."""
        return noted(DictStore())


class OwnWindows(WindowBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> WindowBytesStore:
        """Make one."""
        return noted(DictWindowStore(retain_duplicates=self.retain_duplicates))


class OwnSessions(SessionBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> SessionBytesStore:
        """Make one."""
        return noted(DictSessionStore())


class OwnVersions(VersionedBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> VersionedBytesStore:
        """Make one."""
        return noted(DictVersionedStore())


class AllOwn(DslStoreSuppliers):
    """Has them for all that an application keeps."""

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """Supply one."""
        return OwnKeyValues(name=params.name)

    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        """Supply one."""
        return OwnWindows(
            name=params.name,
            retention_ms=params.retention_ms,
            window_size_ms=params.window_size_ms,
            retain_duplicates=params.retain_duplicates,
        )

    def session_store(self, params: DslSessionParams) -> SessionBytesStoreSupplier:
        """Supply one."""
        return OwnSessions(name=params.name, retention_ms=params.retention_ms)


def in_own_store(spec: StoreSpec) -> StoreSpec:
    """Return the same store, kept in dictionaries."""
    layout = spec.kind.key_layout
    made: Callable[[], CustomStore]
    if layout is KeyLayout.WINDOW:
        made = OwnWindows(
            name=spec.name,
            retention_ms=spec.retention_ms,
            window_size_ms=spec.window_size_ms,
            retain_duplicates=spec.retain_duplicates,
        ).get
    elif layout is KeyLayout.SESSION:
        made = OwnSessions(name=spec.name, retention_ms=spec.retention_ms).get
    elif layout is KeyLayout.VERSIONED:
        made = OwnVersions(name=spec.name, history_retention_ms=spec.retention_ms).get
    else:
        made = OwnKeyValues(name=spec.name).get
    return replace(spec, persistent=False, make_store=made)
