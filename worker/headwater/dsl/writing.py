"""From calls, as the rewrite passes leave them, to a ``Topology``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.dsl.calls import (
    ForeignJoinedTable,
    GlobalStore,
    JoinedStreams,
    JoinedTable,
    Processor,
    Repartition,
    Sink,
    Source,
    Store,
    SuppressedTable,
    Table,
)
from headwater.dsl.foreign import Side, write_foreign_join
from headwater.dsl.stream_join import write_stream_join
from headwater.errors import TopologyError
from headwater.model.operators.base import OldValues
from headwater.model.operators.join import StreamTableJoin, TableJoinSide
from headwater.model.operators.stateless import DropNullKey, PassThrough
from headwater.model.topology import SinkNode, SourceNode, StoreSpec, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.dsl.calls import Call, CallId, Calls, Part


def write(calls: Calls, config: Mapping[str, object] | StreamsConfig | None = None) -> Topology:
    """Return the topology of ``calls``, each of which comes after its parents.

    ``config`` is the application's; see :class:`Topology`.

    Raises:
        TopologyError: names clash, a topic is read in two ways, a store is missing.
    """
    topology = Topology(config)
    by_id = {call.id: call for call in calls}
    names = {call.id: call.part.name for call in calls}
    for call in calls:
        parents = tuple(names[parent] for parent in call.parents)
        if isinstance(call.part, SuppressedTable):
            _check_not_versioned(call.part, call.parents[0], by_id)
        if isinstance(call.part, JoinedTable):
            stores = [_stores_behind((table,), by_id) for table in call.parents]
            _write_join(topology, call.part, (parents[0], parents[-1]), (stores[0], stores[-1]))
        elif isinstance(call.part, ForeignJoinedTable):
            sides = [
                Side(names[table], _stores_behind((table,), by_id), _sources_above((table,), by_id))
                for table in call.parents
            ]
            write_foreign_join(topology, call.part, sides[0], sides[-1])
            _write_own_store(topology, call.part)
        else:
            _write(topology, call.part, parents)
            if call.reads:
                looked_up = _stores_behind(call.reads, by_id)
                if isinstance(call.part, Processor):
                    _check_grace(call.part, looked_up, topology)
                topology.connect_processor_and_state_stores(call.part.name, *looked_up)
        if call.copartitioned:
            topology.copartition_sources(_sources_above(call.copartitioned, by_id))
    topology.validate()
    return topology


def _stores_behind(tables: Iterable[CallId], calls: dict[CallId, Call]) -> tuple[str, ...]:
    """Return the stores from which the values of ``tables`` are found."""
    found: dict[str, None] = {}
    for table in tables:
        part, parents = calls[table].part, calls[table].parents
        if isinstance(part, Table) and part.operator.store is not None:
            found[part.operator.store] = None
        else:
            if isinstance(part, SuppressedTable):
                found[part.operator.buffer] = None
            found |= dict.fromkeys(_stores_behind(parents, calls))
    return tuple(found)


def _is_versioned(table: CallId, calls: dict[CallId, Call]) -> bool:
    """Whether a table is stored with its past, or made record by record of one that is."""
    part, parents = calls[table].part, calls[table].parents
    if not isinstance(part, Table):
        return False
    if part.operator.store is not None:
        return part.store is not None and part.store.kind.versioned
    is_derived = part.operator.old_values is OldValues.FROM_STORE_OR_PARENT
    return is_derived and _is_versioned(parents[0], calls)


def _check_not_versioned(part: SuppressedTable, table: CallId, calls: dict[CallId, Call]) -> None:
    if _is_versioned(table, calls):
        raise TopologyError(
            f"suppress() {part.name!r}: the table is versioned, and updates of the past cannot be "
            "kept back, as in Kafka Streams; store what is suppressed without history_retention"
        )


def _check_grace(part: Processor, tables: Iterable[str], topology: Topology) -> None:
    """Refuse a join with grace if the table does not know the past for so long."""
    operator = part.operator
    if not isinstance(operator, StreamTableJoin) or operator.buffer is None:
        return
    for name in tables:
        spec = topology.stores[name]
        if not spec.kind.versioned or spec.retention_ms < operator.grace_ms:
            kept = f"{spec.retention_ms} ms" if spec.kind.versioned else "no past"
            raise TopologyError(
                f"join {part.name!r} with a grace of {operator.grace_ms} ms: table store {name!r} "
                f"knows {kept}; give it a history_retention at least as long"
            )


def _sources_above(drawn: Iterable[CallId], calls: dict[CallId, Call]) -> tuple[str, ...]:
    """Return the nearest sources from which the records of the calls ``drawn`` come."""
    found: dict[str, None] = {}
    for one in drawn:
        call = calls[one]
        if isinstance(call.part, Source | Repartition):
            found[call.part.name] = None
            continue
        above = call.parents
        if isinstance(call.part, ForeignJoinedTable):
            found[call.part.names.response_source] = None
            above = call.parents[:1]
        found |= dict.fromkeys(_sources_above(above, calls))
    return tuple(found)


def _write(topology: Topology, part: Part, parents: tuple[str, ...]) -> None:
    match part:
        case Source():
            topology.add_source_node(part.node)
        case Processor():
            topology.add_operator(part.name, part.operator, parents)
            _connect(topology, part.name, part.stores)
        case SuppressedTable():
            topology.add_operator(part.name, part.operator, parents)
            topology.add_state_store(part.buffer, part.name)
        case Table():
            topology.add_operator(part.name, part.operator, parents)
            _connect(topology, part.name, part.connected)
            _write_own_store(topology, part)
        case JoinedStreams():
            write_stream_join(topology, part)
        case Sink():
            topology.add_sink_node(replace(part.node, parents=parents))
        case Store():
            topology.add_state_store(part.spec)
        case GlobalStore():
            topology.add_global_store_nodes(part.source, part.name, part.operator, part.spec)
        case Repartition():
            _write_repartition(topology, part, parents)


def _connect(topology: Topology, node: str, stores: Iterable[str | StoreSpec]) -> None:
    for store in stores:
        if isinstance(store, StoreSpec):
            topology.add_state_store(store, node)
        else:
            topology.connect_processor_and_state_stores(node, store)


def _write_own_store(topology: Topology, part: Table) -> None:
    if part.stored and part.store is not None:
        topology.add_state_store(part.store, part.name)


def _write_join(
    topology: Topology,
    part: JoinedTable,
    tables: tuple[str, str],
    stores: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    """Write a node for the changes of each table, which looks up the other, and the result's."""
    join, sides = part.operator, (part.this_name, part.other_name)
    for name, table, of_left in zip(sides, tables, (True, False), strict=True):
        topology.add_operator(name, TableJoinSide(join=join, of_left=of_left), (table,))
    topology.add_operator(part.name, join, sides)
    for name, looked_up in zip(sides, reversed(stores), strict=True):
        topology.connect_processor_and_state_stores(name, *looked_up)
    _write_own_store(topology, part)


def _write_repartition(topology: Topology, part: Repartition, parents: tuple[str, ...]) -> None:
    names = part.names
    topology.add_repartition_topic(names.topic, part.partitions)
    if names.filter is not None:
        kept = PassThrough() if part.keeps_null_keys else DropNullKey()
        topology.add_operator(names.filter, kept, parents)
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
