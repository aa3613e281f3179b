"""A task's key-value store: record cache over write-back layer over backend, typed at the surface.

    put, updater -> record cache -> write-back layer -> changelog -> backend
                    flush_cache     flush_changelog                  commit

Nothing may be written to the store from the ``flush_cache`` that begins a commit to its ``commit``,
or to ``seal`` if the engine wants to go on while it waits for the broker.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from headwater.ports import Timestamps
from headwater.state.headers import HeadersCodec
from headwater.state.layers.keys import WrittenKeys
from headwater.state.layers.scan import scan_prefix, scan_range
from headwater.state.layers.updaters import Updating, compile_cached, compile_direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend, Forward, Headers, Position, UnderWay, Update
    from headwater.state.layers.cache import RecordCache
    from headwater.state.layers.writeback import Entry, WriteBack


class LayeredStore:
    """The ``KeyValueStore`` of ``ports`` over any backend.

    Attributes:
        name: the store's name.
        caching: changes are delayed in the record cache.
        logging: writes go to a changelog.
        evicts: it keeps a number of entries, those put or looked up last.
    """

    evicts = False

    def __init__(self, spec: StoreSpec, below: WriteBack, cache: RecordCache | None) -> None:
        self._spec = spec
        self.name = spec.name
        self.caching = cache is not None
        self.logging = spec.logging
        self._codec = below.codec
        self._keys = below.codec.keys
        self._below = below
        self._cache = cache
        self._find: Callable[[Any], Entry | None] = below.find if cache is None else cache.find
        self._forward: Forward | None = None
        self._send_old = False
        self._compiled = False

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return ``(value, timestamp)``; the timestamp is -1 in a store without timestamps.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        keys = self._keys
        try:
            entry = self._find(key if keys.is_identity else keys.identity(key))
        except TypeError as error:
            raise keys.error(key, error) from error
        if entry is None or entry.stored is None:
            return None
        codec = self._codec
        return codec.to_value(entry.stored), entry.timestamp if codec.timestamped else -1

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = None) -> None:
        """Set ``key``, or delete it with ``None``; the changelog record has ``timestamp`` too.

        It has ``headers``, if the store's kind logs them and there is no record cache. If headers
        lie beside values, the changelog record of a value has those, and of a deletion ``headers``.

        Raises:
            SerializationError: a serde does not take the key or the value.
        """
        identity = self._keys.identity(key)
        stored = None if value is None else self._codec.to_stored(value)
        if self._cache is not None:
            if not self._codec.keeps_headers:
                headers = self._cache.under_way.record[4]
            self._cache.put(identity, stored, timestamp, headers)
        else:
            self._below.put(identity, stored, timestamp, headers)

    def with_headers(self) -> LayeredStore:
        """Return what reads the same store: each value is an ``AggregationWithHeaders``."""
        reading = type(self)(self._spec, self._below, self._cache)
        reading._codec = self._codec_with_headers()  # noqa: SLF001 - of its own kind
        return reading

    def _codec_with_headers(self) -> HeadersCodec:
        codec = self._codec
        assert isinstance(codec, HeadersCodec), f"{self.name} keeps no headers"
        return codec.showing_headers()

    def put_if_absent(self, key: Any, value: Any, timestamp: int) -> tuple[Any, int] | None:
        """Set ``key`` if it has no value; return what it had.

        Raises:
            SerializationError: a serde does not take the key or the value.
        """
        old = self.get(key)
        if old is None:
            self.put(key, value, timestamp)
        return old

    def put_all(self, rows: Iterable[tuple[Any, Any, int]]) -> None:
        """Set several keys, each with a value and its timestamp; ``None`` deletes.

        Raises:
            SerializationError: a serde does not take a key or a value.
        """
        for key, value, timestamp in rows:
            self.put(key, value, timestamp)

    def delete(self, key: Any, timestamp: int) -> tuple[Any, int] | None:
        """Delete ``key``; return what it had.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        old = self.get(key)
        self.put(key, None, timestamp)
        return old

    def range(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)`` from ``start`` to ``end`` inclusive.

        Ordered by serialized key; ``None`` leaves a side open. What is written after this call is
        not seen.
        """
        keys = self._keys
        low = None if start is None else keys.bytes_of(keys.identity(start))
        high = None if end is None else keys.bytes_of(keys.identity(end))
        return scan_range(
            self._codec, self._below, self._written_keys(), low, high, reverse=reverse
        )

    def prefix_scan(
        self, prefix: Any, encode: Callable[[Any], bytes] | None = None
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)`` of the keys whose bytes begin with the prefix's.

        ``encode`` serializes the prefix; without it the store's key serde does. What is written
        after this call is not seen.

        Raises:
            SerializationError: the prefix is null or its serializer does not take it.
        """
        keys = self._keys
        try:
            data = keys.encode(prefix) if encode is None else encode(prefix)
        except Exception as error:
            raise keys.error(prefix, error) from error
        return scan_prefix(self._codec, self._below, self._written_keys(), data)

    def _written_keys(self) -> WrittenKeys:
        """Return what is not committed, in the order of keys."""
        index = self._below.index
        if index is None:
            index = self._below.index = WrittenKeys(self._keys.bytes_of)
            index.replace(self._uncommitted())
        assert isinstance(index, WrittenKeys), f"{self.name} is scanned by time"
        return index

    def _uncommitted(self) -> Iterator[Entry]:
        return chain(self._below.written(), () if self._cache is None else self._cache.dirty())

    def approximate_num_entries(self) -> int:
        """About how many keys there are: those committed and those written since."""
        below = self._below
        waiting = sum(1 for _ in below.written())
        if self._cache is not None:
            waiting += self._cache.dirty_count
        return below.backend.approximate_num_entries() + waiting

    def num_keys(self) -> int:
        """Count the keys. All of it is read."""
        return sum(1 for _ in self.range(None, None))

    def follow(self, under_way: UnderWay) -> None:
        """Keep with each change that waits where the record under way was read."""
        assert not self._compiled, "follow after updater"
        if self._cache is not None:
            self._cache.under_way = under_way

    def on_change(self, forward: Forward | None, *, send_old: bool) -> None:
        """Name the node that hears of changes ``(new, old)``; to be called before ``updater``."""
        # The aggregations of a cogroup share a store and what hears of it.
        is_same = forward is self._forward and send_old == self._send_old
        assert not self._compiled or is_same, "on_change after updater"
        self._forward = forward
        self._send_old = send_old
        if self._cache is not None:
            self._cache.on_change(forward, send_old=send_old)

    def updater(
        self, step: Update | None, timestamps: str, initializer: Callable[[], Any] | None = None
    ) -> Forward:
        """Compile read-modify-write-forward; see ``headwater.state.layers.updaters``."""
        self._compiled = True
        updating = Updating(
            step=step,
            initializer=initializer,
            take_max=timestamps == Timestamps.MAX and self._codec.timestamped,
            send_old=self._send_old,
        )
        if self._cache is not None:
            return compile_cached(self._cache, updating)
        return compile_direct(self._below, updating, self._forward)

    def flush_cache(self) -> int:
        """Forward the changes of dirty cache entries; return how many entries that were."""
        return 0 if self._cache is None else self._cache.flush()

    def flush_changelog(self) -> int:
        """Send every write not yet in the changelog; return how many records that were.

        Raises:
            SerializationError: a value turned out not to fit its serde.
        """
        return self._below.flush_changelog()

    def seal(self) -> None:
        """Fix what ``commit`` writes, after both flushes; from now on the store may be written to.

        What is written meanwhile belongs to the next commit. An ``abort`` forgets both.
        """
        assert self._cache is None or not self._cache.dirty_count, "seal before flush_cache"
        self._below.seal()

    def commit(self, position: Position | None) -> None:
        """Write all uncommitted entries and the position to the backend in one batch.

        Raises:
            DiskFullError: nothing was written and nothing forgotten.
        """
        self._below.commit(position)
        if self._below.index is not None:
            self._below.index.replace(self._uncommitted())

    def abort(self, *, resend: bool = False) -> None:
        """Forget every uncommitted write.

        Args:
            resend: the changelog keeps what it was sent of them; send it what the store holds.
        """
        self._below.index = None
        if self._cache is not None:
            # Clean entries too: some were flushed and are as uncommitted as the rest.
            self._cache.clear()
        self._below.abort(resend=resend)

    def load_rows(
        self, rows: Sequence[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Write rows as the backend keeps them, while nothing is uncommitted.

        Args:
            rows: serialized keys, with rows or ``None`` for what is deleted; the last one counts.
            position: in the same batch.

        Raises:
            StateError: nothing was written.
        """
        assert next(self._uncommitted(), None) is None, f"{self.name} has uncommitted writes"
        assert self._below.newest is None, f"{self.name} would not know of these rows"
        self._below.backend.write(rows, position)
        if self._below.entries:
            self.forget([key for key, _ in rows])

    def forget(self, keys: Iterable[bytes] | None) -> None:
        """Read entries from the backend again: somebody else has changed it.

        Args:
            keys: which, serialized; ``None`` for all.
        """
        entries = self._below.entries
        if keys is None:
            entries.clear()
            return
        identity_of = self._keys.decode if self._keys.is_identity else bytes
        for key in keys:
            entries.pop(identity_of(key), None)

    def uncommitted_bytes(self) -> int:
        """About how much memory the writes that are not committed hold."""
        dirty = 0 if self._cache is None else self._cache.dirty_bytes()
        return dirty + self._below.uncommitted_bytes()

    def cached_bytes(self) -> int:
        """How much the record cache holds of the store."""
        return 0 if self._cache is None else self._cache.used

    def is_cached(self, key: Any) -> bool | None:
        """Whether the record cache has a key; ``None`` without one."""
        if self._cache is None:
            return None
        try:
            return self._keys.identity(key) in self._cache.entries
        except Exception:  # noqa: BLE001 - whoever uses such a key is told
            return False

    def backend_numbers(self) -> Mapping[str, float]:
        """Return what the backend tells of itself, by the names of metrics."""
        told: Callable[[], Mapping[str, float]] | None
        told = getattr(self._below.backend, "numbers", None)
        return {} if told is None else told()

    def position(self) -> Position | None:
        """Return the position of the last commit."""
        return self._below.backend.position()

    @property
    def committed(self) -> Backend:
        """What was committed, without what waits above it."""
        return self._below.backend

    def close(self) -> None:
        """Close the backend. Uncommitted writes are lost: commit first."""
        if self._cache is not None:
            self._cache.close()
        self._below.backend.close()
