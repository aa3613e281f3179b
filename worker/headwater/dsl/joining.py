"""``KStream.join`` and its kin: with a table, a global table, or another stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from headwater.dsl.calls import Repartition
from headwater.dsl.global_table import GlobalKTable
from headwater.dsl.join import METHODS, join_with_table
from headwater.dsl.options import Joined, JoinedOptions, StreamJoined, StreamJoinedOptions, changed
from headwater.dsl.origin import Drawn
from headwater.dsl.stream_join import join_streams
from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.operators.join import Join

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.calls import CallId
    from headwater.dsl.options import Named
    from headwater.dsl.origin import Origin
    from headwater.dsl.stream import KStream
    from headwater.dsl.table import KTable
    from headwater.model.windows import JoinWindows
    from headwater.serde.base import Serde

K = TypeVar("K")
KG = TypeVar("KG")
V = TypeVar("V")
VO = TypeVar("VO")
VR = TypeVar("VR")


class JoinOfStream(Drawn[K, V]):
    """``KStream.join``, ``left_join`` and ``outer_join``."""

    __slots__ = ("_repartitioned",)

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin)
        self._repartitioned: CallId | None = None

    @overload
    def join(
        self,
        table: KTable[K, VO],
        /,
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        **options: Unpack[JoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: KTable[K, VO],
        /,
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        **options: Unpack[JoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VO],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VO], VR],
        /,
        *,
        with_key: Literal[False] = False,
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VO],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VO], VR],
        /,
        *,
        with_key: Literal[True],
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    def join(
        self, other: Any, /, *given: Any, with_key: bool = False, **options: Any
    ) -> KStream[K, Any]:
        """Join each record with what a table holds for its key, or with records of a stream.

        With a table the result is ``joiner(value, found)``; a record is dropped if the table holds
        nothing. Only the stream's records give results; the table is read as it is when they are
        processed. Keywords are those of :class:`Joined`.

        With a stream there is a result ``joiner(value, other)`` for each two records of a key whose
        timestamps lie within ``windows`` of each other; its time is the later one. Keywords are
        those of :class:`StreamJoined`.

        ``with_key`` calls ``joiner(key, value, found)``. A record without key or value is dropped
        and counted. What is joined needs equal partition counts.

        ``join(global_table, key_selector, joiner)`` looks up ``key_selector(key, value)`` in a
        :class:`GlobalKTable`. The record keeps its key. It is dropped and counted if it has no
        value or that key is ``None``.

        Raises:
            TopologyError: the two are of two builders, or ``windows`` are none.
        """
        return self._join(Join.INNER, other, *given, with_key=with_key, **options)

    @overload
    def left_join(
        self,
        table: KTable[K, VO],
        /,
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        **options: Unpack[JoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: KTable[K, VO],
        /,
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        **options: Unpack[JoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VO],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VO | None], VR],
        /,
        *,
        with_key: Literal[False] = False,
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VO],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VO | None], VR],
        /,
        *,
        with_key: Literal[True],
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    def left_join(
        self, other: Any, /, *given: Any, with_key: bool = False, **options: Any
    ) -> KStream[K, Any]:
        """Join as :meth:`join`; ``joiner`` gets ``None`` where a record finds nothing.

        With a stream, a record has that result once its window has passed, grace included, which a
        later record of either stream tells. A record without a key finds nothing (KIP-962), nor
        does one without a key for a global table; one without a value is dropped and counted.

        Raises:
            TopologyError: as :meth:`join`.
        """
        return self._join(Join.LEFT, other, *given, with_key=with_key, **options)

    @overload
    def outer_join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        stream: KStream[K, VO],
        /,
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        settings: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        **options: Unpack[StreamJoinedOptions[K, V, VO]],
    ) -> KStream[K, VR]: ...
    def outer_join(
        self, other: Any, /, *given: Any, with_key: bool = False, **options: Any
    ) -> KStream[K, Any]:
        """Join as :meth:`left_join` with a stream; records of either side may find nothing.

        Raises:
            TopologyError: as :meth:`join`.
        """
        return self._join(Join.OUTER, other, *given, with_key=with_key, **options)

    def _join(
        self, kind: Join, other: Any, *given: Any, with_key: bool, **options: Any
    ) -> KStream[K, Any]:
        if isinstance(other, JoinOfStream):
            return self._join_stream(kind, other, *given, with_key=with_key, **options)
        if kind is Join.OUTER:
            raise TopologyError(
                "a stream has no outer join with a table: use left_join(), or to_table() and an "
                "outer join of two tables"
            )
        left = kind is Join.LEFT
        if isinstance(other, GlobalKTable):
            return other.joined_with(
                self.origin, *given, left=left, with_key=with_key, **options
            ).as_stream()
        return self._join_table(other, *given, left=left, with_key=with_key, **options)

    def _join_stream(
        self,
        kind: Join,
        other: JoinOfStream[K, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        settings: StreamJoined[K, V, Any] | None = None,
        *,
        with_key: bool,
        **options: Any,
    ) -> KStream[K, Any]:
        check_function(f"{METHODS[kind]}()", joiner)
        self.origin.partner(METHODS[kind], other, "KStream")
        chosen = changed(StreamJoined, settings, options)
        name, keys = chosen.name, chosen.key_serde
        left = self._keyed(None if name is None else f"{name}-left", keys, chosen.value_serde)
        right = other._keyed(
            None if name is None else f"{name}-right", keys, chosen.other_value_serde
        )
        joined = join_streams(kind, left, right, joiner, windows, chosen, with_key=with_key)
        return joined.as_stream()

    def _join_table(
        self,
        table: KTable[K, Any],
        joiner: Callable[..., Any],
        joined: Joined[K, V, Any] | None = None,
        *,
        left: bool,
        with_key: bool,
        **options: Any,
    ) -> KStream[K, Any]:
        verb = "left_join" if left else "join"
        right = self.origin.partner(verb, table, "KTable")
        check_function(f"{verb}()", joiner)
        settings = changed(Joined, joined, options)
        origin = self._keyed(settings.name, settings.key_serde, settings.value_serde)
        return join_with_table(
            origin, right, joiner, settings, left=left, with_key=with_key
        ).as_stream()

    def _keyed(
        self,
        name: str | None,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> Origin:
        """Go through a repartition topic if the key may have changed.

        Joins without a name share one; its numbers are spent each time (``repartitionForJoin``).
        """
        origin = self.origin
        if not origin.rekeyed:
            return origin
        base = name or origin.name
        part = Repartition(
            names=origin.drawing.repartition_names(base, is_given=name is not None),
            key_serde=key_serde or origin.key_serde,
            value_serde=value_serde or origin.value_serde,
            mergeable=True,
        )
        if self._repartitioned is None or base != origin.name:
            self._repartitioned = origin.drawing.draw(part, origin.call)
        return replace(
            origin,
            call=self._repartitioned,
            key_serde=part.key_serde,
            value_serde=part.value_serde,
            rekeyed=False,
        )
