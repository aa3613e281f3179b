"""Tables of one topic; what is made of a table looks at old and new values, so tasks do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.operators.table import TableFilter, TableMapValues, TableSource, TableToStream
from headwater.spark.frames.flow import computed, refuse
from headwater.spark.frames.kinds import Kind, Refused
from headwater.spark.frames.plan import Fold

if TYPE_CHECKING:
    from headwater.spark.frames.flow import Flow, Place

refuse(TableFilter, "a filter on a table looks at old and new values")
refuse(TableMapValues, "map_values on a table looks at old and new values")


@computed.register(TableSource)
def _source(operator: TableSource, at: Place) -> tuple[Flow, str]:
    flow = at.flow
    if operator.store is None:
        raise Refused("a table that is not stored passes every change on")
    if len(flow.paths) != 1 or flow.paths[0].shuffle or flow.table:
        raise Refused(
            "which value is the last one depends on the order in which several inputs are taken"
        )
    if flow.value is Kind.DOUBLE:
        raise Refused("a number with a fraction may come back with other bytes")
    updates = at.keep(Fold.LAST, operator.store, flow.value)
    return updates, "the value with the highest offset is the last"


@computed.register(TableToStream)
def _to_stream(_operator: TableToStream, at: Place) -> tuple[Flow, str]:
    if not at.flow.table:
        raise Refused("a table that is not stored passes every change on")
    return at.flow, "passes the updates of a table on"
