"""The settings of DSL operations.

Kafka Streams' Consumed, Produced, Grouped, Joined, StreamJoined, TableJoined, Repartitioned,
Materialized, Named, Branched.

Every operation takes its settings in two ways, which may be mixed:

* as an object, which says all of them, as in Java: ``group_by(by_user, Grouped(name="by-user"))``;
* as keywords, each of which changes one setting of the object, or of what Java uses when none is
  given: ``group_by(by_user, name="by-user")``.

A serde of ``None`` means: inherited where Kafka Streams inherits it, else the configured default.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from headwater.dsl.factories import (
    OfBranched,
    OfConsumed,
    OfGrouped,
    OfJoined,
    OfProduced,
    OfRepartitioned,
    OfTableJoined,
)
from headwater.dsl.storing import StoringStreams, StoringTable, check_kept
from headwater.errors import TopologyError
from headwater.model.callables import check_extractor, check_functions
from headwater.model.durations import millis
from headwater.model.naming import check_name
from headwater.model.store_suppliers import VersionedBytesStoreSupplier
from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from headwater.dsl.storing import TableStoreSupplier
    from headwater.dsl.stream import KStream
    from headwater.model.dsl_stores import DslStoreSuppliers
    from headwater.model.durations import Duration
    from headwater.model.nodes import TimestampExtractorLike
    from headwater.model.offset_reset import OffsetReset
    from headwater.model.store_suppliers import WindowBytesStoreSupplier

K = TypeVar("K")
V = TypeVar("V")
KO = TypeVar("KO")
VO = TypeVar("VO")
Options = TypeVar("Options")


class _WithSerdes:
    """Settings with a serde for keys and one for values."""

    def __post_init__(self) -> None:
        for setting in ("key_serde", "value_serde", "other_value_serde"):
            given: object = getattr(self, setting, None)
            if given is None or isinstance(given, Serde):
                continue
            advice = "pass a Serde, such as Serdes.string"
            if isinstance(given, type) and issubclass(given, Serde):
                advice = f"that is a class: pass {given.__name__}()"
            raise TopologyError(f"{type(self).__name__}: {setting} is {given!r}; {advice}")
        partitioner = getattr(self, "partitioner", None)
        check_functions(type(self).__name__, optional=True, partitioner=partitioner)


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a processor node."""

    name: str

    def __post_init__(self) -> None:
        check_name("node", self.name)

    @classmethod
    def as_(cls, name: str) -> Self:
        """Begin with a name."""
        return cls(name)


@dataclass(frozen=True, kw_only=True)
class Consumed(OfConsumed[K, V], _WithSerdes, Generic[K, V]):
    """How a topic is read.

    Attributes:
        name: of the source node.
        key_serde: for keys.
        value_serde: for values.
        timestamp_extractor: ``extractor(record, partition_time)`` gives milliseconds since the
            epoch; or one of :class:`TimestampExtractors`, by its name, too; or the
            ``"module:function"`` that is one.
        offset_reset: where to start without a committed offset; ``None`` leaves it to
            ``auto_offset_reset``.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractorLike | None = None
    offset_reset: OffsetReset | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_extractor("Consumed", self.timestamp_extractor)


class ConsumedOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Consumed`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    timestamp_extractor: TimestampExtractorLike | None
    offset_reset: OffsetReset | None


@dataclass(frozen=True, kw_only=True)
class Produced(OfProduced[K, V], _WithSerdes, Generic[K, V]):
    """How a topic is written.

    Attributes:
        name: of the sink node.
        key_serde: for keys; ``None`` inherits the stream's.
        value_serde: for values; ``None`` inherits the stream's.
        partitioner: see ``model.topology.SinkNode``; ``None`` is murmur2 over the serialized key.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: Callable[..., Any] | None = None


class ProducedOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Produced`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitioner: Callable[..., Any] | None


@dataclass(frozen=True, kw_only=True)
class Grouped(OfGrouped[K, V], _WithSerdes, Generic[K, V]):
    """How records are grouped.

    Attributes:
        name: of the repartition topic (``<application id>-<name>-repartition``) and, for
            ``group_by``, of the node that selects the key. With a name, all aggregations of one
            group share one repartition topic.
        key_serde: for keys.
        value_serde: for values.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None


class GroupedOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Grouped`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None


