"""Which tables send old values along, and which source tables get a store.

Old values are asked for from below (Kafka's ``enableSendingOldValues``): ``KTable.group_by`` needs
old values, so it asks its table, which asks its parent, up to a table that has a store to read them
from. Operators say what they ask for and what they can give. A source table gets a store, too, if
somebody looks its values up, through the tables in between (Kafka's ``valueGetterSupplier``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import Processor, Table
from headwater.model.operators.base import OldValues, Wanted

if TYPE_CHECKING:
    from headwater.dsl.calls import Call, CallId, Calls


def send_old_values(calls: Calls) -> Calls:
    """Let those tables send old values that somebody below asks, and store what is looked up.

    The calls ask in the order of drawing: what is wanted only if a store is there finds the stores
    that were there when it was drawn.
    """
    tables = _Tables(calls)
    for call in calls:
        part = call.part
        if not isinstance(part, Processor | Table):
            continue
        wanted = {
            parent: wish
            for place, parent in enumerate(call.parents)
            if (wish := part.operator.wanted_of(place)) is not None
        }
        sent = [tables.ask(it, force=wish is Wanted.ALWAYS) for it, wish in wanted.items()]
        if Wanted.IF_STORED in wanted.values() and all(sent):
            tables.sending.add(call.id)
        for read in call.reads:
            tables.store(read)
    return tuple(tables.decided(call) for call in calls)


class _Tables:
    """Tables: which of them are stored, and send old values, after what was asked so far."""

    def __init__(self, calls: Calls) -> None:
        self._tables = {
            call.id: (call.part, call.parents) for call in calls if isinstance(call.part, Table)
        }
        self._stored = {id_ for id_, (part, _) in self._tables.items() if part.stored}
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
                if force:
                    self._stored.add(table)
                return table in self._stored
            case OldValues.FROM_STORE_OR_PARENT:
                return part.stored or all(self.ask(parent, force=force) for parent in parents)
            case OldValues.FROM_PARENTS:
                return all(self.ask(parent, force=True) for parent in parents)

    def store(self, table: CallId) -> None:
        """Let the values of ``table`` be found: in its store, or in those of the tables above."""
        part, parents = self._tables[table]
        if table in self._stored:
            return
        if part.operator.old_values is OldValues.FROM_STORE_IN_RESERVE:
            self._stored.add(table)
            return
        for parent in parents:
            self.store(parent)

    def decided(self, call: Call) -> Call:
        """Return ``call`` as was decided."""
        part = call.part
        if not isinstance(part, Table):
            return call
        operator = part.operator
        if call.id in self._stored and part.store is not None:
            operator = replace(operator, store=part.store.name)
        if call.id in self.sending:
            operator = replace(operator, send_old=True)
        return (
            call
            if operator is part.operator
            else replace(call, part=replace(part, operator=operator))
        )
