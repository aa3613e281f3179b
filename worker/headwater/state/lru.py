"""A task's store of the entries used last: ``Stores.lruMap`` (Kafka's ``MemoryNavigableLRUCache``).

Which entry goes depends on each look-up and put, so a put reaches the map at once. In
the changelog an eviction is a tombstone, with the time of the record under way; in a
store with timestamps it is not, because Kafka Streams' wrapper for them hides the map from
its changelog layer.

A record cache lies above, as above any store. What it has it tells, evicted below or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from headwater.state.headers import HeadersCodec
from headwater.state.layers.cache import RecordCache
from headwater.state.layers.keys import WrittenKeys
from headwater.state.layers.writeback import UNREAD, Entry, WriteBack
from headwater.state.store import LayeredStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ports import Backend, Headers, Position, Send
    from headwater.state.backends.lru import LruBackend
    from headwater.state.codec import StoreCodec

_LATE: Final = "a write between flush and commit"


class LruWriteBack(WriteBack):
    """Writes through to the map; only the changelog waits for the flush.

    Args:
        codec: serdes of the store.
        backend: the map.
        send: sends to the changelog; ``None`` for a store that is not logged.
        partition: changelog partition, the task's.
    """

    __slots__ = ("_log", "_map", "_pending", "_sent")

    writes_through: ClassVar[bool] = True

    def __init__(
        self, codec: StoreCodec, backend: LruBackend, send: Send | None, *, partition: int
    ) -> None:
        super().__init__(codec, backend, send, partition=partition, settled_bytes_max=0)
        # What was not committed when the store was open last is none of it.
        backend.abort()
        self._map = backend
        self._log = send
        self._pending: dict[bytes, tuple[bytes | None, int, Headers]] = {}
        self._sent: dict[bytes, None] = {}

    @property
    def is_sealed(self) -> bool:
        """Whether what the next commit covers is fixed."""
        return self._sealed_rows is not None

    def find(self, identity: Any) -> Entry | None:
        """Return a new entry with what the map has; ``None`` if it has nothing."""
        return self.read(identity)

    def put(self, identity: Any, stored: Any, timestamp: int, headers: Headers = None) -> None:
        """Set a key, or delete it; one beyond the bound pushes out what was used longest ago."""
        codec = self.codec
        key = codec.keys.bytes_of(identity)
        row = codec.to_row(stored, timestamp)
        if row is None:
            self._map.delete(key)
        else:
            evicted = self._map.put(key, row)
            if evicted is not None and not codec.timestamped:
                self._note(evicted, None, timestamp, None)
        data, logged = self._logged(row)
        if data is None and codec.logs_headers:
            logged = headers
        self._note(key, data, timestamp, logged)

    def _logged(self, row: bytes | None) -> tuple[bytes | None, Headers]:
        """Return what the changelog gets of a row: the value's bytes, and headers beside them."""
        codec = self.codec
        if row is None:
            return None, None
        if isinstance(codec, HeadersCodec):
            return codec.logged(codec.from_row(row)[0])
        return row[codec.row_overhead :], None

    def _note(self, key: bytes, data: bytes | None, timestamp: int, headers: Headers) -> None:
        if self._log is not None:
            # The changelog is in the order of last puts, by which a restore knows whom to evict.
            self._pending.pop(key, None)
            self._pending[key] = data, timestamp, headers

    def replace(self, entry: Entry, stored: Any, timestamp: int) -> None:
        """Give an entry its next value."""
        entry.stored, entry.timestamp = stored, timestamp
        self.mark(entry)

    def mark(self, entry: Entry) -> None:
        """Take over the value of an entry of the record cache."""
        self.put(entry.identity, entry.stored, entry.timestamp, entry.headers)

    def flush_changelog(self) -> int:
        """Send the last put or eviction of each key since the last flush; return how many."""
        pending, send = self._pending, self._log
        if not pending or send is None:
            return 0
        for key, (data, timestamp, headers) in pending.items():
            send(key, data, timestamp, headers, self._partition)
            self._sent[key] = None
        self._pending = {}
        return len(pending)

    def seal(self) -> None:
        """Fix what the next commit covers."""
        assert not self._pending, _LATE
        self._map.seal()
        self._sealed_rows = []

    def commit(self, position: Position | None) -> None:
        """Keep what was sealed, else everything, under ``position``."""
        if self._sealed_rows is None:
            self.seal()
        self._sealed_rows = None
        self._map.commit(position)
        self._sent = {}

    def abort(self, *, resend: bool = False) -> None:
        """Take back what is not committed.

        Args:
            resend: see ``ports.KeyValueStore.abort``.
        """
        sent, self._sent, self._pending, self._sealed_rows = self._sent, {}, {}, None
        self._map.abort()
        if not resend:
            return
        codec = self.codec
        rows = dict(self._map.range(None, None))
        for key in sent:
            row = rows.get(key)
            timestamp = -1 if row is None else codec.from_row(row)[1]
            data, headers = self._logged(row)
            self._note(key, data, timestamp, headers)

    def uncommitted_bytes(self) -> int:
        """About how much the puts take that are not committed."""
        return self._map.uncommitted_bytes

    def committed(self) -> Backend:
        """Return what the map had at the last commit, a copy."""
        return self._map.committed()

    def written(self) -> Iterator[Entry]:
        """Nothing waits above the map."""
        return iter(())


class LruRecordCache(RecordCache):
    """A record cache that reads old values below when it flushes, as Kafka Streams' does.

    Above any other store they are those it knows; here they may be evicted meanwhile.
    """

    __slots__ = ()

    def dirtied(self, entry: Entry, old: Any) -> None:
        """Note that a clean entry has become dirty."""
        entry.flags |= UNREAD
        super().dirtied(entry, old)


class LruStore(LayeredStore):
    """The ``KeyValueStore`` of ``ports`` that keeps a number of entries."""

    evicts = True

    def commit(self, position: Position | None) -> None:
        """Keep what was written, under ``position``."""
        below = self._below
        assert isinstance(below, LruWriteBack)
        assert below.is_sealed or self._cache is None or not self._cache.dirty_count, _LATE
        super().commit(position)

    @property
    def committed(self) -> Backend:
        """What was committed; to read it uses nothing, so nothing else is evicted for it."""
        below = self._below
        assert isinstance(below, LruWriteBack)
        return below.committed()

    def _written_keys(self) -> WrittenKeys:
        """Return what the record cache has, clean entries too: below they may be evicted."""
        written = WrittenKeys(self._keys.bytes_of)
        written.replace(() if self._cache is None else self._cache.entries.values())
        return written
