"""What only the whole drawing decides: passes over the drawn calls, from calls to calls.

A pass is a pure function. A new decision is a module here and a place in ``rewrite``.
Those of ``topology.optimization`` stand in ``OPTIMIZATIONS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.dsl.rewrite.null_keys import keep_null_keys
from headwater.dsl.rewrite.old_values import send_old_values
from headwater.dsl.rewrite.order import parents_first
from headwater.dsl.rewrite.repartitions import merge_repartitions
from headwater.dsl.rewrite.self_joins import keep_self_joins_once
from headwater.dsl.rewrite.source_topics import reuse_source_topics
from headwater.dsl.rewrite.sources import merge_sources
from headwater.topology_settings import Optimization

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.dsl.calls import Calls

OPTIMIZATIONS: Final[dict[Optimization, Callable[[Calls], Calls]]] = {
    Optimization.REUSE_KTABLE_SOURCE_TOPICS: reuse_source_topics,
    Optimization.MERGE_REPARTITION_TOPICS: merge_repartitions,
    Optimization.SINGLE_STORE_SELF_JOIN: keep_self_joins_once,
}
"""Passes that are made if they are asked for, in this order, as in Kafka Streams."""


def rewrite(calls: Calls, wanted: Collection[Optimization] = ()) -> Calls:
    """Return the calls as they are written into a topology.

    All passes but the last see the calls in the order of drawing. ``wanted`` are the optimizations.

    Raises:
        TopologyError: calls that contradict each other.
    """
    calls = merge_sources(calls)
    for optimization, optimized in OPTIMIZATIONS.items():
        if optimization in wanted:
            calls = optimized(calls)
    for each in (keep_null_keys, send_old_values, parents_first):
        calls = each(calls)
    return calls
