"""The StreamApp's ``spec.assignment.moveWindows``: when tasks may move for balance alone.

    {days: [Sat, Sun], start: "02:00", end: "05:00", timeZone: Europe/Berlin}

A window opens on each of its days at ``start`` and closes at the next ``end``, by the clocks of its
time zone. Times here are whole minutes since 1970, in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from headwater.model.fields import meta

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TIME: Final = meta(
    pattern="([01][0-9]|2[0-3]):[0-5][0-9]", meaning="a time of day such as 02:30", max_length=5
)
_DAYS_AHEAD: Final = 8
"""Within so many days each window opens."""


class Weekday(StrEnum):
    """A day of the week, in the order of ``datetime.date.weekday``."""

    MONDAY = "Mon"
    TUESDAY = "Tue"
    WEDNESDAY = "Wed"
    THURSDAY = "Thu"
    FRIDAY = "Fri"
    SATURDAY = "Sat"
    SUNDAY = "Sun"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveWindow:
    """A time, again and again, in which tasks may move for balance.

    Attributes:
        days: on which it opens; left out: every day.
        start: when it opens, by the clocks of the time zone.
        end: when it closes, at the latest a day later. The same as start: after a whole day.
        time_zone: a name of the time-zone database, such as Europe/Berlin.
    """

    days: tuple[Weekday, ...] = field(default=(), metadata=meta(unique=True, max_items=7))
    start: str = field(metadata=_TIME)
    end: str = field(metadata=_TIME)
    time_zone: str = field(
        default="UTC",
        metadata=meta(
            pattern="[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*",
            meaning="a time zone such as Europe/Berlin",
            max_length=64,
        ),
    )


def unknown_zone(windows: Sequence[MoveWindow]) -> str:
    """Return what is wrong with the time zones; empty if all are known here."""
    for number, window in enumerate(windows):
        try:
            _zone(window.time_zone)
        except (KeyError, ValueError, OSError):
            return (
                f"spec.assignment.moveWindows[{number}].timeZone: {window.time_zone!r} is not in "
                "the time-zone database; write a name such as Europe/Berlin, or UTC"
            )
    return ""


def may_move(windows: Sequence[MoveWindow], minute: int) -> bool:
    """Return whether tasks may move for balance: a window is open, or there is none.

    Args:
        windows: of the StreamApp; their time zones are known.
        minute: now.
    """
    if not windows:
        return True
    return any(
        opens <= minute < closes
        for window in windows
        for opens, closes in _openings(window, minute)
    )


def next_opening(windows: Sequence[MoveWindow], minute: int) -> int:
    """Return when the next window opens.

    Args:
        windows: at least one.
        minute: now; no window is open.
    """
    return min(
        opens for window in windows for opens, closes in _openings(window, minute) if opens > minute
    )


def shown(minute: int) -> str:
    """Return a minute as RFC 3339 writes it."""
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _openings(window: MoveWindow, minute: int) -> Iterator[tuple[int, int]]:
    """Yield when a window opens and closes, from what may be open now on; for a week."""
    zone = _zone(window.time_zone)
    today = datetime.fromtimestamp(minute * 60, zone).date()
    start, end = time.fromisoformat(window.start), time.fromisoformat(window.end)
    lasts_over_midnight = end <= start
    for ahead in range(-2, _DAYS_AHEAD + 1):
        day = today + timedelta(days=ahead)
        if not window.days or list(Weekday)[day.weekday()] in window.days:
            last = day + timedelta(days=int(lasts_over_midnight))
            yield _minute(day, start, zone), _minute(last, end, zone)


def _minute(day: date, at: time, zone: tzinfo) -> int:
    return int(datetime.combine(day, at, zone).timestamp()) // 60


@cache
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
