"""How the value of a key in a table is found, without the table's changes (``KTableValueGetter``).

A table with a store is read there. One without is computed from the tables above it: its operator
says how. ``operators`` has a rule for every operator that gives a table and may lack a store:

    @derived_getter.register(TableFilter)
    def filter_getter(operator: TableFilter, tables: Tables, node: ProcessorNode) -> Getter: ...

A getter runs the user's functions; whoever looks up guards it.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from headwater.errors import TopologyError
from headwater.model.nodes import ProcessorNode
from headwater.model.operators.base import OldValues, TableOperator
from headwater.model.stores import KeyLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.nodes import Subtopology
    from headwater.model.operators.base import Operator
    from headwater.model.windows import Windowed
    from headwater.ports import VersionedStore
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
        self.group = group
        self._nodes = {node.name: node for node in group.nodes if isinstance(node, ProcessorNode)}
        self.environment = environment
        self.keep = keep

    def as_of(self) -> TablesAsOf:
        """Return the same tables, to look up what was valid at a time."""
        return TablesAsOf(self.group, self.environment, self.keep)

    def getter(self, name: str) -> Getter:
        """Return what finds values in the table of node ``name``.

        Raises:
            TopologyError: the sub-topology has no such table, or its store is missing.
        """
        node = self._nodes.get(name)
        if node is None or not isinstance(node.operator, TableOperator):
            raise TopologyError(f"node {name} is no table of this sub-topology")
        if node.operator.store is not None:
            return self._stored(node.operator.store)
        return derived_getter(node.operator, self, node)

    def _stored(self, name: str) -> Getter:
        get = self.environment.store(name).get
        match self.environment.kinds[name].key_layout:
            case KeyLayout.PLAIN | KeyLayout.VERSIONED:
                return get
            case KeyLayout.WINDOW:
                return lambda windowed: get((windowed.key, windowed.window.start_ms, 0))
            case KeyLayout.SESSION:
                return lambda windowed: _at_its_end(get, windowed)

    def is_versioned(self, name: str) -> bool:
        """Whether the table of node ``name`` knows the values of the past (KIP-914)."""
        node = self._nodes.get(name)
        operator = None if node is None else node.operator
        if node is None or not isinstance(operator, TableOperator):
            return False
        if operator.store is not None:
            return self.environment.kinds[operator.store].versioned
        is_derived = operator.old_values is OldValues.FROM_STORE_OR_PARENT
        return is_derived and self.is_versioned(node.parents[0])


class TablesAsOf(Tables):
    """The versioned tables of one task, whose getters find what was valid at ``time``.

    Attributes:
        time: set before each look-up, in milliseconds.
    """

    time = -1

    def getter(self, name: str) -> Getter:
        """Return what finds values in the table of node ``name``, as of ``time``."""
        operator = self._nodes[name].operator
        if not isinstance(operator, TableOperator) or operator.store is None:
            return super().getter(name)
        as_of = cast("VersionedStore", self.environment.store(operator.store)).get_as_of
        return lambda key: as_of(key, self.time)


def _at_its_end(get: Getter, session: Windowed[Any]) -> tuple[Any, int] | None:
    start, end = session.window
    found = get((session.key, end, start))
    return None if found is None else (found[0], end)


@singledispatch
def derived_getter(operator: Operator, tables: Tables, node: ProcessorNode) -> Getter:
    """Return what finds the values of a table that has no store.

    Raises:
        TopologyError: nobody has registered how.
    """
    del tables
    raise TopologyError(f"node {node.name}: {operator!r} has no store that could be read")
