"""The write-back layer: what is not committed yet, above what is.

One ``Entry`` per key lives in one dict; its flags say how far its newest value has come:

    DIRTY      in the record cache, waiting for a flush
    UNSENT     written since the last changelog flush; a later write replaces the earlier one
    UNWRITTEN  sent to the changelog, not yet in the backend
    SEALED     part of the commit that is under way
    none       as in the backend: kept, up to a bound, so that a key seen lately needs no read

Entries change in place. So nothing may be written to a store between the flush that precedes a
commit and the commit itself: it would reach the backend under a position that does not cover it.
``commit`` asserts that. ``seal`` ends that time early: what is sealed is already in bytes.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headwater.ports import NOW, NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.ids import TopicPartition
    from headwater.ports import Backend, Headers, Position, Send
    from headwater.state.codec import StoreCodec
    from headwater.state.headers import HeadersCodec
    from headwater.state.layers.keys import WrittenKeys
    from headwater.state.layers.times import WrittenTimes
    from headwater.state.newest import NewestTimes

DIRTY: Final = 1
UNSENT: Final = 2
UNWRITTEN: Final = 4
NEW: Final = 8
"""The key was absent below the record cache when it became dirty."""
UNREAD: Final = 16
"""Nobody has looked whether the key exists below the record cache."""

SEALED: Final = 32
"""Written by the commit that is under way, whatever happens to the entry meanwhile."""

UNCOMMITTED: Final = UNSENT | UNWRITTEN | SEALED

ENTRY_OVERHEAD_BYTES: Final = 56
"""About what an uncommitted entry takes beside key and row, for the bound on them."""

SETTLED_OVERHEAD_BYTES: Final = 216
"""What Python takes for a kept entry beside key and value, as measured."""

_SPARE_FRACTION: Final = 32
_SAMPLE: Final = 16


class Entry:
    """The newest value of one key; ``stored`` is ``None`` for a deleted or absent one.

    Attributes:
        offset: of the record whose change waits in the record cache; set with ``DIRTY`` only.
        source: where that record was read; ``NOWHERE`` for an entry that was read from below.
        counted: bytes that the record cache counts for it; 0 outside of the cache.
    """

    __slots__ = (
        "counted",
        "flags",
        "headers",
        "identity",
        "offset",
        "source",
        "stored",
        "timestamp",
    )

    offset: int

    def __init__(self, identity: Any, stored: Any, timestamp: int) -> None:
        self.identity = identity
        self.stored = stored
        self.timestamp = timestamp
        self.headers: Headers = None
        self.source: TopicPartition = NOWHERE
        self.counted = 0
        self.flags = 0


class WriteBack:
    """Uncommitted entries of one store in front of its backend.

    Below a record cache it indexes only those entries that the cache has let go of. Without one it
    indexes all, committed ones too.

    Args:
        codec: serdes of the store.
        backend: committed entries.
        send: sends to the changelog; ``None`` for a store that is not logged.
        partition: changelog partition, the task's.
        settled_bytes_max: bound on committed entries that are kept.
        newest: how late the committed rows of a key can be; ``None`` where a look costs little.
        updater: makes the update of a known key in C, if it is there; see ``updaters``.
    """

    writes_through: ClassVar[bool] = False
    """Whether ``mark`` writes to the backend at once."""

    __slots__ = (
        "_partition",
        "_sealed",
        "_sealed_bytes",
        "_sealed_rows",
        "_send",
        "_settled_bytes_max",
        "_settled_max",
        "_uncommitted_bytes",
        "backend",
        "codec",
        "entries",
        "index",
        "newest",
        "unsent",
        "unwritten",
        "updater",
    )

    def __init__(
        self,
        codec: StoreCodec,
        backend: Backend,
        send: Send | None,
        *,
        partition: int,
        settled_bytes_max: int,
        newest: NewestTimes | None = None,
        updater: Callable[..., Any] | None = None,
    ) -> None:
        self.codec = codec
        self.updater = updater
        self.backend = backend
        self.newest = newest
        self.entries: dict[Any, Entry] = {}
        self.unsent: list[Entry] = []
        self.unwritten: list[Entry] = []
        self.index: WrittenKeys | WrittenTimes | None = None
        """In order, what is uncommitted, also in the record cache; once it was scanned."""
        self._send = send
        self._partition = partition
        self._settled_bytes_max = settled_bytes_max
        self._settled_max = settled_bytes_max // SETTLED_OVERHEAD_BYTES
        self._uncommitted_bytes = 0
        self._sealed: list[Entry] = []
        self._sealed_rows: list[tuple[bytes, bytes | None]] | None = None
        self._sealed_bytes = 0

    def read(self, identity: Any) -> Entry | None:
        """Return a new entry with what the backend has; ``None`` if it has nothing.

        Raises:
            SerializationError: the key of ``identity`` is null or its serde does not take it.
        """
        codec, is_legal = self.codec, False
        if codec.expires:
            part, time, _ = identity
            # What is later than all that is committed is not there; but its serde must take it.
            is_legal = part.__class__ is bytes or (part.__class__ is str and part.isascii())
            if is_legal and time > self.newest_of(part):
                return None
        keys = codec.keys
        try:
            key = identity if keys.pack is None else keys.pack(identity)
        except Exception as error:
            raise keys.error(identity, error) from error
        row = self.backend.get(key)
        if row is not None:
            return Entry(identity, *codec.from_row(row))
        if is_legal and self.newest is not None:
            self.newest.waste()
        return None

    def newest_of(self, part: Any) -> int:
        """Return a time that no committed row of a key is later than, in a store that expires."""
        newest = self.newest
        if newest is not None:
            return newest.of(part)
        time: int = self.backend.stream_time  # type: ignore[attr-defined]  # as it expires
        return time

    def load(self, identity: Any) -> Entry:
        """Return the entry of a key, a new one if it is not indexed; it is not kept.

        Raises:
            SerializationError: see ``read``.
        """
        try:
            entry = self.entries.get(identity)
        except TypeError as error:
            raise self.codec.keys.error(identity, error) from error
        return entry or self.read(identity) or Entry(identity, None, -1)

    def find(self, identity: Any) -> Entry | None:
        """Return the entry of a key, read and kept if need be; ``None`` if there is none."""
        entry = self.entries.get(identity)
        if entry is None:
            entry = self.read(identity)
            if entry is not None:
                self.entries[identity] = entry
                self._trim()
        return entry

    def put(self, identity: Any, stored: Any, timestamp: int, headers: Headers = None) -> None:
        """Set a key, without reading it."""
        entry = self.entries.get(identity)
        if entry is None:
            entry = Entry(identity, None, timestamp)
        if self.codec.logs_headers:
            entry.headers = headers
        self.replace(entry, stored, timestamp)

    def replace(self, entry: Entry, stored: Any, timestamp: int) -> None:
        """Give an entry, of this index or new to it, its next value."""
        codec, flags, old = self.codec, entry.flags, entry.stored
        if not flags:
            self.entries[entry.identity] = entry
        elif flags & (UNSENT | UNWRITTEN) and codec.fixed_bytes is None:
            grown = codec.size(entry.identity, stored) - codec.size(entry.identity, old)
            self._uncommitted_bytes += grown
        entry.stored = stored
        entry.timestamp = timestamp
        if not flags & UNSENT:
            self.mark(entry)
        elif self.index is not None and codec.expires and (old is None) != (stored is None):
            self.index.add(entry)

    def mark(self, entry: Entry) -> None:
        """Note that an entry not marked yet has a value which the changelog lacks."""
        if self.codec.fixed_bytes is None and not entry.flags & UNWRITTEN:
            size = self.codec.size(entry.identity, entry.stored)
            self._uncommitted_bytes += size + ENTRY_OVERHEAD_BYTES
        entry.flags |= UNSENT
        self.unsent.append(entry)
        if self.index is not None:
            self.index.add(entry)

    def keep(self, entry: Entry) -> None:
        """Index an uncommitted entry that the record cache lets go of."""
        self.entries[entry.identity] = entry

    def flush_changelog(self) -> int:
        """Send what changed since the last flush; return the number of records sent.

        Raises:
            SerializationError: a value turned out not to fit its serde; all of it stays unsent.
        """
        unsent = self.unsent
        if not unsent:
            return 0
        if self._send is not None:
            if self.codec.keeps_headers:
                self._send_headers(self._send)
            else:
                self._send_all(self._send)
        sent = len(unsent)
        add = self.unwritten.append
        for entry in unsent:
            if not entry.flags & UNWRITTEN:
                add(entry)
            entry.flags = entry.flags & ~UNSENT | UNWRITTEN
        unsent.clear()
        return 0 if self._send is None else sent

    def _send_all(self, send: Send) -> None:
        codec, partition = self.codec, self._partition
        pack = codec.keys.pack
        serialize, immutable, logs_headers = codec.serialize, codec.immutable, codec.logs_headers
        value_headers, logs_times = codec.value_headers, codec.logs_times
        for entry in self.unsent:
            data = entry.stored
            if immutable and data is not None:
                try:
                    data = serialize(data)
                except Exception as error:
                    raise codec.value_error(data, error) from error
            key = entry.identity if pack is None else pack(entry.identity)
            headers = None if data is None else value_headers
            if logs_headers:
                headers = entry.headers
            send(key, data, entry.timestamp if logs_times else NOW, headers, partition)

    def _send_headers(self, send: Send) -> None:
        """Send values with the headers that lie beside them, deletions with those of the record."""
        codec: HeadersCodec = self.codec  # type: ignore[assignment]  # as the kind says
        pack, logged, partition = codec.keys.pack, codec.logged, self._partition
        for entry in self.unsent:
            key = entry.identity if pack is None else pack(entry.identity)
            stored = entry.stored
            data, headers = (None, entry.headers) if stored is None else logged(stored)
            send(key, data, entry.timestamp, headers, partition)

    def seal(self) -> None:
        """Fix what the next commit writes, so that the store may be written to until then.

        Raises:
            SerializationError: a value does not fit its serde (in a store without changelog).
        """
        assert self._sealed_rows is None, "sealed already"
        if self._send is None:
            self.flush_changelog()
        assert not self.unsent, "a write between flush_changelog and commit"
        self._sealed_rows = list(self._rows())
        self._sealed, self.unwritten = self.unwritten, []
        for entry in self._sealed:
            entry.flags = SEALED
        self._sealed_bytes, self._uncommitted_bytes = self._uncommitted_bytes, 0

    def commit(self, position: Position | None) -> None:
        """Write what was sealed, else everything uncommitted, and the position in one batch.

        Raises:
            DiskFullError: nothing was written; the store is to be closed and restored.
        """
        if self._sealed_rows is not None:
            self._commit_rows(self._sealed_rows, self._sealed, SEALED, position)
            self._sealed_rows = None
            self._sealed_bytes = 0
            return
        if self._send is None:
            self.flush_changelog()
        assert not self.unsent, "a write between flush_changelog and commit"
        self._commit_rows(self._rows(), self.unwritten, UNWRITTEN, position)
        self._uncommitted_bytes = 0

    def _commit_rows(
        self,
        rows: Iterable[tuple[bytes, bytes | None]],
        entries: list[Entry],
        flag: int,
        position: Position | None,
    ) -> None:
        if not entries and position is None:
            return
        if self.newest is not None:
            self.newest.note(entry.identity for entry in entries)
        self.backend.write(rows, position)
        if entries:
            size = self._average_bytes(entries)
            self._settled_max = self._settled_bytes_max // (size + SETTLED_OVERHEAD_BYTES)
        for entry in entries:
            entry.flags &= ~flag
        entries.clear()
        self._trim()

    def _rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        codec = self.codec
        pack = codec.keys.pack
        to_row = codec.to_row
        for entry in self.unwritten:
            assert not entry.flags & DIRTY, "a write between flush_cache and commit"
            key = entry.identity if pack is None else pack(entry.identity)
            yield key, to_row(entry.stored, entry.timestamp)

    def abort(self, *, resend: bool = False) -> None:
        """Forget every uncommitted value, sealed ones too.

        Args:
            resend: see ``ports.KeyValueStore.abort``.
        """
        sent = [entry.identity for entry in chain(self._sealed, self.unwritten)]
        for layer in (self.unsent, self.unwritten, self._sealed):
            for entry in layer:
                self.entries.pop(entry.identity, None)
            layer.clear()
        self._sealed_rows = None
        self._sealed_bytes = 0
        self._uncommitted_bytes = 0
        if resend and self._send is not None:
            for identity in dict.fromkeys(sent):
                entry = self.load(identity)
                self.replace(entry, entry.stored, entry.timestamp)

    def uncommitted_bytes(self) -> int:
        """About how much the uncommitted entries take.

        One that changed again after it was sent may count twice.
        """
        if self.codec.fixed_bytes is None:
            return self._uncommitted_bytes + self._sealed_bytes
        count = len(self.unsent) + len(self.unwritten) + len(self._sealed)
        if not count:
            return 0
        average = self._average_bytes(self.unsent or self.unwritten or self._sealed)
        return count * (average + ENTRY_OVERHEAD_BYTES)

    def _average_bytes(self, entries: list[Entry]) -> int:
        sample = entries[-_SAMPLE:]
        size = self.codec.size
        return sum(size(entry.identity, entry.stored) for entry in sample) // len(sample)

    def written(self) -> Iterator[Entry]:
        """Return the entries that the backend does not have, or has in an older state."""
        return chain(self._sealed, self.unwritten, self.unsent)

    def _trim(self) -> None:
        entries = self.entries
        uncommitted = len(self.unsent) + len(self.unwritten) + len(self._sealed)
        surplus = len(entries) - uncommitted - self._settled_max
        if surplus <= 0:
            return
        # The oldest go first, some more than needed: skipping the holes they leave in the dict
        # costs time. An uncommitted one moves to the end instead.
        surplus += self._settled_max // _SPARE_FRACTION
        for identity in list(islice(entries, surplus)):
            entry = entries.pop(identity)
            if entry.flags:
                entries[identity] = entry
