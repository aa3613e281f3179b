"""How long a person at a terminal is left waiting for what the control loop goes on trying.

A control loop that nobody watches never gives up what time may cure: a topic may be created, a
broker may come back, a foreign member may leave. ``headwater up`` ends after a while and says why.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater import errors
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.appstatus import AppStatus, Failure

_GIVEN_UP: Final = (
    errors.KafkaUnavailableError,
    errors.StoreLockedError,
    errors.StoreCorruptedError,
)
"""When a worker ends with one of these it has tried for as long as it was told to."""

_PATIENCE_S: Final[tuple[tuple[type[errors.HeadwaterError], float | None], ...]] = (
    (errors.KafkaAuthError, 0.0),
    # Only a person can end what a backfill has left.
    (errors.BackfillError, 0.0),
    # Only a person can say that a state may be lost.
    (errors.ChangelogLostError, 0.0),
    # Only a person can ask for other offsets.
    (errors.ResetError, 0.0),
    # A broker that has just started does not know all its topics yet.
    (errors.TopicError, 10.0),
    # A Java application is a member for up to 45 s after its end.
    (errors.GroupInUseError, 90.0),
    # The thread is replaced, and tries again.
    (errors.FunctionHangsError, None),
    # The workers wait for brokers, for as long as task.timeout.ms says.
    (errors.KafkaUnavailableError, None),
    (errors.HeadwaterError, 120.0),
)


class Patience:
    """Remembers since when the failure of each application stands.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._standing: dict[str, tuple[str, float]] = {}

    def is_over(self, app: str, status: AppStatus) -> bool:
        """Whether the failure in ``status`` has stood for too long; to be asked again and again."""
        failure = status.failure
        if failure is None or status.state is ClientState.RUNNING:
            self._standing.pop(app, None)
            return False
        error, since = self._standing.get(app, ("", 0.0))
        if error != failure.error:
            since = self._clock()
            self._standing[app] = (failure.error, since)
        limit_s = patience_s(failure)
        return limit_s is not None and self._clock() - since >= limit_s


def patience_s(failure: Failure) -> float | None:
    """Return how long a failure may stand; ``None``: for ever."""
    kind = getattr(errors, failure.error, errors.HeadwaterError)
    if failure.worker and issubclass(kind, _GIVEN_UP):
        return 0.0
    return next(limit_s for of, limit_s in _PATIENCE_S if issubclass(kind, of))
