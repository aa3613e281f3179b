"""A topology as a value: nodes, stores, internal topics.

Every engine and the operator read the same one.

``StreamsBuilder.build()`` returns one; it can also be put together by hand, as with Kafka Streams'
``Topology``. Each ``add_`` method checks what can be checked at once and raises ``TopologyError``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headwater.errors import TopologyError
from headwater.model.callables import check_extractor, check_function, check_functions
from headwater.model.checking import check_keeper, check_new, check_parents
from headwater.model.description import describe
from headwater.model.dsl_stores import deciding
from headwater.model.grouping import check_enforced, grouped, merged
from headwater.model.java_order import hash_set_order
from headwater.model.naming import check_name
from headwater.model.nodes import (
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    Subtopology,
    TimestampExtractorLike,
    TimestampExtractors,
)
from headwater.model.offset_reset import OffsetReset
from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
from headwater.model.patterns import check_pattern, topics_of
from headwater.model.reporting import report
from headwater.model.stores import SerdeLike, StoreKind, StoreSpec
from headwater.model.suppliers import stores_of, supplier_of
from headwater.model.wrapping import brought_stores, wrapped_operator, wrapped_user, wrapper_of

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.model.operators.base import Operator
    from headwater.model.processors import ProcessorFunction, ProcessorSupplier
    from headwater.model.topics import TopologyReport

__all__ = [
    "Node",
    "OffsetReset",
    "ProcessorNode",
    "SerdeLike",
    "SinkNode",
    "SourceNode",
    "StoreKind",
    "StoreSpec",
    "Subtopology",
    "TimestampExtractors",
    "Topology",
]


class Topology:
    """Nodes in insertion order, their stores, and the repartition topics between sub-topologies.

    Copying is not needed: engines only read it, and every node and store is immutable.
    """

    __slots__ = (
        "_copartitions",
        "_global_stores",
        "_nodes",
        "_repartition",
        "_store_users",
        "_stores",
        "_subtopologies",
        "_topics",
        "_wrapper",
    )

    def __init__(self, config: Mapping[str, object] | StreamsConfig | None = None) -> None:
        """Begin an empty topology.

        ``config`` is the application's, as for Java's ``Topology(TopologyConfig)``: its
        ``processor.wrapper.class`` wraps the processors that are added.
        """
        self._wrapper = wrapper_of(config)
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._store_users: dict[str, list[str]] = {}
        self._global_stores: dict[str, StoreSpec] = {}
        self._topics: dict[str, str] = {}
        self._repartition: dict[str, int | None] = {}
        self._copartitions: list[tuple[str, ...]] = []
        self._subtopologies: tuple[Subtopology, ...] | None = None

    # ---- building ----------------------------------------------------------------------------

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: TimestampExtractorLike | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> Topology:
        """Read ``topics``, or those that match the one pattern given in their place.

        A topic matches if its whole name does; one that is made later is read from then on. Serdes
        of ``None`` mean the configured defaults.

        ``timestamp_extractor`` is a function ``(record, partition_time)``, one of
        :class:`TimestampExtractors`, or ``"module:function"``.

        Raises:
            TopologyError: the name is taken, no topic is given, or a topic has a source already.
        """
        return self.add_source_node(
            SourceNode(
                name=name,
                **topics_of(topics),
                key_serde=key_serde,
                value_serde=value_serde,
                timestamp_extractor=timestamp_extractor,
                offset_reset=offset_reset,
            )
        )

    def add_processor(
        self,
        name: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any] | ProcessorFunction[Any, Any, Any, Any],
        *parents: str,
    ) -> Topology:
        """Let a new processor of ``supplier`` handle what ``parents`` forward, in every task.

        In place of a supplier a function ``(record)`` or ``(record, context)`` may return or yield
        what is forwarded. The stores of the supplier's ``stores()`` are added and connected.

        Raises:
            TopologyError: the name is taken, a parent is missing, unknown, a sink or the node
                itself, the supplier makes no processor or returns the same instance twice, or
                another store has the name of one of its stores.
        """
        made = supplier_of(name, supplier)
        return self.add_operator(name, UserProcessor(supplier=made), parents)

    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        *parents: str,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        partitioner: Callable[..., Any] | None = None,
    ) -> Topology:
        """Write what ``parents`` forward to ``topic``.

        A function ``topic(key, value, record_context)`` names the topic of each record.

        Raises:
            TopologyError: the name is taken, or a parent is missing, unknown, a sink or the node
                itself.
        """
        return self.add_sink_node(
            SinkNode(
                name=name,
                parents=parents,
                topic=topic,
                key_serde=key_serde,
                value_serde=value_serde,
                partitioner=partitioner,
            )
        )

    def add_state_store(self, store: StoreSpec, *processors: str) -> Topology:
        """Add ``store`` and connect it to ``processors``; to share it, add the instance again.

        Raises:
            TopologyError: another store has this name, or a processor is unknown, a source or a
                sink.
        """
        check_name("store", store.name)
        self._check_not_global(store.name)
        known = self._stores.get(store.name)
        if known is not None and known is not store:
            users = ", ".join(map(repr, self._store_users[store.name])) or "no processor yet"
            raise TopologyError(
                f"A different store is already called {store.name!r} (of {users}): rename one of "
                "them, or pass the same StoreSpec instance to share it"
            )
        self._stores[store.name] = store
        self._store_users.setdefault(store.name, [])
        for processor in processors:
            self.connect_processor_and_state_stores(processor, store.name)
        self._subtopologies = None
        return self

    def add_global_store(
        self,
        store: StoreSpec,
        source: str,
        topic: str,
        processor: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any] | ProcessorFunction[Any, Any, Any, Any],
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: TimestampExtractorLike | None = None,
    ) -> Topology:
        """Add a store that every task reads, filled from all of ``topic`` (``addGlobalStore``).

        Every process fills it from the beginning of the topic (KIP-813). Processors read it without
        being connected to it. There is no changelog.

        Args:
            store: its name, its kind and its serdes.
            source: the name of the source node.
            topic: read from all its partitions.
            processor: the name of the node that keeps the store.
            supplier: makes the processor of that node, which alone writes the store.
            key_serde: of the topic's keys; ``None`` means the configured default.
            value_serde: of the topic's values, likewise.
            timestamp_extractor: has no effect, as in Kafka Streams: records keep their timestamps.

        Raises:
            TopologyError: a name is not legal or taken, the topic has a source already, or the
                supplier makes no processor, or brings stores.
        """
        node = SourceNode(
            name=source,
            topics=(topic,),
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
        )
        made = UserProcessor(supplier=supplier_of(processor, supplier))
        return self.add_global_store_nodes(node, processor, made, store)

    def add_global_store_nodes(
        self, source: SourceNode, processor: str, operator: Operator, store: StoreSpec
    ) -> Topology:
        """Add a global store as values; see :meth:`add_global_store`."""
        check_name("store", store.name)
        self._check_not_global(store.name)
        if store.name in self._stores:
            raise TopologyError(
                f"A store is already called {store.name!r}: rename it, or the global one"
            )
        check_new(processor, self._nodes)
        check_keeper(source.name, processor, operator)
        self.add_source_node(source)
        # As in Kafka Streams a processor of a global store is not wrapped.
        self._add(
            ProcessorNode(
                name=processor, parents=(source.name,), operator=operator, stores=(store.name,)
            )
        )
        self._global_stores[store.name] = replace(store, caching=False).with_logging_disabled()
        return self

    def _check_not_global(self, store: str) -> None:
        if store in self._global_stores:
            raise TopologyError(
                f"{store!r} is the name of a global store: every processor can use that one "
                "without being connected; another store needs another name"
            )

    def add_read_only_state_store(
        self,
        store: StoreSpec,
        source: str,
        topic: str,
        processor: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any] | ProcessorFunction[Any, Any, Any, Any],
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: TimestampExtractorLike | None = None,
    ) -> Topology:
        """Add a store that a processor of ``supplier`` keeps from ``topic`` (KIP-813).

        The topic is its changelog: after a loss the store is filled with the records of its task's
        partition as they are, without the processor. Other processors read it once they are
        connected to it; that one alone is to write.

        Raises:
            TopologyError: a name is taken, the topic has a source already, or the supplier makes
                no processor, or brings stores.
        """
        made = UserProcessor(supplier=supplier_of(processor, supplier))
        check_new(processor, self._nodes)
        check_keeper(source, processor, made)
        self.add_source_node(
            SourceNode(
                name=source,
                topics=(topic,),
                key_serde=key_serde,
                value_serde=value_serde,
                timestamp_extractor=timestamp_extractor,
                offset_reset=OffsetReset.EARLIEST,
            )
        )
        # As in Kafka Streams the processor is not wrapped.
        self._add(ProcessorNode(name=processor, parents=(source,), operator=made))
        kept = replace(store.with_logging_disabled(), source_topic=topic)
        return self.add_state_store(kept, processor)

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Let ``processor`` use ``stores``; processors that share a store share a sub-topology.

        Raises:
            TopologyError: no store is named, a store or the processor is unknown, or the node is
                a source or a sink.
        """
        if not stores:
            raise TopologyError(f"No store is named for {processor!r}: name at least one")
        for store in stores:
            self._check_not_global(store)
            if store not in self._stores:
                raise TopologyError(
                    f"Store {store!r} is not added yet: add it before connecting {processor!r}"
                )
            node = self._nodes.get(processor)
            if node is None:
                raise TopologyError(
                    f"Processor {processor!r} is not added yet: add it before connecting {store!r}"
                )
            if not isinstance(node, ProcessorNode):
                raise TopologyError(
                    f"Cannot connect store {store!r} to {processor!r}, which is a source or a "
                    "sink: connect it to a processor"
                )
            users = self._store_users[store]
            if processor not in users:
                users.append(processor)
            connected = tuple(hash_set_order([*node.stores, store]))
            self._nodes[processor] = replace(node, stores=connected)
        self._subtopologies = None
        return self

    def add_source_node(self, node: SourceNode) -> Topology:
        """Add a source as a value; see :meth:`add_source`."""
        check_new(node.name, self._nodes)
        check_extractor(f"Source {node.name!r}", node.timestamp_extractor)
        if node.offset_reset is not None:
            node = replace(node, offset_reset=OffsetReset(node.offset_reset))
        check_pattern(node, self._nodes.values())
        if not node.reads:
            raise TopologyError(f"Source {node.name!r} reads no topic: name at least one")
        for topic in node.topics:
            check_name("topic", topic)
            if topic in self._topics:
                raise TopologyError(
                    f"Topic {topic!r} is already read by {self._topics[topic]!r}: "
                    "read it once and use what comes of it twice"
                )
            self._topics[topic] = node.name
        return self._add(node)

    def add_operator(self, name: str, operator: Operator, parents: Iterable[str]) -> Topology:
        """Add a processor node that does what ``operator`` says; see :meth:`add_processor`."""
        check_new(name, self._nodes)
        node = ProcessorNode(name=name, parents=tuple(dict.fromkeys(parents)), operator=operator)
        check_parents(node, self._nodes)
        if not isinstance(operator, UserProcessor | UserFixedKeyProcessor):
            wrapper = self._wrapper
            wrapped = None if wrapper is None else wrapped_operator(wrapper, name, operator)
            self._add(node if wrapped is None else replace(node, wrapped=wrapped))
            stores = () if wrapped is None else stores_of(name, wrapped)
        else:
            given = operator.supplier
            if self._wrapper is not None:
                operator = wrapped_user(self._wrapper, name, operator)
            self._add(replace(node, operator=operator))
            stores = brought_stores(name, operator.supplier, given)
        for store in stores:
            self.add_state_store(store, name)
        return self

    def add_sink_node(self, node: SinkNode) -> Topology:
        """Add a sink as a value; see :meth:`add_sink`."""
        check_new(node.name, self._nodes)
        if isinstance(node.topic, str):
            check_name("topic", node.topic)
        else:
            check_function(f"Sink {node.name!r}, topic", node.topic)
        check_functions(f"Sink {node.name!r}", optional=True, partitioner=node.partitioner)
        node = replace(node, parents=tuple(dict.fromkeys(node.parents)))
        check_parents(node, self._nodes)
        return self._add(node)

    def add_repartition_topic(self, name: str, partitions: int | None = None) -> Topology:
        """Declare ``name`` (``*-repartition``) an internal topic; ``partitions`` are enforced."""
        if partitions is not None and partitions < 1:
            raise TopologyError(
                f"Repartition topic {name!r} needs at least one partition, not {partitions}"
            )
        self._repartition[name] = partitions
        return self

    def copartition_sources(self, sources: Iterable[str]) -> Topology:
        """Demand equal partition counts of all topics of these source nodes, as joins do."""
        self._copartitions.append(tuple(dict.fromkeys(sources)))
        return self

    def _add(self, node: Node) -> Topology:
        self._nodes[node.name] = node
        self._subtopologies = None
        return self

    def configured(self, config: Mapping[str, object]) -> Topology:
        """Return the topology with what a configuration says of where its stores are kept.

        ``dsl.store.suppliers.class`` decides for the stores of the DSL whose operators do not, and
        ``dsl.store.format`` whether they keep headers.

        Raises:
            ConfigError, TopologyError: see :func:`deciding`.
        """
        decide = deciding(config)
        if decide is None:
            return self
        result = copy(self)
        result._stores = decide(self._stores)  # noqa: SLF001
        result._global_stores = decide(self._global_stores)  # noqa: SLF001
        result._subtopologies = None  # noqa: SLF001
        return result

    # ---- reading -----------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, in insertion order."""
        return MappingProxyType(self._nodes)

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        """All stores by name, connected or not."""
        return MappingProxyType(self._stores)

    @property
    def global_stores(self) -> Mapping[str, StoreSpec]:
        """The global stores by name."""
        return MappingProxyType(self._global_stores)

    @property
    def repartition_topics(self) -> Mapping[str, int | None]:
        """The internal topics, undecorated (``<name>-repartition``), and their enforced counts."""
        return MappingProxyType(self._repartition)

    @property
    def copartition_groups(self) -> tuple[tuple[str, ...], ...]:
        """Undecorated topics that need equal partition counts; groups that overlap are one."""
        return merged([self._topics_of(source) for source in group] for group in self._copartitions)

    @property
    def subtopologies(self) -> tuple[Subtopology, ...]:
        """The sub-topologies that have tasks, numbered as Kafka Streams numbers them.

        By their first node in insertion order, together with those of global stores.
        """
        return tuple(group for group in self.groups if not group.is_global)

    @property
    def global_subtopologies(self) -> tuple[Subtopology, ...]:
        """The sub-topologies of global stores, which have no tasks."""
        return tuple(group for group in self.groups if group.is_global)

    @property
    def groups(self) -> tuple[Subtopology, ...]:
        """All sub-topologies by their numbers, those of global stores among them."""
        if self._subtopologies is None:
            self._subtopologies = grouped(
                self._nodes, self._stores, self._store_users.values(), self._global_stores
            )
        return self._subtopologies

    def describe(self) -> str:
        """Return the text that Kafka Streams' ``describe()`` prints for the same topology."""
        return describe(self.groups)

    def report(self, application_id: str) -> TopologyReport:
        """Return the names and numbers the operator needs, internal topics decorated."""
        return report(self, application_id)

    def validate(self) -> None:
        """Check what only the whole topology shows (Kafka's ``validateCopartition``).

        Raises:
            TopologyError: repartition topics that must be co-partitioned enforce different counts.
        """
        check_enforced(self.copartition_groups, self._repartition)

    def _topics_of(self, source: str) -> tuple[str, ...]:
        node = self._nodes.get(source)
        return node.reads if isinstance(node, SourceNode) else ()
