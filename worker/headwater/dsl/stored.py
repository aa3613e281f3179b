"""How ``Materialized`` becomes the store of a table, and tables that are stored only if named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.dsl.calls import Table
from headwater.dsl.options import Materialized, changed, name_of
from headwater.errors import TopologyError
from headwater.model.dsl_stores import (
    DslKeyValueParams,
    DslSessionParams,
    DslWindowParams,
    kept_as,
    supplied,
)
from headwater.model.durations import millis
from headwater.model.stores import StoreKind, StoreSpec
from headwater.model.windows import EmitStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.options import Named
    from headwater.dsl.origin import Origin
    from headwater.model.dsl_stores import DslParams
    from headwater.model.operators.base import TableOperator
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")


def store_spec(name: str, materialized: Materialized[Any, Any]) -> StoreSpec:
    """Return the store that ``materialized`` describes, called ``name``.

    Raises:
        TopologyError: its supplier is one of another kind of store.
    """
    history = materialized.history_retention
    if history is None:
        return _kept(
            _spec(name, materialized, dsl_params=DslKeyValueParams(name=name)), materialized
        )
    supplier = materialized.store_supplier
    make_store = None if supplier is None else supplier.make_store
    spec = _spec(
        name,
        materialized,
        kind=StoreKind.VERSIONED,
        persistent=make_store is None,
        retention_ms=millis("history_retention", history),
        make_store=make_store,
        metrics_scope="" if supplier is None else supplier.metrics_scope,
    )
    return replace(spec, caching=False)


def window_store_spec(
    name: str,
    materialized: Materialized[Any, Any],
    *,
    kind: StoreKind,
    needed_ms: int,
    window_size_ms: int,
    emit: EmitStrategy,
    caching: bool = True,
    sliding: bool = False,
) -> StoreSpec:
    """Return the store of windows or sessions that ``materialized`` describes, called ``name``.

    Args:
        name: of the store.
        materialized: its settings.
        kind: windows or sessions.
        needed_ms: the retention that the windows need, which is taken unless a longer one is given.
        window_size_ms: of windows.
        emit: when results are forwarded.
        caching: a record cache is of use, if the settings want one.
        sliding: the windows are sliding ones.

    Raises:
        TopologyError: the retention that is given is too short, versions are wanted, or the
            supplier is one of another kind of store.
    """
    if materialized.history_retention is not None:
        raise TopologyError(
            f"Store {name!r}: windows have no versions; pass retention, not history_retention"
        )
    retention_ms = needed_ms
    if materialized.retention is not None:
        retention_ms = millis(f"Store {name!r}: retention", materialized.retention)
        if retention_ms < needed_ms:
            raise TopologyError(
                f"Store {name!r}: a retention of {retention_ms} ms is shorter than the windows and "
                f"their grace need, {needed_ms} ms: choose at least that"
            )
    params: DslParams
    if kind is StoreKind.SESSION:
        params = DslSessionParams(name=name, retention_ms=retention_ms, emit_strategy=emit)
    else:
        params = DslWindowParams(
            name=name,
            retention_ms=retention_ms,
            window_size_ms=window_size_ms,
            emit_strategy=emit,
            is_sliding_window=sliding,
        )
    spec = _spec(
        name,
        materialized,
        kind=kind,
        retention_ms=retention_ms,
        window_size_ms=window_size_ms,
        time_ordered=emit is EmitStrategy.ON_WINDOW_CLOSE,
        dsl_params=params,
    )
    return replace(_kept(spec, materialized), caching=materialized.caching and caching)


def _spec(name: str, materialized: Materialized[Any, Any], **more: Any) -> StoreSpec:
    return StoreSpec(
        name=name,
        key_serde=materialized.key_serde,
        value_serde=materialized.value_serde,
        caching=materialized.caching,
        logging=materialized.logging,
        topic_config=dict(materialized.topic_config),
        **more,
    )


def _kept(spec: StoreSpec, materialized: Materialized[Any, Any]) -> StoreSpec:
    """Return the store as its own settings say that it is kept, if they say so."""
    if materialized.store_supplier is not None:
        supplier: Any = materialized.store_supplier
        return supplied(spec, supplier)
    return kept_as(spec, materialized.store_type, persistent=materialized.persistent)


def given(
    materialized: Materialized[K, V] | None, options: Mapping[str, Any]
) -> Materialized[K, V] | None:
    """Return the settings of a store, or ``None`` if neither object nor keyword says anything."""
    if materialized is None and not options:
        return None
    return changed(Materialized, materialized, options)


def derive(
    origin: Origin,
    prefix: str,
    name: str | Named | None,
    operator: TableOperator,
    materialized: Materialized[Any, Any] | None,
    *,
    value_serde: Serde[Any] | None = None,
    spends: bool = True,
    connected: tuple[str | StoreSpec, ...] = (),
) -> Origin:
    """Draw a table that is made of another one; it is stored if ``materialized`` names a store.

    ``value_serde`` is inherited by what follows, but not by the store. ``spends``: Kafka Streams
    spends a number on the name of a store that it does not make, in most operations. ``connected``
    are stores that the operator uses.
    """
    settings = materialized or Materialized()
    if spends and materialized is not None and materialized.store is None:
        origin.drawing.store_name(prefix)
    part = Table(
        name=origin.drawing.named(name_of(name), prefix),
        operator=replace(operator, store=settings.store),
        store=None if settings.store is None else store_spec(settings.store, settings),
        connected=connected,
    )
    return replace(
        origin.below(part),
        key_serde=settings.key_serde or origin.key_serde,
        value_serde=settings.value_serde or value_serde,
    )
