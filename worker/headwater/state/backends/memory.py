"""The in-memory backend: a dict, with its keys sorted when somebody asks for a range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.ports import Position


class MemoryBackend:
    """Holds the committed entries of one store in memory (Kafka's ``InMemoryKeyValueStore``).

    Its position lives as long as the object: after a restart the store is built anew from its
    changelog.
    """

    persistent = False

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = None
        self._position: Position | None = None
        self.get = self._entries.get

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call."""
        if self._sorted is None:
            self._sorted = sorted(self._entries)
        low = 0 if start is None else bisect_left(self._sorted, start)
        high = len(self._sorted) if end is None else bisect_right(self._sorted, end)
        keys = self._sorted[low:high]
        if reverse:
            keys.reverse()
        return iter([(key, self._entries[key]) for key in keys])

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) and the position."""
        held = self._entries
        before = len(held)
        deleted = False
        for key, value in list(entries):
            if value is not None:
                held[key] = value
            elif held.pop(key, None) is not None:
                deleted = True
        if deleted or len(held) != before:
            self._sorted = None
        if position is not None:
            self._position = position

    def position(self) -> Position | None:
        """Return the position of the last write that carried one."""
        return self._position

    def flush_later(self) -> None:
        """Nothing is buffered."""

    def approximate_num_entries(self) -> int:
        """How many keys there are, exactly."""
        return len(self._entries)

    def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._sorted = None
        self._position = None
