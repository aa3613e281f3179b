"""Joins: a stream with a table (Kafka's ``doStreamTableJoin``), two tables by key (``doJoin``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack, overload

from headwater.dsl.calls import JoinedTable, Processor
from headwater.dsl.foreign import join_by_foreign_key
from headwater.dsl.options import Materialized, name_of
from headwater.dsl.origin import Drawn
from headwater.dsl.stored import given, store_spec
from headwater.model.callables import check_function
from headwater.model.durations import millis
from headwater.model.operators.join import Join, StreamTableJoin, TableJoin
from headwater.model.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.dsl.options import (
        ForeignJoinOptions,
        Joined,
        MaterializedOptions,
        Named,
        TableJoined,
    )
    from headwater.dsl.origin import Origin
    from headwater.dsl.table import KTable
    from headwater.model.durations import Duration
    from headwater.serde.base import Serde

K = TypeVar("K")
KO = TypeVar("KO")
V = TypeVar("V")
VO = TypeVar("VO")
VR = TypeVar("VR")


def join_with_table(
    origin: Origin,
    table: Origin,
    joiner: Callable[..., Any],
    settings: Joined[Any, Any, Any],
    *,
    left: bool,
    with_key: bool,
) -> Origin:
    """Draw the join of a stream, which is partitioned as the table, and return what follows."""
    drawing, prefix = origin.drawing, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-"
    operator = StreamTableJoin(table=table.name, joiner=joiner, with_key=with_key, left=left)
    part = Processor(name=drawing.named(settings.name, prefix), operator=operator)
    if settings.grace is not None:
        key_serde = settings.key_serde or origin.key_serde
        value_serde = settings.value_serde or origin.value_serde
        part = _with_buffer(part, operator, settings.grace, key_serde, value_serde)
    call = drawing.draw(
        part, origin.call, reads=(table.call,), copartitioned=(origin.call, table.call)
    )
    return replace(
        origin,
        call=call,
        key_serde=settings.key_serde or origin.key_serde,
        value_serde=None,
        rekeyed=False,
    )


def _with_buffer(
    part: Processor,
    operator: StreamTableJoin,
    grace: Duration,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
) -> Processor:
    """Let records wait in a store."""
    name = f"{part.name}-Buffer"
    buffer = StoreSpec(
        name=name,
        kind=StoreKind.JOIN_BUFFER,
        key_serde=key_serde,
        value_serde=value_serde,
        caching=False,
    )
    waits = replace(
        operator, buffer=name, grace_ms=millis("Joined: grace", grace), key_serde=key_serde
    )
    return replace(part, operator=waits, stores=(buffer,))


class JoinOfTable(Drawn[K, V]):
    """``KTable.join``, ``left_join`` and ``outer_join``."""

    __slots__ = ()

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        foreign_key: Callable[[V], KO | None],
        joiner: Callable[[V, VO], VR],
        *settings: TableJoined[K, KO] | Materialized[K, VR] | None,
        with_key: Literal[False] = False,
        **options: Unpack[ForeignJoinOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        foreign_key: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO], VR],
        *settings: TableJoined[K, KO] | Materialized[K, VR] | None,
        with_key: Literal[True],
        **options: Unpack[ForeignJoinOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    def join(self, other: KTable[Any, Any], *given: Any, **options: Any) -> KTable[K, Any]:
        """Make a table of ``joiner(value, other)`` for the keys that both tables hold.

        With ``foreign_key`` before the joiner: for the keys of this table, with what the other one
        holds for ``foreign_key(value)`` (KIP-213). ``with_key`` calls ``foreign_key(key, value)``.
        A row whose foreign key is ``None`` has no result, and is counted as dropped.

        Updates of either table give results; their time is the later one of both sides. By foreign
        key they come a little later, through two internal topics.

        Keywords are those of :class:`Materialized`, by foreign key those of :class:`TableJoined`,
        too. Both tables need equal partition counts, unless they are joined by foreign key.

        Raises:
            TopologyError: ``other`` is no table, or one of another builder.
        """
        if _has_foreign_key(given, options):
            return self._join_by_foreign_key(Join.INNER, other, *given, **options)
        return self._join(Join.INNER, other, *given, **options)

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        foreign_key: Callable[[V], KO | None],
        joiner: Callable[[V, VO | None], VR],
        *settings: TableJoined[K, KO] | Materialized[K, VR] | None,
        with_key: Literal[False] = False,
        **options: Unpack[ForeignJoinOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        foreign_key: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO | None], VR],
        *settings: TableJoined[K, KO] | Materialized[K, VR] | None,
        with_key: Literal[True],
        **options: Unpack[ForeignJoinOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    def left_join(self, other: KTable[Any, Any], *given: Any, **options: Any) -> KTable[K, Any]:
        """Make a table of ``joiner(value, other)`` for every key that this table holds.

        ``other`` is ``None`` where the other table holds nothing, or the foreign key is ``None``.
        See :meth:`join`.
        """
        if _has_foreign_key(given, options):
            return self._join_by_foreign_key(Join.LEFT, other, *given, **options)
        return self._join(Join.LEFT, other, *given, **options)

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]:
        """Make a table of ``joiner(value, other)`` for every key that one of the tables holds.

        What a table does not hold is ``None``. See :meth:`join`.
        """
        return self._join(Join.OUTER, other, joiner, materialized, name=name, **options)

    def _join_by_foreign_key(
        self,
        kind: Join,
        other: KTable[Any, Any],
        foreign_key: Callable[..., Any],
        joiner: Callable[[Any, Any], Any],
        *settings: TableJoined[K, Any] | Materialized[K, Any] | None,
        **options: Any,
    ) -> KTable[K, Any]:
        right = self.origin.partner(METHODS[kind], other, "KTable")
        left = kind is Join.LEFT
        return join_by_foreign_key(
            self.origin, right, foreign_key, joiner, *settings, of_left=left, **options
        ).as_table()

    def _join(
        self,
        kind: Join,
        other: KTable[K, Any],
        joiner: Callable[[Any, Any], Any],
        materialized: Materialized[K, Any] | None = None,
        *,
        name: str | Named | None = None,
        **options: Any,
    ) -> KTable[K, Any]:
        settings = given(materialized, options)
        check_function(f"{METHODS[kind]}()", joiner)
        left = self.origin
        right = left.partner(METHODS[kind], other, "KTable")
        drawing, chosen = left.drawing, name_of(name)
        # Unlike what a filter makes, the result is stored also under a generated name.
        store = None
        if settings is not None:
            store = settings.store or drawing.store_name("KTABLE-MERGE-")
            settings = replace(settings, key_serde=settings.key_serde or left.key_serde)
        tables = (left.call, right.call)
        part = JoinedTable(
            name=drawing.named(chosen, "KTABLE-MERGE-"),
            this_name=drawing.named(chosen, "KTABLE-JOINTHIS-", "-join-this"),
            other_name=drawing.named(chosen, "KTABLE-JOINOTHER-", "-join-other"),
            operator=TableJoin(
                kind=kind, left=left.name, right=right.name, joiner=joiner, store=store
            ),
            store=None if store is None or settings is None else store_spec(store, settings),
        )
        return replace(
            left,
            call=drawing.draw(part, *tables, reads=tables, copartitioned=tables),
            key_serde=left.key_serde if settings is None else settings.key_serde,
            value_serde=None if settings is None else settings.value_serde,
        ).as_table()


def _has_foreign_key(given: Sequence[object], options: Mapping[str, object]) -> bool:
    """Whether two functions are given, the first of which extracts a foreign key."""
    functions = sum(callable(each) for each in given[:2]) + ("joiner" in options)
    return functions == 2 or "foreign_key" in options


METHODS: Final = {Join.INNER: "join", Join.LEFT: "left_join", Join.OUTER: "outer_join"}
"""What each kind is called in Python."""
