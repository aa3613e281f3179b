"""The operation under way, as it is written into the status before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.appstatus import Operation, OperationType
from headwater.model.streamaction import ActionType
from headwater_operator.actions import DeleteWorker, Reason, StartWorker, StopWorker
from headwater_operator.decide.observed import ProcessState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headwater.model.appstatus import AppStatus
    from headwater_operator.actions import Action
    from headwater_operator.rollout import Roll
    from headwater_operator.views import AppView


def operation_of(
    view: AppView,
    actions: Sequence[Action],
    roll: Roll,
    written: AppStatus,
    now: str,
    leaving: Collection[str] = (),
) -> Operation | None:
    """Return what is being done; ``None`` when nothing is.

    Args:
        view: the application as it was read.
        actions: about to be carried out.
        roll: how far a rolling change has come.
        written: the status as last written.
        now: the time of day.
        leaving: workers that are to go, told so or not yet.
    """
    before = written.operation
    found = _asked_for(view, now) or _operation(view, actions, roll, before, leaving)
    if found is None:
        return None
    kind, target, phase = found
    is_same = before is not None and (before.type, before.target) == (kind, target)
    return Operation(
        type=kind,
        target=target,
        phase=phase,
        revision=view.revision if kind is OperationType.ROLL else "",
        started_at=before.started_at if before is not None and is_same else now,
    )


def _asked_for(view: AppView, now: str) -> tuple[OperationType, str, str] | None:
    """Return what a StreamAction has done to workers; what is done to all of them goes first."""
    if _of_all(view) is not None:
        return None
    for action in view.actions:
        if not action.is_effective(now):
            continue
        if action.spec.drain_worker is not None:
            return OperationType.DRAIN, action.spec.drain_worker.worker, action.status.step
        if action.spec.restore_volume is not None:
            return OperationType.DRAIN, action.spec.restore_volume.worker, action.status.step
        if action.spec.type is ActionType.BACKFILL:
            return OperationType.BACKFILL, "", action.status.step
        if action.spec.type is ActionType.RESTART:
            return OperationType.RESTART, "", action.status.step
    return None


def _operation(
    view: AppView,
    actions: Sequence[Action],
    roll: Roll,
    before: Operation | None,
    leaving: Collection[str],
) -> tuple[OperationType, str, str] | None:
    assert view.app is not None
    if (of_all := _of_all(view)) is not None:
        return of_all
    who_leaves = _leaving(view, actions, leaving)
    if who_leaves is not None:
        return OperationType.SCALE_DOWN, *who_leaves
    if roll.outdated and not roll.halted:
        phase = "Replacing" if roll.next else "Waiting"
        return OperationType.ROLL, roll.next or _starting(view), phase
    if (replaced := _replaced(actions)) is not None:
        return replaced
    starting = _starting(view)
    if not starting:
        return None
    kind = before.type if before is not None else OperationType.SCALE_UP
    return kind, starting, "Starting"


def _of_all(view: AppView) -> tuple[OperationType, str, str] | None:
    """Return what is done to all workers at once."""
    assert view.app is not None
    is_running = any(not worker.process.is_proof_of_end for worker in view.workers)
    if view.app.spec.suspend and is_running:
        return OperationType.SUSPEND, "", "Stopping"
    if view.is_resetting:
        return OperationType.RESET, "", "Stopping" if is_running else "Deleting"
    return None


def _replaced(actions: Sequence[Action]) -> tuple[OperationType, str, str] | None:
    """Return the worker that is given a process, else one whose process is ended for good."""
    for action in actions:
        if isinstance(action, StartWorker) and action.reason is not Reason.MOUNT_AGAIN:
            is_new = action.reason in (Reason.WORKER_CREATED, Reason.WORKER_RETURNS)
            kind = OperationType.SCALE_UP if is_new else OperationType.REPLACE
            return kind, action.worker, "Starting"
    for action in actions:
        if isinstance(action, StopWorker) and action.reason is not Reason.MOUNT_AGAIN:
            return OperationType.REPLACE, action.worker, "Stopping"
    return None


def _leaving(
    view: AppView, actions: Sequence[Action], leaving: Collection[str]
) -> tuple[str, str] | None:
    """Return the worker that goes, and how far it has come."""
    for action in actions:
        if isinstance(action, DeleteWorker):
            return action.worker, "Deleting"
        if isinstance(action, StopWorker) and action.reason is Reason.DRAINED:
            return action.worker, "Stopping"
    for worker in view.workers:
        if worker.worker.spec.drain and not worker.process.is_proof_of_end:
            return worker.worker.name, "Draining"
    for worker in view.workers:
        # It is told to drain once nothing of it has to warm up elsewhere.
        if worker.worker.name in leaving and not worker.process.is_proof_of_end:
            return worker.worker.name, "WarmingUpElsewhere"
    return None


def _starting(view: AppView) -> str:
    """Return a worker whose process has not reported yet; empty if there is none."""
    for worker in view.workers:
        is_heard = worker.lease is not None and (
            worker.lease.holder == worker.worker.status.incarnation
        )
        if worker.process is ProcessState.RUNNING and not worker.worker.spec.drain and not is_heard:
            return worker.worker.name
    return ""
