"""The order in which calls are written into a topology; names of sub-topologies depend on it."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.dsl.calls import Calls


def parents_first(calls: Calls) -> Calls:
    """Keep the order of drawing, but let each call come after its parents and the tables it reads.

    A parent comes later than its child if it was drawn again since.
    """
    places = {call.id: place for place, call in enumerate(calls)}
    needed = [{*call.parents, *call.reads} for call in calls]
    missing = [len(calls_above) for calls_above in needed]
    below: list[list[int]] = [[] for _ in calls]
    for place, calls_above in enumerate(needed):
        for above in calls_above:
            below[places[above]].append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]
    ordered = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(calls[place])
        for child in below[place]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(ready, child)
    return tuple(ordered)
