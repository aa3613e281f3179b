"""A topology as a Mermaid flowchart: topics, nodes and stores, one box per sub-topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.topology import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topology import Node, Subtopology, Topology


def mermaid(topology: Topology, titles: Mapping[int, str] | None = None) -> str:
    """Return the text of the flowchart.

    Args:
        topology: what is drawn.
        titles: of sub-topologies that are not called by their numbers alone.
    """
    lines = ["flowchart TD"]
    topics: dict[str, str] = {}
    numbers = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    edges: list[str] = []
    for group in topology.subtopologies:
        title = (titles or {}).get(group.id, f"Sub-topology {group.id}")
        lines += _subtopology(group, numbers, title)
        for node in group.nodes:
            edges += _edges(node, numbers, topics)
        for store_number, store in enumerate(group.stores):
            users = [
                n for n in group.nodes if isinstance(n, ProcessorNode) and store.name in n.stores
            ]
            edges += [f"  {numbers[user.name]} <--> s{group.id}_{store_number}" for user in users]
    lines += [f'  {number}[/"{topic}"/]' for topic, number in topics.items()]
    return "\n".join([*lines, *edges]) + "\n"


def _subtopology(group: Subtopology, numbers: dict[str, str], title: str) -> list[str]:
    lines = [f'  subgraph g{group.id}["{title}"]']
    lines += [f'    {numbers[node.name]}["{node.name}"]' for node in group.nodes]
    lines += [
        f'    s{group.id}_{number}[("{store.name}")]' for number, store in enumerate(group.stores)
    ]
    return [*lines, "  end"]


def _edges(node: Node, numbers: dict[str, str], topics: dict[str, str]) -> list[str]:
    def topic(name: str) -> str:
        return topics.setdefault(name, f"t{len(topics)}")

    here = numbers[node.name]
    if isinstance(node, SourceNode):
        return [f"  {topic(name)} --> {here}" for name in node.topics]
    edges = [f"  {numbers[parent]} --> {here}" for parent in node.parents]
    if isinstance(node, SinkNode):
        edges.append(f"  {here} --> {topic(node.topic if isinstance(node.topic, str) else '?')}")
    return edges
