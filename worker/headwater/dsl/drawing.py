"""Calls as they are drawn, and the one counter behind every generated name.

As Kafka's ``InternalStreamsBuilder``.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.dsl.calls import (
    Call,
    ForeignJoinedTable,
    JoinedTable,
    Processor,
    RepartitionNames,
    Table,
)
from headwater.model.naming import check_name

if TYPE_CHECKING:
    from headwater.dsl.calls import CallId, Calls, Part

REPARTITION_SUFFIX: Final = "-repartition"
_GENERATED_STORE: Final = re.compile(r".*-STATE-STORE-[0-9]{10}")
_GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")


class Drawing:
    """What one ``StreamsBuilder`` has drawn so far."""

    __slots__ = ("_calls", "_numbers")

    def __init__(self) -> None:
        self._calls: dict[CallId, Call] = {}
        self._numbers = itertools.count()

    # ---- names -------------------------------------------------------------------------------

    def processor_name(self, prefix: str) -> str:
        """Return ``<prefix><next number, 10 digits>``."""
        return f"{prefix}{next(self._numbers):010d}"

    def store_name(self, prefix: str) -> str:
        """Return ``<prefix>STATE-STORE-<next number, 10 digits>``."""
        return self.processor_name(f"{prefix}STATE-STORE-")

    def named(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Return ``name + suffix``, or a generated name.

        A number is spent either way, so that naming one operator does not rename the ones after it.
        """
        generated = self.processor_name(prefix)
        return generated if name is None else check_name("node", name) + suffix

    def repartition_names(self, base: str, *, is_given: bool) -> RepartitionNames:
        """Name a repartition after ``base``, which is a user's name or a generated one.

        Three numbers are spent even where no generated name is used.
        """
        topic = base if base.endswith(REPARTITION_SUFFIX) else base + REPARTITION_SUFFIX
        sink = self.processor_name("KSTREAM-SINK-")
        null_filter = self.processor_name("KSTREAM-FILTER-")
        source = self.processor_name("KSTREAM-SOURCE-")
        if _GENERATED.fullmatch(base) is None:
            sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return RepartitionNames(
            topic=topic, filter=null_filter, sink=sink, source=source, is_given=is_given
        )

    # ---- calls -------------------------------------------------------------------------------

    @property
    def calls(self) -> Calls:
        """All calls, in the order of drawing."""
        return tuple(self._calls.values())

    def name_of(self, call: CallId) -> str:
        """Return the name of the node that forwards what comes out of ``call``."""
        return self._calls[call].part.name

    def store_of(self, call: CallId) -> str | None:
        """Return the name that the store of a drawn table was given; ``None`` if none was.

        Of a joined table a generated name is told, too, as by ``KTable.queryableStoreName``.
        """
        part = self._calls[call].part
        if not isinstance(part, Table):
            return None
        if isinstance(part, JoinedTable | ForeignJoinedTable):
            return None if part.store is None else part.store.name
        # Not part.store: what is there in reserve is not used, and a cogroup has its store apart.
        name = part.operator.store
        return None if name is None or _GENERATED_STORE.fullmatch(name) else name

    def grace_ms(self, call: CallId) -> int | None:
        """Return the longest grace of the windows nearest to ``call`` and above; ``None``: none."""
        drawn = self._calls[call]
        part = drawn.part
        operator = part.operator if isinstance(part, Processor | Table) else None
        if operator is not None and operator.grace_period_ms is not None:
            return operator.grace_period_ms
        found = [self.grace_ms(parent) for parent in drawn.parents]
        return max((grace for grace in found if grace is not None), default=None)

    def draw(
        self,
        part: Part,
        *parents: CallId,
        reads: tuple[CallId, ...] = (),
        copartitioned: tuple[CallId, ...] = (),
    ) -> CallId:
        """Draw ``part`` below ``parents``; each of them counts once."""
        call = Call(
            id=len(self._calls),
            parents=tuple(dict.fromkeys(parents)),
            part=part,
            reads=tuple(dict.fromkeys(reads)),
            copartitioned=tuple(dict.fromkeys(copartitioned)),
        )
        self._calls[call.id] = call
        return call.id

    def draw_again(self, call: CallId) -> None:
        """Give ``call`` the last place in the order, as a graph node that is added twice has it."""
        self._calls[call] = self._calls.pop(call)

    def change(self, call: CallId, part: Part) -> None:
        """Let ``part`` stand where ``call`` was drawn."""
        self._calls[call] = replace(self._calls[call], part=part)
