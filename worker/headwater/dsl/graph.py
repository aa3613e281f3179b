"""The graph that the DSL draws, and how it becomes a topology (``InternalStreamsBuilder``).

Operators are drawn while the user calls them, but written only by ``build``: whether a table needs
a store, or has to send old values, is known only when everything below it is drawn.
"""

from __future__ import annotations

import heapq
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import TopologyError
from headwater.model.naming import check_name
from headwater.model.operators.stateless import DropNullKey
from headwater.model.topology import SinkNode, SourceNode, StoreSpec, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.dsl.options import Consumed
    from headwater.model.operators.base import Operator
    from headwater.serde.base import Serde

REPARTITION_SUFFIX: Final = "-repartition"
_GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")


class GraphNode:
    """One call of the DSL. ``name`` is the topology node that children name as their parent."""

    __slots__ = ("children", "name", "parents", "priority")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parents: dict[GraphNode, None] = {}
        self.children: dict[GraphNode, None] = {}
        self.priority = 0

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The names of the parents, in the order in which they were joined."""
        return tuple(parent.name for parent in self.parents)

    def add_child(self, child: GraphNode) -> None:
        """Put ``child`` below this node."""
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        """Take ``child`` from below this node."""
        del self.children[child]
        del child.parents[self]

    def write(self, topology: Topology) -> None:
        """Add what this node stands for; all parents are written already."""


class StreamSource(GraphNode):
    """StreamsBuilder.stream."""

    __slots__ = ("consumed", "topics")

    def __init__(self, name: str, topics: tuple[str, ...], consumed: Consumed[Any, Any]) -> None:
        super().__init__(name)
        self.topics = topics
        self.consumed = consumed

    def absorb(self, other: StreamSource) -> None:
        """Take over the children of another source of the same topics."""
        if self.consumed.offset_reset != other.consumed.offset_reset:
            raise TopologyError(
                f"Two offset reset policies for {', '.join(self.topics)}: choose one of them"
            )
        for child in tuple(other.children):
            self.add_child(child)
            other.remove_child(child)

    def write(self, topology: Topology) -> None:
        """Add the source."""
        topology.add_source_node(source_node(self.name, self.topics, self.consumed))


class TableSourceGraph(GraphNode):
    """StreamsBuilder.table: a source and the processor that keeps the table."""

    __slots__ = ("consumed", "operator", "source_name", "store", "topic")

    def __init__(
        self,
        name: str,
        *,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        operator: Callable[[], Operator],
        store: Callable[[], StoreSpec | None],
    ) -> None:
        super().__init__(name)
        self.source_name = source_name
        self.topic = topic
        self.consumed = consumed
        self.operator = operator
        self.store = store

    def write(self, topology: Topology) -> None:
        """Add source, processor and, if the table is materialised, its store."""
        topology.add_source_node(source_node(self.source_name, (self.topic,), self.consumed))
        topology.add_operator(self.name, self.operator(), (self.source_name,))
        add_own_store(topology, self.name, self.store())


class ProcessorGraph(GraphNode):
    """A processor, with the store it brings along and the names of stores it shares."""

    __slots__ = ("operator", "shared_stores", "store")

    def __init__(
        self,
        name: str,
        operator: Callable[[], Operator],
        *,
        store: Callable[[], StoreSpec | None] | None = None,
        shared_stores: tuple[str | StoreSpec, ...] = (),
    ) -> None:
        super().__init__(name)
        self.operator = operator
        self.store = store
        self.shared_stores = shared_stores

    def write(self, topology: Topology) -> None:
        """Add the processor and connect its stores."""
        topology.add_operator(self.name, self.operator(), self.parent_names)
        for shared in self.shared_stores:
            if isinstance(shared, StoreSpec):
                topology.add_state_store(shared, self.name)
            else:
                topology.connect_processor_and_state_stores(self.name, shared)
        add_own_store(topology, self.name, self.store() if self.store else None)


class SinkGraph(GraphNode):
    """KStream.to."""

    __slots__ = ("node",)

    def __init__(self, node: SinkNode) -> None:
        super().__init__(node.name)
        self.node = node

    def write(self, topology: Topology) -> None:
        """Add the sink."""
        topology.add_sink(
            self.name,
            self.node.topic,
            *self.parent_names,
            key_serde=self.node.key_serde,
            value_serde=self.node.value_serde,
            partitioner=self.node.partitioner,
        )


class StoreGraph(GraphNode):
    """StreamsBuilder.add_state_store."""

    __slots__ = ("spec",)

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec.name)
        self.spec = spec

    def write(self, topology: Topology) -> None:
        """Add the store; processors connect themselves."""
        topology.add_state_store(self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionNames:
    """What a repartition is called: its topic and the nodes around it."""

    topic: str
    sink: str
    filter: str
    source: str


class RepartitionGraph(GraphNode):
    """Through a repartition topic: filter and sink above it, source and children below."""

    __slots__ = ("key_serde", "names", "partitioner", "partitions", "value_serde")

    def __init__(
        self,
        names: RepartitionNames,
        *,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitions: int | None = None,
        partitioner: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(names.source)
        self.names = names
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitions = partitions
        self.partitioner = partitioner

    def write(self, topology: Topology) -> None:
        """Add topic, filter, sink and source."""
        names = self.names
        topology.add_repartition_topic(names.topic, self.partitions)
        topology.add_operator(names.filter, DropNullKey(), self.parent_names)
        topology.add_sink(
            names.sink,
            names.topic,
            names.filter,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
            partitioner=self.partitioner,
        )
        topology.add_source(
            names.source, names.topic, key_serde=self.key_serde, value_serde=self.value_serde
        )


class TableRepartitionGraph(GraphNode):
    """Through the repartition topic of KTable.group_by, whose values are changes."""

    __slots__ = ("key_serde", "sink_name", "topic", "value_serde")

    def __init__(
        self,
        source_name: str,
        *,
        sink_name: str,
        topic: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        super().__init__(source_name)
        self.sink_name = sink_name
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde

    def write(self, topology: Topology) -> None:
        """Add topic, sink and source."""
        topology.add_repartition_topic(self.topic)
        topology.add_sink_node(
            SinkNode(
                name=self.sink_name,
                parents=self.parent_names,
                topic=self.topic,
                key_serde=self.key_serde,
                value_serde=self.value_serde,
                changes=True,
            )
        )
        topology.add_source_node(
            SourceNode(
                name=self.name,
                topics=(self.topic,),
                key_serde=self.key_serde,
                value_serde=self.value_serde,
                changes=True,
            )
        )


class Graph:
    """All calls of one ``StreamsBuilder``, and the one counter behind every generated name."""

    __slots__ = ("_numbers", "_priorities", "root")

    def __init__(self) -> None:
        self.root = GraphNode("root")
        self._numbers = itertools.count()
        self._priorities = itertools.count(1)

    def processor_name(self, prefix: str) -> str:
        """Return ``<prefix><next number, 10 digits>``."""
        return f"{prefix}{next(self._numbers):010d}"

    def store_name(self, prefix: str) -> str:
        """Return ``<prefix>STATE-STORE-<next number, 10 digits>``."""
        return self.processor_name(f"{prefix}STATE-STORE-")

    def named(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Return ``name + suffix``, or a generated name.

        A number is spent either way, so that naming one operator does not rename the ones after it.
        """
        generated = self.processor_name(prefix)
        return generated if name is None else check_name("node", name) + suffix

    def repartition_names(self, base: str) -> RepartitionNames:
        """Name a repartition after ``base``.

        Three numbers are spent even where no generated name is used.
        """
        topic = base if base.endswith(REPARTITION_SUFFIX) else base + REPARTITION_SUFFIX
        sink = self.processor_name("KSTREAM-SINK-")
        null_filter = self.processor_name("KSTREAM-FILTER-")
        source = self.processor_name("KSTREAM-SOURCE-")
        if _GENERATED.fullmatch(base) is None:
            sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return RepartitionNames(topic=topic, sink=sink, filter=null_filter, source=source)

    def add(self, child: GraphNode, *parents: GraphNode) -> None:
        """Draw ``child`` below ``parents`` (the root if none).

        A node drawn again comes later in the order.
        """
        for parent in parents or (self.root,):
            parent.add_child(child)
        child.priority = next(self._priorities)

    def write(self) -> Topology:
        """Return the topology: nodes in the order of drawing, each after all of its parents."""
        self._merge_sources()
        topology = Topology()
        written = {self.root}
        # Priorities are unique, so the heap never compares nodes.
        queue = [(child.priority, child) for child in self.root.children]
        heapq.heapify(queue)
        while queue:
            _, node = heapq.heappop(queue)
            node.write(topology)
            written.add(node)
            for child in node.children:
                if written.issuperset(child.parents):
                    heapq.heappush(queue, (child.priority, child))
        topology.validate()
        return topology

    def _merge_sources(self) -> None:
        owners: dict[str, StreamSource] = {}
        for node in tuple(self.root.children):
            if not isinstance(node, StreamSource):
                continue
            for topic in node.topics:
                owner = owners.setdefault(topic, node)
                if owner is node or node not in self.root.children:
                    continue
                if set(owner.topics) != set(node.topics):
                    raise TopologyError(
                        f"Topic {topic!r} is read by two stream() calls with different topics: "
                        "read the same set in both, or each topic by itself and merge()"
                    )
                owner.absorb(node)
                self.root.remove_child(node)


def source_node(name: str, topics: Iterable[str], consumed: Consumed[Any, Any]) -> SourceNode:
    """Return the source node that ``consumed`` describes."""
    return SourceNode(
        name=name,
        topics=tuple(topics),
        key_serde=consumed.key_serde,
        value_serde=consumed.value_serde,
        timestamp_extractor=consumed.timestamp_extractor,
        offset_reset=consumed.offset_reset,
    )


def add_own_store(topology: Topology, processor: str, store: StoreSpec | None) -> None:
    """Add and connect the store that a processor brings along, if any."""
    if store is not None:
        topology.add_state_store(store, processor)
