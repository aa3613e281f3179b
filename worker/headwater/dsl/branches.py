"""``KStream.split``: branches and what becomes of them (KIP-418)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.dsl import stream
from headwater.dsl.graph import ProcessorGraph
from headwater.dsl.options import Branched
from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.naming import check_name
from headwater.model.operators.stateless import Branch, PassThrough

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.base import Predicate

K = TypeVar("K")
V = TypeVar("V")


class BranchedKStream(Generic[K, V]):
    """The branches of one split, in the order in which their predicates are asked."""

    __slots__ = ("_branches", "_closed", "_default", "_node", "_outputs", "_prefix", "_source")

    def __init__(self, source: stream.KStream[K, V], name: str | None) -> None:
        graph = source.origin.graph
        self._source = source
        self._prefix = graph.named(name, "KSTREAM-BRANCH-")
        self._branches: list[tuple[Predicate, str]] = []
        self._default: str | None = None
        self._outputs: dict[str, stream.KStream[Any, Any]] = {}
        self._closed = False
        self._node = ProcessorGraph(
            self._prefix, lambda: Branch(predicates=tuple(self._branches), default=self._default)
        )
        graph.add(self._node, source.origin.node)

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        chain: Callable[[stream.KStream[K, V]], stream.KStream[Any, Any] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records that no earlier branch took and ``predicate`` accepts.

        ``name`` is appended to the split's name, else the branch's number from 1. With ``chain``
        the result holds what ``chain(branch)`` returns, or nothing for ``None``.
        """
        check_function("branch()", predicate)
        child = self._draw(self._settings(branched, name, chain), len(self._branches) + 1)
        self._branches.append((predicate, child))
        return self

    def default_branch(
        self,
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        chain: Callable[[stream.KStream[K, V]], stream.KStream[Any, Any] | None] | None = None,
    ) -> dict[str, stream.KStream[Any, Any]]:
        """Add a branch for all other records and return the branches by full name.

        Its number is 0.
        """
        self._default = self._draw(self._settings(branched, name, chain), 0)
        return self.no_default_branch()

    def no_default_branch(self) -> dict[str, stream.KStream[Any, Any]]:
        """Drop all other records and return the branches by full name."""
        self._closed = True
        return self._outputs

    @staticmethod
    def _settings(
        branched: Branched[K, V] | None,
        name: str | None,
        chain: Callable[[stream.KStream[K, V]], stream.KStream[Any, Any] | None] | None,
    ) -> Branched[K, V]:
        given = branched or Branched()
        return replace(given, name=name or given.name, chain=chain or given.chain)

    def _draw(self, settings: Branched[K, V], number: int) -> str:
        if self._closed:
            raise TopologyError(
                f"The split {self._prefix!r} is complete: call split() again for more branches"
            )
        suffix = str(number) if settings.name is None else settings.name
        child = check_name("branch", self._prefix + suffix)
        origin = self._source.origin
        # Kafka Streams spends a number on every branch and does not use it.
        origin.graph.processor_name("")
        node = ProcessorGraph(child, PassThrough)
        origin.graph.add(node, self._node)
        below = stream.KStream[K, V](replace(origin, node=node, name=child))
        output = below if settings.chain is None else settings.chain(below)
        if output is not None:
            self._outputs[child] = output
        return child
