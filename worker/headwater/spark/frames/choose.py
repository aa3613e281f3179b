"""From a topology to its translation: a verdict for each sub-topology, and what is fused.

A sub-topology becomes DataFrames only as a whole. One that sends to a repartition topic does so
only if whoever reads the topic does, too: then the topic is a shuffle. So one verdict may change
another, and all are found again until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import TopologyError
from headwater.model.description import parents_of
from headwater.model.nodes import ProcessorNode, SinkNode, SourceNode
from headwater.spark.frames import rules as _rules  # noqa: F401 - they register themselves
from headwater.spark.frames.ends import of_sink, of_source
from headwater.spark.frames.flow import Flow, Place, Surroundings, computed, merged
from headwater.spark.frames.kinds import Refused
from headwater.spark.frames.plan import Target, Translation, Unit, Verdict
from headwater.spark.stages import reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.config import StreamsConfig
    from headwater.model.nodes import Node
    from headwater.model.topology import Subtopology, Topology
    from headwater.spark.frames.plan import Output, Read

_BEHIND: Final = "comes behind what has to run as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one sub-topology comes to by itself."""

    nodes: dict[str, Verdict]
    outputs: tuple[Output, ...] = ()
    sent: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    refused: str = ""


def choose(
    topology: Topology, config: StreamsConfig, *, wants_outputs: bool = False
) -> Translation:
    """Return the cheapest target of each sub-topology that is provably equal.

    Args:
        topology: of the application.
        config: the application's: default serdes and timestamp extractor.
        wants_outputs: topics that are not the application's own are written to.
    """
    ordered = _in_order(topology)
    refused = reasons(topology.report(""))
    while True:
        found = _look(topology, config, ordered, refused, wants_outputs=wants_outputs)
        readers = {
            topic: group.id
            for group in topology.subtopologies
            for topic in group.source_topics
            if topic in topology.repartition_topics
        }
        news = _refusals(found, readers)
        if not news:
            break
        refused |= news
    return Translation(
        subtopologies={number: _verdict(found[number]) for number in sorted(found)},
        nodes={
            name: node for number in sorted(found) for name, node in found[number].nodes.items()
        },
        units=_units(found, readers),
    )


def check_all_known(translation: Translation) -> None:
    """Refuse a topology of which something cannot be computed as DataFrames.

    Raises:
        TopologyError: what, and why.
    """
    others = [
        f"sub-topology {number}: {verdict.reason}"
        for number, verdict in translation.subtopologies.items()
        if verdict.target is Target.T1
    ]
    if others:
        raise TopologyError(
            f"not everything can be computed as DataFrames ({'; '.join(others)}); use --target "
            "auto, which leaves that to StreamTasks"
        )


def tasks_only(topology: Topology, why: str) -> Translation:
    """Return the translation that computes everything by StreamTasks."""
    verdict = Verdict(target=Target.T1, reason=why)
    return Translation(
        subtopologies={group.id: verdict for group in topology.subtopologies},
        nodes=dict.fromkeys(topology.nodes, verdict),
        units=(),
    )


def _in_order(topology: Topology) -> list[Subtopology]:
    """Sub-topologies, each after those that send it something; in a circle, in any order."""
    senders: dict[str, set[int]] = {}
    for group in topology.subtopologies:
        for sink in group.sinks:
            if isinstance(sink.topic, str) and sink.topic in topology.repartition_topics:
                senders.setdefault(sink.topic, set()).add(group.id)
    left = {group.id: group for group in topology.subtopologies if group.sources}
    ordered: list[Subtopology] = []
    while left:
        ready = [
            group
            for group in left.values()
            if not any(senders.get(topic, set()) & left.keys() for topic in group.source_topics)
        ]
        ordered += [left.pop(group.id) for group in ready or list(left.values())]
    return ordered


def _look(
    topology: Topology,
    config: StreamsConfig,
    ordered: Iterable[Subtopology],
    refused: Mapping[int, str],
    *,
    wants_outputs: bool,
) -> dict[int, _Found]:
    internal = frozenset(topology.repartition_topics)
    written: dict[str, Flow] = {}
    found: dict[int, _Found] = {}
    for group in ordered:
        around = Surroundings(
            config=config,
            repartition_topics=internal,
            written=dict(written),
            wants_outputs=wants_outputs,
        )
        one = found[group.id] = _subtopology(group, around, refused.get(group.id, ""))
        if not one.refused:
            written |= {topic: around.written[topic] for topic in one.sent}
    return found


