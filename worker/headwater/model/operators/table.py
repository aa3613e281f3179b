"""Operators on tables: between them a record's value is a change, the tuple ``(new, old)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.base import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(Operator):
    """A table source, and KStream.to_table: upsert ``store``, if any; forward the change."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter(Operator):
    """KTable.filter / filter_not on changes; forwards a tombstone when the predicate fails."""

    predicate: Predicate
    negate: bool = False
    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValues(Operator):
    """KTable.map_values on changes."""

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToStream(Operator):
    """KTable.to_stream: a change becomes its new value; ``None`` for a deletion."""
