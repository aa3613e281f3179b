"""StreamActions as they were read, and what those that have been begun ask of the decision.

Only what stands in a status counts: an action has no effect before its ``Running`` is written, so
whoever takes over asks for the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.streamaction import ActionType
from headwater.model.streamaction_status import ActionPhase, seconds_between
from headwater_operator.decide.streamactions.objects import ObjectsView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.streamaction import StreamAction, StreamActionSpec
    from headwater.model.streamaction_status import StreamActionStatus

DRAINING = "Draining"
RETURNING = "Returning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView:
    """One StreamAction as it was read.

    Attributes:
        action: the resource; ``None`` if its specification cannot be used.
        name: its name.
        uid: tells it from another one of that name.
        version: resource version it was read at.
        created: when, to the second; the order in which actions have their turn.
        generation: of its specification.
        problem: why its specification cannot be used.
        written: its status as it was read.
        objects: what else it is about, as far as it is open.
    """

    action: StreamAction | None
    name: str
    uid: str = ""
    version: str = ""
    created: str = ""
    generation: int = 1
    problem: str = ""
    written: StreamActionStatus
    objects: ObjectsView = field(default_factory=ObjectsView)

    @property
    def spec(self) -> StreamActionSpec:
        """What it asks for; only of one that can be used."""
        assert self.action is not None, self.name
        return self.action.spec

    @property
    def status(self) -> StreamActionStatus:
        """How far it has come."""
        return self.written

    @property
    def turn(self) -> tuple[str, str]:
        """Its place in the order of all: of those created in one second the name decides.

        Nothing that the API server tells is finer: a resource version is that of the last change.
        """
        return self.created, self.name

    @property
    def is_running(self) -> bool:
        """Whether it was begun and has not ended."""
        return self.action is not None and self.status.phase is ActionPhase.RUNNING

    def is_late(self, clock: str) -> bool:
        """Whether it was begun longer ago than it may take."""
        passed_s = seconds_between(self.status.started_at, clock)
        return self.is_running and passed_s * 1_000 >= self.spec.timeout_ms

    def is_effective(self, clock: str) -> bool:
        """Whether it asks for anything: it was begun, and neither cancelled nor out of time."""
        return self.is_running and not self.spec.cancel and not self.is_late(clock)

    def asks_for_reset(self, clock: str) -> bool:
        """Whether the application is to be reset because of it."""
        return self.is_effective(clock) and self.spec.type is ActionType.RESET

    def asks_for_stop(self, clock: str) -> bool:
        """Whether all workers are to end because of it."""
        return self.is_effective(clock) and self.spec.type is ActionType.BACKFILL

    def is_expired(self, clock: str) -> bool:
        """Whether it ended so long ago that it is to be deleted."""
        if self.action is None or self.spec.ttl_seconds_after_finished is None:
            return False
        status = self.status
        passed_s = seconds_between(status.finished_at, clock)
        return status.phase.is_final and passed_s >= self.spec.ttl_seconds_after_finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the actions that run ask for.

    Attributes:
        away: workers whose tasks go elsewhere, after which their processes end for a moment.
        kept_out: workers whose place others take.
        returning: workers that are to be started before any other.
        processes: digests of the processes that are to be replaced, one at a time.
        preferred: the worker that is to have a task.
    """

    away: frozenset[str] = frozenset()
    kept_out: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
    processes: frozenset[str] = frozenset()
    preferred: Mapping[TaskId, str] = field(default_factory=dict)


def digest_of(process: str) -> str:
    """Return what names a process in a status: short, because there may be thousands."""
    return hashlib.sha256(process.encode()).hexdigest()[:12] if process else ""


def demands_of(actions: tuple[ActionView, ...], clock: str) -> Demands:
    """Return what the actions ask for that have been begun, and neither cancelled nor ended.

    Args:
        actions: all of the application.
        clock: the time of day.
    """
    away: set[str] = set()
    kept_out: set[str] = set()
    returning: set[str] = set()
    processes: set[str] = set()
    preferred: dict[TaskId, str] = {}
    for view in actions:
        if not view.is_effective(clock):
            continue
        spec = view.spec
        if spec.type is ActionType.RESTART:
            processes.update(view.status.processes)
        elif spec.move_task is not None:
            preferred[spec.move_task.task] = spec.move_task.worker
        elif spec.drain_worker is not None:
            if view.status.step == RETURNING:
                returning.add(spec.drain_worker.worker)
            elif spec.drain_worker.keep_out:
                kept_out.add(spec.drain_worker.worker)
            else:
                away.add(spec.drain_worker.worker)
        elif spec.restore_volume is not None:
            is_back = view.status.step == RETURNING
            (returning if is_back else away).add(spec.restore_volume.worker)
    return Demands(
        away=frozenset(away),
        kept_out=frozenset(kept_out),
        returning=frozenset(returning),
        processes=frozenset(processes),
        preferred=preferred,
    )
