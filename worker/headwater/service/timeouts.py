"""How long a program waits for what it asks of an application."""

from __future__ import annotations

from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING

from headwater.errors import ConfigError, TopologyError
from headwater.model.durations import millis

if TYPE_CHECKING:
    from headwater.model.durations import Duration


def patience_s(what: str, given: Duration | None) -> float | None:
    """Return how many seconds to wait at most; ``None`` for as long as it takes.

    Args:
        what: names it in errors.
        given: a ``timedelta`` or whole milliseconds.

    Raises:
        ConfigError: it is no duration, or a negative one, as Java's ``KafkaStreams.close`` refuses.
    """
    if given is None:
        return None
    try:
        found = millis(what, given)
    except TopologyError as error:
        raise ConfigError(str(error)) from None
    if found < 0:
        raise ConfigError(f"{what} is {given!r}: it cannot be negative")
    return min(found / 1_000, TIMEOUT_MAX)
