"""Where a source without a committed offset starts (Kafka's ``AutoOffsetReset``, KIP-1106)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Self

from headwater.errors import TopologyError
from headwater.model.durations import millis

if TYPE_CHECKING:
    from headwater.model.durations import Duration

_BY_DURATION: Final = "by_duration:"
_ISO: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


class OffsetReset(str):
    """Where a source without a committed offset starts, as a value of ``auto.offset.reset``.

    ``OffsetReset(text)`` takes ``earliest``, ``latest``, ``none`` and ``by_duration:PT1H``, with an
    ISO-8601 duration; equal policies are equal texts. As in Java there is a function for each.

    Raises:
        TopologyError: the text is no policy.
    """

    __slots__ = ()

    EARLIEST: ClassVar[OffsetReset]
    """The first record there is."""
    LATEST: ClassVar[OffsetReset]
    """The end: what comes from now on."""
    NONE: ClassVar[OffsetReset]
    """Nowhere: a missing offset stops the application."""

    def __new__(cls, policy: str) -> Self:
        """Check ``policy``, and write its duration as Java does."""
        text = policy.strip()
        if text in {"earliest", "latest", "none"}:
            return super().__new__(cls, text)
        duration_ms = None
        if text.startswith(_BY_DURATION):
            duration_ms = parsed_duration(text.removeprefix(_BY_DURATION))
        if duration_ms is None:
            raise TopologyError(
                f"{policy!r} is no offset reset policy: it is one of earliest, latest, none, or "
                "by_duration: with a duration that is not negative, such as by_duration:PT1H30M"
            )
        return super().__new__(cls, f"{_BY_DURATION}{iso_duration(duration_ms)}")

    @classmethod
    def earliest(cls) -> OffsetReset:
        """Start at the first record there is."""
        return cls.EARLIEST

    @classmethod
    def latest(cls) -> OffsetReset:
        """Start at the end."""
        return cls.LATEST

    @classmethod
    def none(cls) -> OffsetReset:
        """Stop the application instead."""
        return cls.NONE

    @classmethod
    def by_duration(cls, duration: Duration) -> OffsetReset:
        """Start at the first record that is not older than ``duration``; if there is none, the end.

        Args:
            duration: a ``timedelta`` or whole milliseconds, not negative.

        Raises:
            TopologyError: it is no duration, or negative.
        """
        duration_ms = millis("the duration of an offset reset", duration)
        if duration_ms < 0:
            raise TopologyError(f"an offset reset by duration looks back, not by {duration_ms} ms")
        return cls(f"{_BY_DURATION}{iso_duration(duration_ms)}")

    @property
    def duration_ms(self) -> int | None:
        """How far it looks back, in milliseconds; ``None`` if it does not."""
        return (
            parsed_duration(self.removeprefix(_BY_DURATION))
            if self.startswith(_BY_DURATION)
            else None
        )


OffsetReset.EARLIEST = OffsetReset("earliest")
OffsetReset.LATEST = OffsetReset("latest")
OffsetReset.NONE = OffsetReset("none")

AutoOffsetReset = OffsetReset
"""Java's name for it."""


def parsed_duration(text: str) -> int | None:
    """Return an ISO-8601 duration in milliseconds, or ``None`` if it is none."""
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    seconds, _, fraction = (match["seconds"] or "0").replace(",", ".").partition(".")
    whole_ms = days * _DAY_MS + hours * _HOUR_MS + minutes * _MINUTE_MS + int(seconds) * _SECOND_MS
    return whole_ms + int(fraction[:3].ljust(3, "0"))


def iso_duration(duration_ms: int) -> str:
    """Write a duration as ``java.time.Duration`` does."""
    hours, rest = divmod(duration_ms, _HOUR_MS)
    minutes, rest = divmod(rest, _MINUTE_MS)
    seconds, milliseconds = divmod(rest, _SECOND_MS)
    fraction = f".{milliseconds:03d}".rstrip("0") if milliseconds else ""
    parts = [
        f"{hours}H" if hours else "",
        f"{minutes}M" if minutes else "",
        f"{seconds}{fraction}S" if rest else "",
    ]
    return f"PT{''.join(parts) or '0S'}"
