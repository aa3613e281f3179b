"""The description of a topology, as Kafka Streams prints it, read as a graph.

A worker reports ``Topology.describe()`` and no code; everything that is drawn stands in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP: Final = re.compile(r"\s*Sub-topology: (\d+)(?: for global store)?")
_NODE: Final = re.compile(r"\s*(Source|Processor|Sink): (\S+) \((.*)\)$")
_NEXT: Final = re.compile(r"\s*--> (.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A node of a sub-topology.

    Attributes:
        name: its name.
        kind: source, processor or sink.
        group: the number of its sub-topology.
        topics: that it reads or writes; a pattern or the name of an extractor is one, too.
        stores: that it uses.
        children: names of the nodes that it forwards to.
    """

    name: str
    kind: str
    group: int
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A topology as a graph.

    Attributes:
        nodes: by name, in the order of the description.
        global_groups: numbers of sub-topologies that feed a global store and have no tasks.
    """

    nodes: Mapping[str, DrawnNode]
    global_groups: frozenset[int] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values: nodes, with what is empty left out."""
        return {
            "nodes": [
                {
                    key: value
                    for key, value in (
                        ("name", node.name),
                        ("kind", node.kind),
                        ("group", node.group),
                        ("topics", list(node.topics)),
                        ("stores", list(node.stores)),
                        ("children", list(node.children)),
                    )
                    if value != []
                }
                for node in self.nodes.values()
            ],
            "globals": sorted(self.global_groups),
        }


def read_description(text: str) -> Drawing:
    """Read what ``Topology.describe()`` has printed; lines of an unknown kind are passed over."""
    nodes: dict[str, DrawnNode] = {}
    global_groups: set[int] = set()
    group, current = 0, ""
    for line in text.splitlines():
        if found := _GROUP.match(line):
            group = int(found[1])
            if "for global store" in line:
                global_groups.add(group)
        elif found := _NODE.match(line):
            current = found[2]
            nodes[current] = _node(found[1].lower(), current, group, found[3])
        elif (found := _NEXT.match(line)) and current in nodes and found[1] != "none":
            node = nodes[current]
            nodes[current] = DrawnNode(
                name=node.name,
                kind=node.kind,
                group=node.group,
                topics=node.topics,
                stores=node.stores,
                children=tuple(found[1].split(", ")),
            )
    return Drawing(nodes=nodes, global_groups=frozenset(global_groups))


def _node(kind: str, name: str, group: int, about: str) -> DrawnNode:
    what, _, value = about.partition(": ")
    # A pattern of topics stands without brackets, whatever is in it.
    is_list = value.startswith("[") and value.endswith("]")
    names = tuple(filter(None, value[1:-1].split(", "))) if is_list else (value,)
    if what == "stores":
        return DrawnNode(name=name, kind=kind, group=group, stores=names)
    return DrawnNode(name=name, kind=kind, group=group, topics=names)