def _subtopology(group: Subtopology, around: Surroundings, refused: str) -> _Found:
    flows: dict[str, Flow] = {}
    nodes: dict[str, Verdict] = {}
    why: list[str] = [refused] if refused else []
    inner = {parent for node in group.nodes for parent in parents_of(node)}
    for node in group.nodes:
        parents = parents_of(node)
        if any(parent not in flows for parent in parents):
            nodes[node.name] = Verdict(target=Target.T1, reason=_BEHIND)
            why.append(f"{node.name} {_BEHIND}")
            continue
        try:
            flow, reason = _behind(node, [flows[parent] for parent in parents], group, around)
        except Refused as refusal:
            nodes[node.name] = Verdict(target=Target.T1, reason=str(refusal))
            why.append(f"{node.name}: {refusal}")
            continue
        if flow is not None:
            flows[node.name] = flow
            if flow.overflow and node.name not in inner:
                why.append(f"{node.name}: its numbers may not fit in 64 bits, and nobody looks")
        nodes[node.name] = Verdict(target=Target.T2, reason=reason)
    kept = {output.store for output in around.outputs}
    missing = [store.name for store in group.stores if store.name not in kept]
    if missing and not why:
        why.append(f"store {missing[0]} belongs to no node that is known")
    reads = tuple(
        dict.fromkeys(
            path.read
            for flow in flows.values()
            for path in flow.paths
            if path.read.subtopology == group.id
        )
    )
    return _Found(
        nodes=nodes,
        outputs=tuple(around.outputs),
        sent=tuple(around.shuffled),
        reads=reads,
        refused=why[0] if why else "",
    )


def _behind(
    node: Node, parents: Sequence[Flow], group: Subtopology, around: Surroundings
) -> tuple[Flow | None, str]:
    """What a node forwards, if anything, and a sentence about how it is computed."""
    match node:
        case SourceNode():
            return of_source(node, group, around)
        case SinkNode():
            return None, of_sink(node, merged(parents), around)
        case ProcessorNode():
            if node.wrapped is not None:
                raise Refused("processor.wrapper.class wraps it, which is Python code")
            place = Place(node=node, flow=merged(parents), group=group, around=around)
            return computed(node.operator, place)


def _refusals(found: Mapping[int, _Found], readers: Mapping[str, int]) -> dict[int, str]:
    """What can be DataFrames by itself, but not with the others as they are."""
    news: dict[int, str] = {}
    senders: dict[str, list[int]] = {}
    for number, one in found.items():
        for topic in one.sent:
            senders.setdefault(topic, []).append(number)
    known = [one for one in found.values() if not one.refused]
    used = {path.read for one in known for output in one.outputs for path in output.paths}
    for number, one in found.items():
        if one.refused:
            continue
        for read in one.reads:
            if read not in used:
                news[number] = f"nothing of topic {read.topic} comes to any state"
        if not one.outputs and not one.sent:
            news[number] = "it keeps no state, so there is nothing to compute faster"
        taken = {output.shuffle for output in one.outputs}
        for topic in one.sent:
            reader = readers.get(topic, -1)
            if reader not in found or found[reader].refused or senders[topic] != [number]:
                news[number] = f"sub-topology {reader} cannot take {topic} by a shuffle"
        for topic, reader in readers.items():
            fused = [sender for sender in senders.get(topic, ()) if not found[sender].refused]
            if reader == number and fused and topic not in taken:
                news.setdefault(number, f"it makes no state of {topic}")
    return news


def _verdict(one: _Found) -> Verdict:
    if one.refused:
        return Verdict(target=Target.T1, reason=one.refused)
    if one.outputs:
        stores = ", ".join(f"{output.fold.value} in {output.store}" for output in one.outputs)
        return Verdict(target=Target.T2, reason=stores)
    return Verdict(target=Target.T3, reason=f"a shuffle in place of {', '.join(one.sent)}")


def _units(found: Mapping[int, _Found], readers: Mapping[str, int]) -> tuple[Unit, ...]:
    """Put together what is connected by shuffles."""
    known = [number for number, one in found.items() if not one.refused]
    roots = {number: number for number in known}
    for number in known:
        for topic in found[number].sent:
            old, new = roots[readers[topic]], roots[number]
            roots = {one: new if root == old else root for one, root in roots.items()}
    units = []
    for root in sorted(set(roots.values())):
        members = tuple(sorted(number for number in known if roots[number] == root))
        outputs = tuple(output for number in members for output in found[number].outputs)
        shuffles = {topic: readers[topic] for number in members for topic in found[number].sent}
        reads = tuple(dict.fromkeys(read for number in members for read in found[number].reads))
        units.append(Unit(subtopologies=members, reads=reads, outputs=outputs, shuffles=shuffles))
    return tuple(units)
