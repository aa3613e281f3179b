"""Makes the store of a spec over an open backend, and backends in memory.

    open_store(spec, task=TaskId(0, 3), changelog_topic="app-counts-changelog",
               backend=memory_backend(spec), cache=CacheBudget(10_485_760),
               changelog_send=collector.sender("app-counts-changelog"),
               key_serde=Serdes.string, value_serde=Serdes.long) -> LayeredStore

``cache`` is shared by all stores of a thread; with ``cache=None``, a limit of 0 or ``spec.caching``
off nothing is delayed. ``changelog_send=None`` (or ``spec.logging`` off) keeps no changelog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.state.backends.custom import CustomBackend
from headwater.state.backends.custom_timed import CustomTimedBackend
from headwater.state.backends.custom_versions import CustomVersionBackend
from headwater.state.backends.lru import LruBackend
from headwater.state.backends.memory import MemoryBackend
from headwater.state.backends.timed import TimedMemoryBackend
from headwater.state.buffer import BufferSerde, SuppressionBuffer
from headwater.state.codec import StoreCodec
from headwater.state.expiry import Expiry
from headwater.state.headers import HeadersCodec
from headwater.state.join_buffer import BufferedKeySerde, BufferedSerde
from headwater.state.keys import suffix_bytes_of
from headwater.state.layers.cache import RecordCache
from headwater.state.layers.writeback import WriteBack
from headwater.state.lru import LruRecordCache, LruStore, LruWriteBack
from headwater.state.newest import NewestTimes
from headwater.state.store import LayeredStore
from headwater.state.timed import TimedStore
from headwater.state.versioned import VersionedStore

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend, Send
    from headwater.serde import Serde
    from headwater.state.layers.cache import CacheBudget

SETTLED_BYTES: Final = 16 * 1024 * 1024
"""Default bound on committed entries kept decoded, per store without a record cache."""


def open_store(
    spec: StoreSpec,
    *,
    task: TaskId,
    changelog_topic: str,
    backend: Backend,
    cache: CacheBudget | None,
    changelog_send: Send | None,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
    settled_bytes_max: int = SETTLED_BYTES,
) -> LayeredStore:
    """Build the store of ``spec`` over an open backend.

    Args:
        spec: name, kind, caching and logging.
        task: the task it belongs to; its partition is the changelog's.
        changelog_topic: what serializers are bound to and messages name, also without logging.
        backend: committed entries; the store closes it.
        cache: budget of the thread's record caches; ``None`` for none.
        changelog_send: sends to the changelog; ignored if the spec has logging off.
        key_serde: the spec's or the configured default, never ``None``.
        value_serde: likewise.
        settled_bytes_max: bound on committed entries kept decoded when the record cache is off.
    """
    is_buffer = spec.kind.is_buffer
    if spec.kind.holds_records:
        key_serde, value_serde = BufferedKeySerde(key_serde), BufferedSerde(value_serde)
    made_codec = HeadersCodec if spec.kind.keeps_headers else StoreCodec
    codec = made_codec(
        spec, changelog_topic, key_serde, BufferSerde() if is_buffer else value_serde
    )
    # A limit of 0 takes the caching layer out, with all its effects, as in Kafka Streams.
    # Duplicates are never cached.
    caching = spec.caching and not spec.retain_duplicates and cache is not None and cache.limit > 0
    if spec.entries_max is not None:
        sends = changelog_send if spec.logging else None
        kept: Any = backend
        through = LruWriteBack(codec, kept, sends, partition=task.partition)
        above = LruRecordCache(through, cache) if caching and cache is not None else None
        return LruStore(spec, through, above)
    below = WriteBack(
        codec,
        backend,
        changelog_send if spec.logging else None,
        partition=task.partition,
        settled_bytes_max=0 if is_buffer else settled_bytes_max,
        newest=_newest_times(spec, backend),
        updater=None if cache is None else cache.updater,
    )
    if is_buffer:
        return SuppressionBuffer(spec, below, value_serde, changelog_topic)
    if spec.kind.versioned:
        return VersionedStore(spec, below, changelog_send if spec.logging else None, task.partition)
    record_cache = RecordCache(below, cache) if caching and cache is not None else None
    made = TimedStore if spec.kind.expires else LayeredStore
    return made(spec, below, record_cache)


def _newest_times(spec: StoreSpec, backend: Any) -> NewestTimes | None:
    """Return what spares looks into RocksDB; of a user's own store nobody knows what it does."""
    if spec.kind.expires and spec.persistent and spec.make_store is None:
        return NewestTimes(backend.stream_time)
    return None


def memory_backend(spec: StoreSpec) -> Backend:
    """Return an empty backend in memory, or of the user's own, for the store of ``spec``.

    Raises:
        StateError: what the user's supplier makes is no store.
    """
    if spec.entries_max is not None:
        return LruBackend(spec.entries_max)
    if spec.make_store is not None:
        return _custom_backend(spec, spec.make_store())
    if not spec.kind.expires:
        return MemoryBackend()
    return TimedMemoryBackend(Expiry.of(spec), suffix_bytes_of(spec))


def _custom_backend(spec: StoreSpec, store: Any) -> Backend:
    if spec.kind.expires:
        return CustomTimedBackend(spec, store)
    if spec.kind.versioned:
        return CustomVersionBackend(spec.name, store)
    return CustomBackend(spec.name, store)
