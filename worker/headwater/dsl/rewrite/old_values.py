"""Which tables send old values along, and which source tables get a store for it.

Both are asked from below (Kafka's ``enableSendingOldValues``): ``KTable.group_by`` needs old
values, so it asks its table, which asks its parent, up to a table that has a store to read them
from. Operators say by class attributes what they ask for and what they can give.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import Processor, Table
from headwater.model.operators.base import OldValues, Wanted

if TYPE_CHECKING:
    from headwater.dsl.calls import Call, CallId, Calls


def send_old_values(calls: Calls) -> Calls:
    """Let those tables send old values that somebody below asks, and can.

    The calls ask in the order of drawing: what is wanted only if a store is there finds the stores
    that were there when it was drawn.
    """
    asked = _Asked(calls)
    for call in calls:
        part = call.part
        wanted = part.operator.wants_old_values if isinstance(part, Processor | Table) else None
        if wanted is None:
            continue
        sent = [asked.ask(parent, force=wanted is Wanted.ALWAYS) for parent in call.parents]
        if wanted is Wanted.IF_STORED and all(sent):
            asked.sending.add(call.id)
    return tuple(_sending(call) if call.id in asked.sending else call for call in calls)


class _Asked:
    """Tables, and which of them send old values after what has been asked so far."""

    def __init__(self, calls: Calls) -> None:
        self._tables = {
            call.id: (call.part, call.parents) for call in calls if isinstance(call.part, Table)
        }
        self.sending: set[CallId] = set()

    def ask(self, table: CallId, *, force: bool) -> bool:
        """Let ``table`` send old values, if it can; ``force`` gives it a store for that."""
        if table in self.sending:
            return True
        if sends := self._can(table, force=force):
            self.sending.add(table)
        return sends

    def _can(self, table: CallId, *, force: bool) -> bool:
        part, parents = self._tables[table]
        match part.operator.old_values:
            case OldValues.FROM_STORE:
                return True
            case OldValues.FROM_STORE_IN_RESERVE:
                return part.stored or force
            case OldValues.FROM_STORE_OR_PARENT:
                return part.stored or all(self.ask(parent, force=force) for parent in parents)


def _sending(call: Call) -> Call:
    part = call.part
    assert isinstance(part, Table), part
    store = None if part.store is None else part.store.name
    operator = replace(part.operator, store=store, send_old=True)
    return replace(call, part=replace(part, operator=operator))
