"""What aggregations within windows have in common: their time, and how windows are forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.model.durations import LONG_MAX
from headwater.model.windows import Window, Windowed

if TYPE_CHECKING:
    from headwater.ports import Forward, Headers
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Late


_WINDOWS_KNOWN: Final = 1_000


class ObservedTime:
    """The largest timestamp that a node has seen, in milliseconds; -1 before the first.

    As in Kafka Streams it begins anew with the task.
    """

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = -1

    def init(self) -> None:
        """Begin."""

    def close(self) -> None:
        """End."""

    def renew(self) -> None:
        """Have seen nothing."""
        self.time = -1


def forward_windows(forward: Forward, size: int) -> Forward:
    """Return what forwards changes of ``(key, start, number)`` as those of windowed keys."""
    # Most changes are of few windows; and a NamedTuple's own constructor is slow.
    new = tuple.__new__
    known: dict[int, Window] = {}
    window_of = known.get

    def forward_window(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        part, start, _ = key
        window = window_of(start)
        if window is None:
            if len(known) >= _WINDOWS_KNOWN:
                known.clear()
            window = known[start] = new(Window, (start, min(start + size, LONG_MAX)))
        forward(new(Windowed, (part, window)), change, timestamp, headers)

    return forward_window


def forward_sliding_windows(forward: Forward, size: int) -> Forward:
    """Return the same as ``forward_windows`` for windows of which hardly any is seen again."""
    new = tuple.__new__

    def forward_window(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        part, start, _ = key
        window = new(Window, (start, min(start + size, LONG_MAX)))
        forward(new(Windowed, (part, window)), change, timestamp, headers)

    return forward_window


def forward_sessions(forward: Forward, *, with_headers: bool) -> Forward:
    """Return what forwards changes of ``(key, end, start)`` as those of sessions, at their ends.

    In Kafka Streams those that no record cache has kept back have no headers.
    """

    def forward_session(key: Any, change: Any, _timestamp: int, headers: Headers) -> None:
        end = key[1]
        session = Windowed(key[0], Window(key[2], end))
        forward(session, change, end, headers if with_headers else None)

    return forward_session


def shared_by_store(site: Site, store: str, forward: Forward) -> Forward:
    """Return ``forward``, or what another node with the same store forwards to, as in a cogroup."""
    found: Forward = site.environment.shared.setdefault(f"changes of {store}", forward)
    return found


def late_record(site: Site, closing_ms: int) -> Late:
    """Return a function that counts a late record, and says so in the log.

    Args:
        site: of the node.
        closing_ms: how far stream time is ahead of the windows that have closed.
    """
    return site.environment.skipping_late(f"node {site.node.name}", closing_ms)
