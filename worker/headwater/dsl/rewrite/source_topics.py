"""The topic that a table reads serves as the changelog of its store.

Kafka's ``reuseKTableSourceTopics`` (``reuse.ktable.source.topics``, KIP-295): nothing is logged,
and the store is restored from the topic itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import Source, Table

if TYPE_CHECKING:
    from headwater.dsl.calls import Call, CallId, Calls


def reuse_source_topics(calls: Calls) -> Calls:
    """Let the store of a table directly below its topic have that for a changelog."""
    sources = {
        call.id: call.part for call in calls if isinstance(call.part, Source) and call.part.of_table
    }
    return tuple(_reusing(call, sources) for call in calls)


def _reusing(call: Call, sources: dict[CallId, Source]) -> Call:
    part = call.part
    if not isinstance(part, Table) or part.store is None or len(call.parents) != 1:
        return call
    source = sources.get(call.parents[0])
    if source is None:
        return call
    store = replace(part.store, logging=False, topic_config={}, source_topic=source.node.topics[0])
    return replace(call, part=replace(part, store=store))
