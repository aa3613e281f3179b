"""Durations and times as users write them: ``timedelta`` or ``datetime``, or whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from headwater.errors import TopologyError

Duration: TypeAlias = timedelta | int
"""A ``timedelta``, or whole milliseconds."""
LONG_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def millis(what: str, given: Duration) -> int:
    """Return a duration in milliseconds; what is finer is cut off, as in Java.

    Args:
        what: names it in errors.
        given: the duration.

    Raises:
        TopologyError: it is no duration, or too long for 64 bits.
    """
    found: object = given
    if isinstance(given, timedelta):
        # Towards zero, as Java's Duration.toMillis.
        found = given // _MILLISECOND if given >= timedelta() else -(-given // _MILLISECOND)
    if not isinstance(found, int) or isinstance(found, bool):
        raise TopologyError(
            f"{what} is {given!r}: pass a timedelta, such as timedelta(minutes=5), or whole "
            "milliseconds"
        )
    if abs(found) > LONG_MAX:
        raise TopologyError(f"{what} of {found} ms does not fit in 64 bits: choose a shorter one")
    return found


def epoch_millis(what: str, given: datetime | int) -> int:
    """Return a time in milliseconds since the epoch.

    Args:
        what: names it in errors.
        given: an aware ``datetime``, or milliseconds since the epoch.

    Raises:
        TopologyError: it is no time, or a ``datetime`` without a time zone.
    """
    found: object = given
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise TopologyError(f"{what} is {given!r}, without a time zone: add tzinfo=UTC")
        found = (given - _EPOCH) // _MILLISECOND
    if not isinstance(found, int) or isinstance(found, bool):
        raise TopologyError(
            f"{what} is {given!r}: pass an aware datetime, or milliseconds since the epoch"
        )
    return found
