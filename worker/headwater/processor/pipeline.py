"""From a sub-topology to functions: children first, so that every node holds its children.

nodes in a row            one generated function (``code``), or lines of the input loop (``loops``)
a node with two children  calls one function per child
a store, a processor      forwards to the function of what is below it
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headwater.model.operators import import_families
from headwater.model.topology import SinkNode, SourceNode
from headwater.processor.code import NESTED_MAX, Code, call
from headwater.processor.compiling import Resident, Site, compile_operator
from headwater.processor.getters import Tables
from headwater.processor.operators.endpoints import Input, compile_source, emit_sink
from headwater.processor.routing import Children
from headwater.processor.wrapped import compile_wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.measuring.task import Arrival
    from headwater.model.topology import Node, ProcessorNode, Subtopology
    from headwater.ports import Forward
    from headwater.processor.code import Emit, Names
    from headwater.processor.environment import Environment

import_families("headwater.processor.operators")


class Pipeline:
    """A compiled sub-topology."""

    def __init__(self, subtopology: Subtopology, environment: Environment) -> None:
        self._environment = environment
        self._residents: list[Resident] = []
        self._tables = Tables(subtopology, environment, self._residents.append)
        self._children: dict[str, list[str]] = {node.name: [] for node in subtopology.nodes}
        for node in subtopology.nodes:
            if not isinstance(node, SourceNode):
                for parent in node.parents:
                    self._children[parent].append(node.name)
        self._emits: dict[str, Emit] = {}
        self._functions: dict[str, Forward] = {}
        self.arrivals: dict[str, Arrival | None] = {}
        """Where the records of each source node are noted, if they are."""
        self.inputs: Mapping[str, Input] = self._compile(subtopology)
        """How records enter, by the broker's topic name."""

    def init(self) -> None:
        """Initialise the user's processors, parents first."""
        for resident in self._residents:
            resident.init()

    def close(self) -> None:
        """Close the user's processors and printed files, parents first."""
        for resident in self._residents:
            resident.close()

    def renew(self) -> None:
        """Replace the user's processors by new ones; ``init`` comes next."""
        for resident in self._residents:
            resident.renew()

    def _compile(self, subtopology: Subtopology) -> dict[str, Input]:
        environment = self._environment
        inputs: dict[str, Input] = {}
        for node in reversed(subtopology.nodes):
            if isinstance(node, SourceNode):
                forward = self._children_of(node).forward
                emit = self._then_children(node, _as_it_is)
                self.arrivals[node.name] = environment.measures.arrival(node.name, ends=True)
                for undecorated in node.topics:
                    topic = environment.topic_name(undecorated)
                    found = compile_source(node, topic, forward, emit, environment)
                    inputs[topic] = found._replace(arrival=self.arrivals[node.name])
            elif isinstance(node, SinkNode):
                self._emits[node.name] = self._then_children(node, emit_sink(node, environment))
            else:
                self._emits[node.name] = self._then_children(node, self._emit_node(node))
        self._residents.reverse()
        return inputs

    def _then_children(self, node: Node, emit_node: Emit) -> Emit:
        """Return an emitter of ``node`` and everything below it."""
        children = self._children[node.name]
        arrival = None
        if not isinstance(node, SourceNode):
            measures = self._environment.measures
            arrival = measures.arrival(node.name, ends=not children)

        def emit(code: Code, names: Names) -> None:
            if arrival is not None:
                code.reached(arrival)
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

    def _emit_node(self, node: ProcessorNode) -> Emit:
        site = Site(
            node=node,
            environment=self._environment,
            fail=self._environment.failures.of_node(node.name),
            tables=self._tables,
            compile_children=partial(self._children_of, node),
            keep=self._residents.append,
        )
        if node.wrapped is not None:
            return compile_wrapped(node.wrapped, site)
        return compile_operator(node.operator, site)


def _as_it_is(code: Code, names: Names) -> Names:
    del code
    return names
