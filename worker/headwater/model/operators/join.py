"""Joins: of a stream with a table, and of two tables by their keys.

What an operator looks up is named by the node of the table; an engine reads it from the table's
store, or, if it has none, through the operator from the tables above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import OldValues, Operator, TableOperator, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import SerdeLike


class Join(Enum):
    """Which side of a join may be missing."""

    INNER = auto()
    """Neither."""
    LEFT = auto()
    """The right one."""
    OUTER = auto()
    """Either, but not both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoin(Operator):
    """KStream.join / left_join with a table: ``joiner(value, found)``.

    ``with_key`` calls ``joiner(key, value, found)``. ``table`` names the node of the table. With a
    ``buffer``, the name of a store, a record waits there for ``grace_ms`` (KIP-923).
    """

    changes_values: ClassVar = True

    table: str
    joiner: Callable[..., Any]
    left: bool = False
    with_key: bool = False
    buffer: str | None = None
    grace_ms: int = 0
    key_serde: SerdeLike | None = None

    @property
    def takes_null_keys(self) -> bool:
        """A left join gives a record without a key its result, too (KIP-962)."""
        return self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin(TableOperator):
    """KTable.join / left_join / outer_join: the result, of which both sides send changes.

    ``left`` and ``right`` name the nodes of the two tables. Each has a node that joins its changes
    with what the other table holds, a :class:`TableJoinSide` (Kafka's ``KTableKTableJoinMerger``).
    """

    old_values: ClassVar = OldValues.FROM_PARENTS

    kind: Join
    left: str
    right: str
    joiner: Callable[[Any, Any], Any]

    def wanted_of(self, parent: int) -> Wanted | None:
        """Ask the left table of a left join for old values, and both tables of an outer join.

        A deletion on one side tells by them whether there was a result.
        """
        asked = {Join.INNER: 0, Join.LEFT: 1, Join.OUTER: 2}[self.kind]
        return Wanted.ALWAYS if parent < asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoinSide(Operator):
    """The changes of one table, joined with the other (``KTableKTableInnerJoin`` and its kin)."""

    join: TableJoin
    of_left: bool

    @property
    def other(self) -> str:
        """The node of the table that is looked up."""
        return self.join.right if self.of_left else self.join.left
