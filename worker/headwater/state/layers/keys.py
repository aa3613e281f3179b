"""Uncommitted entries of a store in the order of their keys' bytes, once somebody has scanned it.

Scanning a range costs as much as the range has, however many entries of other keys wait. Blocks of
keys are small, so that a new one is put into its place without moving many others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.state.layers.writeback import Entry

Written: TypeAlias = "dict[bytes, tuple[Any, int]]"
"""Stored form and timestamp by key, in the order of keys; ``None`` stands for a deletion."""
_BLOCK: Final = 512
_FEW: Final = 8
"""New keys are put in one by one if there are so many times as many old ones."""


class WrittenKeys:
    """Uncommitted entries by their keys.

    Args:
        bytes_of: gives the serialized key of an identity.
        block: how many keys a new block has; one twice as long is divided.
    """

    __slots__ = ("_block", "_blocks", "_bytes_of", "_entries", "_lasts", "_new")

    def __init__(self, bytes_of: Callable[[Any], bytes], block: int = _BLOCK) -> None:
        self._block = block
        self._bytes_of = bytes_of
        self._blocks: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        self._entries: dict[bytes, Entry] = {}
        self._new: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Add an entry; one of the same key is replaced. It gets its place at the next scan."""
        self._new.append(entry)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Forget all entries but these."""
        self._entries, self._blocks, self._lasts = {}, [], []
        self._new = list(entries)

    def between(self, low: bytes | None, high: bytes | None) -> Written:
        """Return what lies from ``low`` to ``high``, both inclusive; ``None`` leaves a side open.

        It is what it is now: entries change in place.
        """
        self._settle()
        entries = self._entries
        found: Written = {}
        for key in self._keys(low, high):
            entry = entries[key]
            found[key] = entry.stored, entry.timestamp
        return found

    def _keys(self, low: bytes | None, high: bytes | None) -> Iterator[bytes]:
        blocks = self._blocks
        number = 0 if low is None else bisect_left(self._lasts, low)
        start = 0 if low is None or number == len(blocks) else bisect_left(blocks[number], low)
        for block in islice(blocks, number, None):
            if high is not None and block[-1] > high:
                yield from block[start : bisect_right(block, high)]
                return
            yield from block[start:] if start else block
            start = 0

    def _settle(self) -> None:
        """Put what was added into its place."""
        new, entries = self._new, self._entries
        if not new:
            return
        before = len(entries)
        bytes_of = self._bytes_of
        added = []
        for entry in new:
            key = bytes_of(entry.identity)
            if key not in entries:
                added.append(key)
            entries[key] = entry
        new.clear()
        if len(added) * _FEW > before:
            keys = sorted(entries)
            size = self._block
            self._blocks = [keys[at : at + size] for at in range(0, len(keys), size)]
            self._lasts = [block[-1] for block in self._blocks]
            return
        for key in added:
            self._insert(key)

    def _insert(self, key: bytes) -> None:
        blocks, lasts = self._blocks, self._lasts
        number = min(bisect_left(lasts, key), len(blocks) - 1)
        block = blocks[number]
        insort(block, key)
        lasts[number] = block[-1]
        size = self._block
        if len(block) > 2 * size:
            blocks.insert(number, block[:size])
            del block[:size]
            lasts.insert(number, blocks[number][-1])
