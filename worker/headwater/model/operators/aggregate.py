"""Grouping and aggregating, of streams and of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate(Operator):
    """KGroupedStream.count / reduce / aggregate over ``store``.

    ``initializer`` is ``None`` for reduce: the first value is the aggregate. ``reducer`` is the
    function that reduce was given, which ``aggregator`` calls.
    """

    store: str
    aggregator: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    reducer: Callable[[Any, Any], Any] | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepartitionMap(Operator):
    """KTable.group_by: a change becomes a change per new key (Kafka's ``KTableRepartitionMap``)."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate(Operator):
    """KGroupedTable.count / reduce / aggregate: subtract the old value, then add the new one.

    ``initializer`` is ``None`` for reduce.
    """

    store: str
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    send_old: bool = False
