"""Operations without state on streams, ``split`` and its branches (KIP-418) among them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headwater.dsl.calls import Processor
from headwater.dsl.options import Branched, name_of
from headwater.dsl.origin import Drawn, Origin
from headwater.errors import TopologyError
from headwater.model.callables import check_function, check_functions
from headwater.model.naming import check_name
from headwater.model.operators.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.dsl.options import Named
    from headwater.dsl.stream import KStream
    from headwater.model.operators.base import KeyValueMapper, Operator

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


def select_key(origin: Origin, name: str | Named | None, mapper: KeyValueMapper) -> Origin:
    """Draw the choice of another key: what ``select_key`` and ``group_by`` begin with."""
    below = origin.processor("KSTREAM-KEY-SELECT-", name, SelectKey(mapper=mapper))
    return replace(below, key_serde=None, rekeyed=True)


class StatelessOfStream(Drawn[K, V]):
    """Operations of ``KStream`` that look at one record, and give any number of them."""

    __slots__ = ()

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is true."""
        check_function("filter()", predicate)
        return self._step("KSTREAM-FILTER-", name, Filter(predicate=predicate))

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is false."""
        check_function("filter_not()", predicate)
        return self._step("KSTREAM-FILTER-", name, Filter(predicate=predicate, negate=True))

    def map(
        self, mapper: Callable[[K, V], tuple[KR, VR]], *, name: str | Named | None = None
    ) -> KStream[KR, VR]:
        """Replace every record by the ``(key, value)`` that ``mapper(key, value)`` returns.

        The key may change, so what groups or joins by key below goes through a repartition topic.
        """
        check_function("map()", mapper)
        return self._rekeyed("KSTREAM-MAP-", name, Map(mapper=mapper))

    @overload
    def map_values(
        self, mapper: Callable[[V], VR], *, name: str | Named | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], VR],
        *,
        with_key: Literal[True],
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    def map_values(
        self, mapper: Callable[..., Any], *, with_key: bool = False, name: str | Named | None = None
    ) -> KStream[K, Any]:
        """Replace every value by ``mapper(value)``; the key stays.

        ``with_key`` calls ``mapper(key, value)``.
        """
        check_function("map_values()", mapper)
        return self._values("KSTREAM-MAPVALUES-", name, MapValues(mapper=mapper, with_key=with_key))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, name: str | Named | None = None
    ) -> KStream[KR, VR]:
        """Replace every record by all the ``(key, value)`` that ``mapper(key, value)`` returns.

        The key may change, so what groups or joins by key below goes through a repartition topic.
        """
        check_function("flat_map()", mapper, several=True)
        return self._rekeyed("KSTREAM-FLATMAP-", name, FlatMap(mapper=mapper))

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[VR]], *, name: str | Named | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(
        self,
        mapper: Callable[[K, V], Iterable[VR]],
        *,
        with_key: Literal[True],
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    def flat_map_values(
        self,
        mapper: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        name: str | Named | None = None,
    ) -> KStream[K, Any]:
        """Replace every value by all that ``mapper(value)`` returns; the key stays.

        ``with_key`` calls ``mapper(key, value)``.
        """
        check_function("flat_map_values()", mapper, several=True)
        return self._values(
            "KSTREAM-FLATMAPVALUES-", name, FlatMapValues(mapper=mapper, with_key=with_key)
        )

    def select_key(
        self, mapper: Callable[[K, V], KR], *, name: str | Named | None = None
    ) -> KStream[KR, V]:
        """Replace every key by ``mapper(key, value)``.

        What groups or joins by key below goes through a repartition topic.
        """
        check_function("select_key()", mapper)
        return select_key(self.origin, name, mapper).as_stream()

    def peek(
        self, action: Callable[[K, V], Any], *, name: str | Named | None = None
    ) -> KStream[K, V]:
        """Call ``action(key, value)`` for its effect and pass the record on.

        The effect may happen more than once.
        """
        check_function("peek()", action)
        return self._step("KSTREAM-PEEK-", name, Peek(action=action))

    def merge(self, other: KStream[K, V], *, name: str | Named | None = None) -> KStream[K, V]:
        """Interleave two streams in no certain order. The serdes of neither are inherited.

        Raises:
            TopologyError: ``other`` is no stream, or one of another builder.
        """
        mine = self.origin
        theirs = mine.partner("merge", other, "KStream")
        merged = mine.drawing.named(name_of(name), "KSTREAM-MERGE-")
        part = Processor(name=merged, operator=Merge())
        return Origin(
            drawing=mine.drawing,
            call=mine.drawing.draw(part, mine.call, theirs.call),
            key_serde=None,
            value_serde=None,
            rekeyed=mine.rekeyed or theirs.rekeyed,
        ).as_stream()

    def split(self, name: str | Named | None = None) -> BranchedKStream[K, V]:
        """Split the stream: each record goes to the first branch whose predicate holds.

        ``name`` is the prefix of the branches' names; without it ``KSTREAM-BRANCH-<number>``.
        """
        return BranchedKStream(self.origin, name_of(name))

    def for_each(self, action: Callable[[K, V], Any], *, name: str | Named | None = None) -> None:
        """Call ``action(key, value)`` for its effect; nothing follows.

        The effect may happen more than once.
        """
        check_function("for_each()", action)
        self._step("KSTREAM-FOREACH-", name, Peek(action=action, terminal=True))

    def print(
        self,
        *,
        label: str | None = None,
        mapper: Callable[[K, V], str] | None = None,
        path: str | None = None,
        name: str | Named | None = None,
    ) -> None:
        """Print a line for each record, to standard output or the file ``path``; nothing follows.

        The line is ``[label]: key, value``, or ``[label]: mapper(key, value)``.

        ``label`` is by default the name of the node that forwards the records.
        """
        check_functions("print()", optional=True, mapper=mapper)
        shown = self.origin.name if label is None else label
        self._step("KSTREAM-PRINTER-", name, Print(label=shown, mapper=mapper, path=path))

    def _step(self, prefix: str, name: str | Named | None, operator: Operator) -> KStream[K, V]:
        return self.origin.processor(prefix, name, operator).as_stream()

    def _values(self, prefix: str, name: str | Named | None, operator: Operator) -> KStream[K, Any]:
        return replace(self.origin.processor(prefix, name, operator), value_serde=None).as_stream()

    def _rekeyed(
        self, prefix: str, name: str | Named | None, operator: Operator
    ) -> KStream[Any, Any]:
        origin = self.origin.processor(prefix, name, operator)
        return replace(origin, key_serde=None, value_serde=None, rekeyed=True).as_stream()


class BranchedKStream(Drawn[K, V]):
    """The branches of one split, in the order in which their predicates are asked."""

    __slots__ = ("_closed", "_operator", "_outputs")

    def __init__(self, origin: Origin, name: str | None) -> None:
        self._operator = Branch(predicates=())
        super().__init__(origin.processor("KSTREAM-BRANCH-", name, self._operator))
        self._outputs: dict[str, KStream[K, V]] = {}
        self._closed = False

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records that no earlier branch took and ``predicate`` accepts.

        ``name`` is appended to the split's name, else the branch's number from 1. With ``chain``
        the result holds what ``chain(branch)`` returns, or nothing for ``None``.
        """
        check_function("branch()", predicate)
        asked = self._operator.predicates
        child = self._draw(self._settings(branched, name, chain), len(asked) + 1)
        self._become(replace(self._operator, predicates=(*asked, (predicate, child))))
        return self

    def default_branch(
        self,
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None,
    ) -> dict[str, KStream[K, V]]:
        """Add a branch for all other records and return the branches by full name.

        Its number is 0.
        """
        child = self._draw(self._settings(branched, name, chain), 0)
        self._become(replace(self._operator, default=child))
        return self.no_default_branch()

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop all other records and return the branches by full name."""
        self._closed = True
        return self._outputs

    @staticmethod
    def _settings(
        branched: Branched[K, V] | None,
        name: str | None,
        chain: Callable[[KStream[K, V]], KStream[K, V] | None] | None,
    ) -> Branched[K, V]:
        given = branched or Branched()
        return replace(given, name=name or given.name, chain=chain or given.chain)

    def _draw(self, settings: Branched[K, V], number: int) -> str:
        split = self.origin
        if self._closed:
            raise TopologyError(
                f"The split {split.name!r} is complete: call split() again for more branches"
            )
        suffix = str(number) if settings.name is None else settings.name
        child = check_name("branch", split.name + suffix)
        # Kafka Streams spends a number on every branch and does not use it.
        split.drawing.processor_name("")
        branch = split.below(Processor(name=child, operator=PassThrough())).as_stream()
        output = branch if settings.chain is None else settings.chain(branch)
        if output is not None:
            self._outputs[child] = output
        return child

    def _become(self, operator: Branch) -> None:
        self._operator = operator
        split = Processor(name=self.origin.name, operator=operator)
        self.origin.drawing.change(self.origin.call, split)
