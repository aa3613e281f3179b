"""``KTable.suppress``: names, buffer, and the grace of the windows above (Kafka's ``suppress``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headwater.dsl.calls import SuppressedTable
from headwater.dsl.origin import Drawn
from headwater.errors import TopologyError
from headwater.model.operators.suppress import TableSuppress
from headwater.model.stores import StoreKind, StoreSpec
from headwater.model.suppression import Suppressed

if TYPE_CHECKING:
    from headwater.dsl.table import KTable

K = TypeVar("K")
V = TypeVar("V")

_PREFIX = "KTABLE-SUPPRESS-"


class SuppressOfTable(Drawn[K, V]):
    """``KTable.suppress``."""

    __slots__ = ()

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Keep updates back, so that of several of a key only the last one goes on.

        They wait in memory, in the order of the first update of each key. See :class:`Suppressed`.
        Only newer records of the same task let them go: stream time stands still without.

        Raises:
            TopologyError: ``until_window_closes`` of a table that has no windows.
        """
        given: object = suppressed
        if not isinstance(given, Suppressed):
            raise TopologyError(
                f"suppress(): {given!r:.100} says nothing; pass Suppressed.until_time_limit(...) "
                "or Suppressed.until_window_closes(...)"
            )
        origin, drawing = self.origin, self.origin.drawing
        named = suppressed.name
        name = drawing.processor_name(_PREFIX) if named is None else named
        of_window = suppressed.limit_ms is None
        duration = self._grace(name) if suppressed.limit_ms is None else suppressed.limit_ms
        buffer = drawing.store_name(_PREFIX) if named is None else f"{named}-store"
        bounds = suppressed.buffer
        part = SuppressedTable(
            name=name,
            operator=TableSuppress(
                buffer=buffer, duration_ms=duration, of_window=of_window, bounds=bounds
            ),
            buffer=StoreSpec(
                name=buffer,
                kind=StoreKind.SUPPRESSION_BUFFER,
                persistent=False,
                key_serde=origin.key_serde,
                value_serde=origin.value_serde,
                caching=False,
                logging=bounds.logging,
                topic_config=dict(bounds.topic_config),
            ),
        )
        return origin.below(part).as_table()

    def _grace(self, name: str) -> int:
        """Return how long windows stay open: the longest of those nearest above, in milliseconds.

        Kafka's ``GraphGraceSearchUtil``.
        """
        grace = self.origin.drawing.grace_ms(self.origin.call)
        if grace is None:
            raise TopologyError(
                f"suppress() {name!r}: the table has no windows that could close; take "
                "Suppressed.until_time_limit(...), or windowed_by(...) above"
            )
        return grace
