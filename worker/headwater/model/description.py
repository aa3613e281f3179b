"""``Topology.describe()``: the text of Kafka Streams, character for character."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.java_order import TreeSet, hash_set_copy_order, hash_set_order
from headwater.model.nodes import Node, ProcessorNode, SinkNode, SourceNode, Subtopology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class _Entry:
    """A node while it is being linked.

    ``size`` counts the paths that start here, itself included.
    """

    __slots__ = ("name", "node", "predecessors", "size", "successors")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.predecessors: TreeSet[_Entry] = TreeSet(_larger_first)
        self.successors: TreeSet[_Entry] = TreeSet(_larger_first)

    def grow(self, by: int) -> None:
        self.size += by
        for predecessor in self.predecessors:
            predecessor.grow(by)


def _larger_first(left: _Entry, right: _Entry) -> int:
    if left is right:
        return 0
    if left.size != right.size:
        return right.size - left.size
    return -1 if left.name < right.name else 1


def parents_of(node: Node) -> tuple[str, ...]:
    """Return the names of the nodes that forward to ``node``."""
    return () if isinstance(node, SourceNode) else node.parents


def describe(subtopologies: Iterable[Subtopology]) -> str:
    """Return the description of all sub-topologies, ending as Java's ``toString`` ends."""
    return "Topologies:\n " + "".join(
        f"  {_describe_global(group) if group.is_global else _describe_subtopology(group)}"
        for group in subtopologies
    )


def _describe_global(subtopology: Subtopology) -> str:
    """Return a source, a processor and its store, as ``TopologyDescription.GlobalStore`` does."""
    source, processor = subtopology.nodes
    store = subtopology.stores[0].name
    topics = _braced(source.topics if isinstance(source, SourceNode) else ())
    return (
        f"Sub-topology: {subtopology.id} for global store (will not generate tasks)\n"
        f"    Source: {source.name} (topics: {topics})\n      --> {processor.name}\n"
        f"    Processor: {processor.name} (stores: [{store}])\n      --> none\n"
        f"      <-- {source.name}\n"
    )


def _describe_subtopology(subtopology: Subtopology) -> str:
    entries = {node.name: _Entry(node) for node in subtopology.nodes}
    # Java links the nodes in the order of a hash map over a hash set of names.
    walk = hash_set_order(hash_set_order(entries))
    for name in walk:
        entry = entries[name]
        for parent in parents_of(entry.node):
            predecessor = entries[parent]
            entry.predecessors.add(predecessor)
            predecessor.successors.add(entry)
            predecessor.grow(entry.size)
    ordered: TreeSet[_Entry] = TreeSet(_larger_first)
    for name in walk:
        ordered.add(entries[name])
    lines = "".join(f"    {_describe_node(entry)}\n" for entry in ordered)
    return f"Sub-topology: {subtopology.id}\n{lines}\n"


def _describe_node(entry: _Entry) -> str:
    successors = ", ".join(successor.name for successor in entry.successors) or "none"
    predecessors = ", ".join(predecessor.name for predecessor in entry.predecessors) or "none"
    match entry.node:
        case SourceNode(name=name, topics=topics, pattern=pattern):
            read = _braced(topics) if pattern is None else pattern.pattern
            return f"Source: {name} (topics: {read})\n      --> {successors}"
        case ProcessorNode(name=name, stores=stores):
            return (
                f"Processor: {name} (stores: {_braced(stores)})\n"
                f"      --> {successors}\n      <-- {predecessors}"
            )
        case SinkNode(name=name, topic=topic):
            what = "topic" if isinstance(topic, str) else "extractor class"
            return f"Sink: {name} ({what}: {target(topic)})\n      <-- {predecessors}"


def _braced(names: Iterable[str]) -> str:
    return "[" + ", ".join(hash_set_copy_order(names)) + "]"


def target(topic: str | Callable[..., str]) -> str:
    """Return where a sink writes: its topic, or what the function is called that names topics."""
    if isinstance(topic, str):
        return topic
    # Java prints the extractor's class and address; the name alone says the same in every run.
    return str(getattr(topic, "__qualname__", type(topic).__qualname__))
