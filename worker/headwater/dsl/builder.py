"""``StreamsBuilder``: where a topology begins and is finished."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from headwater.config import StreamsConfig
from headwater.dsl.calls import GlobalStore, Source, Store, Table
from headwater.dsl.drawing import Drawing
from headwater.dsl.global_table import GlobalKTable
from headwater.dsl.naming import check_names
from headwater.dsl.options import Consumed, ConsumedOptions, Materialized, TableOptions, changed
from headwater.dsl.origin import Origin
from headwater.dsl.rewrite import rewrite
from headwater.dsl.stored import store_spec
from headwater.dsl.writing import write
from headwater.errors import TopologyError
from headwater.model.naming import check_name
from headwater.model.nodes import SourceNode
from headwater.model.operators.table import TableSource
from headwater.model.operators.user import UserProcessor
from headwater.model.patterns import topics_of
from headwater.model.suppliers import supplier_of
from headwater.topology_settings import demands_names, optimizations_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.stream import KStream
    from headwater.dsl.table import KTable
    from headwater.model.processors import ProcessorFunction, ProcessorSupplier
    from headwater.model.topology import StoreSpec, Topology

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder:
    """Draws streams and tables and builds the topology they form (Kafka's ``StreamsBuilder``).

    Example:
        >>> builder = StreamsBuilder()
        >>> builder.stream("in").filter(lambda key, value: value is not None).to("out")
        >>> print(builder.build().describe().splitlines()[2])
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
    """

    __slots__ = ("_config", "_drawing")

    def __init__(self, config: Mapping[str, object] | StreamsConfig | None = None) -> None:
        """Begin an empty drawing.

        ``config`` is the application's, as for Java's ``StreamsBuilder(TopologyConfig)``: its
        ``processor.wrapper.class`` wraps the processors of the topology. What runs an application
        gives it to the builder that the application's function draws on.
        """
        self._config = config
        self._drawing = Drawing()

    def stream(
        self,
        topics: str | re.Pattern[str] | Iterable[str],
        consumed: Consumed[K, V] | None = None,
        **options: Unpack[ConsumedOptions[K, V]],
    ) -> KStream[K, V]:
        """Read one topic or several as a stream. Keywords are those of :class:`Consumed`.

        With a pattern, ``re.compile("orders-.*")``, it reads the topics whose whole names match,
        also those that are made later.

        Raises:
            TopologyError: no topic is given, or a name is not legal.
        """
        if not isinstance(topics, str | re.Pattern | Iterable):
            raise TopologyError(
                f"stream() got {topics!r}: pass a topic's name, several, or a compiled pattern"
            )
        given = [topics] if isinstance(topics, str | re.Pattern) else topics
        names: tuple[str | re.Pattern[str], ...] = tuple(dict.fromkeys(given))
        if not names:
            raise TopologyError("stream() needs at least one topic")
        read = topics_of(names)
        for topic in read.get("topics", ()):
            check_name("topic", topic)
        settings = changed(Consumed, consumed, options)
        name = self._drawing.named(settings.name, "KSTREAM-SOURCE-")
        node = replace(_source_node(name, (), settings), **read)
        return self._read(Source(node=node), settings).as_stream()

    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[TableOptions[K, V]],
    ) -> KTable[K, V]:
        """Read a topic as a table.

        Keywords are those of :class:`Consumed` and :class:`Materialized`.

        The table is stored if it has a store name or something below needs it. As in Kafka
        Streams the serdes of ``consumed`` are also the store's, in place of those of
        ``materialized``; without ``consumed`` those of ``materialized`` serve for reading, too.
        One that is missing there is the configured default.

        Raises:
            TopologyError: a name is not legal.
        """
        check_name("topic", topic)
        drawing = self._drawing
        reading, storing = _shared(consumed, materialized, dict(options))
        store = storing.store or drawing.store_name(f"{topic}-")
        source = drawing.named(reading.name, "KSTREAM-SOURCE-", "-source")
        part = Table(
            name=drawing.named(reading.name, "KTABLE-SOURCE-"),
            operator=TableSource(store=storing.store),
            store=store_spec(store, storing),
        )
        node = _source_node(source, (topic,), reading)
        return self._read(Source(node=node, of_table=True), reading).below(part).as_table()

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[TableOptions[K, V]],
    ) -> GlobalKTable[K, V]:
        """Read a topic as a table of which every task holds all partitions.

        Keywords and serdes are those of :meth:`table`. The table is always stored. It has no
        changelog: it is filled from the topic itself, before any record is processed.

        Raises:
            TopologyError: a name is not legal.
        """
        check_name("topic", topic)
        drawing = self._drawing
        reading, storing = _shared(consumed, materialized, dict(options))
        store = storing.store or drawing.store_name(f"{topic}-")
        source = drawing.named(reading.name, "KSTREAM-SOURCE-", "-source")
        part = GlobalStore(
            source=_source_node(source, (topic,), reading),
            name=drawing.named(reading.name, "KTABLE-SOURCE-"),
            operator=TableSource(store=store),
            spec=store_spec(store, storing),
        )
        drawing.draw(part)
        return GlobalKTable(drawing, store, is_named=storing.store is not None)

    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        consumed: Consumed[K, V] | None,
        supplier: ProcessorSupplier[K, V, Any, Any] | ProcessorFunction[K, V, Any, Any],
    ) -> StreamsBuilder:
        """Add a store that every task reads, kept by a processor from all of ``topic`` (KIP-813).

        See :meth:`Topology.add_global_store`.

        Args:
            store: its name, its kind and its serdes.
            topic: read from all its partitions.
            consumed: how the topic is read; ``None`` means the configured defaults.
            supplier: makes the processor that alone writes the store.

        Raises:
            TopologyError: a name is not legal, or the supplier makes no processor.
        """
        check_name("topic", topic)
        reading: Consumed[K, V] = consumed or Consumed()
        source = self._drawing.named(reading.name, "KSTREAM-SOURCE-", "-source")
        name = self._drawing.named(reading.name, "KTABLE-SOURCE-")
        part = GlobalStore(
            source=_source_node(source, (topic,), reading),
            name=name,
            operator=UserProcessor(supplier=supplier_of(name, supplier)),
            spec=store,
        )
        self._drawing.draw(part)
        return self

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        """Add a store, before the first ``process`` that connects to it by name."""
        self._drawing.draw(Store(spec=store))
        return self

    def build(self, config: Mapping[str, object] | None = None) -> Topology:
        """Return the topology. More may be drawn afterwards and built again.

        ``config`` is the application's, as for Java's ``build(Properties)``:
        ``topology.optimization`` says how what was drawn is rewritten, and
        ``ensure.explicit.internal.resource.naming`` refuses generated names of topics and stores,
        and ``dsl.store.suppliers.class`` says how stores are kept.
        Without it the configuration of the builder counts.

        Raises:
            ConfigError: ``topology.optimization`` names no rewrite.
            TopologyError: names clash, a topic is read in two ways, a store is missing.
        """
        settings = _settings(self._config if config is None else config)
        calls = self._drawing.calls
        topology = write(rewrite(calls, optimizations_of(settings)), self._config)
        if demands_names(settings):
            check_names(calls)
        return topology.configured(settings)

    def _read(self, source: Source, consumed: Consumed[Any, Any]) -> Origin:
        return Origin(
            drawing=self._drawing,
            call=self._drawing.draw(source),
            key_serde=consumed.key_serde,
            value_serde=consumed.value_serde,
        )


def _settings(config: Mapping[str, object] | StreamsConfig | None) -> Mapping[str, object]:
    if config is None:
        return {}
    return config.originals if isinstance(config, StreamsConfig) else config


def _source_node(name: str, topics: tuple[str, ...], consumed: Consumed[Any, Any]) -> SourceNode:
    return SourceNode(
        name=name,
        topics=topics,
        key_serde=consumed.key_serde,
        value_serde=consumed.value_serde,
        timestamp_extractor=consumed.timestamp_extractor,
        offset_reset=consumed.offset_reset,
    )


def _shared(
    consumed: Consumed[K, V] | Materialized[K, V] | None,
    materialized: Materialized[K, V] | None,
    options: dict[str, Any],
) -> tuple[Consumed[K, V], Materialized[K, V]]:
    if isinstance(consumed, Materialized):
        if materialized is not None:
            raise TopologyError("two Materialized are given; pass a Consumed and a Materialized")
        consumed, materialized = None, consumed  # as Java's table(topic, materialized)
    stores = {field.name for field in fields(Materialized)}
    for_reading = {
        name: value
        for name, value in options.items()
        if name not in stores or name.endswith("_serde")
    }
    for_storing = {name: value for name, value in options.items() if name in stores}
    reading: Consumed[K, V] = changed(Consumed, consumed, for_reading)
    storing: Materialized[K, V] = changed(Materialized, materialized, for_storing)
    # Java's overloads: of two objects it takes the serdes of Consumed, the null ones included.
    chosen = storing if consumed is None else reading
    serdes: dict[str, Any] = {"key_serde": chosen.key_serde, "value_serde": chosen.value_serde}
    return replace(reading, **serdes), replace(storing, **serdes)
