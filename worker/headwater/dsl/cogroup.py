"""``cogroup``: several grouped streams that share one aggregate of each key (KIP-150).

As Kafka's ``CogroupedKStreamImpl`` and ``CogroupedStreamAggregateBuilder``: an aggregation for each
stream, all of one store, and a node in which they meet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, Unpack, overload

from headwater.dsl.calls import Table
from headwater.dsl.options import Materialized, MaterializedOptions, Named, changed, name_of
from headwater.dsl.stored import store_spec
from headwater.dsl.window import check_windows, window_operator, window_serde, window_store
from headwater.model.callables import check_function, check_functions
from headwater.model.operators.aggregate import StreamAggregate
from headwater.model.operators.cogroup import CogroupMerge
from headwater.model.windows import SessionWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.dsl.aggregate import KGroupedStream
    from headwater.dsl.grouping import Grouping
    from headwater.dsl.table import KTable
    from headwater.dsl.window import AnyWindows
    from headwater.model.operators.base import TableOperator
    from headwater.model.stores import StoreSpec
    from headwater.model.windows import SlidingWindows, Windowed, Windows
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

Aggregators: TypeAlias = "Mapping[Grouping[K, Any], Callable[[Any, Any, Any], Any]]"
"""The streams of a cogroup, each with its aggregator."""

_AGGREGATE: Final = "COGROUPKSTREAM-AGGREGATE-"
_MERGE: Final = "COGROUPKSTREAM-MERGE-"


class CogroupedKStream(Generic[K, A]):
    """Grouped streams with an aggregator each.

    Records without key or value are dropped.
    """

    __slots__ = ("_aggregators",)

    def __init__(self, aggregators: Aggregators[K]) -> None:
        self._aggregators = dict(aggregators)

    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A]
    ) -> CogroupedKStream[K, A]:
        """Return these streams and one more; ``aggregator(key, value, aggregate)`` is its own.

        Its keys must have the same type, and its topics as many partitions.

        Raises:
            TopologyError: ``grouped`` is no grouped stream, or one of another builder.
        """
        check_function("cogroup()", aggregator)
        first = next(iter(self._aggregators))
        first.origin.partner("cogroup", grouped, "KGroupedStream")
        one: CogroupedKStream[K, A] = grouped.cogroup(aggregator)
        return CogroupedKStream({**self._aggregators, **one._aggregators})

    @overload
    def windowed_by(self, windows: Windows) -> TimeWindowedCogroupedKStream[K, A]: ...

    @overload
    def windowed_by(self, windows: SlidingWindows) -> TimeWindowedCogroupedKStream[K, A]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...

    def windowed_by(self, windows: AnyWindows) -> Any:
        """Cut time into windows; the aggregation is made for every window of a key.

        Raises:
            TopologyError: these are no windows of an aggregation.
        """
        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._aggregators, windows)
        return TimeWindowedCogroupedKStream(self._aggregators, windows)

    def aggregate(
        self,
        initializer: Callable[[], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[K, A]:
        """Fold the values of all streams into one aggregate of each key.

        A result of ``None`` deletes the key. Keywords are those of :class:`Materialized`; as in
        Kafka Streams no serde is inherited.
        """
        check_functions("aggregate()", initializer=initializer)
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return _draw(self._aggregators, name, settings, initializer)


class TimeWindowedCogroupedKStream(Generic[K, A]):
    """Grouped streams with an aggregator each, within time windows or sliding windows."""

    __slots__ = ("_aggregators", "_windows")

    def __init__(self, aggregators: Aggregators[K], windows: Windows | SlidingWindows) -> None:
        self._aggregators = aggregators
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of all streams into one aggregate of each key and window.

        Keywords are those of :class:`Materialized`; as in Kafka Streams no serde is inherited.
        """
        check_functions("aggregate()", initializer=initializer)
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return _draw(self._aggregators, name, settings, initializer, windows=self._windows)


class SessionWindowedCogroupedKStream(Generic[K, A]):
    """Grouped streams with an aggregator each, within sessions."""

    __slots__ = ("_aggregators", "_windows")

    def __init__(self, aggregators: Aggregators[K], windows: SessionWindows) -> None:
        self._aggregators = aggregators
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        session_merger: Callable[[K, A, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of all streams into one aggregate of each session.

        ``session_merger(key, one, two)`` gives the aggregate of two sessions which a record joins.
        Keywords are those of :class:`Materialized`; as in Kafka Streams no serde is inherited.
        """
        check_functions("aggregate()", initializer=initializer, session_merger=session_merger)
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return _draw(
            self._aggregators,
            name,
            settings,
            initializer,
            windows=self._windows,
            merger=session_merger,
        )


def _draw(
    aggregators: Aggregators[K],
    name: str | Named | None,
    settings: Materialized[K, A],
    initializer: Callable[[], Any],
    *,
    windows: AnyWindows | None = None,
    merger: Callable[[Any, Any, Any], Any] | None = None,
) -> KTable[Any, A]:
    """Draw an aggregation for each stream, and what they meet in."""
    given = name_of(name)
    first = next(iter(aggregators))
    drawing = first.origin.drawing
    store = settings.store or drawing.store_name(_AGGREGATE)
    is_given = settings.store is not None
    spec = _store_of(windows, store, settings)
    origins = [group.partitioned(store, is_given=is_given) for group in aggregators]
    aggregations = []
    for number, (origin, aggregator) in enumerate(zip(origins, aggregators.values(), strict=True)):
        part = Table(
            name=drawing.named(given, _AGGREGATE, f"-cogroup-agg-{number}"),
            operator=_operator_of(windows, store, initializer, aggregator, merger),
            store=spec,
        )
        aggregations.append(drawing.draw(part, origin.call))
    part = Table(
        name=drawing.named(given, _MERGE, "-cogroup-merge"), operator=CogroupMerge(store=store)
    )
    sources = tuple(origin.call for origin in origins)
    call = drawing.draw(part, *aggregations, copartitioned=sources)
    key_serde: Serde[Any] | None = settings.key_serde
    if windows is not None:
        key_serde = window_serde(windows, settings.key_serde)
    return replace(
        origins[0],
        call=call,
        key_serde=key_serde,
        value_serde=settings.value_serde,
        rekeyed=False,
    ).as_table()


def _store_of(windows: AnyWindows | None, name: str, settings: Materialized[Any, Any]) -> StoreSpec:
    return store_spec(name, settings) if windows is None else window_store(windows, name, settings)


def _operator_of(
    windows: AnyWindows | None,
    store: str,
    initializer: Callable[[], Any],
    aggregator: Callable[[Any, Any, Any], Any],
    merger: Callable[[Any, Any, Any], Any] | None,
) -> TableOperator:
    if windows is None:
        return StreamAggregate(store=store, initializer=initializer, aggregator=aggregator)
    return window_operator(windows, store, initializer, aggregator, merger=merger, needs_key=True)
