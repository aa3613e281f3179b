"""What is repartitioned several times below one change of the key goes through one topic.

Kafka's ``mergeRepartitionTopics`` (``merge.repartition.topics``, KIP-295). Directly below an
operation that changes the key stands one repartition, with the name of the first that was drawn;
those that operations needed further down are gone. A merge of streams counts as the change of the
key if all that is repartitioned below the changes above it lies below the merge.

Kafka Streams also moves a repartition up past a merge, with which records of the other stream are
no longer repartitioned, and it fails where two repartitions lie below one filter or branch. Here a
repartition moves only to where every record passes that it was given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.dsl.calls import Call, Processor, Repartition, RepartitionNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.dsl.calls import CallId, Calls
    from headwater.serde.base import Serde


def merge_repartitions(calls: Calls) -> Calls:
    """Put one repartition below each change of the key, in place of those further down."""
    graph = _Graph(calls)
    for changer, replaced in _chosen(graph, calls).items():
        graph.merge(changer, replaced)
    return graph.calls(calls)


def _chosen(graph: _Graph, calls: Calls) -> dict[CallId, list[CallId]]:
    """Return by operation the repartitions that can move up to it, in the order of drawing."""
    by_changer: dict[CallId, list[CallId]] = {}
    merges: list[CallId] = []
    for call in sorted(calls, key=lambda one: one.id):
        if isinstance(call.part, Repartition) and call.part.mergeable:
            changer = graph.changer_of(call.id)
            if changer is not None:
                by_changer.setdefault(changer, []).append(call.id)
        elif isinstance(call.part, Processor) and call.part.operator.merges:
            merges.append(call.id)
    places: dict[CallId, list[CallId]] = {}
    for changer, found in by_changer.items():
        # The nearest merge, which was drawn last: above it streams flow apart.
        place = next(
            (
                merge
                for merge in reversed(merges)
                if changer in graph.above(merge) and all(merge in graph.above(r) for r in found)
            ),
            changer,
        )
        places.setdefault(place, []).extend(found)
    movable = {
        place: sorted(r for r in found if graph.leads_only_to(r, place))
        for place, found in sorted(places.items())
    }
    return {place: found for place, found in movable.items() if found}


class _Graph:
    """The parents of calls, as they are changed."""

    def __init__(self, calls: Calls) -> None:
        self._calls = {call.id: call for call in calls}
        self._parents = {call.id: list(call.parents) for call in calls}
        self._merged: dict[CallId, Call] = {}
        """By the operation below which they stand: repartitions that take the place of others."""
        self._instead: dict[CallId, CallId] = {}

    def changer_of(self, repartition: CallId) -> CallId | None:
        """Return the nearest operation that changes the key, unless a value changes before it."""
        nearest = self._find(repartition, lambda call: _changes_key(call) or _changes_value(call))
        return (
            nearest
            if nearest is not None and nearest == self._find(repartition, _changes_key)
            else None
        )

    def above(self, call: CallId) -> set[CallId]:
        """Return the calls from which records come to ``call``."""
        found: set[CallId] = set()
        waiting = [call]
        while waiting:
            for parent in self._parents[waiting.pop()]:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    def leads_only_to(self, call: CallId, place: CallId) -> bool:
        """Whether every record of ``call`` comes from ``place``, with its key and value."""
        return all(
            parent == place
            or (_is_transparent(self._calls[parent]) and self.leads_only_to(parent, place))
            for parent in self._parents[call]
        )

    def merge(self, changer: CallId, replaced: list[CallId]) -> None:
        """Let one repartition below ``changer`` take the place of those ``replaced``."""
        merged = replaced[0]
        parts = [part for one in replaced if isinstance(part := self._calls[one].part, Repartition)]
        part = replace(
            parts[0],
            names=_names(parts[0].names.topic),
            key_serde=_first(part.key_serde for part in parts),
            value_serde=_first(part.value_serde for part in parts),
        )
        self._merged[changer] = Call(id=merged, parents=(changer,), part=part)
        self._instead |= dict.fromkeys(replaced, merged)
        moved = {
            call for one in replaced for call in self.above(one) if changer in self._parents[call]
        }
        above = {
            one: [merged if parent == changer else parent for parent in self._parents.pop(one)]
            for one in replaced
        }
        for parents in self._parents.values():
            for one in replaced:
                if one in parents:
                    _put_instead(parents, one, above[one])
        for call in moved:
            _put_instead(self._parents[call], changer, [merged])
        self._parents[merged] = [changer]

    def calls(self, calls: Calls) -> Calls:
        """Return the calls as they are now."""
        return tuple(self._written(calls))

    def _written(self, calls: Calls) -> Iterator[Call]:
        for call in calls:
            if call.id in self._instead:
                continue
            copartitioned = dict.fromkeys(self._instead.get(one, one) for one in call.copartitioned)
            yield replace(
                call, parents=tuple(self._parents[call.id]), copartitioned=tuple(copartitioned)
            )
            if call.id in self._merged:
                yield self._merged[call.id]

    def _find(self, start: CallId, wanted: Callable[[Call], bool]) -> CallId | None:
        """Return the first call above that is ``wanted``, as Kafka's ``findParentNodeMatching``."""
        for parent in self._parents[start]:
            if wanted(self._calls[parent]):
                return parent
            found = self._find(parent, wanted)
            if found is not None:
                return found
        return None


def _put_instead(parents: list[CallId], one: CallId, others: Iterable[CallId]) -> None:
    """Put ``others`` last, in place of ``one``."""
    parents.remove(one)
    parents.extend(other for other in others if other not in parents)


def _changes_key(call: Call) -> bool:
    return isinstance(call.part, Processor) and call.part.operator.changes_keys


def _changes_value(call: Call) -> bool:
    return isinstance(call.part, Processor) and call.part.operator.changes_values


def _is_transparent(call: Call) -> bool:
    return isinstance(call.part, Processor) and not _changes_key(call) and not _changes_value(call)


def _names(topic: str) -> RepartitionNames:
    """Return the names of a merged repartition, which never has generated ones."""
    return RepartitionNames(
        topic=topic, filter=f"{topic}-filter", sink=f"{topic}-sink", source=f"{topic}-source"
    )


def _first(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    return next((serde for serde in serdes if serde is not None), None)
