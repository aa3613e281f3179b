"""Callbacks by time: a schedule per callback, driven by stream time or by the wall clock.

A stream-time schedule starts at time 0, so it fires at the first stream time that is known; a
wall-clock one starts an interval from now. When a schedule fires late, the multiples it missed are
skipped: it fires once. What is due at the same time is called in Java's order.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.durations import epoch_millis, millis
from headwater.model.processor_api import PunctuationType
from headwater.processor.priority import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from headwater.model.durations import Duration
    from headwater.processor.environment import Current
    from headwater.processor.failures import Failures


def _nobody() -> None:
    """Whoever drives the task asks each time whether something is due."""


def check_schedule(
    place: str,
    interval: Duration,
    kind: object,
    callback: object,
    start: datetime | int | None,
) -> tuple[int, int | None]:
    """Return interval and start in milliseconds, after a look at what was asked for.

    Args:
        place: where, for errors.
        interval: a ``timedelta`` or whole milliseconds.
        kind: which time drives it.
        callback: what is to be called.
        start: when to fire first, if that was said.

    Raises:
        TopologyError: one of them has the wrong type.
        ValueError: the interval is not positive, or the start negative.
    """
    check_function(place, callback)
    if not isinstance(kind, PunctuationType):
        raise TopologyError(
            f"{place}: the kind is {kind!r}: pass PunctuationType.STREAM_TIME or "
            "PunctuationType.WALL_CLOCK_TIME"
        )
    interval_ms = millis(f"{place}: the interval", interval)
    if interval_ms < 1:
        raise ValueError(f"{place}: a punctuation interval is at least 1 ms, not {interval_ms}")
    start_ms = None if start is None else epoch_millis(f"{place}: the start", start)
    if start_ms is not None and start_ms < 0:
        raise ValueError(f"{place}: a punctuation cannot start at {start_ms}")
    return interval_ms, start_ms


class Schedule:
    """One callback and when it is due (Kafka's ``PunctuationSchedule``); also what cancels it."""

    __slots__ = ("callback", "cancelled", "due", "interval", "node")

    def __init__(self, node: str, due: int, interval: int, callback: Callable[[int], None]) -> None:
        self.node = node
        self.due = due
        self.interval = interval
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Never fire again."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Move to the first multiple of the interval after ``now``."""
        following = self.due + self.interval
        if now >= following:
            following = self.due + ((now - self.due) // self.interval + 1) * self.interval
        self.due = following


class Punctuations:
    """The schedules of one task.

    Attributes:
        told: called when a task that had no schedule gets one.
    """

    def __init__(self, current: Current) -> None:
        self._current = current
        self.told: Callable[[], object] = _nobody
        self._stream = _queue()
        self._wall = _queue()
        self.is_any = False
        """Something was scheduled since the last ``clear``."""

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        now_ms: int,
        start_ms: int | None = None,
    ) -> Schedule:
        """Add a schedule.

        Args:
            node: whose callback it is.
            interval_ms: at least 1, as ``check_schedule`` has it.
            kind: which time drives it.
            callback: called with the current time of that kind.
            now_ms: wall-clock time.
            start_ms: when to fire first (KIP-1146); by default 0 for stream time,
                ``now + interval`` for the wall clock. A start that has passed is moved on by
                whole intervals.
        """
        if not self.is_any:
            self.is_any = True
            self.told()
        if kind is PunctuationType.STREAM_TIME:
            schedule = Schedule(node, start_ms or 0, interval_ms, callback)
            self._stream.push(schedule)
            return schedule
        schedule = Schedule(node, now_ms + interval_ms, interval_ms, callback)
        if start_ms is not None:
            schedule.due = start_ms
            if start_ms < now_ms:
                schedule.advance(now_ms)
        self._wall.push(schedule)
        return schedule

    def fire_stream_time(self, stream_time: int, failures: Failures) -> int:
        """Call what is due; return how many callbacks were called.

        Args:
            stream_time: -1 while it is unknown: nothing fires.
            failures: asks the processing handler when a callback raises.
        """
        return self._fire(self._stream, stream_time, failures) if stream_time >= 0 else 0

    def fire_wall_clock(self, now_ms: int, failures: Failures) -> int:
        """Call what is due at ``now_ms``; return how many callbacks were called."""
        return self._fire(self._wall, now_ms, failures)

    def _fire(self, schedules: PriorityQueue[Schedule], now: int, failures: Failures) -> int:
        current = self._current
        fired = 0
        while schedules and schedules.items[0].due <= now:
            schedule = schedules.pop()
            if schedule.cancelled:
                continue
            current.leave()
            current.timestamp = now
            try:
                schedule.callback(now)
            except Exception as error:
                failures.punctuation_failed(schedule.node, error)
            fired += 1
            if not schedule.cancelled:
                schedule.advance(now)
                schedules.push(schedule)
        return fired

    def clear(self) -> None:
        """Forget every schedule."""
        self.is_any = False
        self._stream.items.clear()
        self._wall.items.clear()


def _queue() -> PriorityQueue[Schedule]:
    return PriorityQueue(attrgetter("due"))
