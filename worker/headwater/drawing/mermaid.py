"""A topology as a Mermaid flowchart: topics, nodes and stores, one box per sub-topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.drawing.graph import NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.drawing.graph import Drawing, DrawnGroup, DrawnNode


_HEAD: Final = (
    '%%{init: {"flowchart": {"wrappingWidth": 600, "subGraphTitleMargin": {"bottom": 20}}}}%%',
    "flowchart TD",
    "  classDef default fill:#fff,stroke:#5b7083,color:#1c2733",
    "  classDef topic fill:#e6f4ea,stroke:#3d8b57,color:#1c2733",
    "  classDef internal fill:#e6f4ea,stroke:#3d8b57,color:#1c2733,stroke-dasharray:5 3",
    "  classDef store fill:#fdf1dc,stroke:#b9822c,color:#1c2733",
)
"""Names on one line, room under titles, and the colours of ``--format svg``."""


def mermaid(drawing: Drawing, titles: Mapping[int, str] | None = None) -> str:
    """Return the text of the flowchart.

    Args:
        drawing: the topology.
        titles: of sub-topologies that are not called by their numbers alone.
    """
    lines = [*_HEAD]
    topics: dict[str, str] = {}
    numbers = {name: f"n{number}" for number, name in enumerate(drawing.order)}
    edges: list[str] = []
    for group in drawing.groups:
        lines += _subtopology(group, numbers, (titles or {}).get(group.id, group.title))
        for node in group.nodes:
            edges += _edges(node, numbers, topics)
        for store_number, store in enumerate(group.stores):
            users = [node for node in group.nodes if store in node.stores]
            edges += [f"  {numbers[user.name]} <--> s{group.id}_{store_number}" for user in users]
    edges += _readers(drawing, numbers)
    for topic, number in topics.items():
        kind = "internal" if topic in drawing.internal else "topic"
        lines.append(f'  {number}[/"{_shown(topic)}"/]:::{kind}')
    return "\n".join([*lines, *edges]) + "\n"


def _readers(drawing: Drawing, numbers: Mapping[str, str]) -> list[str]:
    """Return the arrows from global stores to the joins that look into them."""
    kept = {group.stores[0]: group.id for group in drawing.groups if group.is_global}
    return [
        f"  s{kept[store]}_0 -.-> {numbers[node]}"
        for group in drawing.groups
        for node, store in group.looked_up
    ]


def _subtopology(group: DrawnGroup, numbers: Mapping[str, str], title: str) -> list[str]:
    lines = [f'  subgraph g{group.id}["{_shown(title)}"]']
    lines += [f'    {numbers[node.name]}["{node.name}"]' for node in group.nodes]
    lines += [
        f'    s{group.id}_{number}[("{store}")]:::store'
        for number, store in enumerate(group.stores)
    ]
    return [*lines, "  end", f"  style g{group.id} fill:#f5f7fa,stroke:#b8c4d0"]


def _edges(node: DrawnNode, numbers: Mapping[str, str], topics: dict[str, str]) -> list[str]:
    def topic(name: str) -> str:
        return topics.setdefault(name, f"t{len(topics)}")

    here = numbers[node.name]
    if node.kind is NodeKind.SOURCE:
        return [f"  {topic(name)} --> {here}" for name in node.topics]
    edges = [f"  {numbers[parent]} --> {here}" for parent in node.parents]
    return edges + [f"  {here} --> {topic(name)}" for name in node.topics]


def _shown(name: str) -> str:
    """Return a name as Mermaid takes it between quotes."""
    return name.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
