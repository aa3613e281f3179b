"""What was done to an application, one line each, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headwater.ids import TaskId

_TAKES: Final = re.compile(r"\btakes ((?:\d+_\d+ ?)+)")
_GIVES_UP: Final = re.compile(r"\bgives up ((?:\d+_\d+ ?)+)")


class EventKind(StrEnum):
    """What an event is about."""

    LEADER = "Leader"
    STARTED = "Started"
    STOPPED = "Stopped"
    DELETED = "Deleted"
    TASKS = "Tasks"
    DUTY = "Duty"
    STATE = "State"
    FAILURE = "Failure"
    NOTE = "Note"
    """Said by a person or a demonstration, not by the control loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that was done or found.

    Attributes:
        at_ms: wall-clock time, milliseconds since the epoch.
        kind: what it is about.
        text: one sentence.
        worker: which worker it concerns, if one.
        granted: tasks that the worker was given.
        revoked: tasks that were taken from the worker.
    """

    at_ms: int
    kind: EventKind
    text: str
    worker: str = ""
    granted: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()


def tasks_named(text: str) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...]]:
    """Return the tasks that a worker was given and those taken from it, as ``news_of`` tells them.

    Args:
        text: such as ``takes 0_1 0_2; gives up 1_0``.
    """
    return _listed(_TAKES.search(text)), _listed(_GIVES_UP.search(text))


def _listed(found: re.Match[str] | None) -> tuple[TaskId, ...]:
    return () if found is None else tuple(map(TaskId.parse, found[1].split()))
