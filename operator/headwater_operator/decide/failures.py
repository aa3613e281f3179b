"""Which failures end an application, and which ones time or another start may cure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater import errors
from headwater.errors import HeadwaterError
from headwater.model.appstatus import Failure
from headwater_operator.decide.limits import RESTARTS_MAX

if TYPE_CHECKING:
    from headwater_operator.decide.judge import Judged

_FINAL: Final = (
    errors.UserError,
    errors.RecordError,
    errors.TopicError,
    errors.KafkaAuthError,
    errors.GroupInUseError,
    errors.OffsetsExpiredError,
    errors.ChangelogLostError,
    errors.InstanceRunningError,
    errors.StoreFormatError,
    errors.DiskFullError,
)
"""Another start would end in the same way: somebody has to do something first."""

_PASSING: Final = (
    errors.BackfillUnfinishedError,
    errors.EngineError,
    errors.ImportTimeoutError,
    errors.KafkaUnavailableError,
    errors.FencedError,
    # Spark's driver looks before it begins; workers are told by the control loop, which looks.
    errors.GroupInUseError,
    errors.FunctionHangsError,
    errors.StoreLockedError,
    errors.StoreCorruptedError,
)
"""Another start may find it gone, however often it was tried before."""


def worker_failure(worker: Judged) -> Failure | None:
    """Return why a worker cannot go on, if its process of this run has said so.

    What a process said before this run of the control loop is not held against the next one.
    """
    error = worker.status.error
    if error is None or worker.status.incarnation != worker.memory.heard:
        return None
    return Failure(
        error=error.error,
        message=error.message,
        worker=worker.name,
        is_final=error.shuts_down_application
        or is_final(error.error, early_deaths=worker.memory.early_deaths),
    )


def hang_failure(worker: Judged) -> Failure | None:
    """Return that functions of the user's do not return, and where; they are tried again."""
    if not worker.is_live or not worker.status.hangs:
        return None
    hang = max(worker.status.hangs, key=lambda hang: hang.times)
    more = len(worker.status.hangs) - 1
    others = f", and {more} other task{'s' if more > 1 else ''} likewise" if more else ""
    times = "once" if hang.times == 1 else f"{hang.times} times in a row"
    message = (
        f"a function has not returned within max.poll.interval.ms, {times}: {hang.place}{others}. "
        "Its thread was replaced and tries the record again; give the function a time-out, or "
        "raise consumer.max.poll.interval.ms"
    )
    return Failure(error=errors.FunctionHangsError.__name__, message=message, worker=worker.name)


def is_final(error: str, *, early_deaths: int) -> bool:
    """Tell whether an application is given up.

    Args:
        error: a class name; of ``headwater.errors`` or of an exception nobody expected.
        early_deaths: how often in a row its worker ended soon after its start.
    """
    kind = getattr(errors, error, None)
    if not isinstance(kind, type) or not issubclass(kind, HeadwaterError):
        return early_deaths >= RESTARTS_MAX
    if issubclass(kind, _FINAL):
        return True
    return not is_passing(error) and early_deaths >= RESTARTS_MAX


def is_passing(error: str) -> bool:
    """Tell whether another start may find a failure gone, however often it was tried before."""
    kind = getattr(errors, error, None)
    return isinstance(kind, type) and issubclass(kind, _PASSING)
