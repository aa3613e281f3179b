"""State stores as values: what a store of each kind is, and one store of a topology.

A kind says everything in which stores differ beside their names, serdes and settings: how keys lie
in bytes, whether values carry a timestamp, how the changelog is cleaned up. What reads and writes
stores asks the kind, never which kind it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from headwater.errors import TopologyError
from headwater.model.topics import ChangelogKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.custom_stores import CustomStore
    from headwater.model.dsl_stores import DslParams, DslStoreSuppliers

_OF_SOURCE: Final = "~source"
"""No name of a store has such a character."""
_OF_HEADERS: Final = "~headers"

SerdeLike: TypeAlias = Any
"""A ``headwater.serde.Serde``; named loosely because ``serde`` lies above ``model``."""


class KeyLayout(StrEnum):
    """How a store's keys become bytes; ``state/keys.py`` has a class for each."""

    PLAIN = "plain"
    """The bytes of the key serde."""
    WINDOW = "window"
    """Key, start of its window, number among duplicates (Kafka's ``WindowKeySchema``)."""
    SESSION = "session"
    """Key, end and start of its session (Kafka's ``SessionKeySchema``)."""
    VERSIONED = "versioned"
    """The bytes of the key serde, in a store that has several versions of each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """What all stores of one kind have in common.

    Attributes:
        key_layout: how keys become bytes.
        timestamped: a value is kept with its timestamp, which ``get`` gives back.
        changelog: which clean-up the changelog needs.
        is_buffer: it is the buffer of a suppression, whose changelog has bytes and headers of its
            own, and no times.
        holds_records: it is the buffer of a join, whose changelog has no times; its serdes are
            those of the records that wait.
        logs_headers: a changelog record carries the headers of the record that made it (KIP-1271).
        keeps_headers: headers lie beside each value, and its changelog record carries them; that
            of a deletion carries those of the record that made it (KIP-1271).
    """

    KEY_VALUE: ClassVar[StoreKind]
    """Kafka's ``KeyValueStore``."""
    TIMESTAMPED_KEY_VALUE: ClassVar[StoreKind]
    """Kafka's ``TimestampedKeyValueStore``, which every table of the DSL has."""
    SUBSCRIPTIONS: ClassVar[StoreKind]
    """Of a join by foreign key: a ``TimestampedKeyValueStoreWithHeaders`` that drops headers."""
    SUPPRESSION_BUFFER: ClassVar[StoreKind]
    """Kafka's ``InMemoryTimeOrderedKeyValueChangeBuffer``; only memory has it."""
    WINDOW: ClassVar[StoreKind]
    """Kafka's ``WindowStore``."""
    TIMESTAMPED_WINDOW: ClassVar[StoreKind]
    """Kafka's ``TimestampedWindowStore``, of windowed tables."""
    JOIN_WINDOW: ClassVar[StoreKind]
    """Of a join of streams: a ``WindowStore`` whose changelog carries headers."""
    JOIN_BUFFER: ClassVar[StoreKind]
    """Kafka's ``RocksDBTimeOrderedKeyValueBuffer``, of a join with grace."""
    SESSION: ClassVar[StoreKind]
    """Kafka's ``SessionStore``."""
    VERSIONED: ClassVar[StoreKind]
    """Kafka's ``VersionedKeyValueStore`` (KIP-889)."""
    TIMESTAMPED_KEY_VALUE_WITH_HEADERS: ClassVar[StoreKind]
    """Kafka's ``TimestampedKeyValueStoreWithHeaders`` (KIP-1271)."""
    TIMESTAMPED_WINDOW_WITH_HEADERS: ClassVar[StoreKind]
    """Kafka's ``TimestampedWindowStoreWithHeaders`` (KIP-1271)."""
    SESSION_WITH_HEADERS: ClassVar[StoreKind]
    """Kafka's ``SessionStoreWithHeaders`` (KIP-1271)."""

    key_layout: KeyLayout = KeyLayout.PLAIN
    timestamped: bool
    changelog: ChangelogKind = ChangelogKind.KEY_VALUE
    logs_headers: bool = False
    keeps_headers: bool = False
    is_buffer: bool = False
    holds_records: bool = False

    @property
    def expires(self) -> bool:
        """Whether the store forgets what is older than its retention: windows and sessions."""
        return self.key_layout in {KeyLayout.WINDOW, KeyLayout.SESSION}

    @property
    def versioned(self) -> bool:
        """Whether the store knows the values of the past."""
        return self.key_layout is KeyLayout.VERSIONED

    @property
    def described(self) -> str:
        """How messages call the kind."""
        timestamps = ", with timestamps" if self.timestamped else ""
        return f"{self.key_layout}{timestamps}{', with headers' if self.keeps_headers else ''}"

    @property
    def with_headers(self) -> StoreKind | None:
        """The same kind with headers beside its values; ``None`` if Kafka Streams has none."""
        return _WITH_HEADERS.get(self)