@dataclass(frozen=True, kw_only=True)
class Joined(OfJoined[K, V, VO], _WithSerdes, Generic[K, V, VO]):
    """How a stream is joined with a table.

    Attributes:
        name: of the join's node and, if the stream's key may have changed, of its repartition topic
            (``<application id>-<name>-repartition``).
        key_serde: for keys of the repartition topic and of the result; ``None`` inherits the
            stream's.
        value_serde: for values of the repartition topic; ``None`` inherits the stream's.
        other_value_serde: of the table's values; kept for parity with Java, which does not use it.
        grace: how long a record waits for late updates of the table, by the stream's time. The
            table has to be versioned, with a history at least as long (KIP-923).
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    grace: Duration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grace is not None and millis("Joined: grace", self.grace) < 0:
            raise TopologyError("Joined: grace is negative; choose 0 ms or more")


class JoinedOptions(TypedDict, Generic[K, V, VO], total=False):
    """The keywords of :class:`Joined`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VO] | None
    grace: Duration | None


@dataclass(frozen=True, kw_only=True)
class StreamJoined(StoringStreams, _WithSerdes, Generic[K, V, VO]):
    """How two streams are joined (KIP-479).

    Attributes:
        name: what the join's nodes and, if a key may have changed, repartition topics are called
            after.
        store: what its stores are called after.
        key_serde: of keys in stores, repartition topics and the result; ``None``: the default.
        value_serde: of this stream's values, likewise.
        other_value_serde: of the other stream's values, likewise.
        logging: write changelog topics; without them the state is lost with its worker.
        topic_config: settings of the changelog topics.
        persistent: RocksDB; otherwise memory (restored from the changelog at every start). ``None``
            leaves it to ``dsl.store.suppliers.class``.
        store_type: in place of it, what says how the stores are kept.
        this_store_supplier: of the store of this stream's records, in place of ``store`` and
            ``persistent``; it retains duplicates, and its times are those of the windows.
        other_store_supplier: of the store of the other stream's records, likewise.
    """

    name: str | None = None
    store: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    persistent: bool | None = None
    store_type: DslStoreSuppliers | None = None
    this_store_supplier: WindowBytesStoreSupplier | None = None
    other_store_supplier: WindowBytesStoreSupplier | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kept("StreamJoined", persistent=self.persistent, store_type=self.store_type)
        if self.name is not None:
            check_name("join", self.name)
        if self.store is not None:
            check_name("store", self.store)


class StreamJoinedOptions(TypedDict, Generic[K, V, VO], total=False):
    """The keywords of :class:`StreamJoined`."""

    name: str | None
    store: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VO] | None
    logging: bool
    topic_config: Mapping[str, str]
    persistent: bool | None
    store_type: DslStoreSuppliers | None
    this_store_supplier: WindowBytesStoreSupplier | None
    other_store_supplier: WindowBytesStoreSupplier | None


@dataclass(frozen=True, kw_only=True)
class TableJoined(OfTableJoined, Generic[K, KO]):
    """How two tables are joined by a foreign key (KIP-775).

    A partitioner is called with ``(topic, key, None, partitions)`` and gives one partition, or
    ``None`` for murmur2 over the serialized key.

    Attributes:
        name: what nodes, topics and the store of subscriptions are called after.
        partitioner: of the left table, if its topic is not partitioned by murmur2; it chooses where
            responses go. ``None``: where their subscription came from.
        other_partitioner: of the right table, likewise; it chooses where subscriptions go.
    """

    name: str | None = None
    partitioner: Callable[..., Any] | None = None
    other_partitioner: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name("join", self.name)
        check_functions(
            "TableJoined",
            optional=True,
            partitioner=self.partitioner,
            other_partitioner=self.other_partitioner,
        )


