"""``KTable``: the last value of each key.

Names, counters, serdes and stores as in Kafka's ``KTableImpl``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from headwater.dsl import grouped, stream
from headwater.dsl.graph import ProcessorGraph
from headwater.dsl.lineage import FilteredLineage, Lineage, MappedLineage
from headwater.dsl.options import (
    Grouped,
    GroupedOptions,
    Materialized,
    MaterializedOptions,
    Named,
    changed,
    name_of,
)
from headwater.dsl.origin import Origin, store_spec
from headwater.model.callables import check_function, check_functions
from headwater.model.operators.aggregate import TableRepartitionMap
from headwater.model.operators.table import TableFilter, TableMapValues, TableToStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.base import Operator
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class KTable(Generic[K, V]):
    """A table of keys of type ``K`` and values of type ``V``; updates flow, ``None`` deletes.

    Operations return new tables. A derived table is stored only if it is given a store name.
    """

    __slots__ = ("_lineage", "origin")

    def __init__(self, origin: Origin, lineage: Lineage) -> None:
        self.origin = origin
        self._lineage = lineage

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is true; the others are deleted below.

        Keywords are those of :class:`Materialized`. As in Kafka Streams the new store does not
        inherit serdes.
        """
        return self._filter(predicate, materialized, name, options, negate=False)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is false; see :meth:`filter`."""
        return self._filter(predicate, materialized, name, options, negate=True)

    def map_values(
        self,
        mapper: Callable[..., VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        with_key: bool = False,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]:
        """Replace every value by ``mapper(value)``; a deletion stays one.

        ``with_key`` calls ``mapper(key, value)``.

        Keywords are those of :class:`Materialized`.
        """
        check_function("map_values()", mapper)
        given = _given(materialized, options)

        def operator(store: str | None, lineage: Lineage) -> Operator:
            return TableMapValues(
                mapper=mapper, with_key=with_key, store=store, send_old=lineage.send_old
            )

        return self._derive(
            "KTABLE-MAPVALUES-", given, name_of(name), operator, MappedLineage, None
        )

    @overload
    def to_stream(self, *, name: str | Named | None = None) -> stream.KStream[K, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[K, V], KR], *, name: str | Named | None = None
    ) -> stream.KStream[KR, V]: ...
    def to_stream(
        self, mapper: Callable[[K, V], Any] | None = None, *, name: str | Named | None = None
    ) -> stream.KStream[Any, V]:
        """Return the table's updates as a stream; a deletion is a record without a value.

        With ``mapper`` the stream's keys are ``mapper(key, value)``, as after ``select_key``.
        """
        check_functions("to_stream()", optional=True, mapper=mapper)
        chosen = self.origin.graph.named(name_of(name), "KTABLE-TOSTREAM-")
        node = ProcessorGraph(chosen, TableToStream)
        self.origin.graph.add(node, self.origin.node)
        updates: stream.KStream[K, V] = stream.KStream(
            replace(self.origin, node=node, name=chosen, rekeyed=False)
        )
        return updates if mapper is None else updates.select_key(mapper)

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[KR, VR]],
        settings: Grouped[KR, VR] | None = None,
        **options: Unpack[GroupedOptions[KR, VR]],
    ) -> grouped.KGroupedTable[KR, VR]:
        """Group rows by the key in ``mapper(key, value)``'s ``(key, value)``, for an aggregation.

        Always through a repartition topic, which carries the old value too, so that the aggregation
        can take it away. Keywords are those of :class:`Grouped`; no serde is inherited.
        """
        check_function("group_by()", mapper)
        chosen = changed(settings or Grouped(), options)
        graph = self.origin.graph
        select = graph.named(chosen.name, "KTABLE-SELECT-")
        operator = TableRepartitionMap(mapper=mapper)
        node = ProcessorGraph(select, lambda: operator)
        graph.add(node, self.origin.node)
        self._lineage.enable_sending_old_values(force=True)
        origin = replace(
            self.origin,
            node=node,
            name=select,
            key_serde=chosen.key_serde,
            value_serde=chosen.value_serde,
        )
        return grouped.KGroupedTable(origin, chosen.name)

    def _filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None,
        name: str | Named | None,
        options: MaterializedOptions[K, V],
        *,
        negate: bool,
    ) -> KTable[K, V]:
        check_function("filter_not()" if negate else "filter()", predicate)
        given = _given(materialized, options)

        def operator(store: str | None, lineage: Lineage) -> Operator:
            return TableFilter(
                predicate=predicate, negate=negate, store=store, send_old=lineage.send_old
            )

        inherited = self.origin.value_serde
        return self._derive(
            "KTABLE-FILTER-", given, name_of(name), operator, FilteredLineage, inherited
        )

    def _derive(
        self,
        prefix: str,
        given: Materialized[K, Any] | None,
        name: str | None,
        operator: Callable[[str | None, Lineage], Operator],
        kind: type[MappedLineage],
        inherited_value: Serde[Any] | None,
    ) -> KTable[K, Any]:
        graph = self.origin.graph
        settings = given or Materialized()
        if given is not None and given.store is None:
            # Kafka Streams spends a number on the name of a store that it does not make.
            graph.store_name(prefix)
        chosen = graph.named(name, prefix)
        lineage = kind(self._lineage, settings.store)
        spec = None if settings.store is None else store_spec(settings.store, settings)
        node = ProcessorGraph(chosen, lambda: operator(settings.store, lineage), store=lambda: spec)
        graph.add(node, self.origin.node)
        origin = replace(
            self.origin,
            node=node,
            name=chosen,
            key_serde=settings.key_serde or self.origin.key_serde,
            value_serde=settings.value_serde or inherited_value,
        )
        return KTable(origin, lineage)


def _given(
    materialized: Materialized[K, V] | None, options: MaterializedOptions[K, V]
) -> Materialized[K, V] | None:
    if materialized is None and not options:
        return None
    return changed(materialized or Materialized(), options)