StoreKind.KEY_VALUE = StoreKind(timestamped=False)
StoreKind.TIMESTAMPED_KEY_VALUE = StoreKind(timestamped=True)
StoreKind.SUBSCRIPTIONS = StoreKind(timestamped=True, logs_headers=True)
StoreKind.SUPPRESSION_BUFFER = StoreKind(timestamped=False, is_buffer=True)
StoreKind.WINDOW = StoreKind(
    key_layout=KeyLayout.WINDOW, timestamped=False, changelog=ChangelogKind.WINDOWED
)
StoreKind.TIMESTAMPED_WINDOW = replace(StoreKind.WINDOW, timestamped=True)
StoreKind.JOIN_WINDOW = replace(StoreKind.WINDOW, logs_headers=True)
StoreKind.JOIN_BUFFER = StoreKind(timestamped=False, holds_records=True)
StoreKind.SESSION = replace(StoreKind.WINDOW, key_layout=KeyLayout.SESSION)
StoreKind.VERSIONED = StoreKind(
    key_layout=KeyLayout.VERSIONED, timestamped=True, changelog=ChangelogKind.VERSIONED
)
StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS = replace(
    StoreKind.TIMESTAMPED_KEY_VALUE, logs_headers=True, keeps_headers=True
)
StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS = replace(
    StoreKind.TIMESTAMPED_WINDOW, logs_headers=True, keeps_headers=True
)
StoreKind.SESSION_WITH_HEADERS = replace(StoreKind.SESSION, logs_headers=True, keeps_headers=True)
_WITH_HEADERS: Final = {
    StoreKind.TIMESTAMPED_KEY_VALUE: StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
    StoreKind.TIMESTAMPED_WINDOW: StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
    StoreKind.SESSION: StoreKind.SESSION_WITH_HEADERS,
}

SEGMENT_INTERVAL_MIN_MS: Final = 60_000
"""A store of windows is cut into segments at least so long (Kafka's ``Stores``)."""


def is_of_source(directory_name: str) -> bool:
    """Whether a store on a disk has a source topic for a changelog."""
    return directory_name.endswith(_OF_SOURCE)


def store_of(directory_name: str) -> str:
    """Return the name of the store that is called so on a disk."""
    return directory_name.removesuffix(_OF_SOURCE).removesuffix(_OF_HEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """One state store (Kafka's ``StoreBuilder``).

    Two specs with equal fields are still two stores.
    """

    name: str
    kind: StoreKind = StoreKind.TIMESTAMPED_KEY_VALUE
    persistent: bool = True
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """Extra changelog configs (``Materialized.withLoggingEnabled``)."""
    retention_ms: int = 0
    """Of windows and sessions: how long they are kept, by stream time. Of versions: for how long
    values of the past are known."""
    window_size_ms: int = 0
    """Of windows: how long one is."""
    retain_duplicates: bool = False
    """Of windows: several values of a key and start are kept, as joins of streams need."""
    entries_max: int | None = None
    """Of keys and values in memory: so many are kept, those used last."""
    make_store: Callable[[], CustomStore] | None = None
    """Makes a store of the user's own for each task."""
    metrics_scope: str = ""
    """How its metrics call a store of the user's own, without ``-id``; empty: as one in memory."""
    source_topic: str | None = None
    """The source topic that is the changelog, too; ``logging`` is off then (KIP-295)."""
    time_ordered: bool = False
    """Of windows and sessions: they are read by time when they close."""
    dsl_params: DslParams | None = None
    """Set as long as the application's ``dsl.store.suppliers.class`` may say how it is kept, or
    its ``dsl.store.format`` what is kept beside values."""
    dsl_suppliers: DslStoreSuppliers | None = None
    """What its operator says of how it is kept, whatever the application says."""

    @property
    def segment_interval_ms(self) -> int:
        """How much time a segment of windows or sessions spans; it expires as a whole."""
        return max(self.retention_ms // 2, SEGMENT_INTERVAL_MIN_MS)

    @property
    def is_restorable(self) -> bool:
        """Whether a topic has what the store holds, so that it can be built anew."""
        return self.logging or self.source_topic is not None

    @property
    def directory_name(self) -> str:
        """What the store is called on a disk.

        With a mark if its rows have headers, and with another if a source topic is its changelog: a
        store that becomes one of these begins anew.
        """
        name = f"{self.name}{_OF_HEADERS}" if self.kind.keeps_headers else self.name
        return name if self.source_topic is None else f"{name}{_OF_SOURCE}"

    def with_caching_enabled(self) -> StoreSpec:
        """Return the same store with a record cache: repeated updates of a key become one.

        Raises:
            TopologyError: the store is versioned; such a store has none, as in Kafka Streams.
        """
        if self.kind.versioned:
            raise TopologyError(
                f"Versioned store {self.name!r} cannot have a record cache: leave caching off"
            )
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreSpec:
        """Return the same store without a record cache."""
        return replace(self, caching=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StoreSpec:
        """Return the same store with a changelog, whose topic has these configs."""
        return replace(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> StoreSpec:
        """Return the same store without a changelog: what it holds is lost with its task."""
        return replace(self, logging=False, topic_config={})
