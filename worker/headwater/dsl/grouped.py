"""``KGroupedStream`` and ``KGroupedTable``: count, reduce, aggregate.

As Kafka's ``GroupedStreamAggregateBuilder``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from headwater.dsl import table
from headwater.dsl.graph import GraphNode, ProcessorGraph, RepartitionGraph, TableRepartitionGraph
from headwater.dsl.lineage import AggregateLineage
from headwater.dsl.options import Materialized, MaterializedOptions, Named, changed, name_of
from headwater.dsl.origin import Origin, store_spec
from headwater.model.callables import check_function, check_functions
from headwater.model.naming import check_name
from headwater.model.operators.aggregate import StreamAggregate, TableAggregate
from headwater.serde.primitives import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


def count_initializer() -> int:
    """Start a count."""
    return 0


def count_adder(_key: Any, _value: Any, count: int) -> int:
    """Count one more."""
    return count + 1


def count_subtractor(_key: Any, _value: Any, count: int) -> int:
    """Count one less."""
    return count - 1


class KGroupedStream(Generic[K, V]):
    """A stream grouped by key. Records without key or value are dropped by every aggregation."""

    __slots__ = ("_name", "_repartition", "origin")

    def __init__(self, origin: Origin, name: str | None) -> None:
        self.origin = origin
        self._name = name
        self._repartition: RepartitionGraph | None = None

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> table.KTable[K, int]:
        """Count the records of each key (a 64-bit number in store and changelog).

        Keywords are those of :class:`Materialized`.
        """
        settings: Materialized[K, int] = changed(materialized or Materialized(), options)
        if settings.store is None and (materialized is not None or options):
            # Kafka Streams once named this store twice and keeps spending the number.
            self.origin.graph.store_name("KSTREAM-AGGREGATE-")
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._aggregate(
            "KSTREAM-AGGREGATE-", name_of(name), settings, count_adder, count_initializer
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> table.KTable[K, V]:
        """Combine the values of each key: ``reducer(aggregate, value)``.

        The first value is the first aggregate.

        A result of ``None`` deletes the key. Keywords are those of :class:`Materialized`.
        """
        check_function("reduce()", reducer)
        settings: Materialized[K, V] = changed(materialized or Materialized(), options)
        settings = replace(settings, value_serde=settings.value_serde or self.origin.value_serde)

        def aggregator(_key: K, value: V, aggregate: V) -> V:
            return reducer(aggregate, value)

        return self._aggregate(
            "KSTREAM-REDUCE-", name_of(name), settings, aggregator, None, reducer=reducer
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> table.KTable[K, A]:
        """Fold the values of each key, from ``initializer()`` on.

        ``aggregator(key, value, aggregate)`` gives the next aggregate.

        A result of ``None`` deletes the key. Keywords are those of :class:`Materialized`.
        """
        check_functions("aggregate()", initializer=initializer, aggregator=aggregator)
        settings: Materialized[K, A] = changed(materialized or Materialized(), options)
        return self._aggregate(
            "KSTREAM-AGGREGATE-", name_of(name), settings, aggregator, initializer
        )

    def _aggregate(
        self,
        prefix: str,
        name: str | None,
        settings: Materialized[K, Any],
        aggregator: Callable[[Any, Any, Any], Any],
        initializer: Callable[[], Any] | None,
        *,
        reducer: Callable[[Any, Any], Any] | None = None,
    ) -> table.KTable[K, Any]:
        graph = self.origin.graph
        store = settings.store or graph.store_name(prefix)
        settings = replace(settings, key_serde=settings.key_serde or self.origin.key_serde)
        function = graph.named(name, prefix)
        parent, sources = self._partitioned(store)
        lineage = AggregateLineage()
        spec = store_spec(store, settings)
        node = ProcessorGraph(
            function,
            lambda: StreamAggregate(
                store=store,
                aggregator=aggregator,
                initializer=initializer,
                reducer=reducer,
                send_old=lineage.send_old,
            ),
            store=lambda: spec,
        )
        graph.add(node, parent)
        origin = Origin(
            graph=graph,
            node=node,
            name=function,
            key_serde=settings.key_serde,
            value_serde=settings.value_serde,
            sources=sources,
        )
        return table.KTable(origin, lineage)

    def _partitioned(self, store: str) -> tuple[GraphNode, frozenset[str]]:
        """Return what to aggregate below: this stream, or its repartition topic.

        A group with a name shares one topic among its aggregations.
        """
        origin = self.origin
        if not origin.rekeyed:
            return origin.node, origin.sources
        names = origin.graph.repartition_names(self._name or store)
        if self._repartition is None or self._name is None:
            self._repartition = RepartitionGraph(
                names, key_serde=origin.key_serde, value_serde=origin.value_serde
            )
        origin.graph.add(self._repartition, origin.node)
        return self._repartition, frozenset({self._repartition.name})


class KGroupedTable(Generic[K, V]):
    """A table grouped by another key: an update takes the old value away and adds the new one."""

    __slots__ = ("_name", "_repartition", "origin")

    def __init__(self, origin: Origin, name: str | None) -> None:
        self.origin = origin
        self._name = name
        self._repartition: TableRepartitionGraph | None = None

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> table.KTable[K, int]:
        """Count the rows of each group (a 64-bit number).

        Keywords are those of :class:`Materialized`.
        """
        settings: Materialized[K, int] = changed(materialized or Materialized(), options)
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._aggregate(
            "KTABLE-AGGREGATE-",
            name_of(name),
            settings,
            count_adder,
            count_subtractor,
            count_initializer,
        )

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> table.KTable[K, V]:
        """Combine the values of each group.

        An update is ``adder(aggregate, new)`` after ``subtractor(aggregate, old)``.

        The first value is the first aggregate. Keywords are those of :class:`Materialized`.
        """
        check_functions("reduce()", adder=adder, subtractor=subtractor)
        settings: Materialized[K, V] = changed(materialized or Materialized(), options)
        settings = replace(settings, value_serde=settings.value_serde or self.origin.value_serde)

        def add(_key: K, value: V, aggregate: V) -> V:
            return adder(aggregate, value)

        def subtract(_key: K, value: V, aggregate: V) -> V:
            return subtractor(aggregate, value)

        return self._aggregate("KTABLE-REDUCE-", name_of(name), settings, add, subtract, None)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> table.KTable[K, A]:
        """Fold the rows of each group, from ``initializer()`` on.

        An update is ``adder(key, new, aggregate)`` after ``subtractor(key, old, aggregate)``.

        Keywords are those of :class:`Materialized`.
        """
        check_functions("aggregate()", initializer=initializer, adder=adder, subtractor=subtractor)
        settings: Materialized[K, A] = changed(materialized or Materialized(), options)
        return self._aggregate(
            "KTABLE-AGGREGATE-", name_of(name), settings, adder, subtractor, initializer
        )

    def _aggregate(
        self,
        prefix: str,
        name: str | None,
        settings: Materialized[K, Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        initializer: Callable[[], Any] | None,
    ) -> table.KTable[K, Any]:
        graph, origin = self.origin.graph, self.origin
        # A reduce names its store like an aggregate: Kafka's KGroupedTableImpl does.
        store = settings.store or graph.store_name("KTABLE-AGGREGATE-")
        settings = replace(settings, key_serde=settings.key_serde or origin.key_serde)
        sink = graph.named(name, "KSTREAM-SINK-", "-sink")
        source = graph.named(name, "KSTREAM-SOURCE-", "-source")
        function = graph.named(name, prefix)
        if self._repartition is None or self._name is None:
            self._repartition = TableRepartitionGraph(
                source,
                sink_name=sink,
                topic=check_name("topic", f"{self._name or store}-repartition"),
                key_serde=origin.key_serde,
                value_serde=origin.value_serde,
            )
        graph.add(self._repartition, origin.node)
        lineage = AggregateLineage()
        spec = store_spec(store, settings)
        node = ProcessorGraph(
            function,
            lambda: TableAggregate(
                store=store,
                adder=adder,
                subtractor=subtractor,
                initializer=initializer,
                send_old=lineage.send_old,
            ),
            store=lambda: spec,
        )
        graph.add(node, self._repartition)
        result = Origin(
            graph=graph,
            node=node,
            name=function,
            key_serde=settings.key_serde,
            value_serde=settings.value_serde,
            sources=frozenset({self._repartition.name}),
        )
        return table.KTable(result, lineage)
