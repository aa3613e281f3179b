"""The record cache: delays and deduplicates what a store writes and forwards (``ThreadCache``).

A store's cache is one dict, the entry that was written or looked up longest ago first; dirty ones
wait for a flush, clean ones are there for reading. The caches of all stores of a thread share one
``CacheBudget``. A put that takes the thread over its limit makes room in the cache it wrote to:
the eldest entries go, and if one of them is dirty, all dirty ones of that cache are flushed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headwater.ports import NOWHERE, UnderWay
from headwater.state.layers.writeback import (
    DIRTY,
    NEW,
    UNCOMMITTED,
    UNREAD,
    UNSENT,
    Entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Forward, Headers
    from headwater.state.layers.writeback import WriteBack

CONTEXT_BYTES: Final = 45
"""What Kafka Streams counts for each entry beside key, row, topic name and headers: three links of
the list, the dirty flag, the record's timestamp, offset and partition."""

_SPARE_FRACTION: Final = 32
_SPARE_FROM: Final = 1024
"""Entries from which on more room is made than is needed."""


def headers_size(headers: Headers) -> int:
    """Return what headers count, in bytes (Kafka's ``ProcessorRecordContext``)."""
    return sum(len(name) + len(value or b"") for name, value in headers or ())


class CacheBudget:
    """How much the record caches of one thread may hold together (``statestore_cache_max_bytes``).

    Sizes are in bytes. A limit of 0 switches the delay off: every write is forwarded at once.

    Attributes:
        updater: makes the update of a known key in C, if it is there; see ``updaters``.
    """

    __slots__ = ("_caches", "limit", "updater", "used")

    def __init__(self, limit: int, updater: Callable[..., Any] | None = None) -> None:
        self.limit = limit
        self.updater = updater
        self.used = 0
        self._caches: list[RecordCache] = []

    def resize(self, limit: int) -> None:
        """Change the limit of a running thread; caches are emptied in turn until they fit.

        A limit cannot be changed from or to 0: stores are built for the one or the other.
        """
        assert (limit > 0) == (self.limit > 0), (self.limit, limit)
        self.limit = limit
        for cache in list(self._caches):
            cache.make_room()

    def register(self, cache: RecordCache) -> None:
        """Add the cache of one more store."""
        self._caches.append(cache)

    def unregister(self, cache: RecordCache) -> None:
        """Take the cache of a closed store out."""
        if cache in self._caches:
            self._caches.remove(cache)


