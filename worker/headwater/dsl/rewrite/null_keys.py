"""Which repartitions let records without a key through: those above a left or outer join (KIP-962).

Kafka's ``NodesWithRelaxedNullKeyJoinDownstream``. Any other drops them, for nothing below could
use them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import JoinedStreams, Processor, Repartition

if TYPE_CHECKING:
    from headwater.dsl.calls import CallId, Calls


def keep_null_keys(calls: Calls) -> Calls:
    """Keep null keys in every repartition above an operator that takes them."""
    parents = {call.id: call.parents for call in calls}
    waiting = [
        call.id
        for call in calls
        if isinstance(call.part, Processor | JoinedStreams) and call.part.operator.takes_null_keys
    ]
    above: set[CallId] = set()
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent not in above:
                above.add(parent)
                waiting.append(parent)
    return tuple(
        replace(call, part=replace(call.part, keeps_null_keys=True))
        if isinstance(call.part, Repartition) and call.id in above
        else call
        for call in calls
    )
