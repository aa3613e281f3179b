"""Stores of the user's own: bytes in, bytes out; all else is the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class KeyValueBytesStore(Protocol):
    """What ``KeyValueBytesStoreSupplier.get`` makes for a task (``KeyValueStore<Bytes, byte[]>``).

    It begins empty, and is filled from its changelog at every start. Serdes, the record cache, the
    changelog and what is not committed are above it: it sees what is committed, once. With
    timestamps a value has 8 bytes more in front. Keys are in the order of bytes.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or ``None``."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set ``key``; a value of ``None`` deletes it."""
        ...

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive; ``None`` leaves a side open."""
        ...

    def reverse_range(
        self, start: bytes | None, end: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as ``range``, from ``end`` down to ``start``."""
        ...

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        ...

    def flush(self) -> None:
        """Write out what is buffered; called after the puts of a commit."""
        ...

    def close(self) -> None:
        """Release everything, and forget it: the next start begins with an empty store."""
        ...
