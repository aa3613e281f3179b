"""Aggregations of streams within windows: time, sliding and session windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.operators.base import WindowedOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.windows import SessionWindows, SlidingWindows, Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindowAggregate(WindowedOperator):
    """TimeWindowedKStream.count / reduce / aggregate (Kafka's ``KStreamWindowAggregate``)."""

    windows: Windows

    @property
    def grace_period_ms(self) -> int:
        """How late a record may be."""
        return self.windows.grace_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowAggregate(WindowedOperator):
    """The same of sliding windows (Kafka's ``KStreamSlidingWindowAggregate``)."""

    windows: SlidingWindows

    @property
    def grace_period_ms(self) -> int:
        """How late a record may be."""
        return self.windows.grace_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindowAggregate(WindowedOperator):
    """SessionWindowedKStream.count / reduce / aggregate (``KStreamSessionWindowAggregate``).

    ``merger(key, one, two)`` makes one aggregate of two sessions.
    """

    windows: SessionWindows
    merger: Callable[[Any, Any, Any], Any]

    @property
    def grace_period_ms(self) -> int:
        """How long after its end a session may change."""
        return self.windows.grace_ms + self.windows.inactivity_gap_ms
