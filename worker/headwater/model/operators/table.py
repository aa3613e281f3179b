"""Operators on tables: between them a record's value is a change, the tuple ``(new, old)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import OldValues, Operator, TableOperator, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.base import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(TableOperator):
    """A table source, and KStream.to_table: upsert ``store``, if any; forward the change."""

    old_values: ClassVar = OldValues.FROM_STORE_IN_RESERVE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter(TableOperator):
    """KTable.filter / filter_not on changes; forwards a tombstone when the predicate fails.

    With the old value it can tell that a row it refuses was refused before, and says nothing.
    """

    old_values: ClassVar = OldValues.FROM_STORE_OR_PARENT
    wants_old_values: ClassVar = Wanted.IF_STORED

    predicate: Predicate
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValues(TableOperator):
    """KTable.map_values on changes."""

    old_values: ClassVar = OldValues.FROM_STORE_OR_PARENT

    mapper: Callable[..., Any]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToStream(Operator):
    """KTable.to_stream: a change becomes its new value; ``None`` for a deletion."""

    keeps_keys: ClassVar = True
