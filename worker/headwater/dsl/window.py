"""``windowed_by``, and what follows it: count, reduce and aggregate for each window of a key.

As Kafka's ``TimeWindowedKStreamImpl``, ``SlidingWindowedKStreamImpl`` and
``SessionWindowedKStreamImpl``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack

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
    TimeWindows,
    UnlimitedWindows,
    Windowed,
    Windows,
)
from headwater.serde import Serdes
from headwater.serde.windowed import SessionWindowedSerde, TimeWindowedSerde

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from headwater.dsl.grouping import Grouping
    from headwater.dsl.table import KTable
    from headwater.model.operators.base import TableOperator
    from headwater.model.stores import StoreSpec
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AnyWindows: TypeAlias = Windows | SlidingWindows | SessionWindows
"""Windows within which a stream can be aggregated."""

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


def check_windows(windows: object) -> None:
    """Check that these are windows of an aggregation.

    Raises:
        TopologyError: they are not.
    """
    if not isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows):
        raise TopologyError(
            f"windowed_by() got {windows!r}: pass TimeWindows, UnlimitedWindows, SlidingWindows or "
            "SessionWindows"
        )


def window_operator(
    windows: AnyWindows,
    store: str,
    initializer: Callable[[], Any] | None,
    aggregator: Callable[[Any, Any, Any], Any],
    *,
    merger: Callable[[Any, Any, Any], Any] | None = None,
    needs_key: bool = False,
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
) -> TableOperator:
    """Return what aggregates within ``windows``; sessions need a ``merger``."""
    given: dict[str, Any] = {
        "store": store,
        "initializer": initializer,
        "aggregator": aggregator,
        "needs_key": needs_key,
        "emit": emit,
    }
    match windows:
        case SessionWindows():
            assert merger is not None, "sessions are merged"
            return SessionWindowAggregate(windows=windows, merger=merger, **given)
        case SlidingWindows():
            return SlidingWindowAggregate(windows=windows, **given)
        case _:
            return TimeWindowAggregate(windows=windows, **given)


def window_store(
    windows: AnyWindows,
    name: str,
    settings: Materialized[Any, Any],
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
) -> StoreSpec:
    """Return the store of an aggregation within ``windows``.

    As in Kafka Streams sliding and session windows have no record cache if results are forwarded
    when a window closes; time windows have.

    Raises:
        TopologyError: the retention that is given is too short.
    """
    updates = emit is EmitStrategy.ON_WINDOW_UPDATE
    match windows:
        case SessionWindows():
            return window_store_spec(
                name,
                settings,
                kind=StoreKind.SESSION,
                needed_ms=windows.inactivity_gap_ms + windows.grace_ms,
                window_size_ms=0,
                emit=emit,
                caching=updates,
            )
        case SlidingWindows():
            return window_store_spec(
                name,
                settings,
                kind=StoreKind.TIMESTAMPED_WINDOW,
                needed_ms=2 * windows.time_difference_ms + windows.grace_ms,
                window_size_ms=windows.time_difference_ms,
                emit=emit,
                caching=updates,
                sliding=True,
            )
        case _:
            return window_store_spec(
                name,
                settings,
                kind=StoreKind.TIMESTAMPED_WINDOW,
                needed_ms=min(windows.size_ms + windows.grace_ms, LONG_MAX),
                window_size_ms=windows.size_ms,
                emit=emit,
            )


def window_serde(windows: AnyWindows, inner: Serde[K] | None) -> Serde[Windowed[K]] | None:
    """Return the serde of keys within ``windows``; of a default serde Kafka Streams makes none."""
    if inner is None:
        return None
    match windows:
        case SessionWindows():
            return SessionWindowedSerde(inner)
        case SlidingWindows():
            return TimeWindowedSerde(inner, windows.time_difference_ms)
        case _:
            return TimeWindowedSerde(inner, windows.size_ms)


class _WindowedKStream(Generic[K, V]):
    """A grouped stream within windows."""

    __slots__ = ("_emit", "_group", "_windows")

    def __init__(
        self,
        group: Grouping[K, V],
        windows: AnyWindows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._group = group
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit_strategy: EmitStrategy) -> Self:
        """Return the same windows with another moment at which results are forwarded (KIP-825).

        Raises:
            TopologyError: it is no EmitStrategy, or the windows never close.
        """
        if not isinstance(emit_strategy, EmitStrategy):
            raise TopologyError(
                f"emit_strategy() got {emit_strategy!r}: pass EmitStrategy.on_window_update() or "
                "EmitStrategy.on_window_close()"
            )
        closes = emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        if closes and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                "emit_strategy(): unlimited windows never close; choose on_window_update, or "
                "another kind of windows"
            )
        return type(self)(self._group, self._windows, emit_strategy)

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
        settings: Materialized[K, int] = changed(Materialized, materialized, options)
        is_said = materialized is not None or bool(options)
        if settings.store is None and is_said and not isinstance(self._windows, SlidingWindows):
            # As in KGroupedStream: Kafka Streams once named this store twice.
            self._group.origin.drawing.store_name(_AGGREGATE)
        settings = replace(settings, value_serde=settings.value_serde or Serdes.long)
        return self._drawn(_AGGREGATE, name, settings, zero, one_more, merger=together)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window: ``reducer(aggregate, value)``.

        The first value is the first aggregate. A result of ``None`` deletes the window. The reducer
        merges sessions, too. Keywords are those of :class:`Materialized`.
        """
        check_function("reduce()", reducer)
        settings: Materialized[K, V] = changed(Materialized, materialized, options)
        inherited = self._group.origin.value_serde
        settings = replace(settings, value_serde=settings.value_serde or inherited)

        def aggregator(_key: K, value: V, aggregate: V | None) -> V:
            return value if aggregate is None else reducer(aggregate, value)

        def merger(_key: K, one: V | None, two: V) -> V:
            return two if one is None else reducer(one, two)

        return self._drawn(_REDUCE, name, settings, None, aggregator, merger=merger)

    def _drawn(
        self,
        prefix: str,
        name: str | Named | None,
        settings: Materialized[K, Any],
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        merger: Callable[[Any, Any, Any], Any] | None = None,
        needs_key: bool = False,
    ) -> KTable[Windowed[K], Any]:
        """Draw an aggregation, behind a repartition if the key may have changed."""
        group, windows, emit = self._group, self._windows, self._emit
        origin, drawing = group.origin, group.origin.drawing
        is_given = settings.store is not None
        store = settings.store or drawing.store_name(prefix)
        settings = replace(settings, key_serde=settings.key_serde or origin.key_serde)
        function = drawing.named(name_of(name), prefix)
        spec = window_store(windows, store, settings, emit)
        origin = group.partitioned(store, is_given=is_given)
        operator = window_operator(
            windows, store, initializer, aggregator, merger=merger, needs_key=needs_key, emit=emit
        )
        part = Table(name=function, operator=operator, store=spec)
        key_serde = window_serde(windows, settings.key_serde)
        return origin.keep(part, key_serde, settings.value_serde).as_table()


class _TimedKStream(_WindowedKStream[K, V]):
    """A grouped stream within windows that are not merged."""

    __slots__ = ()

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
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return self._drawn(_AGGREGATE, name, settings, initializer, aggregator, needs_key=True)


class TimeWindowedKStream(_TimedKStream[K, V]):
    """A grouped stream within tumbling, hopping or unlimited windows.

    Records without a key are dropped; null values are aggregated. A record whose window has closed
    is dropped and counted.
    """

    __slots__ = ()


class SlidingWindowedKStream(_TimedKStream[K, V]):
    """A grouped stream within sliding windows (KIP-450).

    Records without a key or a value are dropped. A record that is too late is dropped and counted.
    """

    __slots__ = ()


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream within sessions.

    Records without a key are dropped; null values are aggregated. A record whose session has
    closed is dropped and counted.
    """

    __slots__ = ()

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
        settings: Materialized[K, A] = changed(Materialized, materialized, options)
        return self._drawn(
            _AGGREGATE, name, settings, initializer, aggregator, merger=session_merger
        )
