"""Entries of a store in memory that keeps only those used last (Kafka's ``MemoryLRUCache``).

A put beyond the bound evicts at once, and says whom, so what is not committed lies here, too. What
there was before is kept until the commit, for an abort.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from headwater.state.backends.memory import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.ports import Position

_OVERHEAD_BYTES: Final = 56
"""About what an uncommitted entry takes beside key and row."""


class LruBackend:
    """Holds at most ``entries_max`` entries, the one used longest ago first.

    Its position lives as long as the object: after a restart the store is built anew from its
    changelog, in the order of the last puts.
    """

    persistent = False

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: dict[bytes, bytes] = {}
        self._before: dict[bytes, bytes | None] = {}
        """Of what changed since the commit: what was there, ``None`` if nothing was."""
        self._before_seal: dict[bytes, bytes | None] = {}
        self._uncommitted_bytes = 0
        self._sealed_bytes = 0
        self._position: Position | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, which is thereby used."""
        row = self._entries.pop(key, None)
        if row is not None:
            self._entries[key] = row
        return row

    def put(self, key: bytes, row: bytes) -> bytes | None:
        """Set ``key``, before it is committed; return the key that is evicted for it."""
        self._note(key)
        old = self._entries.pop(key, None)
        self._uncommitted_bytes += len(row) - len(old or b"")
        self._entries[key] = row
        if old is not None or len(self._entries) <= self._entries_max:
            return None
        eldest = next(iter(self._entries))
        self.delete(eldest)
        return eldest

    def delete(self, key: bytes) -> None:
        """Delete ``key``, before that is committed."""
        self._note(key)
        self._uncommitted_bytes -= len(self._entries.pop(key, b""))

    def _note(self, key: bytes) -> None:
        if key not in self._before:
            row = self._before[key] = self._entries.get(key)
            self._uncommitted_bytes += len(key) + len(row or b"") + _OVERHEAD_BYTES

    @property
    def uncommitted_bytes(self) -> int:
        """About how much the entries take that were put since the commit."""
        return self._uncommitted_bytes + self._sealed_bytes

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call.

        As in Kafka Streams nothing is used thereby.
        """
        keys = sorted(self._entries)
        low = 0 if start is None else bisect_left(keys, start)
        high = len(keys) if end is None else bisect_right(keys, end)
        found = [(key, self._entries[key]) for key in keys[low:high]]
        return iter(found[::-1] if reverse else found)

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) of a changelog, and the position."""
        for key, row in list(entries):
            if row is None:
                self._entries.pop(key, None)
            else:
                self._entries.pop(key, None)
                self._entries[key] = row
        for key in list(self._entries)[: max(0, len(self._entries) - self._entries_max)]:
            del self._entries[key]
        if position is not None:
            self._position = position

    def seal(self) -> None:
        """Let what is written from now on belong to the next commit."""
        self._before_seal, self._before = self._before, {}
        self._sealed_bytes, self._uncommitted_bytes = self._uncommitted_bytes, 0

    def commit(self, position: Position | None) -> None:
        """Keep what was written up to ``seal``."""
        self._before_seal = {}
        self._sealed_bytes = 0
        if position is not None:
            self._position = position

    def committed(self) -> MemoryBackend:
        """Return a copy of what was committed last; it uses nothing."""
        entries: dict[bytes, bytes | None] = dict(self._entries)
        for before in (self._before, self._before_seal):
            entries |= before
        copy = MemoryBackend()
        copy.write(entries.items(), self._position)
        return copy

    def abort(self) -> None:
        """Take back what is not committed; what comes back counts as used last."""
        for before in (self._before, self._before_seal):
            for key, row in before.items():
                self._entries.pop(key, None)
                if row is not None:
                    self._entries[key] = row
        self._before, self._before_seal = {}, {}
        self._uncommitted_bytes = self._sealed_bytes = 0

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
        self._before, self._before_seal = {}, {}
        self._position = None
