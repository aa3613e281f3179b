"""The next status of every StreamAction: which begins, which waits, which has come how far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.model.codec import format_duration
from headwater.model.streamaction import ActionType
from headwater.model.streamaction_status import ActionPhase, StreamActionStatus
from headwater_operator.decide.streamactions import (
    backfill,
    drain,
    move,
    reset,
    restart,
    volume,
)
from headwater_operator.decide.streamactions.exclusion import first_in_the_way
from headwater_operator.decide.streamactions.standing import (
    Standing,
    failed,
    lacks_right,
    refused,
)

if TYPE_CHECKING:
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.placing import Placing
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.rollout import Roll

CANCELLED: Final = "Cancelled"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""As a Job's reason of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What is to be written about one action.

    Attributes:
        name: of the StreamAction.
        status: its next status.
    """

    name: str
    status: StreamActionStatus


@dataclass(frozen=True, slots=True)
class Stage:
    """What a type may look at.

    Attributes:
        scene: what is known.
        fleet: which workers there are to be.
        placing: which task may be held where.
        roll: which process is replaced next because an action asks for it.
    """

    scene: Scene
    fleet: Fleet
    placing: Placing
    roll: Roll


def rulings(stage: Stage) -> tuple[Ruling, ...]:
    """Return the statuses that differ from what is written, in the order of creation."""
    observed = stage.scene.observed
    found: list[Ruling] = []
    now = {view.name: view for view in observed.actions}
    for view in sorted(observed.actions, key=lambda view: view.turn):
        if view.status.phase.is_final:
            continue
        status = _next(stage, view, tuple(now.values()))
        # As it would be stored: a message that is too long is clipped then.
        if status.to_dict() != view.status.to_dict():
            found.append(Ruling(name=view.name, status=status))
            # What begins now is in the way of all after it.
            now[view.name] = replace(view, written=status)
    return tuple(found)


def waiting(view: ActionView, reason: str, message: str, clock: str) -> StreamActionStatus:
    """Return the status of an action that cannot begin, or go on, as yet."""
    phase = view.status.phase if view.is_running else ActionPhase.WAITING
    status = replace(view.status, phase=phase, reason=reason, message=message)
    return status.at(clock, view.generation)


def ended(view: ActionView, reason: str, message: str, clock: str) -> StreamActionStatus:
    """Return the status of an action that fails for a reason that no type knows of."""
    return written(view, failed(reason, message), clock)


def written(view: ActionView, standing: Standing, clock: str) -> StreamActionStatus:
    """Return the status that says how an action stands."""
    before = view.status
    processes = before.processes if standing.processes is None else standing.processes
    is_counted = bool(standing.total) or standing.phase is not ActionPhase.FAILED
    status = replace(
        before,
        phase=standing.phase,
        step=standing.step,
        reason=standing.reason,
        message=standing.message,
        done=standing.done if is_counted else before.done,
        total=standing.total if is_counted else before.total,
        processes=() if standing.phase.is_final else processes,
        result=standing.result or before.result,
    )
    if standing.step != before.step:
        status = status.took(standing.step, clock)
    return status.at(clock, view.generation)


def _next(stage: Stage, view: ActionView, others: tuple[ActionView, ...]) -> StreamActionStatus:
    clock = stage.scene.observed.clock
    if view.action is None:
        return ended(view, "InvalidSpec", view.problem, clock)
    if view.is_running:
        return _running(stage, view, clock)
    if view.spec.cancel:
        return ended(view, CANCELLED, "it was cancelled before it was begun", clock)
    first = first_in_the_way(view, others)
    if first is not None:
        verb = "runs" if first.is_running else "was created before"
        said = f"it waits for {first.name} ({first.spec.type}), which {verb}"
        return waiting(view, "WaitsForAnother", said, clock)
    return written(view, _begin(stage, view), clock)


def _running(stage: Stage, view: ActionView, clock: str) -> StreamActionStatus:
    standing = _go_on(stage, view)
    is_over = standing.phase.is_final
    if not is_over and view.objects.refusal:
        standing = refused(standing, view.objects.refusal)
    if not is_over and view.spec.cancel:
        standing = failed(CANCELLED, f"it was cancelled while {_was(view)}; {_left(view)}")
    elif not is_over and view.is_late(clock):
        limit = format_duration(view.spec.timeout_ms)
        standing = failed(
            DEADLINE_EXCEEDED,
            f"it was not complete within {limit} (spec.timeout) while {_was(view)}; {_left(view)}. "
            "Mend that, and create another StreamAction",
        )
    return written(view, standing, clock)


def _left(view: ActionView) -> str:
    """Say what becomes of what was done so far."""
    if view.spec.type is ActionType.RESET:
        return (
            "what was deleted by then stays deleted, and a worker that has begun to delete goes "
            "on: create another Reset to finish it"
        )
    if view.spec.type is ActionType.BACKFILL:
        return (
            "workers start again; if the Job has begun, they process nothing until it is committed "
            "or given up (`headwater backfill --abort`)"
        )
    if view.spec.type is ActionType.RESTORE_VOLUME:
        return "the worker is started again on the volume that it has by then; nothing is lost"
    return "what it had asked for is taken back, and nothing is lost"


def _was(view: ActionView) -> str:
    return f"its step was {view.status.step}: {view.status.message}"


def _begin(stage: Stage, view: ActionView) -> Standing:
    return lacks_right(view) if view.objects.refused else _BEGIN[view.spec.type](stage, view)


def _go_on(stage: Stage, view: ActionView) -> Standing:
    # A restore has read its VolumeSnapshot when it begins.
    if view.objects.refused and view.spec.type is not ActionType.RESTORE_VOLUME:
        return lacks_right(view)
    return _GO_ON[view.spec.type](stage, view)


_Judge: TypeAlias = Callable[[Stage, "ActionView"], Standing]

_BEGIN: Final[Mapping[ActionType, _Judge]] = {
    ActionType.RESTART: lambda at, view: restart.begin(at.scene, at.fleet, view),
    ActionType.DRAIN_WORKER: lambda at, view: drain.begin(at.scene, at.fleet, view),
    ActionType.MOVE_TASK: lambda at, view: move.begin(at.scene, at.fleet, view),
    ActionType.RESET: lambda at, view: reset.begin(at.scene, view),
    ActionType.BACKFILL: lambda at, view: backfill.begin(at.scene, view),
    ActionType.SNAPSHOT_VOLUME: lambda at, view: volume.begin_snapshot(at.scene, view),
    ActionType.RESTORE_VOLUME: lambda at, view: volume.begin_restore(at.scene, at.fleet, view),
}
_GO_ON: Final[Mapping[ActionType, _Judge]] = {
    ActionType.RESTART: lambda at, view: restart.go_on(at.scene, at.fleet, view, at.roll),
    ActionType.DRAIN_WORKER: lambda at, view: drain.go_on(at.scene, at.fleet, view),
    ActionType.MOVE_TASK: lambda at, view: move.go_on(at.scene, at.fleet, at.placing, view),
    ActionType.RESET: lambda at, _: reset.go_on(at.scene),
    ActionType.BACKFILL: lambda at, view: backfill.go_on(at.scene, view),
    ActionType.SNAPSHOT_VOLUME: lambda _, view: volume.go_on_snapshot(view),
    ActionType.RESTORE_VOLUME: lambda at, view: volume.go_on_restore(at.scene, at.fleet, view),
}
