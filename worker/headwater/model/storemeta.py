"""Where stores are, and as what they are read: the values of metadata and of read-only views."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headwater.ids import TopicPartition


class HostInfo(NamedTuple):
    """Where a worker answers by HTTP (Kafka's ``HostInfo``)."""

    host: str
    port: int

    @classmethod
    def unavailable(cls) -> HostInfo:
        """Return what stands for a worker that serves no HTTP (``HostInfo.unavailable``)."""
        return cls("unavailable", -1)

    @classmethod
    def of(cls, endpoint: str) -> HostInfo:
        """Return where ``host:port`` is; an empty text is unavailable."""
        host, _, port = endpoint.rpartition(":")
        return cls(host.strip("[]"), int(port)) if port else cls.unavailable()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQueryMetadata:
    """Who has a key (Kafka's ``KeyQueryMetadata``, KIP-535).

    Attributes:
        active_host: where its active task is.
        standby_hosts: where copies of it are.
        partition: of the store.
    """

    active_host: HostInfo
    standby_hosts: frozenset[HostInfo] = frozenset()
    partition: int


NOT_AVAILABLE: Final = KeyQueryMetadata(active_host=HostInfo.unavailable(), partition=-1)
"""Nobody can be named: a task is being moved (``KeyQueryMetadata.NOT_AVAILABLE``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMetadata:
    """What one instance of the application has (Kafka's ``StreamsMetadata``).

    Attributes:
        host_info: where it answers.
        state_store_names: the stores of its active tasks.
        topic_partitions: what its active tasks read.
        standby_state_store_names: the stores of its copies.
    """

    host_info: HostInfo
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: frozenset[TopicPartition] = frozenset()
    standby_state_store_names: frozenset[str] = frozenset()


class LagInfo(NamedTuple):
    """How far a store is behind the end of its changelog (Kafka's ``LagInfo``)."""

    current_offset_position: int
    end_offset_position: int

    @property
    def offset_lag(self) -> int:
        """Offsets still to apply."""
        return max(0, self.end_offset_position - self.current_offset_position)


class QueryableStoreType(StrEnum):
    """As what a store is read; see ``QueryableStoreTypes``."""

    KEY_VALUE = "key-value store"
    TIMESTAMPED_KEY_VALUE = "key-value store with timestamps"
    WINDOW = "window store"
    TIMESTAMPED_WINDOW = "window store with timestamps"
    SESSION = "session store"
    VERSIONED = "versioned store"
    TIMESTAMPED_KEY_VALUE_WITH_HEADERS = "key-value store with timestamps and headers"
    TIMESTAMPED_WINDOW_WITH_HEADERS = "window store with timestamps and headers"
    SESSION_WITH_HEADERS = "session store with headers"


class QueryableStoreTypes:
    """As what a store is read (Kafka's ``QueryableStoreTypes``).

    A store with timestamps may be read as one without: its values come alone then. One with headers
    may be read as one without, too.
    """

    @staticmethod
    def key_value_store() -> QueryableStoreType:
        """Read a ``ReadOnlyKeyValueStore``."""
        return QueryableStoreType.KEY_VALUE

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType:
        """Read a ``ReadOnlyTimestampedKeyValueStore``."""
        return QueryableStoreType.TIMESTAMPED_KEY_VALUE

    @staticmethod
    def window_store() -> QueryableStoreType:
        """Read a ``ReadOnlyWindowStore``."""
        return QueryableStoreType.WINDOW

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType:
        """Read a ``ReadOnlyTimestampedWindowStore``."""
        return QueryableStoreType.TIMESTAMPED_WINDOW

    @staticmethod
    def session_store() -> QueryableStoreType:
        """Read a ``ReadOnlySessionStore``."""
        return QueryableStoreType.SESSION

    @staticmethod
    def timestamped_key_value_store_with_headers() -> QueryableStoreType:
        """Read a ``ReadOnlyTimestampedKeyValueStoreWithHeaders``."""
        return QueryableStoreType.TIMESTAMPED_KEY_VALUE_WITH_HEADERS

    @staticmethod
    def timestamped_window_store_with_headers() -> QueryableStoreType:
        """Read a ``ReadOnlyTimestampedWindowStoreWithHeaders``."""
        return QueryableStoreType.TIMESTAMPED_WINDOW_WITH_HEADERS

    @staticmethod
    def session_store_with_headers() -> QueryableStoreType:
        """Read a ``ReadOnlySessionStoreWithHeaders``."""
        return QueryableStoreType.SESSION_WITH_HEADERS

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType:
        """Read a ``ReadOnlyVersionedKeyValueStore``, which Java reads by IQv2 alone."""
        return QueryableStoreType.VERSIONED


@dataclass(frozen=True, slots=True)
class StoreQueryParameters:
    """Which store is to be read, and as what (Kafka's ``StoreQueryParameters``).

    Attributes:
        store_name: the store.
        queryable_store_type: as what it is read.
        partition: only this one; ``None`` for all that are here.
        is_stale_stores_enabled: copies and restoring tasks are read, too.
    """

    store_name: str
    queryable_store_type: QueryableStoreType
    partition: int | None = None
    is_stale_stores_enabled: bool = field(default=False)

    @classmethod
    def from_name_and_type(
        cls, store_name: str, queryable_store_type: QueryableStoreType
    ) -> StoreQueryParameters:
        """Return the parameters for a store."""
        return cls(store_name, queryable_store_type)

    def with_partition(self, partition: int) -> StoreQueryParameters:
        """Return the parameters for one partition."""
        return replace(self, partition=partition)

    def enable_stale_stores(self) -> StoreQueryParameters:
        """Return the parameters, copies and restoring tasks included."""
        return replace(self, is_stale_stores_enabled=True)