@dataclass(frozen=True, kw_only=True)
class Repartitioned(OfRepartitioned[K, V], _WithSerdes, Generic[K, V]):
    """How a stream is sent through a repartition topic.

    Attributes:
        name: of the topic: ``<application id>-<name>-repartition``.
        key_serde: for keys; ``None`` inherits the stream's.
        value_serde: for values; ``None`` inherits the stream's.
        partitions: the topic's partition count; ``None`` infers it from the sources.
        partitioner: see ``model.topology.SinkNode``.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitions: int | None = None
    partitioner: Callable[..., Any] | None = None


class RepartitionedOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Repartitioned`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitions: int | None
    partitioner: Callable[..., Any] | None


@dataclass(frozen=True, kw_only=True)
class Materialized(StoringTable, _WithSerdes, Generic[K, V]):
    """How a table is stored.

    Attributes:
        store: the store's name; with one, the table is always stored and its changelog has a
            lasting name.
        key_serde: for keys.
        value_serde: for values.
        caching: keep updates of a key back until the commit and emit the last one.
        logging: write a changelog topic; without one the state is lost with its worker.
        topic_config: settings of the changelog topic.
        persistent: RocksDB; otherwise memory (restored from the changelog at every start). ``None``
            leaves it to ``dsl.store.suppliers.class``.
        store_type: in place of it, what says how the store is kept.
        store_supplier: in place of both, and of ``store`` and ``retention``, the store's own.
        history_retention: makes the table versioned (KIP-889, KIP-914): for so long, by stream
            time, values of the past are known. It needs a ``store`` name and has no cache.
        retention: how long windows or sessions are kept; ``None``: as long as they may change.
    """

    store: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    persistent: bool | None = None
    store_type: DslStoreSuppliers | None = None
    store_supplier: TableStoreSupplier | None = None
    history_retention: Duration | None = None
    retention: Duration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._take_supplier()
        if self.store is not None:
            check_name("store", self.store)
        if self.history_retention is None:
            return
        if self.store is None or self.persistent is False:
            lacks = "a name: pass store=" if self.store is None else "a disk: leave out persistent="
            raise TopologyError(f"Materialized: the store of a versioned table needs {lacks}")
        if millis("Materialized: history_retention", self.history_retention) < 0:
            raise TopologyError(
                f"Store {self.store!r}: history_retention is negative; choose 0 or more"
            )

    def _take_supplier(self) -> None:
        supplier = self.store_supplier
        kept = {"persistent": self.persistent, "store_type": self.store_type}
        check_kept("Materialized", **kept, store_supplier=supplier)
        if supplier is None:
            return
        if self.store not in {None, supplier.name} or self.retention is not None:
            other = f"store={self.store!r}" if self.retention is None else "retention="
            raise TopologyError(
                f"Materialized: the supplier of store {supplier.name!r} says its name and "
                f"retention; leave out {other}"
            )
        object.__setattr__(self, "store", supplier.name)
        if isinstance(supplier, VersionedBytesStoreSupplier):
            object.__setattr__(self, "history_retention", supplier.history_retention_ms)
        elif self.history_retention is not None:
            raise TopologyError(
                f"Materialized: the supplier of store {supplier.name!r} keeps no versions; leave "
                "out history_retention, or pass a VersionedBytesStoreSupplier"
            )


class MaterializedOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Materialized`."""

    store: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    caching: bool
    logging: bool
    topic_config: Mapping[str, str]
    persistent: bool | None
    store_type: DslStoreSuppliers | None
    store_supplier: TableStoreSupplier | None
    history_retention: Duration | None
    retention: Duration | None


class ForeignJoinOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`TableJoined` and :class:`Materialized`."""

    name: str | Named | None
    partitioner: Callable[..., Any] | None
    other_partitioner: Callable[..., Any] | None
    store: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    caching: bool
    logging: bool
    topic_config: Mapping[str, str]
    persistent: bool | None
    store_type: DslStoreSuppliers | None
    store_supplier: TableStoreSupplier | None
    history_retention: Duration | None


class TableOptions(TypedDict, Generic[K, V], total=False):
    """The keywords of :class:`Consumed` and :class:`Materialized`; the serdes serve both."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    timestamp_extractor: TimestampExtractorLike | None
    offset_reset: OffsetReset | None
    store: str | None
    caching: bool
    logging: bool
    topic_config: Mapping[str, str]
    persistent: bool | None
    store_type: DslStoreSuppliers | None
    store_supplier: TableStoreSupplier | None
    history_retention: Duration | None


@dataclass(frozen=True, kw_only=True)
class Branched(OfBranched[K, V], Generic[K, V]):
    """What becomes of one branch of a split stream.

    Attributes:
        name: appended to the split's name; ``None`` appends the branch's number.
        chain: called with the branch; what it returns is the branch's entry in the result, ``None``
            leaves it out.
    """

    name: str | None = None
    chain: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None

    def __post_init__(self) -> None:
        check_functions("Branched", optional=True, chain=self.chain)


def changed(kind: type[Options], given: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return the options given, or those of a new ``kind``, with fields replaced by ``keywords``.

    Raises:
        TopologyError: there is no such setting, or what was given is of another kind.
    """
    if given is None:
        given = kind()
    elif not isinstance(given, kind):
        raise TopologyError(
            f"{given!r:.100} stands where {kind.__name__} is wanted; pass a {kind.__name__}, or "
            "keywords"
        )
    if not keywords:
        return given
    try:
        result: Options = replace(given, **keywords)  # type: ignore[type-var]
    except TypeError as error:
        raise TopologyError(f"{kind.__name__} has no such setting: {error}") from error
    return result


def name_of(name: str | Named | None) -> str | None:
    """Return the plain name, checked."""
    if name is None:
        return None
    return check_name("node", name) if isinstance(name, str) else name.name
