"""What all operators have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, TypeAlias

from headwater.model.windows import EmitStrategy

Predicate: TypeAlias = Callable[[Any, Any], bool]
KeyValueMapper: TypeAlias = Callable[[Any, Any], Any]


class Wanted(Enum):
    """How much an operator wants old values of the tables above it."""

    IF_STORED = auto()
    """Only where a store is there to read them from; it sends its own, then (KAFKA-10077)."""
    ALWAYS = auto()
    """In any case: a source table without a store is given one (Java's forced materialisation)."""


class OldValues(Enum):
    """Where a table has the value from that an update replaces."""

    FROM_STORE = auto()
    """Its store, which it always has."""
    FROM_STORE_IN_RESERVE = auto()
    """Its store, which it has if it is named or somebody needs it."""
    FROM_STORE_OR_PARENT = auto()
    """Its store if it has one, else the change that its parent sends."""
    FROM_PARENTS = auto()
    """The changes that its parents send, which are given stores if they need them."""


class Operator:
    """What a processor node does, as a frozen value; its class names it on every floor."""

    __slots__ = ()

    wants_old_values: ClassVar[Wanted | None] = None
    keeps_keys: ClassVar[bool] = False
    """A ``ProcessorWrapper`` sees a ``FixedKeyProcessor``, as in Kafka Streams."""

    changes_keys: ClassVar[bool] = False
    """Below it records have to be repartitioned."""
    changes_values: ClassVar[bool] = False
    """What is repartitioned above it is not what is repartitioned below it."""
    merges: ClassVar[bool] = False
    """It has several streams above it, whose records it forwards as they are."""

    def wanted_of(self, parent: int) -> Wanted | None:
        """Return how much old values are wanted of the table above in this place."""
        del parent
        return self.wants_old_values

    @property
    def grace_period_ms(self) -> int | None:
        """How long after their end its windows stay open (Kafka's ``GracePeriodGraphNode``)."""
        return None

    @property
    def takes_null_keys(self) -> bool:
        """A repartition anywhere above has to let records without a key through."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOperator(Operator):
    """An operator that gives a table.

    ``store`` names the table's store, if it has one; with ``send_old`` its changes have old values.
    """

    old_values: ClassVar[OldValues]

    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedOperator(TableOperator):
    """An aggregation of a stream within windows.

    ``initializer`` is ``None`` for reduce: the first value is the aggregate. ``needs_key``: the
    aggregator, and a merger, look at the key, which the user gave them to.
    """

    old_values: ClassVar[OldValues] = OldValues.FROM_STORE

    store: str
    aggregator: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    needs_key: bool = False
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
