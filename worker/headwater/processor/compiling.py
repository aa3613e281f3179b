"""From a processor node to what it writes into its chain: one compiler per operator, by its type.

``operators`` has a module for every family of ``model.operators``; each registers a compiler for
every operator of its family:

    @compile_operator.register(Peek)
    def compile_peek(operator: Peek, site: Site) -> Emit: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Protocol, TypeVar

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.nodes import ProcessorNode
    from headwater.model.operators.base import Operator
    from headwater.ports import KeyValueStore
    from headwater.processor.code import Emit
    from headwater.processor.environment import Environment
    from headwater.processor.failures import Fail
    from headwater.processor.getters import Tables
    from headwater.processor.routing import Children


class Resident(Protocol):
    """What a node keeps for as long as its task is open: a user's processor, a printed file."""

    def init(self) -> None:
        """Begin; the residents of the nodes above have begun."""
        ...

    def close(self) -> None:
        """End; the residents of the nodes above have ended."""
        ...

    def renew(self) -> None:
        """Start over, as after an aborted transaction; ``init`` comes next."""
        ...


R = TypeVar("R", bound=Resident)


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where an operator is compiled: its node in one task, and what lies around it."""

    node: ProcessorNode
    environment: Environment
    fail: Fail
    """What to call with an exception of the user's code at this node."""
    tables: Tables
    """The tables of the task, to look values up in."""
    compile_children: Callable[[], Children]
    keep: Callable[[Resident], None]
    """Registers what is to be initialised, closed and renewed with the task."""

    @cached_property
    def children(self) -> Children:
        """The children as functions; not asked for by what only adds lines to its chain."""
        return self.compile_children()

    def keep_resident(self, resident: R) -> R:
        """Register what is to be initialised, closed and renewed with the task; return it."""
        self.keep(resident)
        return resident

    def store(self, name: str) -> KeyValueStore:
        """Return the store ``name``.

        Raises:
            TopologyError: the sub-topology has no such store.
        """
        return self.environment.store(name)


@singledispatch
def compile_operator(operator: Operator, site: Site) -> Emit:
    """Return what writes ``operator`` into the chain of its node.

    Raises:
        TopologyError: nobody has registered a compiler for it.
    """
    raise TopologyError(f"node {site.node.name}: no engine knows {operator!r}")
