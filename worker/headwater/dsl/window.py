"""``windowed_by``, and what follows it: count, reduce and aggregate for each window of a key.

As Kafka's ``TimeWindowedKStreamImpl``, ``SlidingWindowedKStreamImpl`` and
``SessionWindowedKStreamImpl``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack

from headwater.dsl.calls import Table
from headwater.dsl.options import Materialized, MaterializedOptions, Named, changed, name_of
from headwater.dsl.stored import window_store_spec
from headwater.errors import TopologyError
from headwater.model.callables import check_function, check_functions
from headwater.model.durations import LONG_MAX
from headwater.model.operators.window import (
    SessionWindowAggregate,
    SlidingWindowAggregate,
    TimeWindowAggregate,
)
from headwater.model.stores import StoreKind
from headwater.model.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    UnlimitedWindows,
    Windowed,
    Windows,
)
from headwater.serde import Serdes
from headwater.serde.windowed import SessionWindowedSerde, TimeWindowedSerde

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from headwater.dsl.aggregate import KGroupedStream
    from headwater.dsl.table import KTable
    from headwater.model.operators.base import TableOperator
    from headwater.model.stores import StoreSpec
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


def zero() -> int:
    """Start a count."""
    return 0


def one_more(_key: Any, _value: Any, count: int) -> int:
    """Count one more."""
    return count + 1


def together(_key: Any, one: int, two: int) -> int:
    """Count two sessions as one."""
    return one + two


class _WindowedKStream(ABC, Generic[K, V]):
    """A grouped stream within windows."""

    __slots__ = ("_emit", "_group")

    _names_twice: ClassVar = True
    """Counting spends a number more on a store without a name."""

    def __init__(self, group: KGroupedStream[K, V], emit: EmitStrategy) -> None:
        self._group = group
        self._emit = emit

    def emit_strategy(self, emit_strategy: EmitStrategy) -> Self:
        """Return the same windows with another moment at which results are forwarded (KIP-825).

        Raises:
            TopologyError: the windows never close.
        """
        self._check_emit(emit_strategy)
        return self._emitting(emit_strategy)

    @abstractmethod
    def _emitting(self, emit: EmitStrategy) -> Self:
        """Return the same windows with this strategy."""

    def _check_emit(self, emit: EmitStrategy) -> None:
        """Refuse a strategy that cannot be."""

    @abstractmethod
    def _spec(self, store: str, settings: Materialized[K, Any]) -> StoreSpec:
        """Return the store of an aggregation."""

    @abstractmethod
    def _key_serde(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        """Return the serde of keys within these windows."""

    def _counted(
        self,
        materialized: Materialized[K, int] | None,
        options: MaterializedOptions[K, int],
        name: str | Named | None,
        operator: Callable[[str], TableOperator],
    ) -> KTable[Windowed[K], int]:
        settings: Materialized[K, int] = changed(materialized or Materialized(), options)
        if self._names_twice and settings.store is None and (materialized is not None or options):
            # As in KGroupedStream: Kafka Streams once named this store twice.
            self._group.origin.drawing.store_name(_AGGREGATE)
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._drawn(_AGGREGATE, name, settings, operator)

    def _drawn(
        self,
        prefix: str,
        name: str | Named | None,
        settings: Materialized[K, Any],
        operator: Callable[[str], TableOperator],
    ) -> KTable[Windowed[K], Any]:
        """Draw an aggregation, behind a repartition if the key may have changed."""
        group = self._group
        origin, drawing = group.origin, group.origin.drawing
        store = settings.store or drawing.store_name(prefix)
        settings = replace(settings, key_serde=settings.key_serde or origin.key_serde)
        function = drawing.named(name_of(name), prefix)
        spec = self._spec(store, settings)
        if origin.rekeyed:
            origin = group.through_repartition(store, is_given=settings.store is not None)
        part = Table(name=function, operator=operator(store), store=spec)
        # Of a default serde Kafka Streams makes none for the windowed key.
        inner = settings.key_serde
        key_serde = None if inner is None else self._key_serde(inner)
        return origin.keep(part, key_serde, settings.value_serde).as_table()


class _TimedKStream(_WindowedKStream[K, V]):
    """What time windows and sliding windows have in common."""

    __slots__ = ()

    @abstractmethod
    def _operator(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        needs_key: bool = False,
    ) -> TableOperator:
        """Return the operator of an aggregation."""

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[Windowed[K], int]:
        """Count the records of each key and window (a 64-bit number in store and changelog).

        Keywords are those of :class:`Materialized`.
        """
        return self._counted(
            materialized, options, name, lambda store: self._operator(store, zero, one_more)
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window: ``reducer(aggregate, value)``.

        The first value is the first aggregate. A result of ``None`` deletes the window. Keywords
        are those of :class:`Materialized`.
        """
        check_function("reduce()", reducer)
        settings: Materialized[K, V] = changed(materialized or Materialized(), options)
        inherited = self._group.origin.value_serde
        settings = replace(settings, value_serde=settings.value_serde or inherited)

        def aggregator(_key: K, value: V, aggregate: V) -> V:
            return reducer(aggregate, value)

        return self._drawn(
            _REDUCE, name, settings, lambda store: self._operator(store, None, aggregator)
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of each key and window, from ``initializer()`` on.

        ``aggregator(key, value, aggregate)`` gives the next aggregate. A result of ``None``
        deletes the window. Keywords are those of :class:`Materialized`.
        """
        check_functions("aggregate()", initializer=initializer, aggregator=aggregator)
        settings: Materialized[K, A] = changed(materialized or Materialized(), options)
        return self._drawn(
            _AGGREGATE,
            name,
            settings,
            lambda store: self._operator(store, initializer, aggregator, needs_key=True),
        )


class TimeWindowedKStream(_TimedKStream[K, V]):
    """A grouped stream within tumbling, hopping or unlimited windows.

    Records without a key are dropped; null values are aggregated. A record whose window has closed
    is dropped and counted.
    """

    __slots__ = ("_windows",)

    def __init__(
        self,
        group: KGroupedStream[K, V],
        windows: Windows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        super().__init__(group, emit)
        self._windows = windows

    def _emitting(self, emit: EmitStrategy) -> Self:
        return type(self)(self._group, self._windows, emit)

    def _check_emit(self, emit: EmitStrategy) -> None:
        if emit is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                "emit_strategy(): unlimited windows never close; choose on_window_update, or "
                "another kind of windows"
            )

    def _operator(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        needs_key: bool = False,
    ) -> TableOperator:
        return TimeWindowAggregate(
            store=store,
            windows=self._windows,
            aggregator=aggregator,
            initializer=initializer,
            needs_key=needs_key,
            emit=self._emit,
        )

    def _spec(self, store: str, settings: Materialized[K, Any]) -> StoreSpec:
        windows = self._windows
        return window_store_spec(
            store,
            settings,
            kind=StoreKind.TIMESTAMPED_WINDOW,
            needed_ms=min(windows.size_ms + windows.grace_ms, LONG_MAX),
            window_size_ms=windows.size_ms,
            emit=self._emit,
        )

    def _key_serde(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        return TimeWindowedSerde(inner, self._windows.size_ms)


class SlidingWindowedKStream(_TimedKStream[K, V]):
    """A grouped stream within sliding windows (KIP-450).

    Records without a key or a value are dropped. A record that is too late is dropped and counted.
    """

    __slots__ = ("_windows",)

    _names_twice = False

    def __init__(
        self,
        group: KGroupedStream[K, V],
        windows: SlidingWindows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        super().__init__(group, emit)
        self._windows = windows

    def _emitting(self, emit: EmitStrategy) -> Self:
        return type(self)(self._group, self._windows, emit)

    def _operator(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        needs_key: bool = False,
    ) -> TableOperator:
        return SlidingWindowAggregate(
            store=store,
            windows=self._windows,
            aggregator=aggregator,
            initializer=initializer,
            needs_key=needs_key,
            emit=self._emit,
        )

    def _spec(self, store: str, settings: Materialized[K, Any]) -> StoreSpec:
        difference = self._windows.time_difference_ms
        return window_store_spec(
            store,
            settings,
            kind=StoreKind.TIMESTAMPED_WINDOW,
            needed_ms=2 * difference + self._windows.grace_ms,
            window_size_ms=difference,
            emit=self._emit,
            caching=self._emit is EmitStrategy.ON_WINDOW_UPDATE,
        )

    def _key_serde(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        return TimeWindowedSerde(inner, self._windows.time_difference_ms)


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream within sessions.

    Records without a key are dropped; null values are aggregated. A record whose session has
    closed is dropped and counted.
    """

    __slots__ = ("_windows",)

    def __init__(
        self,
        group: KGroupedStream[K, V],
        windows: SessionWindows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        super().__init__(group, emit)
        self._windows = windows

    def _emitting(self, emit: EmitStrategy) -> Self:
        return type(self)(self._group, self._windows, emit)

    def _operator(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
    ) -> TableOperator:
        return SessionWindowAggregate(
            store=store,
            windows=self._windows,
            aggregator=aggregator,
            initializer=initializer,
            merger=merger,
            emit=self._emit,
        )

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[Windowed[K], int]:
        """Count the records of each session (a 64-bit number in store and changelog).

        Keywords are those of :class:`Materialized`.
        """
        return self._counted(
            materialized,
            options,
            name,
            lambda store: self._operator(store, zero, one_more, together),
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each session: ``reducer(aggregate, value)``.

        It also merges sessions. The first value is the first aggregate. Keywords are those of
        :class:`Materialized`.
        """
        check_function("reduce()", reducer)
        settings: Materialized[K, V] = changed(materialized or Materialized(), options)
        inherited = self._group.origin.value_serde
        settings = replace(settings, value_serde=settings.value_serde or inherited)

        def aggregator(_key: K, value: V, aggregate: V | None) -> V:
            return value if aggregate is None else reducer(aggregate, value)

        def merger(_key: K, one: V | None, two: V) -> V:
            return two if one is None else reducer(one, two)

        return self._drawn(
            _REDUCE, name, settings, lambda store: self._operator(store, None, aggregator, merger)
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        session_merger: Callable[[K, A, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, A]],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of each session, from ``initializer()`` on.

        ``aggregator(key, value, aggregate)`` gives the next aggregate,
        ``session_merger(key, one, two)`` that of two sessions which a record joins. Keywords are
        those of :class:`Materialized`.
        """
        check_functions(
            "aggregate()",
            initializer=initializer,
            aggregator=aggregator,
            session_merger=session_merger,
        )
        settings: Materialized[K, A] = changed(materialized or Materialized(), options)
        return self._drawn(
            _AGGREGATE,
            name,
            settings,
            lambda store: self._operator(store, initializer, aggregator, session_merger),
        )

    def _spec(self, store: str, settings: Materialized[K, Any]) -> StoreSpec:
        return window_store_spec(
            store,
            settings,
            kind=StoreKind.SESSION,
            needed_ms=self._windows.inactivity_gap_ms + self._windows.grace_ms,
            window_size_ms=0,
            emit=self._emit,
            caching=self._emit is EmitStrategy.ON_WINDOW_UPDATE,
        )

    def _key_serde(self, inner: Serde[K]) -> Serde[Windowed[K]]:
        return SessionWindowedSerde(inner)
