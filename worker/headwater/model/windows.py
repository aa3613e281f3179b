"""Windows: what they are, how they are defined, which of them a record belongs to.

Kafka's ``TimeWindows``, ``SlidingWindows``, ``SessionWindows``, ``UnlimitedWindows`` and
``JoinWindows``. All times are in milliseconds since the epoch. Time windows include their start and
exclude their end; sliding and session windows include both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from headwater.errors import TopologyError
from headwater.model.durations import LONG_MAX, Duration, epoch_millis, millis

if TYPE_CHECKING:
    from datetime import datetime

K = TypeVar("K")


class Window(NamedTuple):
    """A span of time (Kafka's ``Window``)."""

    start_ms: int
    end_ms: int

    def __str__(self) -> str:
        return f"Window{{startMs={self.start_ms}, endMs={self.end_ms}}}"


class Windowed(NamedTuple, Generic[K]):
    """A key within a window (Kafka's ``Windowed``)."""

    key: K
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start_ms}/{self.window.end_ms}]"


class EmitStrategy(StrEnum):
    """When a windowed aggregation forwards results (KIP-825)."""

    ON_WINDOW_UPDATE = "on-window-update"
    ON_WINDOW_CLOSE = "on-window-close"

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Forward each update."""
        return cls.ON_WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Forward the final result, once stream time has passed the window's end and grace."""
        return cls.ON_WINDOW_CLOSE


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling windows, or hopping ones after ``advance_by``: ``[start, start + size)``.

    Starts are multiples of the advance.

    Attributes:
        size_ms: length of a window.
        advance_ms: from the start of a window to that of the next one.
        grace_ms: how late a record may be.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(
                f"TimeWindows: a size of {self.size_ms} ms holds no record: choose at least 1 ms"
            )
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"TimeWindows: an advance of {self.advance_ms} ms: choose at least 1 ms and at "
                f"most the size, {self.size_ms} ms"
            )
        _check_grace("TimeWindows", self.grace_ms)

    @classmethod
    def of(cls, *, size: Duration, advance: Duration | None = None, grace: Duration) -> TimeWindows:
        """Return windows of a size; tumbling ones without ``advance``.

        Raises:
            TopologyError: a duration is none, or out of range.
        """
        size_ms = millis("TimeWindows: size", size)
        advance_ms = size_ms if advance is None else millis("TimeWindows: advance", advance)
        return cls(size_ms, advance_ms, millis("TimeWindows: grace", grace))

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Return tumbling windows that take no late record."""
        return cls.of(size=size, grace=0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Return tumbling windows that take records up to ``grace`` after their end."""
        return cls.of(size=size, grace=grace)

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Return hopping windows, one every ``advance``."""
        return replace(self, advance_ms=millis("TimeWindows: advance", advance))

    def starts_for(self, timestamp: int) -> range:
        """Return the starts of all windows that hold ``timestamp``, ascending; none below 0."""
        advance = self.advance_ms
        first = max(0, timestamp - self.size_ms + advance) // advance * advance
        return range(first, timestamp + 1, advance)

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Return all windows that hold ``timestamp``, by their start (``Windows.windowsFor``)."""
        size = self.size_ms
        return {start: Window(start, start + size) for start in self.starts_for(timestamp)}


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """A single window without end (Kafka's ``UnlimitedWindows``).

    Attributes:
        start_ms: records before it belong to no window.
    """

    start_ms: int = 0

    def __post_init__(self) -> None:
        if self.start_ms < 0:
            raise TopologyError(
                f"UnlimitedWindows: a start of {self.start_ms} ms lies before the epoch: choose a "
                "later one"
            )

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Return the window that starts at the epoch."""
        return cls()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """Return the window that starts at ``start``: an aware datetime, or milliseconds.

        Raises:
            TopologyError: it is no time, or lies before the epoch.
        """
        return UnlimitedWindows(epoch_millis("UnlimitedWindows: start", start))

    @property
    def grace_ms(self) -> int:
        """There is none: the window never closes."""
        return 0

    @property
    def size_ms(self) -> int:
        """As much as there is."""
        return LONG_MAX

    def starts_for(self, timestamp: int) -> range:
        """Return the start of the window, if it holds ``timestamp``."""
        return range(self.start_ms, self.start_ms + (timestamp >= self.start_ms))

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Return the window, if it holds ``timestamp``, by its start."""
        return {start: Window(start, LONG_MAX) for start in self.starts_for(timestamp)}


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """A window for each distinct set of records at most ``time_difference`` apart (KIP-450).

    ``[start, start + time_difference]``, both ends included.

    Attributes:
        time_difference_ms: between the first and the last record of a window.
        grace_ms: how late a record may be.
    """

    time_difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.time_difference_ms < 0:
            raise TopologyError(
                f"SlidingWindows: a time difference of {self.time_difference_ms} ms is negative: "
                "choose 0 ms or more"
            )
        _check_grace("SlidingWindows", self.grace_ms)

    @classmethod
    def of(cls, *, time_difference: Duration, grace: Duration) -> SlidingWindows:
        """Return windows of a time difference.

        Raises:
            TopologyError: a duration is none, or negative.
        """
        return cls(
            millis("SlidingWindows: time_difference", time_difference),
            millis("SlidingWindows: grace", grace),
        )

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> SlidingWindows:
        """Return windows that take no late record."""
        return cls.of(time_difference=time_difference, grace=0)

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference: Duration, grace: Duration
    ) -> SlidingWindows:
        """Return windows that take records up to ``grace`` after their end."""
        return cls.of(time_difference=time_difference, grace=grace)


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions: records of a key that are at most ``inactivity_gap`` apart, both ends included.

    Attributes:
        inactivity_gap_ms: a longer silence ends a session.
        grace_ms: how late a record may be.
    """

    inactivity_gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.inactivity_gap_ms < 0:
            raise TopologyError(
                f"SessionWindows: an inactivity gap of {self.inactivity_gap_ms} ms is negative: "
                "choose 0 ms or more"
            )
        _check_grace("SessionWindows", self.grace_ms)

    @classmethod
    def of(cls, *, inactivity_gap: Duration, grace: Duration) -> SessionWindows:
        """Return sessions with a gap.

        Raises:
            TopologyError: a duration is none, or negative.
        """
        return cls(
            millis("SessionWindows: inactivity_gap", inactivity_gap),
            millis("SessionWindows: grace", grace),
        )

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: Duration) -> SessionWindows:
        """Return sessions that take no late record."""
        return cls.of(inactivity_gap=inactivity_gap, grace=0)

    @classmethod
    def of_inactivity_gap_and_grace(
        cls, inactivity_gap: Duration, grace: Duration
    ) -> SessionWindows:
        """Return sessions that take records up to ``grace`` after their end."""
        return cls.of(inactivity_gap=inactivity_gap, grace=grace)


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Which records of two streams are joined: those of the other side from before to after.

    Attributes:
        before_ms: how much earlier the other side's record may be; may be negative.
        after_ms: how much later it may be; may be negative.
        grace_ms: how late a record may be.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms < 0:
            raise TopologyError(
                f"JoinWindows: {self.before_ms} ms before and {self.after_ms} ms after span less "
                "than nothing: choose larger ones"
            )
        _check_grace("JoinWindows", self.grace_ms)

    @classmethod
    def of(cls, *, before: Duration, after: Duration, grace: Duration) -> JoinWindows:
        """Return the span around a record in which it is joined.

        Raises:
            TopologyError: a duration is none, or the span is negative.
        """
        return cls(
            millis("JoinWindows: before", before),
            millis("JoinWindows: after", after),
            millis("JoinWindows: grace", grace),
        )

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> JoinWindows:
        """Return the same span before and after; no late record is joined without a partner."""
        return cls.of(before=time_difference, after=time_difference, grace=0)

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference: Duration, grace: Duration
    ) -> JoinWindows:
        """Return the same span before and after, with a grace period."""
        return cls.of(before=time_difference, after=time_difference, grace=grace)

    def before(self, time_difference: Duration) -> JoinWindows:
        """Return these windows with another span before."""
        return replace(self, before_ms=millis("JoinWindows: before", time_difference))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Return these windows with another span after."""
        return replace(self, after_ms=millis("JoinWindows: after", time_difference))

    @property
    def size_ms(self) -> int:
        """Before and after together."""
        return self.before_ms + self.after_ms


Windows: TypeAlias = TimeWindows | UnlimitedWindows
"""Windows that lie where they lie, whatever the records are (Kafka's ``Windows``)."""


def _check_grace(what: str, grace_ms: int) -> None:
    if grace_ms < 0:
        raise TopologyError(f"{what}: a grace of {grace_ms} ms is negative: choose 0 ms or more")
