"""Forwards the final results of windows that have closed (KIP-825).

As in Kafka Streams the store is looked at once a second at most, by the wall clock, and only when
stream time has moved. How far it was looked at is committed with the offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.windows import SessionWindows, SlidingWindows, TimeWindows
    from headwater.ports import Forward, Headers, TimedStore
    from headwater.processor.compiling import Site

NEVER: Final = -1


class Emission:
    """What has been emitted of one node in one task.

    Args:
        store: of the windows.
        forward: where final results go, with their keys and times.
        site: of the node.
        first: from the time of closing up to which all was emitted (-1: never) to the first time.
        last: from the time of closing to the last time that is to be emitted.
    """

    def __init__(
        self,
        store: TimedStore,
        forward: Forward,
        site: Site,
        first: Callable[[int], int],
        last: Callable[[int], int],
    ) -> None:
        self._store = store
        self._forward = forward
        self._first = first
        self._last = last
        environment = site.environment
        self._now_ms = environment.clock.now_ms
        self._metadata = environment.processor_metadata
        self._interval_ms = environment.config.windows_emit_interval_ms
        self._next_ms = 0
        self._emitted = NEVER
        self._measures = environment.measures
        self._told = environment.measures.final_emissions(site.node.name)

    @classmethod
    def of_time_windows(
        cls, windows: TimeWindows, store: TimedStore, forward: Forward, site: Site
    ) -> Emission:
        """Return what emits time windows."""
        size = windows.size_ms
        return cls(
            store,
            forward,
            site,
            lambda emitted: 0 if emitted == NEVER else max(0, emitted - size) + 1,
            lambda closed: closed - size,
        )

    @classmethod
    def of_sliding_windows(
        cls, windows: SlidingWindows, store: TimedStore, forward: Forward, site: Site
    ) -> Emission:
        """Return what emits sliding windows."""
        difference = windows.time_difference_ms
        return cls(
            store,
            forward,
            site,
            lambda emitted: 0 if emitted == NEVER else max(0, emitted - difference),
            lambda closed: closed - difference - 1,
        )

    @classmethod
    def of_sessions(
        cls, windows: SessionWindows, store: TimedStore, forward: Forward, site: Site
    ) -> Emission:
        """Return what emits sessions, by their ends."""
        del windows
        return cls(
            store,
            forward,
            site,
            lambda emitted: max(0, emitted),
            lambda closed: closed - 1,
        )

    def init(self) -> None:
        """Go on where the task's committed metadata says."""
        self._emitted = self._metadata.get(self._store.name, NEVER)

    def close(self) -> None:
        """End."""

    def renew(self) -> None:
        """Have emitted nothing yet, in this life of the task."""
        self._emitted = NEVER
        self._next_ms = 0

    def after(self, closed: int, headers: Headers) -> None:
        """Forward what has closed, after a record.

        Args:
            closed: windows that end before, or at, this time are closed; see the node.
            headers: of the record.
        """
        now_ms = self._now_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        if self._emitted != NEVER and self._emitted >= closed:
            return
        last = self._last(closed)
        if last < 0:
            return
        first = self._first(self._emitted)
        forward = self._forward
        started = self._measures.now_ns()
        found = [] if first > last else self._store.fetch_closed(first, last)
        for key, time, other, value, timestamp in found:
            forward((key, time, other), (value, None), timestamp, headers)
        if self._told is not None:
            self._told(len(found), self._measures.now_ns() - started)
        self._emitted = closed
        self._metadata[self._store.name] = closed
