"""A topology as a Mermaid flowchart: topics, nodes and stores, one box per sub-topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.description import target
from headwater.model.operators.global_table import StreamGlobalTableJoin
from headwater.model.topology import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topology import Node, Subtopology, Topology


_HEAD: Final = (
    '%%{init: {"flowchart": {"wrappingWidth": 600, "subGraphTitleMargin": {"bottom": 20}}}}%%',
    "flowchart TD",
    "  classDef default fill:#fff,stroke:#5b7083,color:#1c2733",
    "  classDef topic fill:#e6f4ea,stroke:#3d8b57,color:#1c2733",
    "  classDef internal fill:#e6f4ea,stroke:#3d8b57,color:#1c2733,stroke-dasharray:5 3",
    "  classDef store fill:#fdf1dc,stroke:#b9822c,color:#1c2733",
)
"""Names on one line, room under titles, and the colours of ``--format svg``."""


def mermaid(topology: Topology, titles: Mapping[int, str] | None = None) -> str:
    """Return the text of the flowchart.

    Args:
        topology: what is drawn.
        titles: of sub-topologies that are not called by their numbers alone.
    """
    lines = [*_HEAD]
    topics: dict[str, str] = {}
    numbers = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    edges: list[str] = []
    for group in topology.groups:
        title = (titles or {}).get(group.id, title_of(group))
        lines += _subtopology(group, numbers, title)
        for node in group.nodes:
            edges += _edges(node, numbers, topics)
        for store_number, store in enumerate(group.stores):
            users = [
                n for n in group.nodes if isinstance(n, ProcessorNode) and store.name in n.stores
            ]
            edges += [f"  {numbers[user.name]} <--> s{group.id}_{store_number}" for user in users]
    edges += _readers(topology, numbers)
    for topic, number in topics.items():
        kind = "internal" if topic in topology.repartition_topics else "topic"
        lines.append(f'  {number}[/"{_shown(topic)}"/]:::{kind}')
    return "\n".join([*lines, *edges]) + "\n"


def _readers(topology: Topology, numbers: dict[str, str]) -> list[str]:
    """Return the arrows from global stores to the joins that look into them."""
    drawn = {group.stores[0].name: group.id for group in topology.global_subtopologies}
    return [
        f"  s{drawn[store]}_0 -.-> {numbers[node]}"
        for group in topology.groups
        for node, store in looked_up(group)
    ]


def looked_up(group: Subtopology) -> list[tuple[str, str]]:
    """Return the joins of a sub-topology that look into global stores, each with its store."""
    return [
        (node.name, node.operator.store)
        for node in group.nodes
        if isinstance(node, ProcessorNode) and isinstance(node.operator, StreamGlobalTableJoin)
    ]


def title_of(group: Subtopology) -> str:
    """Return what stands above a sub-topology in a picture."""
    kept = f", global store {group.stores[0].name}" if group.is_global else ""
    return f"Sub-topology {group.id}{kept}"


def _subtopology(group: Subtopology, numbers: dict[str, str], title: str) -> list[str]:
    lines = [f'  subgraph g{group.id}["{title}"]']
    lines += [f'    {numbers[node.name]}["{node.name}"]' for node in group.nodes]
    lines += [
        f'    s{group.id}_{number}[("{store.name}")]:::store'
        for number, store in enumerate(group.stores)
    ]
    return [*lines, "  end", f"  style g{group.id} fill:#f5f7fa,stroke:#b8c4d0"]


def _edges(node: Node, numbers: dict[str, str], topics: dict[str, str]) -> list[str]:
    def topic(name: str) -> str:
        return topics.setdefault(name, f"t{len(topics)}")

    here = numbers[node.name]
    if isinstance(node, SourceNode):
        return [f"  {topic(name)} --> {here}" for name in node.reads]
    edges = [f"  {numbers[parent]} --> {here}" for parent in node.parents]
    if isinstance(node, SinkNode):
        edges.append(f"  {here} --> {topic(written_by(node))}")
    return edges


def written_by(sink: SinkNode) -> str:
    """Return the topic that a sink writes to, or what the function is called that names topics."""
    if isinstance(sink.topic, str):
        return sink.topic
    return target(sink.topic).rpartition("<locals>.")[2] + "()"


def _shown(name: str) -> str:
    """Return a name as Mermaid takes it between quotes."""
    return name.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
