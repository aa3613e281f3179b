"""The join of two tables by a foreign key (KIP-213): the nodes on either side of its two topics.

A change of the left table subscribes, through the subscription topic, where the right table has the
foreign key. A subscription and a change of the right table are answered through the response topic,
where the left table has its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import OldValues, Operator, TableOperator, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import SerdeLike


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyJoin(TableOperator):
    """KTable.join / left_join by a foreign key: the result, which is stored as a source table is.

    The nodes above it, which do the work, have it as their ``join``.

    Attributes:
        left: rows of the left table that find nothing have a result, too.
        table: the node of the left table.
        other: the node of the right table.
        extractor: ``extractor(value)`` gives the foreign key of a row of the left table.
        with_key: it is called with ``(key, value)`` (KIP-1104).
        joiner: ``joiner(value, other)``.
        topic: the subscription topic, undecorated; serdes of the subscriptions' parts are told it.
        subscriptions: the store of subscriptions.
        key_serde: of the left table's keys.
        value_serde: of the left table's values, which are hashed.
        other_key_serde: of the foreign keys.
    """

    old_values: ClassVar = OldValues.FROM_STORE_IN_RESERVE
    wants_old_values: ClassVar = Wanted.ALWAYS

    left: bool
    table: str
    other: str
    extractor: Callable[..., Any]
    with_key: bool = False
    joiner: Callable[[Any, Any], Any]
    topic: str
    subscriptions: str
    key_serde: SerdeLike | None
    value_serde: SerdeLike | None
    other_key_serde: SerdeLike | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSend(Operator):
    """A change of the left table becomes subscriptions (``SubscriptionSendProcessorSupplier``)."""

    join: ForeignKeyJoin


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionReceive(Operator):
    """Subscriptions are stored and taken away (``SubscriptionReceiveProcessorSupplier``)."""

    join: ForeignKeyJoin


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionJoin(Operator):
    """A subscription is answered at once (``SubscriptionJoinProcessorSupplier``)."""

    join: ForeignKeyJoin


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTableJoin(Operator):
    """A change of the right table is told to all subscribers (``ForeignTableJoinNode``)."""

    join: ForeignKeyJoin


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseJoin(Operator):
    """A response is joined with the row it answers to (``ResponseJoinProcessorSupplier``)."""

    join: ForeignKeyJoin
