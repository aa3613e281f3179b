"""What was drawn on a ``StreamsBuilder``: frozen values, in the order of drawing.

A call places one part of the topology below others. Names and operators stand in it from the
beginning; what only the whole drawing decides (``dsl/rewrite/``) makes another call of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.nodes import SinkNode, SourceNode
    from headwater.model.operators.base import Operator, TableOperator
    from headwater.model.operators.foreign import ForeignKeyJoin
    from headwater.model.operators.join import TableJoin
    from headwater.model.operators.stream_join import StreamJoin
    from headwater.model.operators.suppress import TableSuppress
    from headwater.model.stores import StoreSpec
    from headwater.serde.base import Serde

CallId: TypeAlias = int
"""Of one builder's calls, in the order in which they were first drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """StreamsBuilder.stream, and the reading half of StreamsBuilder.table.

    ``of_table`` is set for the latter: a table shares its source with nobody.
    """

    node: SourceNode
    of_table: bool = False

    @property
    def name(self) -> str:
        """What children name as their parent."""
        return self.node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """A processor of a stream. ``stores`` are added, if specs, or added by somebody else."""

    name: str
    operator: Operator
    stores: tuple[str | StoreSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A processor whose output is a table.

    ``store`` is the one it brings along, in reserve while the operator does not name it.
    ``connected`` are others that the operator uses: added, if specs, or added by somebody else.
    """

    name: str
    operator: TableOperator
    store: StoreSpec | None = None
    connected: tuple[str | StoreSpec, ...] = ()

    @property
    def stored(self) -> bool:
        """Whether the table has a store."""
        return self.operator.store is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTable(Table):
    """A table made of two, its parents: a node for each side, and below them the one of the result.

    A table that is joined with itself is one parent.
    """

    operator: TableJoin
    this_name: str
    other_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJoinNames:
    """What a join by foreign key is called: its two topics and the nodes around them."""

    subscription_topic: str
    send: str
    subscription_sink: str
    subscription_source: str
    receive: str
    join: str
    foreign: str
    response_topic: str
    response_sink: str
    response_source: str
    resolve: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJoinedTable(Table):
    """A table made of two by a foreign key: through two topics, to the right table and back.

    Its parents are the left table and the right one; a table that is joined with itself is one.
    ``subscriptions`` is the store beside the right table.
    """

    operator: ForeignKeyJoin
    names: ForeignJoinNames
    subscriptions: StoreSpec
    other_value_serde: Serde[Any] | None
    subscription_partitioner: Callable[..., Any] | None
    response_partitioner: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedTable(Table):
    """A table whose updates wait in ``buffer``; it has no other store."""

    operator: TableSuppress
    buffer: StoreSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedStreams:
    """A stream made of two, its parents; the nodes that keep their records are drawn before.

    A stream that is joined with itself is one parent. ``left``, ``right`` and ``unmatched`` are the
    stores of ``operator``.
    """

    name: str
    this_name: str
    other_name: str
    this_windowed: str
    other_windowed: str
    operator: StreamJoin
    left: StoreSpec
    right: StoreSpec
    unmatched: StoreSpec | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """KStream.to; the node's parents are the call's."""

    node: SinkNode

    @property
    def name(self) -> str:
        """The sink's name."""
        return self.node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """StreamsBuilder.add_state_store; processors connect themselves."""

    spec: StoreSpec

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStore:
    """StreamsBuilder.global_table and add_global_store: a source, and what keeps the store."""

    source: SourceNode
    name: str
    operator: Operator
    spec: StoreSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionNames:
    """What a repartition is called: its topic and the nodes around it.

    Without a name for the filter there is none: ``KTable.group_by`` drops null keys itself.
    ``is_given`` is set if the user has named the topic, be it by a store or an operation.
    """

    topic: str
    filter: str | None = None
    sink: str
    source: str
    is_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """Through a repartition topic: filter and sink above it, source and children below.

    ``changes`` is set below KTable.group_by, where values are changes. With ``keeps_null_keys`` the
    filter lets records without a key through. One that an operation needs is ``mergeable`` with
    others (Kafka's ``OptimizableRepartitionNode``), one that was asked for is not.
    """

    names: RepartitionNames
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitions: int | None = None
    partitioner: Callable[..., Any] | None = None
    changes: bool = False
    keeps_null_keys: bool = False
    mergeable: bool = False

    @property
    def name(self) -> str:
        """What children name as their parent."""
        return self.names.source


Part: TypeAlias = (
    Source
    | Processor
    | Table
    | JoinedTable
    | ForeignJoinedTable
    | SuppressedTable
    | Sink
    | Store
    | GlobalStore
    | JoinedStreams
    | Repartition
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One part of the topology below others; below none, it is where the topology begins.

    ``reads`` are the tables whose values it looks up; ``copartitioned`` are calls whose topics need
    equal partition counts for it.
    """

    id: CallId
    parents: tuple[CallId, ...]
    part: Part
    reads: tuple[CallId, ...] = ()
    copartitioned: tuple[CallId, ...] = ()


Calls: TypeAlias = tuple[Call, ...]
"""All calls of a builder, in the order of drawing."""
