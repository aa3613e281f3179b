"""State stores: where a task's tables and aggregates live between records.

Stores differ by the layout of their keys and by their backend, never by a layer.

    backends    ``MemoryBackend``, ``RocksBackend``   committed entries and their position
                ``TimedMemoryBackend``,
                ``SegmentedRocksBackend``             the same of windows and sessions, which expire
                ``RocksSecondary``                    those of another process, for reading
    expiry      ``Expiry``                            what has expired by stream time
    newest      ``NewestTimes``                       how late the rows of a key can be
    keys        ``PlainKeys``, ``TimedKeys``          how keys become bytes
    codec       ``StoreCodec``                        how values become bytes
    layers      ``WriteBack``, ``RecordCache``        what is not committed, what is not forwarded
    store       ``LayeredStore``                      the ``KeyValueStore`` that processors see
    timed       ``TimedStore``                        the store of windows or sessions
    lru         ``LruStore``                          the store that keeps what was used last
    making      ``open_store``                        from a spec to its store

Entry points::

    open_store(spec, *, task, changelog_topic, backend, cache, changelog_send, key_serde,
               value_serde, settled_bytes_max=...) -> LayeredStore
    CacheBudget(limit_bytes)                  one per StreamThread, shared by all its stores
    StateDirectory(state_dir, application_id).store(task, name) -> StoreDirectory (lock, wipe)
    open_backend(spec, store_directory, holder="StreamThread w-0-1") -> Backend
    StoreRestorer(spec, store_directory, ChangelogFacts(...), now_ms=..., holder=...)
    judge(position, ...) -> Usable | Rebuild  may a stored position be trusted?

May import ``ports`` and what lies below; knows neither Kafka nor threads.
"""

from headwater.state.backends.memory import MemoryBackend
from headwater.state.backends.rocks import BlockCache, RocksBackend, RocksOptions
from headwater.state.backends.rocks_secondary import RocksSecondary
from headwater.state.directory import StateDirectory, StoredStore
from headwater.state.layers.cache import CacheBudget
from headwater.state.making import memory_backend, open_store
from headwater.state.position import Rebuild, RebuildReason, Usable, judge
from headwater.state.restore import ChangelogFacts, StoreRestorer, open_backend
from headwater.state.store import LayeredStore
from headwater.state.timed import TimedStore

__all__ = [
    "BlockCache",
    "CacheBudget",
    "ChangelogFacts",
    "LayeredStore",
    "MemoryBackend",
    "Rebuild",
    "RebuildReason",
    "RocksBackend",
    "RocksOptions",
    "RocksSecondary",
    "StateDirectory",
    "StoreRestorer",
    "StoredStore",
    "TimedStore",
    "Usable",
    "judge",
    "memory_backend",
    "open_backend",
    "open_store",
]
