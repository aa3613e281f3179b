"""Stores of the user's own: bytes in, bytes out; all else is the engine's.

Such a store belongs to one task. It begins empty, and is filled from its changelog at every start.
Serdes, the record cache, the changelog and what is not committed are above it: it sees what is
committed, once. With timestamps a value has 8 bytes more in front. Times are milliseconds since the
epoch, at least 0, and both ends of a span belong to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.model.windows import Windowed


class BytesStore(Protocol):
    """What stores of all kinds do."""

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        ...

    def flush(self) -> None:
        """Write out what is buffered; called after the puts of a commit."""
        ...

    def close(self) -> None:
        """Release everything, and forget it: the next start begins with an empty store."""
        ...


class KeyValueBytesStore(BytesStore, Protocol):
    """What ``KeyValueBytesStoreSupplier.get`` makes for a task (``KeyValueStore<Bytes, byte[]>``).

    Keys are in the order of bytes.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or ``None``."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set ``key``; a value of ``None`` deletes it."""
        ...

    def range(self, start: bytes | None, end: bytes | None) -> Iterable[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive; ``None`` leaves a side open."""
        ...

    def reverse_range(
        self, start: bytes | None, end: bytes | None
    ) -> Iterable[tuple[bytes, bytes]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        ...


class WindowBytesStore(BytesStore, Protocol):
    """What ``WindowBytesStoreSupplier.get`` makes for a task (``WindowStore<Bytes, byte[]>``).

    With ``retain_duplicates`` a put adds a value to those of its window, and each value has 4 bytes
    more in front: its number. Windows that are older than the retention are never asked for; from
    time to time the engine deletes them by puts of ``None``.
    """

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set a window, or add a value to it; ``None`` deletes all of the window."""
        ...

    def fetch(self, key: bytes, time_from: int, time_to: int) -> Iterable[tuple[int, bytes]]:
        """Iterate ``(start, value)`` of the windows of ``key`` that start in this span, by start.

        Values of one window are in the order of their puts.
        """
        ...

    def fetch_all(self, time_from: int, time_to: int) -> Iterable[tuple[bytes, int, bytes]]:
        """Iterate ``(key, start, value)`` of all windows that start in this span, in any order."""
        ...


class SessionBytesStore(BytesStore, Protocol):
    """What ``SessionBytesStoreSupplier.get`` makes for a task (``SessionStore<Bytes, byte[]>``).

    Sessions that ended before the retention are never asked for; from time to time the engine
    deletes them by puts of ``None``.
    """

    def put(self, session: Windowed[bytes], value: bytes | None) -> None:
        """Set a session, of ``session.key``; a value of ``None`` deletes it."""
        ...

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of the session of ``key`` from ``start`` to ``end``, or ``None``."""
        ...

    def find_sessions(
        self, earliest_end: int, latest_end: int, key: bytes | None = None
    ) -> Iterable[tuple[Windowed[bytes], bytes]]:
        """Iterate ``(session, value)`` of those of ``key``, or of all keys, that end in this span.

        In any order.
        """
        ...


class VersionedBytesStore(BytesStore, Protocol):
    """What ``VersionedBytesStoreSupplier.get`` makes for a task (Kafka's interface of this name).

    A version is valid up to the time of the next one of its key. One whose value is ``None`` is a
    deletion, which is kept as any other.
    """

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Add a version of ``key``, or replace that of the same time."""
        ...

    def fetch(self, key: bytes, time_from: int, time_to: int) -> Iterable[tuple[int, bytes | None]]:
        """Iterate ``(timestamp, value)`` of the versions of ``key`` in this span, the newest first.

        Often no more than the first one is taken.
        """
        ...

    def all(self) -> Iterable[tuple[bytes, int, bytes | None]]:
        """Iterate ``(key, timestamp, value)`` of all versions, in any order."""
        ...

    def forget(self, key: bytes, timestamp: int) -> None:
        """Forget a version; it is older than the history retention, and so is its follower."""
        ...


CustomStore: TypeAlias = (
    KeyValueBytesStore | WindowBytesStore | SessionBytesStore | VersionedBytesStore
)
"""A store of the user's own."""
