"""From a sub-topology to functions: children first, so that every node holds its children.

nodes in a row            one generated function (``code``), or lines of the input loop (``loops``)
a node with two children  calls one function per child
a store, a processor      forwards to the function of what is below it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.errors import TopologyError
from headwater.model.operators.aggregate import StreamAggregate, TableAggregate, TableRepartitionMap
from headwater.model.operators.stateless import (
    Branch,
    DropNullKey,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from headwater.model.operators.table import TableFilter, TableMapValues, TableSource, TableToStream
from headwater.model.operators.user import UserProcessor
from headwater.model.topology import ProcessorNode, SinkNode, SourceNode
from headwater.processor.code import NESTED_MAX, Code, call
from headwater.processor.context import TaskContext, UserNode
from headwater.processor.operators import aggregates, streams, tables
from headwater.processor.operators.endpoints import Input, compile_source, emit_sink
from headwater.processor.routing import Children

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.topology import Node, Subtopology
    from headwater.ports import Forward, KeyValueStore
    from headwater.processor.code import Emit, Names
    from headwater.processor.environment import Environment
    from headwater.processor.failures import Fail

_STATELESS: Final[Mapping[type, Callable[[Any, Fail], Emit]]] = {
    Filter: streams.emit_filter,
    Map: streams.emit_map,
    MapValues: streams.emit_map_values,
    FlatMap: streams.emit_flat_map,
    FlatMapValues: streams.emit_flat_map_values,
    SelectKey: streams.emit_select_key,
    Peek: streams.emit_peek,
    PassThrough: streams.emit_pass_through,
    DropNullKey: streams.emit_drop_null_key,
    TableToStream: streams.emit_table_to_stream,
}


class Pipeline:
    """A compiled sub-topology."""

    def __init__(self, subtopology: Subtopology, environment: Environment) -> None:
        self._environment = environment
        self._users: list[UserNode] = []
        self._printers: list[streams.Printer] = []
        self._children: dict[str, list[str]] = {node.name: [] for node in subtopology.nodes}
        for node in subtopology.nodes:
            if not isinstance(node, SourceNode):
                for parent in node.parents:
                    self._children[parent].append(node.name)
        self._emits: dict[str, Emit] = {}
        self._functions: dict[str, Forward] = {}
        self.inputs: Mapping[str, Input] = self._compile(subtopology)
        """How records enter, by the broker's topic name."""

    def init(self) -> None:
        """Initialise the user's processors, parents first."""
        for user in self._users:
            user.init()

    def close(self) -> None:
        """Close the user's processors and printed files."""
        for user in self._users:
            user.close()
        for printer in self._printers:
            printer.close()

    def renew(self) -> None:
        """Replace the user's processors by new ones; ``init`` comes next."""
        for user in self._users:
            user.renew()

    def _compile(self, subtopology: Subtopology) -> dict[str, Input]:
        environment = self._environment
        inputs: dict[str, Input] = {}
        for node in reversed(subtopology.nodes):
            if isinstance(node, SourceNode):
                forward = self._children_of(node).forward
                emit = self._then_children(node, _as_it_is)
                for undecorated in node.topics:
                    topic = environment.topic_name(undecorated)
                    inputs[topic] = compile_source(node, topic, forward, emit, environment)
            elif isinstance(node, SinkNode):
                self._emits[node.name] = emit_sink(node, environment)
            else:
                self._emits[node.name] = self._then_children(node, self._emitter(node))
        self._users.reverse()
        return inputs

    def _then_children(self, node: Node, emit_node: Emit) -> Emit:
        """Return an emitter of ``node`` and everything below it."""
        children = self._children[node.name]

        def emit(code: Code, names: Names) -> None:
            flowing = emit_node(code, names)
            if flowing is None:
                return
            if len(children) == 1 and code.depth < NESTED_MAX:
                self._emits[children[0]](code, flowing)
                return
            for child in children:
                call(self._function(child), "forward")(code, flowing)

        return emit

    def _function(self, name: str) -> Forward:
        """Return the function of a node and everything below it."""
        if name not in self._functions:
            code = Code(skip="return")
            self._emits[name](code, ("key", "value"))
            title = f"task {self._environment.task_id} {name}"
            head = "def forward(key, value, timestamp, headers):"
            self._functions[name] = code.build(head, title)
        return self._functions[name]

    def _children_of(self, node: Node) -> Children:
        children = self._children[node.name]
        return Children(node.name, {child: self._function(child) for child in children})

    def _emitter(self, node: ProcessorNode) -> Emit:
        operator = node.operator
        fail = self._environment.failures.of_node(node.name)
        stateless = _STATELESS.get(type(operator))
        if stateless is not None:
            return stateless(operator, fail)
        children = self._children_of(node)
        match operator:
            case Branch():
                return call(streams.compile_branch(operator, children, fail), "branch")
            case Print():
                printer = streams.Printer(operator, fail)
                self._printers.append(printer)
                return call(printer.print, "print")
            case UserProcessor():
                return call(self._compile_user(node, operator, children), "process")
            case StreamAggregate() | TableAggregate():
                return self._emit_aggregate(operator, children, fail)
            case _:
                return self._emit_table(node, children, fail)

    def _emit_table(self, node: ProcessorNode, children: Children, fail: Fail) -> Emit:
        operator = node.operator
        match operator:
            case TableSource():
                drop = self._environment.dropping()
                store = self._store(operator.store)
                return tables.emit_table_source(operator, store, children, drop, fail)
            case TableFilter():
                store = self._store(operator.store)
                return call(tables.compile_table_filter(operator, store, children, fail), "filter")
            case TableMapValues():
                store = self._store(operator.store)
                mapped = tables.compile_table_map_values(operator, store, children, fail)
                return call(mapped, "map_values")
            case TableRepartitionMap():
                return call(tables.compile_table_repartition_map(operator, children, fail), "map")
            case _:
                raise TopologyError(f"node {node.name}: no engine knows {operator!r}")

    def _emit_aggregate(
        self, operator: StreamAggregate | TableAggregate, children: Children, fail: Fail
    ) -> Emit:
        environment = self._environment
        store = environment.store(operator.store)
        if isinstance(operator, TableAggregate):
            aggregate = aggregates.compile_table_aggregate(operator, store, children, fail)
            return call(aggregate, "aggregate")
        drop = environment.dropping()
        return aggregates.emit_stream_aggregate(operator, store, children, fail, drop)

    def _store(self, name: str | None) -> KeyValueStore | None:
        return None if name is None else self._environment.store(name)

    def _compile_user(
        self, node: ProcessorNode, operator: UserProcessor, children: Children
    ) -> Forward:
        environment = self._environment
        context = TaskContext(node.name, node.stores, children, environment)
        fail = environment.failures.of_node(node.name)
        user = UserNode(operator, context, environment.current, fail)
        self._users.append(user)
        return user.process


def _as_it_is(code: Code, names: Names) -> Names:
    del code
    return names
