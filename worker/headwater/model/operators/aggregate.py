"""Grouping and aggregating, of streams and of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import OldValues, Operator, TableOperator, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate(TableOperator):
    """KGroupedStream.count / reduce / aggregate over ``store``.

    ``initializer`` is ``None`` for reduce: the first value is the aggregate. ``reducer`` is the
    function that reduce was given, which ``aggregator`` calls.
    """

    old_values: ClassVar = OldValues.FROM_STORE

    store: str
    aggregator: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    reducer: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepartitionMap(Operator):
    """KTable.group_by: a change becomes a change per new key (Kafka's ``KTableRepartitionMap``)."""

    wants_old_values: ClassVar = Wanted.ALWAYS

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate(TableOperator):
    """KGroupedTable.count / reduce / aggregate: subtract the old value, then add the new one.

    ``initializer`` is ``None`` for reduce.
    """

    old_values: ClassVar = OldValues.FROM_STORE

    store: str
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
