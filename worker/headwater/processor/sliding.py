"""Sliding windows (KIP-450): one for each distinct set of records that are close enough.

Kafka's ``KStreamSlidingWindowAggregate``. A window is as long as the time difference, both ends
included. A record has a *left* window, which ends with it, and a *right* window, which begins a
millisecond after it and is made once it holds something. A window's stored timestamp is that of its
latest record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.windows import EmitStrategy
from headwater.processor.emission import Emission
from headwater.processor.operators.aggregate import first_or
from headwater.processor.windowed import (
    ObservedTime,
    forward_sliding_windows,
    late_record,
    shared_by_store,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from headwater.model.operators.window import SlidingWindowAggregate
    from headwater.ports import Forward, Headers, TimedStore
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Late
    from headwater.processor.failures import Fail

    Found: TypeAlias = "tuple[Any, int]"
    """An aggregate and the time of its latest record."""


def sliding_windows_of(operator: SlidingWindowAggregate, site: Site, failed: Fail) -> Forward:
    """Return what a record of sliding windows does.

    A null key or value is dropped, and so is a record that is too late for all its windows.

    Args:
        operator: the aggregation.
        site: of its node.
        failed: asked about what user code raises.
    """
    store = cast("TimedStore", site.store(operator.store))
    is_final = operator.emit is EmitStrategy.ON_WINDOW_CLOSE
    difference, grace = operator.windows.time_difference_ms, operator.windows.grace_ms
    to = forward_sliding_windows(site.children.forward, difference)
    to = shared_by_store(site, store.name, to)
    store.on_change(None if is_final else to, send_old=operator.send_old)
    late = late_record(site, grace)
    slide = _Sliding(operator, store, None if is_final or store.caching else to, late)
    seen = site.keep_resident(ObservedTime())
    drop = site.environment.skipping(f"node {site.node.name}", "record due to null key or value")
    final = None
    if is_final:
        emission = Emission.of_sliding_windows(operator.windows, store, to, site)
        final = site.keep_resident(emission).after

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop()
            return
        seen.time = max(seen.time, timestamp)
        closed = seen.time - grace
        if timestamp + difference < closed:
            late(timestamp, f"[{timestamp},{timestamp + difference}]", closed)
            return
        try:
            slide.process(key, value, timestamp, headers, closed)
        except Exception as error:
            failed(error, key, value, timestamp, headers)
            return
        # Kafka Streams does not look at what has closed after a record so early.
        if final is not None and timestamp >= difference:
            final(closed, headers)

    return process


class _Sliding:
    """What one record changes, in Kafka Streams' order."""

    def __init__(
        self,
        operator: SlidingWindowAggregate,
        store: TimedStore,
        forward: Forward | None,
        late: Late,
    ) -> None:
        self.late = late
        self.store, self.append = store, store.append
        self.difference = operator.windows.time_difference_ms
        self.initializer = operator.initializer
        step = operator.aggregator
        self.step = step if operator.initializer else first_or(step)
        self.send_old = operator.send_old
        self.forward = forward

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        """Update the windows that hold a record, and make those that it needs."""
        update = _Update(self, key, value, timestamp, headers, closed)
        if timestamp < self.difference:
            update.early()
        else:
            update.usual()

    def initial(self) -> Any:
        """Return a new aggregate."""
        return None if self.initializer is None else self.initializer()


class _Update:
    """One record under way."""

    __slots__ = ("closed", "headers", "key", "of", "timestamp", "value")

    def __init__(
        self, of: _Sliding, key: Any, value: Any, timestamp: int, headers: Headers, closed: int
    ) -> None:
        self.of = of
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.closed = closed

    def usual(self) -> None:
        """Read the windows that are near, latest first, as far as it takes."""
        at, difference = self.timestamp, self.of.difference
        starts: set[int] = set()
        left: Found | None = None
        right: Found | None = None
        has_left = has_right = False
        previous: int | None = None
        near = self.of.store.fetch(self.key, at - 2 * difference, at + 1, reverse=True)
        for start, _, held, latest in near:
            starts.add(start)
            end = start + difference
            if start == at + 1:
                has_right = True
            elif end > at:
                if right is None:
                    right = held, latest
                self._fold(start, held, latest)
            elif end == at:
                has_left = True
                self._fold(start, held, latest)
                if latest >= at:
                    return
                previous = latest
            else:
                left = held, latest
                previous = latest
                break
        if previous is not None:
            after = previous + 1
            if after not in starts and after + difference >= at:
                self._fold(after, self.of.initial(), at)
        if not has_left:
            is_near = previous is not None and at - difference <= previous and left is not None
            self._fold(at - difference, left[0] if is_near and left else self.of.initial(), at)
        if not has_right:
            self._make_right(right)

    def early(self) -> None:
        """Use one window from 0 on for all records that have no whole left window."""
        at = self.timestamp
        starts: set[int] = set()
        combined: Found | None = None
        right: Found | None = None
        has_right = False
        previous: int | None = None
        for start, _, held, latest in self.of.store.fetch(self.key, 0, at + 1):
            starts.add(start)
            if start == 0:
                combined = held, latest
                if latest < at:
                    previous = latest
            elif start <= at:
                right = held, latest
                self._fold(start, held, latest)
            else:
                has_right = True
        if right is None and combined is not None and combined[1] > at:
            right = combined
        if not has_right:
            self._make_right(right)
        if previous is not None and previous + 1 not in starts:
            self._fold(previous + 1, self.of.initial(), at)
        if combined is None:
            self._fold(0, self.of.initial(), at)
        else:
            self._fold(0, *combined)

    def _make_right(self, right: Found | None) -> None:
        """Make the record's right window, if something lies in it."""
        if right is None or right[1] <= self.timestamp:
            return
        of, start = self.of, self.timestamp + 1
        of.append(self.key, start, *right, self.headers)
        if of.forward is not None:
            of.forward((self.key, start, 0), (right[0], None), right[1], self.headers)

    def _fold(self, start: int, held: Any, latest: int) -> None:
        """Add the record to a window, unless that has closed."""
        of, key, timestamp = self.of, self.key, self.timestamp
        if start + of.difference < self.closed:
            of.late(timestamp, f"[{start},{start + of.difference}]", self.closed)
            return
        new = of.step(key, self.value, held)
        if held is None or latest < timestamp:
            latest = timestamp
        of.append(key, start, new, timestamp if new is None else latest, self.headers)
        forward = of.forward
        if forward is not None:
            change = (new, held if of.send_old else None)
            forward((key, start, 0), change, latest, self.headers)
