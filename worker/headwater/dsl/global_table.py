"""Global tables, of which every task reads the whole, and joins of streams with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.dsl.options import name_of
from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.operators.global_table import StreamGlobalTableJoin

if TYPE_CHECKING:
    from headwater.dsl.drawing import Drawing
    from headwater.dsl.options import Named
    from headwater.dsl.origin import Origin

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """A table whose every row is at hand in every task (KIP-99).

    A stream joins it by any key: neither equal partition counts nor a repartition topic are needed.
    It is read as it is when a record is processed, without regard to times.
    """

    __slots__ = ("_drawing", "_is_named", "_store")

    def __init__(self, drawing: Drawing, store: str, *, is_named: bool) -> None:
        self._drawing = drawing
        self._store = store
        self._is_named = is_named

    def queryable_store_name(self) -> str | None:
        """Return the name that the table's store was given; ``None`` if it was given none."""
        return self._store if self._is_named else None

    def joined_with(
        self,
        origin: Origin,
        key_selector: Any,
        joiner: Any,
        *,
        left: bool,
        with_key: bool,
        name: str | Named | None = None,
    ) -> Origin:
        """Draw the join of a stream with this table below it (Kafka's ``globalTableJoin``).

        The name is prefixed as that of a left join in both kinds, as in Kafka Streams.

        Raises:
            TopologyError: stream and table are of two builders, or a function is none.
        """
        verb = "left_join()" if left else "join()"
        check_function(f"{verb}, key_selector", key_selector)
        check_function(verb, joiner)
        if origin.drawing is not self._drawing:
            raise TopologyError(
                f"Cannot join {origin.name!r} with global table {self._store!r}, which is of "
                "another builder: build both with one StreamsBuilder"
            )
        operator = StreamGlobalTableJoin(
            store=self._store,
            key_selector=key_selector,
            joiner=joiner,
            left=left,
            with_key=with_key,
        )
        below = origin.processor("KSTREAM-LEFTJOIN-", name_of(name), operator)
        return replace(below, value_serde=None)
