"""A stream that is joined with itself keeps its records once (``single.store.self.join``, KIP-862).

As Kafka's ``rewriteSingleStoreSelfJoin``, for joins of all kinds. The node of the result takes the
place of both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import JoinedStreams, Processor
from headwater.model.operators.stream_join import JoinWindow, StreamSelfJoin

if TYPE_CHECKING:
    from headwater.dsl.calls import Call, CallId, Calls


def keep_self_joins_once(calls: Calls) -> Calls:
    """Let the joins of streams with themselves have one store."""
    joins = {
        call.id: call.part
        for call in calls
        if isinstance(call.part, JoinedStreams) and len(call.parents) == 1
    }
    by_this = {part.this_windowed: part for part in joins.values()}
    gone = {part.other_windowed for part in joins.values()}
    ids = {call.part.name: call.id for call in calls}
    return tuple(
        _rewritten(call, by_this, joins, ids) for call in calls if call.part.name not in gone
    )


def _rewritten(
    call: Call,
    by_this: dict[str, JoinedStreams],
    joins: dict[CallId, JoinedStreams],
    ids: dict[str, CallId],
) -> Call:
    if call.id in joins:
        part = joins[call.id]
        itself = StreamSelfJoin(join=part.operator)
        below = Processor(name=part.name, operator=itself, stores=(part.left.name,))
        return replace(call, parents=(ids[part.this_windowed],), part=below)
    if call.part.name in by_this:
        store = by_this[call.part.name].left
        keeping = JoinWindow(store=store.name, is_put_last=True)
        kept = Processor(name=call.part.name, operator=keeping, stores=(store,))
        return replace(call, part=kept)
    return call
