"""How the value of a key in a table is found, without the table's changes (``KTableValueGetter``).

A table with a store is read there. One without is computed from the tables above it: its operator
says how. ``operators`` has a rule for every operator that gives a table and may lack a store:

    @derived_getter.register(TableFilter)
    def filter_getter(operator: TableFilter, tables: Tables, node: ProcessorNode) -> Getter: ...

A getter runs the user's functions; whoever looks up guards it.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.errors import TopologyError
from headwater.model.nodes import ProcessorNode
from headwater.model.operators.base import TableOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.nodes import Subtopology
    from headwater.model.operators.base import Operator
    from headwater.processor.compiling import Resident
    from headwater.processor.environment import Environment

Getter: TypeAlias = "Callable[[Any], tuple[Any, int] | None]"
"""``getter(key)`` gives value and timestamp, or ``None``; the value is never ``None``."""


class Tables:
    """The tables of one task, by the names of their nodes.

    Args:
        group: the task's sub-topology.
        environment: the surroundings of its nodes.
        keep: registers what a getter has to have initialised, closed and renewed with the task.
    """

    def __init__(
        self, group: Subtopology, environment: Environment, keep: Callable[[Resident], None]
    ) -> None:
        self._nodes = {node.name: node for node in group.nodes if isinstance(node, ProcessorNode)}
        self.environment = environment
        self.keep = keep

    def getter(self, name: str) -> Getter:
        """Return what finds values in the table of node ``name``.

        Raises:
            TopologyError: the sub-topology has no such table, or its store is missing.
        """
        node = self._nodes.get(name)
        if node is None or not isinstance(node.operator, TableOperator):
            raise TopologyError(f"node {name} is no table of this sub-topology")
        if node.operator.store is not None:
            return self.environment.store(node.operator.store).get
        return derived_getter(node.operator, self, node)


@singledispatch
def derived_getter(operator: Operator, tables: Tables, node: ProcessorNode) -> Getter:
    """Return what finds the values of a table that has no store.

    Raises:
        TopologyError: nobody has registered how.
    """
    del tables
    raise TopologyError(f"node {node.name}: {operator!r} has no store that could be read")
