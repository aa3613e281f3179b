"""What the worker's main process may learn: each observation is a value, noted by ``observe``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from headwater.model.cluster import WorkerSpec
    from headwater.model.duties import DutyResult
    from headwater.model.rollon import RollOnStatus
    from headwater.model.uncaught import StreamThreadExceptionResponse
    from headwater.native.messages import FromGlobals, FromThread, FromUpdater


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRead:
    """The own StreamWorker was just read, uncached; ``None`` while there is none."""

    spec: WorkerSpec | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKept:
    """The Lease was renewed at ``at_ms`` (taken before the write began)."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSaid:
    """A StreamThread's message."""

    slot: int
    message: FromThread
    response: StreamThreadExceptionResponse | None = None
    """Of the uncaught exception handler, if it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEnded:
    """A StreamThread's process has ended and was awaited."""

    slot: int
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdaterSaid:
    """A StateUpdater's message."""

    updater: int
    message: FromUpdater
    response: StreamThreadExceptionResponse | None = None
    """As that of ``ThreadSaid``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdaterEnded:
    """A StateUpdater's process has ended and was awaited."""

    updater: int
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalThreadSaid:
    """The GlobalStreamThread's message."""

    message: FromGlobals
    response: StreamThreadExceptionResponse | None = None
    """As that of ``ThreadSaid``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalThreadEnded:
    """The GlobalStreamThread's process has ended and was awaited."""

    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyEnded:
    """A duty has a result, or was dropped because it no longer stood in the spec (``None``)."""

    id: str
    result: DutyResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """The consumer group was looked at; ``None`` if no broker could tell whether it has members."""

    is_in_use: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSeen:
    """What was found of ``spec.upgrade.rollOn``; ``None``: all is as when the process began."""

    roll_on: RollOnStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """Drain and end: SIGTERM, or ``close()`` of an embedded application."""


Observation: TypeAlias = (
    SpecRead
    | LeaseKept
    | ThreadSaid
    | ThreadEnded
    | UpdaterSaid
    | UpdaterEnded
    | GlobalThreadSaid
    | GlobalThreadEnded
    | DutyEnded
    | GroupSeen
    | FilesSeen
    | StopAsked
)
