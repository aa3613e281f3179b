"""Streams of the same topics share a source (Kafka's ``mergeDuplicateSourceNodes``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import Source
from headwater.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.calls import Call, CallId, Calls
    from headwater.model.nodes import SourceNode


def merge_sources(calls: Calls) -> Calls:
    """Put what is below a source below the first source of the same topics.

    Raises:
        TopologyError: two streams share some topics only, or disagree about the offset reset.
    """
    owners: dict[str, tuple[CallId, SourceNode]] = {}
    merged: dict[CallId, CallId] = {}
    for call in calls:
        if not isinstance(call.part, Source) or call.part.of_table:
            continue
        node = call.part.node
        for topic in node.reads:
            owner, first = owners.setdefault(topic, (call.id, node))
            if owner == call.id or call.id in merged:
                continue
            _check_same(topic, first, node)
            merged[call.id] = owner
    return tuple(_below_owners(call, merged) for call in calls if call.id not in merged)


def _check_same(topic: str, first: SourceNode, second: SourceNode) -> None:
    if set(first.reads) != set(second.reads):
        raise TopologyError(
            f"Topic {topic!r} is read by {first.name!r} and {second.name!r}, which do not read the "
            "same topics: read the same set in both, or each topic by itself and merge()"
        )
    if first.offset_reset != second.offset_reset:
        raise TopologyError(
            f"{first.name!r} and {second.name!r} have two offset reset policies for "
            f"{', '.join(first.reads)}: choose one of them"
        )


def _below_owners(call: Call, merged: Mapping[CallId, CallId]) -> Call:
    return replace(
        call,
        parents=_owners(call.parents, merged),
        copartitioned=_owners(call.copartitioned, merged),
    )


def _owners(calls: tuple[CallId, ...], merged: Mapping[CallId, CallId]) -> tuple[CallId, ...]:
    found = dict.fromkeys(calls)
    for source, owner in merged.items():
        if source in found:
            # One that is there already keeps its place; another becomes the last.
            found[owner] = None
            del found[source]
    return tuple(found)
