"""What is drawn of a topology: names alone, so that a picture needs no code of the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headwater.model.description import parents_of, target
from headwater.model.nodes import ProcessorNode, SinkNode, SourceNode
from headwater.model.operators.global_table import StreamGlobalTableJoin

if TYPE_CHECKING:
    from headwater.model.nodes import Node, Subtopology
    from headwater.model.topology import Topology


class NodeKind(StrEnum):
    """What a node does."""

    SOURCE = "source"
    PROCESSOR = "node"
    SINK = "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A node.

    Attributes:
        name: its name.
        kind: what it does.
        parents: names of the nodes that forward to it.
        topics: that a source reads or a sink writes; a pattern, or the name of a function, is one.
        stores: that a processor uses.
        looks_up: global stores that it looks into.
    """

    name: str
    kind: NodeKind = NodeKind.PROCESSOR
    parents: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    looks_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnGroup:
    """A sub-topology.

    Attributes:
        id: its number.
        nodes: in insertion order.
        stores: names.
        is_global: it keeps a global store, and has no tasks.
    """

    id: int
    nodes: tuple[DrawnNode, ...]
    stores: tuple[str, ...] = ()
    is_global: bool = False

    @property
    def sources(self) -> tuple[DrawnNode, ...]:
        """The source nodes."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.SOURCE)

    @property
    def sinks(self) -> tuple[DrawnNode, ...]:
        """The sink nodes."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.SINK)

    @property
    def title(self) -> str:
        """What stands above it in a picture."""
        kept = f", global store {self.stores[0]}" if self.is_global else ""
        return f"Sub-topology {self.id}{kept}"

    @property
    def looked_up(self) -> tuple[tuple[str, str], ...]:
        """The nodes that look into global stores, each with its store."""
        return tuple((node.name, store) for node in self.nodes for store in node.looks_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A topology.

    Attributes:
        groups: its sub-topologies.
        order: names of all nodes, in insertion order.
        internal: repartition topics.
    """

    groups: tuple[DrawnGroup, ...]
    order: tuple[str, ...]
    internal: frozenset[str] = frozenset()


def drawing_of(topology: Topology) -> Drawing:
    """Return what is drawn of a topology."""
    return Drawing(
        groups=tuple(map(_group, topology.groups)),
        order=tuple(topology.nodes),
        internal=frozenset(topology.repartition_topics),
    )


def written_by(sink: SinkNode) -> str:
    """Return the topic that a sink writes to, or what the function is called that names topics."""
    if isinstance(sink.topic, str):
        return sink.topic
    return target(sink.topic).rpartition("<locals>.")[2] + "()"


def _group(group: Subtopology) -> DrawnGroup:
    return DrawnGroup(
        id=group.id,
        nodes=tuple(map(_node, group.nodes)),
        stores=tuple(store.name for store in group.stores),
        is_global=group.is_global,
    )


def _node(node: Node) -> DrawnNode:
    if isinstance(node, SourceNode):
        return DrawnNode(name=node.name, kind=NodeKind.SOURCE, topics=tuple(node.reads))
    parents = parents_of(node)
    if isinstance(node, SinkNode):
        topics = (written_by(node),)
        return DrawnNode(name=node.name, kind=NodeKind.SINK, parents=parents, topics=topics)
    assert isinstance(node, ProcessorNode)
    operator = node.operator
    return DrawnNode(
        name=node.name,
        parents=parents,
        stores=tuple(node.stores),
        looks_up=(operator.store,) if isinstance(operator, StreamGlobalTableJoin) else (),
    )
