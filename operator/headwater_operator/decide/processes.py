"""Which workers' processes are to be started, stopped, and which StreamWorkers deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.streamapp import Retention
from headwater_operator.actions import DeleteWorker, Reason, StartWorker, StopHow, StopWorker
from headwater_operator.decide.limits import (
    IMPORT_SLACK_MS,
    MOUNT_AGAIN_MS,
    SILENCE_LIMIT_MS,
    STOP_AGAIN_MS,
    UNHEARD_STOP_MS,
    pause_ms,
    start_limit_ms,
)
from headwater_operator.decide.observed import Intent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene


def starts(scene: Scene, fleet: Fleet) -> Iterator[StartWorker]:
    """Yield the workers to start: those that are wanted and certainly have no process."""
    for worker in scene.workers:
        if worker.name in fleet.wanted and worker.has_ended and _is_time(scene, worker):
            yield StartWorker(worker=worker.name, reason=_why_started(worker))
    for name in fleet.new:
        yield StartWorker(worker=name, reason=Reason.WORKER_CREATED)


def _why_started(worker: Judged) -> Reason:
    if worker.memory.is_made_anew:
        return Reason.MOUNT_AGAIN
    # One that was drained has no process on purpose.
    return Reason.WORKER_RETURNS if worker.spec.drain else Reason.NO_PROCESS


def _is_time(scene: Scene, worker: Judged) -> bool:
    """Whether a worker that has ended need not wait any longer; a correction never waits."""
    ended_ms = worker.memory.ended_ms
    if worker.memory.revision not in ("", scene.observed.revision):
        return True
    return ended_ms is None or scene.now_ms - ended_ms >= pause_ms(worker.memory.early_deaths)


def stops(
    scene: Scene, fleet: Fleet, outdated: str = "", restarted: str = ""
) -> Iterator[StopWorker]:
    """Yield the workers to stop: drained ones, and those that will never speak again.

    Args:
        scene: what is known.
        fleet: which workers there are to be.
        outdated: the worker whose turn it is to run the new revision; empty for none.
        restarted: the worker whose process a StreamAction replaces now; empty for none.
    """
    for worker in scene.workers:
        if worker.has_ended:
            continue
        if _did_not_hear(scene, worker):
            yield StopWorker(worker=worker.name, how=StopHow.AT_ONCE, reason=Reason.NEVER_REPORTED)
        elif was_told_just_now(scene, worker):
            continue
        elif worker.is_silent and _silence_ms(scene, worker) >= _patience_ms(scene, worker):
            yield StopWorker(worker=worker.name, how=StopHow.AT_ONCE, reason=_why_silent(worker))
        elif worker.name in fleet.unwanted and _has_let_go(worker):
            yield StopWorker(worker=worker.name, how=StopHow.GRACEFULLY, reason=Reason.DRAINED)
        elif worker.name == outdated:
            yield StopWorker(worker=worker.name, how=StopHow.GRACEFULLY, reason=Reason.NEW_REVISION)
        elif worker.name == restarted:
            yield StopWorker(worker=worker.name, how=StopHow.GRACEFULLY, reason=Reason.RESTART)
        elif _mounts_sooner_anew(scene, worker):
            yield StopWorker(worker=worker.name, how=StopHow.AT_ONCE, reason=Reason.MOUNT_AGAIN)


def was_told_just_now(scene: Scene, worker: Judged) -> bool:
    """Whether a worker was told to stop, and has time to do so."""
    stopped_ms = worker.memory.stopped_ms
    return stopped_ms is not None and scene.now_ms - stopped_ms < STOP_AGAIN_MS


def _mounts_sooner_anew(scene: Scene, worker: Judged) -> bool:
    """Whether a pod that has not begun waits in its kubelet's back-off; it holds nothing."""
    since_ms = worker.memory.waiting_ms
    if since_ms is None or not worker.view.lacks_file or worker.view.is_stopping:
        return False
    return scene.now_ms - since_ms >= MOUNT_AGAIN_MS


def _did_not_hear(scene: Scene, worker: Judged) -> bool:
    """Whether a process that is to stop has never reported, and takes too long to end.

    It holds nothing, because nothing was ever granted to it.
    """
    memory = worker.memory
    if _has_begun(worker) or memory.stopping_ms is None:
        return False
    told_ms = max(memory.stopping_ms, memory.stopped_ms or 0)
    return scene.now_ms - told_ms >= UNHEARD_STOP_MS


def _has_begun(worker: Judged) -> bool:
    """Whether a process may hold tasks: it has reported, and not only that it imports."""
    return (worker.has_reported and not worker.is_importing) or bool(worker.held)


def _has_let_go(worker: Judged) -> bool:
    """Whether a drained worker holds nothing and says so itself, under the spec that drains it.

    One that has not begun has nothing to say: it holds nothing.
    """
    if not worker.spec.drain or worker.held or worker.owes_fence:
        return False
    if worker.is_silent or not _has_begun(worker):
        return True
    return worker.status.acknowledged_epoch >= worker.spec.epoch


def _why_silent(worker: Judged) -> Reason:
    if worker.is_importing:
        return Reason.IMPORT_TIMED_OUT
    is_known = bool(worker.memory.live_ms or worker.memory.heard)
    return Reason.SILENT if is_known else Reason.NEVER_REPORTED


def _silence_ms(scene: Scene, worker: Judged) -> int:
    """Return for how long its Lease has not been renewed, or how long it has taken to start."""
    since_ms = max(worker.memory.lease_ms, worker.memory.started_ms or 0)
    return scene.now_ms - since_ms


def _patience_ms(scene: Scene, worker: Judged) -> int:
    if worker.is_importing:
        return scene.app.spec.topology.import_timeout_ms + IMPORT_SLACK_MS
    duration_ms = worker.view.lease.duration_ms if worker.view.lease is not None else 0
    # Its slots are fenced first: what it may still do then is harmless, so there is no hurry.
    known = worker.memory
    if known.heard in ("", known.dead):
        return duration_ms + start_limit_ms(known.unheard)
    return duration_ms + SILENCE_LIMIT_MS


def deletions(scene: Scene, fleet: Fleet) -> Iterator[DeleteWorker]:
    """Yield the StreamWorkers to delete: retired ones that nobody wants to come back to."""
    for worker in scene.workers:
        is_to_return = worker.name in fleet.away | scene.demands.returning
        if worker.name not in fleet.unwanted or not worker.is_retired or is_to_return:
            continue
        delete_state = _deletes_state(scene)
        if delete_state is None:
            continue
        yield DeleteWorker(
            worker=worker.name,
            delete_state=delete_state,
            replaces=worker.spec.epoch,
            reason=Reason.NOT_WANTED,
        )


def _deletes_state(scene: Scene) -> bool | None:
    """Tell what becomes of a retired worker's state; ``None`` if its StreamWorker is kept too."""
    retention = scene.app.spec.state.retention
    match scene.intent:
        case Intent.RESET:
            return True if scene.memory.reset_done else None
        case Intent.DELETE:
            # Every slot is closed or fenced before the first worker is forgotten.
            is_over = scene.observed.driver.process.is_proof_of_end
            if scene.is_anything_held or scene.owes_fence or not is_over:
                return None
            return retention.when_deleted is Retention.DELETE
        case Intent.RUN:
            return True if retention.when_scaled is Retention.DELETE else None
        case Intent.STOP:
            return None
