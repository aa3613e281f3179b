"""The executors of a query on Kubernetes: whether any has come or gone since the query began.

Each has a disk of its own, with the state partitions that it has made: nobody else can read them.
So a query lives as long as its executors are the same. It is begun anew without those that have
gone, whose tasks Spark would wait for, and with those that have come, which Spark would leave idle.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headwater.spark.turns.query import explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_LOOK_S: Final = 1.0


class Crew:
    """The executors that a query began with.

    Args:
        look: returns those that are there.
        now_s: a clock that never goes back.
    """

    def __init__(
        self, look: Callable[[], frozenset[str]], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._now_s = now_s
        self._known = look()
        self._next_s = now_s() + _LOOK_S
        self.has_lost = False
        """Some of them have gone."""
        self.has_grown = False
        """Others have come."""

    def is_another(self) -> bool:
        """Look, if it is time; return whether the query is to be begun anew."""
        if self._now_s() >= self._next_s:
            self._next_s = self._now_s() + _LOOK_S
            there = self._look()
            self.has_lost = bool(self._known - there)
            self.has_grown = bool(there - self._known)
        return self.has_lost or self.has_grown


def crew_of(session: SparkSession) -> Crew | None:
    """Return the executors of a session; ``None`` if they are not pods, which share no disk.

    Raises:
        TurnsFailedError: Spark is gone; a look raises it, too.
    """
    context: Any = session.sparkContext
    if not str(context.master).startswith("k8s:"):
        return None

    def look() -> frozenset[str]:
        with explained("a look at its executors"):
            scala = context._jsc.sc()  # noqa: SLF001 - not offered
            found = scala.statusTracker().getExecutorInfos()
            return frozenset(f"{each.host()}:{each.port()}" for each in found)

    return Crew(look)
