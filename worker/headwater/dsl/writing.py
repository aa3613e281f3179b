"""From calls, as the rewrite passes leave them, to a ``Topology``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import Processor, Repartition, Sink, Source, Store, Table
from headwater.model.operators.stateless import DropNullKey
from headwater.model.topology import SinkNode, SourceNode, StoreSpec, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.config import StreamsConfig
    from headwater.dsl.calls import Calls, Part


def write(calls: Calls, config: Mapping[str, object] | StreamsConfig | None = None) -> Topology:
    """Return the topology of ``calls``, each of which comes after its parents.

    ``config`` is the application's; see :class:`Topology`.

    Raises:
        TopologyError: names clash, a topic is read in two ways, a store is missing.
    """
    topology = Topology(config)
    names = {call.id: call.part.name for call in calls}
    for call in calls:
        _write(topology, call.part, tuple(names[parent] for parent in call.parents))
    topology.validate()
    return topology


def _write(topology: Topology, part: Part, parents: tuple[str, ...]) -> None:
    match part:
        case Source():
            topology.add_source_node(part.node)
        case Processor():
            topology.add_operator(part.name, part.operator, parents)
            for store in part.stores:
                if isinstance(store, StoreSpec):
                    topology.add_state_store(store, part.name)
                else:
                    topology.connect_processor_and_state_stores(part.name, store)
        case Table():
            topology.add_operator(part.name, part.operator, parents)
            if part.stored and part.store is not None:
                topology.add_state_store(part.store, part.name)
        case Sink():
            topology.add_sink_node(replace(part.node, parents=parents))
        case Store():
            topology.add_state_store(part.spec)
        case Repartition():
            _write_repartition(topology, part, parents)


def _write_repartition(topology: Topology, part: Repartition, parents: tuple[str, ...]) -> None:
    names = part.names
    topology.add_repartition_topic(names.topic, part.partitions)
    if names.filter is not None:
        topology.add_operator(names.filter, DropNullKey(), parents)
        parents = (names.filter,)
    topology.add_sink_node(
        SinkNode(
            name=names.sink,
            parents=parents,
            topic=names.topic,
            key_serde=part.key_serde,
            value_serde=part.value_serde,
            partitioner=part.partitioner,
            changes=part.changes,
        )
    )
    topology.add_source_node(
        SourceNode(
            name=names.source,
            topics=(names.topic,),
            key_serde=part.key_serde,
            value_serde=part.value_serde,
            changes=part.changes,
        )
    )
