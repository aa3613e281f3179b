"""``group_by``, and what follows it: count, reduce, aggregate.

As Kafka's ``GroupedStreamAggregateBuilder`` and ``KGroupedTableImpl``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from headwater.dsl.calls import RepartitionNames, Table
from headwater.dsl.cogroup import CogroupedKStream
from headwater.dsl.drawing import REPARTITION_SUFFIX
from headwater.dsl.grouping import Grouping
from headwater.dsl.options import (
    Grouped,
    GroupedOptions,
    Materialized,
    MaterializedOptions,
    Named,
    changed,
    name_of,
)
from headwater.dsl.origin import Drawn
from headwater.dsl.stateless import select_key
from headwater.dsl.stored import store_spec
from headwater.dsl.window import (
    SessionWindowedKStream,
    SlidingWindowedKStream,
    TimeWindowedKStream,
    check_windows,
)
from headwater.model.callables import check_function, check_functions
from headwater.model.naming import check_name
from headwater.model.operators.aggregate import (
    StreamAggregate,
    TableAggregate,
    TableRepartitionMap,
)
from headwater.model.windows import SessionWindows, SlidingWindows
from headwater.serde import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.origin import Origin
    from headwater.dsl.table import KTable
    from headwater.model.windows import Windows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
KR = TypeVar("KR")
VR = TypeVar("VR")


def count_initializer() -> int:
    """Start a count."""
    return 0


def count_adder(_key: Any, _value: Any, count: int) -> int:
    """Count one more."""
    return count + 1


def count_subtractor(_key: Any, _value: Any, count: int) -> int:
    """Count one less."""
    return count - 1


class _Group(Drawn[K, V]):
    """What is grouped."""

    __slots__ = ("_grouping",)

    def __init__(self, origin: Origin, name: str | None) -> None:
        super().__init__(origin)
        self._grouping: Grouping[K, V] = Grouping(origin, name)


class KGroupedStream(_Group[K, V]):
    """A stream grouped by key. Records without key or value are dropped by every aggregation."""

    __slots__ = ()

    @overload
    def windowed_by(self, windows: Windows) -> TimeWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: SlidingWindows) -> SlidingWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Windows | SlidingWindows | SessionWindows) -> Any:
        """Cut time into windows; each aggregation is made for every window of a key.

        Raises:
            TopologyError: these are no windows of an aggregation.
        """
        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._grouping, windows)
        if isinstance(windows, SlidingWindows):
            return SlidingWindowedKStream(self._grouping, windows)
        return TimeWindowedKStream(self._grouping, windows)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedKStream[K, A]:
        """Share one aggregate of each key with other grouped streams.

        ``aggregator(key, value, aggregate)`` is this stream's own; ``cogroup(grouped, aggregator)``
        of the result adds streams.
        """
        check_function("cogroup()", aggregator)
        return CogroupedKStream({self._grouping: aggregator})

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the records of each key (a 64-bit number in store and changelog).

        Keywords are those of :class:`Materialized`.
        """
        settings: Materialized[K, int] = changed(Materialized, materialized, options)
        if settings.store is None and (materialized is not None or options):
            # Kafka Streams once named this store twice and keeps spending the number.
            self.origin.drawing.store_name("KSTREAM-AGGREGATE-")
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._aggregate("KSTREAM-AGGREGATE-", name, settings, count_initializer, count_adder)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the values of each key: ``reducer(aggregate, value)``.

        The first value is the first aggregate.

        A result of ``None`` deletes the key. Keywords are those of :class:`Materialized`.
        """
        check_function("reduce()", reducer)
        settings: Materialized[K, V] = changed(Materialized, materialized, options)
        settings = replace(settings, value_serde=settings.value_serde or self.origin.value_serde)

        def aggregator(_key: K, value: V, aggregate: V) -> V:
            return reducer(aggregate, value)

        return self._aggregate("KSTREAM-REDUCE-", name, settings, None, aggregator, reducer=reducer)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[K, A]:
        """Fold the values of each key, from ``initializer()`` on.

        ``aggregator(key, value, aggregate)`` gives the next aggregate.

        A result of ``None`` deletes the key. Keywords are those of :class:`Materialized`.
        """
        check_functions("aggregate()", initializer=initializer, aggregator=aggregator)
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return self._aggregate("KSTREAM-AGGREGATE-", name, settings, initializer, aggregator)

    def _aggregate(
        self,
        prefix: str,
        name: str | Named | None,
        settings: Materialized[K, Any],
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        reducer: Callable[[Any, Any], Any] | None = None,
    ) -> KTable[K, Any]:
        origin, drawing = self.origin, self.origin.drawing
        is_given = settings.store is not None
        store = settings.store or drawing.store_name(prefix)
        settings = replace(settings, key_serde=settings.key_serde or origin.key_serde)
        function = drawing.named(name_of(name), prefix)
        origin = self._grouping.partitioned(store, is_given=is_given)
        part = Table(
            name=function,
            operator=StreamAggregate(
                store=store, initializer=initializer, aggregator=aggregator, reducer=reducer
            ),
            store=store_spec(store, settings),
        )
        return origin.keep(part, settings.key_serde, settings.value_serde).as_table()


class KGroupedTable(_Group[K, V]):
    """A table grouped by another key: an update takes the old value away and adds the new one."""

    __slots__ = ()

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the rows of each group (a 64-bit number).

        Keywords are those of :class:`Materialized`.
        """
        settings: Materialized[K, int] = changed(Materialized, materialized, options)
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._aggregate(
            "KTABLE-AGGREGATE-",
            name,
            settings,
            count_initializer,
            count_adder,
            count_subtractor,
        )

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the values of each group.

        An update is ``adder(aggregate, new)`` after ``subtractor(aggregate, old)``.

        The first value is the first aggregate. Keywords are those of :class:`Materialized`.
        """
        check_functions("reduce()", adder=adder, subtractor=subtractor)
        settings: Materialized[K, V] = changed(Materialized, materialized, options)
        settings = replace(settings, value_serde=settings.value_serde or self.origin.value_serde)

        def add(_key: K, value: V, aggregate: V) -> V:
            return adder(aggregate, value)

        def subtract(_key: K, value: V, aggregate: V) -> V:
            return subtractor(aggregate, value)

        return self._aggregate("KTABLE-REDUCE-", name, settings, None, add, subtract)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[K, A]:
        """Fold the rows of each group, from ``initializer()`` on.

        An update is ``adder(key, new, aggregate)`` after ``subtractor(key, old, aggregate)``.

        Keywords are those of :class:`Materialized`.
        """
        check_functions("aggregate()", initializer=initializer, adder=adder, subtractor=subtractor)
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return self._aggregate("KTABLE-AGGREGATE-", name, settings, initializer, adder, subtractor)

    def _aggregate(
        self,
        prefix: str,
        name: str | Named | None,
        settings: Materialized[K, Any],
        initializer: Callable[[], Any] | None,
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
    ) -> KTable[K, Any]:
        drawing, given = self.origin.drawing, name_of(name)
        # A reduce names its store like an aggregate: Kafka's KGroupedTableImpl does.
        store = settings.store or drawing.store_name("KTABLE-AGGREGATE-")
        settings = replace(settings, key_serde=settings.key_serde or self.origin.key_serde)
        names = RepartitionNames(
            topic=check_name("topic", f"{self._grouping.name or store}{REPARTITION_SUFFIX}"),
            sink=drawing.named(given, "KSTREAM-SINK-", "-sink"),
            source=drawing.named(given, "KSTREAM-SOURCE-", "-source"),
        )
        part = Table(
            name=drawing.named(given, prefix),
            operator=TableAggregate(
                store=store, initializer=initializer, adder=adder, subtractor=subtractor
            ),
            store=store_spec(store, settings),
        )
        origin = self._grouping.through(names, changes=True)
        return origin.keep(part, settings.key_serde, settings.value_serde).as_table()


class AggregateOfStream(Drawn[K, V]):
    """How a stream is grouped for an aggregation."""

    __slots__ = ()

    def group_by_key(
        self, settings: Grouped[K, V] | None = None, **options: Unpack[GroupedOptions[K, V]]
    ) -> KGroupedStream[K, V]:
        """Group by the key as it is, for an aggregation. Keywords are those of :class:`Grouped`."""
        origin = self.origin
        inherited: Grouped[K, V] = Grouped(
            key_serde=origin.key_serde, value_serde=origin.value_serde
        )
        chosen = changed(Grouped, settings or inherited, options)
        if chosen.name is not None:
            check_name("group", chosen.name)
        return KGroupedStream(
            replace(origin, key_serde=chosen.key_serde, value_serde=chosen.value_serde), chosen.name
        )

    def group_by(
        self,
        selector: Callable[[K, V], KR],
        settings: Grouped[KR, V] | None = None,
        **options: Unpack[GroupedOptions[KR, V]],
    ) -> KGroupedStream[KR, V]:
        """Group by ``selector(key, value)``, for an aggregation.

        Always through a repartition topic.

        Keywords are those of :class:`Grouped`.
        """
        check_function("group_by()", selector)
        inherited: Grouped[KR, V] = Grouped(value_serde=self.origin.value_serde)
        chosen = changed(Grouped, settings or inherited, options)
        origin = select_key(self.origin, chosen.name, selector)
        return KGroupedStream(
            replace(origin, key_serde=chosen.key_serde, value_serde=chosen.value_serde), chosen.name
        )


class AggregateOfTable(Drawn[K, V]):
    """How a table is grouped for an aggregation."""

    __slots__ = ()

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[KR, VR]],
        settings: Grouped[KR, VR] | None = None,
        **options: Unpack[GroupedOptions[KR, VR]],
    ) -> KGroupedTable[KR, VR]:
        """Group rows by the key in ``mapper(key, value)``'s ``(key, value)``, for an aggregation.

        Always through a repartition topic, which carries the old value too, so that the aggregation
        can take it away. Keywords are those of :class:`Grouped`; no serde is inherited.
        """
        check_function("group_by()", mapper)
        chosen = changed(Grouped, settings, options)
        origin = self.origin.processor(
            "KTABLE-SELECT-", chosen.name, TableRepartitionMap(mapper=mapper)
        )
        return KGroupedTable(
            replace(origin, key_serde=chosen.key_serde, value_serde=chosen.value_serde), chosen.name
        )
