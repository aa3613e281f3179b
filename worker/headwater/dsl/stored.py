"""How ``Materialized`` becomes the store of a table, and tables that are stored only if named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.dsl.calls import Table
from headwater.dsl.options import Materialized, changed, name_of
from headwater.model.durations import millis
from headwater.model.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.options import Named
    from headwater.dsl.origin import Origin
    from headwater.model.operators.base import TableOperator
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")


def store_spec(name: str, materialized: Materialized[Any, Any]) -> StoreSpec:
    """Return the store that ``materialized`` describes, called ``name``."""
    history = materialized.history_retention
    versions: dict[str, Any] = {}
    if history is not None:
        kept_ms = millis("history_retention", history)
        versions = {"kind": StoreKind.VERSIONED, "retention_ms": kept_ms}
    return StoreSpec(
        name=name,
        persistent=materialized.persistent,
        key_serde=materialized.key_serde,
        value_serde=materialized.value_serde,
        caching=materialized.caching and history is None,
        logging=materialized.logging,
        topic_config=dict(materialized.topic_config),
        **versions,
    )


def given(
    materialized: Materialized[K, V] | None, options: Mapping[str, Any]
) -> Materialized[K, V] | None:
    """Return the settings of a store, or ``None`` if neither object nor keyword says anything."""
    if materialized is None and not options:
        return None
    return changed(materialized or Materialized(), options)


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
