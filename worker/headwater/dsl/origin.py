"""What streams, tables and groups know of themselves while a topology is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from headwater.dsl.calls import Processor
from headwater.dsl.options import name_of
from headwater.errors import TopologyError

if TYPE_CHECKING:
    from headwater.dsl.calls import CallId, Part, Repartition
    from headwater.dsl.drawing import Drawing
    from headwater.dsl.options import Named
    from headwater.dsl.stream import KStream
    from headwater.dsl.table import KTable
    from headwater.model.operators.base import Operator
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where records come from.

    Attributes:
        drawing: the builder's.
        call: what follows is drawn below it.
        key_serde: inherited by what follows; ``None`` when the key may have changed its type.
        value_serde: likewise for values.
        rekeyed: the key may have changed since the records were last partitioned.
    """

    drawing: Drawing
    call: CallId
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    rekeyed: bool = False

    @property
    def name(self) -> str:
        """The name of the topology node that forwards the records."""
        return self.drawing.name_of(self.call)

    def partner(self, verb: str, other: Any, wanted: Partner) -> Origin:
        """Return the origin of ``other``, which is to be connected with this one.

        Args:
            verb: what was asked for, as the method is called.
            other: what was given.
            wanted: the class that ``other`` has to be of.

        Raises:
            TopologyError: it is of another class, or of another builder.
        """
        kind: Any = _kind(wanted)
        if not isinstance(other, kind):
            said = "None" if other is None else f"a {type(other).__name__}"
            raise TopologyError(
                f"Cannot {verb.replace('_', ' ')} {self.name!r} with {said}: {verb}() takes a "
                f"{wanted} here. {_WAYS_OUT[wanted]}"
            )
        theirs: Origin = other.origin
        self._check_one_builder(verb, theirs)
        return theirs

    def _check_one_builder(self, verb: str, other: Origin) -> None:
        if self.drawing is not other.drawing:
            raise TopologyError(
                f"Cannot {verb.replace('_', ' ')} {self.name!r} with {other.name!r}, which is of "
                "another builder: build both with one StreamsBuilder"
            )

    def below(self, part: Part) -> Origin:
        """Draw ``part`` below and return where its records come from; serdes are inherited."""
        return replace(self, call=self.drawing.draw(part, self.call))

    def processor(self, prefix: str, name: str | Named | None, operator: Operator) -> Origin:
        """Draw a processor below, called ``name`` or ``<prefix><number>``."""
        chosen = self.drawing.named(name_of(name), prefix)
        return self.below(Processor(name=chosen, operator=operator))

    def through(self, part: Repartition) -> Origin:
        """Draw a repartition below; what follows inherits its serdes."""
        return self.keep(part, part.key_serde, part.value_serde)

    def keep(
        self, part: Part, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None
    ) -> Origin:
        """Draw ``part`` below; what follows is partitioned by key and has these serdes."""
        return replace(
            self.below(part), key_serde=key_serde, value_serde=value_serde, rekeyed=False
        )

    # Streams make tables and tables streams; only here do the imports go in a circle.

    def as_stream(self) -> KStream[Any, Any]:
        """Return the stream of the records."""
        from headwater.dsl.stream import KStream  # noqa: PLC0415 - see above

        return KStream(self)

    def as_table(self) -> KTable[Any, Any]:
        """Return the table that the records update."""
        from headwater.dsl.table import KTable  # noqa: PLC0415 - see above

        return KTable(self)


Partner: TypeAlias = Literal["KStream", "KTable", "KGroupedStream"]
"""What a stream or a table is connected with."""

_WAYS_OUT: Final[dict[Partner, str]] = {
    "KStream": "A table becomes a stream by to_stream()",
    "KTable": "A stream becomes a table by to_table()",
    "KGroupedStream": "A stream is grouped by group_by_key() or group_by()",
}


def _kind(name: Partner) -> type:
    from headwater.dsl import aggregate, stream, table  # noqa: PLC0415 - as in as_stream

    kinds: dict[Partner, type] = {
        "KStream": stream.KStream,
        "KTable": table.KTable,
        "KGroupedStream": aggregate.KGroupedStream,
    }
    return kinds[name]


class Drawn(Generic[K, V]):
    """What has been drawn and can be drawn on: the base of streams, tables and groups.

    Each family of operators has a subclass with its methods; ``KStream`` and ``KTable`` are made
    of these.
    """

    __slots__ = ("origin",)

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
