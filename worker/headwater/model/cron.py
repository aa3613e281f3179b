"""Times that come again, as cron writes them: ``0 8 * * 1-5`` is eight o'clock on weekdays, in UTC.

Five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). Each is
``*``, a number, a range ``a-b``, either with a step ``/n``, or several of these joined by commas.
As in cron, a day counts if one of its two fields fits, unless one of them is ``*``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from headwater.errors import SpecError

_PART: Final = r"(\*|[0-9]{1,2}(-[0-9]{1,2})?)(/[0-9]{1,2})?"
_FIELD: Final = rf"{_PART}(,{_PART})*"
PATTERN: Final = rf"{_FIELD}( {_FIELD}){{4}}"
"""What an expression looks like; the ranges of its numbers are checked by :func:`parse`."""
MEANING: Final = (
    "five fields of cron joined by single spaces: minute, hour, day of the month, month, day of "
    "the week, such as '0 8 * * 1-5'"
)

_NAMES: Final = ("minute", "hour", "day of the month", "month", "day of the week")
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_DAYS: Final = 8 * 366
"""A 29 February is at most eight years after the one before."""
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_MINUTES_PER_DAY: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Cron:
    """Times that come again.

    Attributes:
        times: minutes of the day, ascending.
        days: of the month.
        months: of the year.
        weekdays: 0 is Sunday.
        is_either: whether a day counts if only one of ``days`` and ``weekdays`` fits.
    """

    times: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either: bool

    def last(self, minute: int) -> int | None:
        """Return the last time that is not after ``minute``; ``None`` if there is none for years.

        Args:
            minute: since 1970, in UTC.
        """
        today, so_far = divmod(minute, _MINUTES_PER_DAY)
        if self.has(today) and (found := [time for time in self.times if time <= so_far]):
            return today * _MINUTES_PER_DAY + found[-1]
        before = _last_day(self, today - 1)
        return None if before is None else before * _MINUTES_PER_DAY + self.times[-1]

    def has(self, number: int) -> bool:
        """Whether a day counts.

        Args:
            number: of the day, since 1970.
        """
        day = date.fromordinal(_FIRST_DAY + number)
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.is_either else of_month and of_week


@lru_cache(maxsize=256)
def _last_day(cron: Cron, number: int) -> int | None:
    """Return the last day that counts and is not after a day; one that never comes is far away."""
    return next((each for each in range(number, number - _DAYS, -1) if cron.has(each)), None)


@lru_cache(maxsize=256)
def parse(text: str) -> Cron:
    """Read an expression.

    Raises:
        SpecError: it is none, or a number is out of range.
    """
    if not re.fullmatch(PATTERN, text):
        raise SpecError(f"expected {MEANING}, got {text!r}")
    parts = text.split(" ")
    minutes, hours, days, months, weekdays = (
        _values(part, name, *bounds)
        for part, name, bounds in zip(parts, _NAMES, _RANGES, strict=True)
    )
    return Cron(
        times=tuple(sorted(hour * 60 + minute for hour in hours for minute in minutes)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        is_either=not parts[2].startswith("*") and not parts[4].startswith("*"),
    )


def _values(field: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else int(first)
        high = most if first == "*" or (step and not last) else int(last or first)
        by = int(step or 1)
        if not least <= low <= high <= most or by == 0:
            raise SpecError(
                f"{part!r} is no {name}: write numbers from {least} to {most}, the smaller first"
            )
        found |= set(range(low, high + 1, by))
    return frozenset(found)