class RecordCache:
    """The record cache of one store, above its write-back layer.

    Attributes:
        entries: by identity; an entry is here or in the write-back layer's index, never in both.
        flat_size: what an entry counts beside key, topic name and headers, in bytes; ``None`` if
            the lengths of values vary.
        dirty_count: how many of them are dirty.
        keeps_read: what is read from below stays here.
        owes_room: a flush is under way, and at its end room is to be made: nothing else comes in.
        under_way: the record that is being processed, or was when a forwarded change was made.
        used: what the entries count, in bytes.
    """

    __slots__ = (
        "_base",
        "_forward",
        "_is_flushing",
        "_key_size",
        "_send_old",
        "below",
        "budget",
        "codec",
        "dirty_count",
        "entries",
        "flat_size",
        "keeps_read",
        "owes_room",
        "under_way",
        "used",
    )

    def __init__(self, below: WriteBack, budget: CacheBudget) -> None:
        self.below = below
        self.codec = below.codec
        self.budget = budget
        self.entries: dict[Any, Entry] = {}
        self.dirty_count = 0
        self.under_way = UnderWay()
        self._base: dict[Any, Any] = {}
        self.used = 0
        self._forward: Forward | None = None
        self._send_old = False
        self._is_flushing = False
        self.owes_room = False
        # Kafka's caches of windows and sessions do not keep what they only read.
        self.keeps_read = not below.codec.expires
        self._key_size = below.codec.keys.size
        fixed = below.codec.fixed_bytes
        self.flat_size = None if fixed is None else CONTEXT_BYTES + below.codec.row_overhead + fixed
        budget.register(self)

    def on_change(self, forward: Forward | None, *, send_old: bool) -> None:
        """Name the node that hears of flushed entries."""
        self._forward = forward
        self._send_old = send_old

    def find(self, identity: Any) -> Entry | None:
        """Return the entry of a key; one read from below stays here, which may push others out.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        try:
            entry = self.entries.get(identity)
        except TypeError as error:
            raise self.codec.keys.error(identity, error) from error
        if entry is not None:
            if not entry.flags & DIRTY:
                # Looked up lately. Dirty ones keep their place: it is the order of the flush.
                del self.entries[identity]
                self.entries[entry.identity] = entry
            return entry
        entry = self.below.entries.get(identity) or self.below.read(identity)
        # As in Kafka Streams nothing is kept of a key that is not there.
        if entry is None or entry.stored is None or not self.keeps_read or self.owes_room:
            return entry
        self.admit(entry)
        return entry

    def admit(self, entry: Entry) -> None:
        """Take in an entry that is new to the cache."""
        self.below.entries.pop(entry.identity, None)
        self.entries[entry.identity] = entry
        self._count(entry)

    def put(self, identity: Any, stored: Any, timestamp: int, headers: Headers) -> None:
        """Set a key without reading it; it goes below and downstream at the next flush."""
        entry = self.entries.get(identity) or self.below.entries.pop(identity, None)
        if entry is None:
            entry = Entry(identity, None, timestamp)
            entry.flags = UNREAD
        self.replace(entry, stored, timestamp, headers)

    def replace(self, entry: Entry, stored: Any, timestamp: int, headers: Headers) -> None:
        """Give an entry, of this cache or new to it, its next value."""
        identity, old = entry.identity, entry.stored
        under_way = self.under_way
        is_turned = (old is None) != (stored is None)
        is_as_long = (
            entry.counted
            and not is_turned
            and self.codec.fixed_bytes is not None
            and headers is entry.headers
            and under_way.source is entry.source
        )
        self.entries.pop(identity, None)
        entry.stored = stored
        entry.timestamp = timestamp
        entry.headers = headers
        entry.offset = under_way.record[0]
        entry.source = under_way.source
        if not entry.flags & DIRTY:
            self.dirtied(entry, old)
        elif is_turned and self.codec.expires and self.below.index is not None:
            self.below.index.add(entry)
        self.entries[identity] = entry
        if not is_as_long:
            self._count(entry)

    def moved(self, entry: Entry, headers: Headers) -> None:
        """Give an entry that was changed in place the headers and source of the record under way.

        A change in place keeps the length of the row: only these two may change what it takes.
        """
        source = self.under_way.source
        if headers or entry.headers:
            entry.headers, entry.source = headers, source
            self._count(entry)
            return
        grown = len(source.topic) - len(entry.source.topic)
        entry.headers, entry.source = headers, source
        entry.counted += grown
        self.grow(grown)

    def _count(self, entry: Entry) -> None:
        """Count an entry anew, by Kafka Streams' arithmetic (``NamedCache.LRUNode``)."""
        if self.flat_size is None or entry.stored is None:
            size = CONTEXT_BYTES + self.codec.size(entry.identity, entry.stored)
        else:
            size = self.flat_size + self._key_size(entry.identity)
        size += len(entry.source.topic)
        if entry.headers:
            size += headers_size(entry.headers)
        grown = size - entry.counted
        entry.counted = size
        self.grow(grown)

    def grow(self, grown: int) -> None:
        """Count ``grown`` more bytes, and make room if these are too many."""
        self.used += grown
        budget = self.budget
        budget.used += grown
        if budget.used > budget.limit:
            self.make_room()

    def dirtied(self, entry: Entry, old: Any) -> None:
        """Note that a clean entry with the value ``old`` has become dirty."""
        self.dirty_count += 1
        if self.below.index is not None:
            self.below.index.add(entry)
        if entry.flags & UNREAD:
            entry.flags |= DIRTY
            return
        entry.flags = entry.flags & UNCOMMITTED | (DIRTY | NEW if old is None else DIRTY)
        if self._send_old:
            self._base[entry.identity] = old

    def _free(self, counted: int) -> None:
        """Count so many bytes less."""
        self.used -= counted
        self.budget.used -= counted

    def make_room(self) -> None:
        """Drop the eldest entries, flushing if one is dirty, until the budget is kept.

        In the midst of a flush nothing may go, for some of it is not below yet: room is made at the
        end of the flush.
        """
        if self._is_flushing:
            self.owes_room = True
            return
        budget, entries = self.budget, self.entries
        while budget.used > budget.limit and entries:
            before = len(entries)
            # Some more than needed: skipping the holes that they leave in the dict costs time.
            spare = budget.limit // _SPARE_FRACTION if before >= _SPARE_FROM else 0
            target = budget.limit - spare
            average = max(1, self.used // before)
            eldest = list(islice(entries, (budget.used - target) // average + 1))
            dropped = self._drop_clean(eldest, budget.used - target)
            for entry in [entries[identity] for identity in islice(eldest, dropped, None)]:
                if budget.used <= target:
                    return
                if entry.flags & DIRTY:
                    if budget.used <= budget.limit:
                        return
                    self.flush()
                if entries.get(entry.identity) is entry and not entry.flags & DIRTY:
                    self._drop(entry)
            if len(entries) >= before:
                return

    def _drop_clean(self, eldest: list[Any], excess: int) -> int:
        """Drop entries up to the first dirty one, or until so many bytes are free.

        Each is looked at once: it was used long ago, and the processor's cache has forgotten it.

        Args:
            eldest: identities of the entries used longest ago.
            excess: how many bytes.

        Returns:
            How many were dropped.
        """
        entries, kept, keeps_headers = self.entries, self.below.entries, self.codec.keeps_headers
        dropped = freed = 0
        for identity in eldest:
            entry = entries[identity]
            flags = entry.flags
            if freed >= excess or flags & DIRTY:
                break
            del entries[identity]
            freed += entry.counted
            dropped += 1
            entry.counted = 0
            entry.source = NOWHERE
            if flags & UNCOMMITTED:
                kept[identity] = entry
                if keeps_headers and entry.stored is None:
                    continue  # the changelog gets the headers of what deleted it
            entry.headers = None
        self._free(freed)
        return dropped

    def _drop(self, entry: Entry) -> None:
        identity = entry.identity
        del self.entries[identity]
        self._free(entry.counted)
        entry.counted = 0
        entry.source = NOWHERE
        if entry.flags & UNCOMMITTED:
            self.below.keep(entry)
            if self.codec.keeps_headers and entry.stored is None:
                return  # the changelog gets the headers of what deleted it
        entry.headers = None

    def dirty(self) -> list[Entry]:
        """Return the dirty entries in the order of their last write."""
        if self.dirty_count == len(self.entries):
            return list(self.entries.values())
        found: list[Entry] = []
        for entry in reversed(self.entries.values()):
            if len(found) == self.dirty_count:
                break
            if entry.flags & DIRTY:
                found.append(entry)
        found.reverse()
        return found

    def _cleaned(self) -> tuple[list[Entry], list[int]]:
        """Return the dirty entries, which are so no longer, and what their flags were."""
        count = self.dirty_count
        found: list[Entry] = []
        known: list[int] = []
        for entry in reversed(self.entries.values()):
            flags = entry.flags
            if flags & DIRTY:
                found.append(entry)
                known.append(flags)
                entry.flags = flags & UNCOMMITTED
                if len(found) == count:
                    break
        found.reverse()
        known.reverse()
        return found, known

    def flush(self) -> int:
        """Write dirty entries below and forward their changes; return how many there were.

        A key that was written and deleted since the last flush and is absent below leaves no
        trace.
        """
        if not self.dirty_count:
            return 0
        base = self._base
        # Clean before anything is forwarded: the nodes below may write to this very store.
        dirty, known = self._cleaned()
        self._base = {}
        self.dirty_count = 0
        under_way = self.under_way
        # An eviction happens in the middle of a record that may have nothing to do with it.
        record, source = under_way.record, under_way.source
        self._is_flushing = True
        try:
            self._flush_all(dirty, known, base)
        finally:
            self._is_flushing = False
            under_way.record, under_way.source = record, source
        if self.owes_room:
            self.owes_room = False
            self.make_room()
        return len(dirty)

    def _flush_all(self, dirty: list[Entry], known: list[int], base: dict[Any, Any]) -> None:
        forward, under_way = self._forward, self.under_way
        below, keys = self.below, self.codec.keys
        is_key, key_of = keys.is_identity, keys.key_of
        mark, append = below.mark, below.unsent.append
        # Then an entry is marked by a flag and a place in a list.
        is_short = self.flat_size is not None and not below.writes_through
        # Values that need no decoding, with nothing to say about the old ones: most aggregates.
        plain = self.codec.immutable and not self._send_old
        for entry, before in zip(dirty, known, strict=True):
            stored = entry.stored
            if stored is None or not plain:
                self._flush_one(entry, before, base)
                continue
            flags = entry.flags
            if not flags & UNSENT:
                if is_short and below.index is None:
                    entry.flags = flags | UNSENT
                    append(entry)
                else:
                    mark(entry)
            if forward is not None:
                timestamp, headers, identity = entry.timestamp, entry.headers, entry.identity
                under_way.record = entry.offset, timestamp, None, None, headers
                under_way.source = entry.source
                if not flags & DIRTY:
                    entry.offset = -1  # released now, while the processor's cache has it
                key = identity if is_key else key_of(identity)
                forward(key, (stored, None), timestamp, headers)

    def _flush_one(self, entry: Entry, flags: int, base: dict[Any, Any]) -> None:
        forward, stored = self._forward, entry.stored
        old = None
        if forward is not None and (self._send_old or stored is None):
            if flags & UNREAD:
                found = self.below.read(entry.identity)
                old = None if found is None else found.stored
            elif self._send_old:
                old = base[entry.identity]
        changed = forward is None or stored is not None
        if changed or (old is not None if flags & UNREAD else not flags & NEW):
            if not entry.flags & UNSENT:
                self.below.mark(entry)
            if forward is not None:
                codec = self.codec
                before = codec.to_value(old) if self._send_old else None
                change = (codec.to_value(stored), before)
                timestamp, headers = entry.timestamp, entry.headers
                self.under_way.record = entry.offset, timestamp, None, None, headers
                self.under_way.source = entry.source
                forward(codec.keys.key_of(entry.identity), change, timestamp, headers)
        if stored is None and entry.stored is None and not entry.flags & DIRTY:
            self._drop(entry)

    def clear(self) -> None:
        """Forget every entry, dirty or clean."""
        self.entries.clear()
        self._base.clear()
        self.dirty_count = 0
        self.owes_room = False
        self._free(self.used)

    def dirty_bytes(self) -> int:
        """About how much the dirty entries take."""
        count = len(self.entries)
        return self.used * self.dirty_count // count if count else 0

    def close(self) -> None:
        """Give this cache's share back to the thread."""
        self.clear()
        self.budget.unregister(self)
