"""``KStream``: a stream of independent records.

Names, counters and serdes as in Kafka's ``KStreamImpl``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

# The three modules make each other's objects; they import modules, not names, because the imports
# go in a circle.
from headwater.dsl import branches, grouped, table
from headwater.dsl.graph import GraphNode, ProcessorGraph, RepartitionGraph, SinkGraph
from headwater.dsl.lineage import SourceLineage
from headwater.dsl.options import (
    Grouped,
    GroupedOptions,
    Materialized,
    MaterializedOptions,
    Named,
    Produced,
    ProducedOptions,
    Repartitioned,
    RepartitionedOptions,
    changed,
    name_of,
)
from headwater.dsl.origin import Origin, store_spec
from headwater.errors import TopologyError
from headwater.model.callables import check_function, check_functions, check_supplier
from headwater.model.naming import check_name
from headwater.model.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from headwater.model.operators.table import TableSource
from headwater.model.operators.user import UserProcessor
from headwater.model.topology import SinkNode, StoreSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.model.operators.base import Operator
    from headwater.model.processor_api import ProcessorSupplier, RecordContext

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class KStream(Generic[K, V]):
    """A stream of records with keys of type ``K`` and values of type ``V``; either may be ``None``.

    Operations return new streams and never change this one. ``name`` names the processor node;
    without it the node is called as in Kafka Streams, ``KSTREAM-FILTER-0000000003``.
    """

    __slots__ = ("origin",)

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    # ---- one record in, any number out -------------------------------------------------------

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is true."""
        check_function("filter()", predicate)
        return self._step("KSTREAM-FILTER-", name, Filter(predicate=predicate))

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is false."""
        check_function("filter_not()", predicate)
        return self._step("KSTREAM-FILTER-", name, Filter(predicate=predicate, negate=True))

    def map(
        self, mapper: Callable[[K, V], tuple[KR, VR]], *, name: str | Named | None = None
    ) -> KStream[KR, VR]:
        """Replace every record by the ``(key, value)`` that ``mapper(key, value)`` returns.

        The key may change, so what groups or joins by key below goes through a repartition topic.
        """
        check_function("map()", mapper)
        return KStream(self._rekeyed("KSTREAM-MAP-", name, Map(mapper=mapper)))

    def map_values(
        self, mapper: Callable[..., VR], *, with_key: bool = False, name: str | Named | None = None
    ) -> KStream[K, VR]:
        """Replace every value by ``mapper(value)``; the key stays.

        ``with_key`` calls ``mapper(key, value)``.
        """
        check_function("map_values()", mapper)
        return self._values("KSTREAM-MAPVALUES-", name, MapValues(mapper=mapper, with_key=with_key))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, name: str | Named | None = None
    ) -> KStream[KR, VR]:
        """Replace every record by all the ``(key, value)`` that ``mapper(key, value)`` returns.

        The key may change, so what groups or joins by key below goes through a repartition topic.
        """
        check_function("flat_map()", mapper, several=True)
        return KStream(self._rekeyed("KSTREAM-FLATMAP-", name, FlatMap(mapper=mapper)))

    def flat_map_values(
        self,
        mapper: Callable[..., Iterable[VR]],
        *,
        with_key: bool = False,
        name: str | Named | None = None,
    ) -> KStream[K, VR]:
        """Replace every value by all that ``mapper(value)`` returns; the key stays.

        ``with_key`` calls ``mapper(key, value)``.
        """
        check_function("flat_map_values()", mapper, several=True)
        return self._values(
            "KSTREAM-FLATMAPVALUES-", name, FlatMapValues(mapper=mapper, with_key=with_key)
        )

    def select_key(
        self, mapper: Callable[[K, V], KR], *, name: str | Named | None = None
    ) -> KStream[KR, V]:
        """Replace every key by ``mapper(key, value)``.

        What groups or joins by key below goes through a repartition topic.
        """
        check_function("select_key()", mapper)
        origin = self._rekeyed("KSTREAM-KEY-SELECT-", name, SelectKey(mapper=mapper))
        return KStream(replace(origin, value_serde=self.origin.value_serde))

    def peek(
        self, action: Callable[[K, V], Any], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Call ``action(key, value)`` for its effect and pass the record on.

        The effect may happen more than once.
        """
        check_function("peek()", action)
        return self._step("KSTREAM-PEEK-", name, Peek(action=action))

    def merge(self, other: KStream[K, V], *, name: str | Named | None = None) -> KStream[K, V]:
        """Interleave two streams in no certain order. The serdes of neither are inherited."""
        mine, theirs = self.origin, other.origin
        if mine.graph is not theirs.graph:
            raise TopologyError(
                "Cannot merge streams of two builders: build both with one StreamsBuilder"
            )
        merged = mine.graph.named(name_of(name), "KSTREAM-MERGE-")
        node = ProcessorGraph(merged, PassThrough)
        mine.graph.add(node, mine.node, theirs.node)
        return KStream(
            Origin(
                graph=mine.graph,
                node=node,
                name=merged,
                key_serde=None,
                value_serde=None,
                sources=mine.sources | theirs.sources,
                rekeyed=mine.rekeyed or theirs.rekeyed,
            )
        )

    def split(self, name: str | Named | None = None) -> branches.BranchedKStream[K, V]:
        """Split the stream: each record goes to the first branch whose predicate holds.

        ``name`` is the prefix of the branches' names; without it ``KSTREAM-BRANCH-<number>``.
        """
        return branches.BranchedKStream(self, name_of(name))

    def process(
        self,
        supplier: ProcessorSupplier[K, V, KR, VR],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[KR, VR]:
        """Let a processor of ``supplier`` handle every record (KIP-820).

        What it forwards is the new stream.
        ``stores`` are connected to it: names of stores of the builder, or specs, which are added.
        The key may change, so what groups or joins by key below goes through a repartition topic.

        Raises:
            TopologyError: the supplier returns the same instance twice.
        """
        # Kafka Streams spends no number on a processor that has a name; every other operation does.
        given = name_of(name)
        chosen = self.origin.graph.processor_name("KSTREAM-PROCESSOR-") if given is None else given
        check_supplier(chosen, supplier)
        node = ProcessorGraph(
            chosen, lambda: UserProcessor(supplier=supplier), shared_stores=stores
        )
        return KStream(replace(self._below(node), key_serde=None, value_serde=None, rekeyed=True))

    # ---- the end of a stream -----------------------------------------------------------------

    def for_each(self, action: Callable[[K, V], Any], *, name: str | Named | None = None) -> None:
        """Call ``action(key, value)`` for its effect; nothing follows.

        The effect may happen more than once.
        """
        check_function("for_each()", action)
        self._step("KSTREAM-FOREACH-", name, Peek(action=action, terminal=True))

    def print(
        self,
        *,
        label: str | None = None,
        mapper: Callable[[K, V], str] | None = None,
        path: str | None = None,
        name: str | Named | None = None,
    ) -> None:
        """Print a line for each record, to standard output or the file ``path``; nothing follows.

        The line is ``[label]: key, value``, or ``[label]: mapper(key, value)``.

        ``label`` is by default the name of the node that forwards the records.
        """
        check_functions("print()", optional=True, mapper=mapper)
        shown = self.origin.name if label is None else label
        self._step("KSTREAM-PRINTER-", name, Print(label=shown, mapper=mapper, path=path))

    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str],
        produced: Produced[K, V] | None = None,
        **options: Unpack[ProducedOptions[K, V]],
    ) -> None:
        """Write the stream to ``topic``, which must exist.

        A function ``topic(key, value, record_context)`` names the topic of each record.
        Keywords are those of :class:`Produced`.
        """
        settings = changed(produced or Produced(), options)
        graph = self.origin.graph
        if isinstance(topic, str):
            check_name("topic", topic)
        else:
            check_function("to(), topic", topic)
        node = SinkNode(
            name=graph.named(settings.name, "KSTREAM-SINK-"),
            parents=(),
            topic=topic,
            key_serde=settings.key_serde or self.origin.key_serde,
            value_serde=settings.value_serde or self.origin.value_serde,
            partitioner=settings.partitioner,
        )
        graph.add(SinkGraph(node), self.origin.node)

    # ---- through a topic, into groups and tables ---------------------------------------------

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        **options: Unpack[RepartitionedOptions[K, V]],
    ) -> KStream[K, V]:
        """Send the stream through a repartition topic of its own (KIP-221).

        Records without a key are dropped.

        Keywords are those of :class:`Repartitioned`.
        """
        settings: Repartitioned[K, V] = changed(repartitioned or Repartitioned(), options)
        graph = self.origin.graph
        base = (
            graph.processor_name("KSTREAM-REPARTITION-") if settings.name is None else settings.name
        )
        check_name("repartition", base)
        if settings.partitions is not None and settings.partitions < 1:
            raise TopologyError(
                f"repartition() needs at least one partition, not {settings.partitions}"
            )
        # Kafka's KStreamImpl means to inherit the key serde, too, and forgets it; we do inherit it.
        node = RepartitionGraph(
            graph.repartition_names(base),
            key_serde=settings.key_serde or self.origin.key_serde,
            value_serde=settings.value_serde or self.origin.value_serde,
            partitions=settings.partitions,
            partitioner=settings.partitioner,
        )
        graph.add(node, self.origin.node)
        return KStream(
            Origin(
                graph=graph,
                node=node,
                name=node.name,
                key_serde=node.key_serde,
                value_serde=node.value_serde,
                sources=frozenset({node.name}),
            )
        )

    def group_by_key(
        self, settings: Grouped[K, V] | None = None, **options: Unpack[GroupedOptions[K, V]]
    ) -> grouped.KGroupedStream[K, V]:
        """Group by the key as it is, for an aggregation. Keywords are those of :class:`Grouped`."""
        origin = self.origin
        inherited: Grouped[K, V] = Grouped(
            key_serde=origin.key_serde, value_serde=origin.value_serde
        )
        chosen = changed(settings or inherited, options)
        if chosen.name is not None:
            check_name("group", chosen.name)
        return grouped.KGroupedStream(
            replace(origin, key_serde=chosen.key_serde, value_serde=chosen.value_serde), chosen.name
        )

    def group_by(
        self,
        selector: Callable[[K, V], KR],
        settings: Grouped[KR, V] | None = None,
        **options: Unpack[GroupedOptions[KR, V]],
    ) -> grouped.KGroupedStream[KR, V]:
        """Group by ``selector(key, value)``, for an aggregation.

        Always through a repartition topic.

        Keywords are those of :class:`Grouped`.
        """
        check_function("group_by()", selector)
        inherited: Grouped[KR, V] = Grouped(value_serde=self.origin.value_serde)
        chosen = changed(settings or inherited, options)
        origin = self._rekeyed("KSTREAM-KEY-SELECT-", chosen.name, SelectKey(mapper=selector))
        return grouped.KGroupedStream(
            replace(origin, key_serde=chosen.key_serde, value_serde=chosen.value_serde), chosen.name
        )

    def to_table(
        self,
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> table.KTable[K, V]:
        """Read the stream as a table.

        Each record is the new value of its key, ``None`` deletes it (KIP-523).

        Keywords are those of :class:`Materialized`. As in Kafka Streams the store inherits the
        stream's serdes only if no :class:`Materialized` is given.
        """
        origin, graph = self.origin, self.origin.graph
        chosen = graph.named(name_of(name), "KSTREAM-TOTABLE-")
        inherited: Materialized[K, V] = Materialized(
            key_serde=origin.key_serde, value_serde=origin.value_serde
        )
        settings = changed(materialized or inherited, options)
        store = settings.store or graph.store_name("KSTREAM-TOTABLE-")
        key_serde = settings.key_serde or origin.key_serde
        value_serde = settings.value_serde or origin.value_serde
        parent, sources = origin.node, origin.sources
        if origin.rekeyed:
            names = graph.repartition_names(chosen)
            parent = RepartitionGraph(names, key_serde=key_serde, value_serde=value_serde)
            graph.add(parent, origin.node)
            sources = frozenset({names.source})
        lineage = SourceLineage(store, materialized=settings.store is not None)
        spec = store_spec(store, settings)
        node = ProcessorGraph(
            chosen,
            lambda: TableSource(store=lineage.store, send_old=lineage.send_old),
            store=lambda: spec if lineage.store else None,
        )
        graph.add(node, parent)
        return table.KTable(
            Origin(
                graph=graph,
                node=node,
                name=chosen,
                key_serde=key_serde,
                value_serde=value_serde,
                sources=sources,
            ),
            lineage,
        )

    # ---- drawing -----------------------------------------------------------------------------

    def _below(self, node: GraphNode) -> Origin:
        self.origin.graph.add(node, self.origin.node)
        return replace(self.origin, node=node, name=node.name)

    def _draw(self, prefix: str, name: str | Named | None, operator: Operator) -> Origin:
        chosen = self.origin.graph.named(name_of(name), prefix)
        return self._below(ProcessorGraph(chosen, lambda: operator))

    def _step(self, prefix: str, name: str | Named | None, operator: Operator) -> KStream[K, V]:
        return KStream(self._draw(prefix, name, operator))

    def _values(self, prefix: str, name: str | Named | None, operator: Operator) -> KStream[K, Any]:
        return KStream(replace(self._draw(prefix, name, operator), value_serde=None))

    def _rekeyed(self, prefix: str, name: str | Named | None, operator: Operator) -> Origin:
        origin = self._draw(prefix, name, operator)
        return replace(origin, key_serde=None, value_serde=None, rekeyed=True)
