"""The specs to write in one round, in the one order that is safe.

1. lost workers: everything is taken away;
2. fenced workers: that is noted;
3. all others: revoke, grant, duties.

A duty that fences a lost worker is written after 1, so it carries a greater epoch. Tasks of a lost
worker are granted in a later round, when 2 is observed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.assignor.refine import Why
from headwater.model.cluster import Placement, WorkerSpec, generation_of
from headwater.model.livesettings import LiveSettings, live_settings
from headwater_operator.actions import Reason, WriteWorkerSpec
from headwater_operator.decide.duties import (
    executor,
    has_dangerous_duty,
    is_fenced,
    kept_duties,
    new_duties,
)
from headwater_operator.decide.judge import listed_as_active
from headwater_operator.decide.moving import joins

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headwater.assignor.refine import Step
    from headwater.ids import TaskId
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.placing import Placing
    from headwater_operator.decide.scene import Scene


_UNKNOWN_WHY: Final = "it was here already"


def spec_writes(
    scene: Scene, fleet: Fleet, placing: Placing, replaced: Collection[str] = ()
) -> tuple[WriteWorkerSpec, ...]:
    """Return the writes of this round, in order, each with a greater epoch than the one before.

    Args:
        scene: what is known.
        fleet: which workers there are to be.
        placing: what each may hold now.
        replaced: workers whose processes are about to be replaced on purpose.
    """
    lost = [worker for worker in scene.workers if worker.is_lost]
    fenced = [
        worker for worker in scene.workers if worker.spec.is_fencing and is_fenced(scene, worker)
    ]
    others = [worker for worker in scene.workers if worker not in lost and worker not in fenced]
    hand = executor(scene, fleet.wanted)
    writes: list[WriteWorkerSpec] = []
    for worker in lost:
        writes.append(_take_away(fleet, worker, _epoch(scene, writes)))
    for worker in fenced:
        writes.append(_note_fenced(scene, fleet, worker, hand, _epoch(scene, writes)))
    for worker in others:
        writes.extend(
            _update(scene, fleet, placing, worker, hand, _epoch(scene, writes), replaced=replaced)
        )
    for name in fleet.new:
        writes.append(_create(scene, name, _epoch(scene, writes)))
    return tuple(writes)


def _epoch(scene: Scene, writes: list[WriteWorkerSpec]) -> int:
    return scene.base_epoch + 1 + len(writes)


def _take_away(fleet: Fleet, worker: Judged, epoch: int) -> WriteWorkerSpec:
    spec = replace(
        worker.spec,
        epoch=epoch,
        incarnation="",
        active=(),
        standby=(),
        warmup=(),
        why=(),
        revoking=tuple(sorted(worker.held)),
        duties=(),
        drain=worker.name in fleet.unwanted,
        fencing_epoch=epoch,
    )
    return _write(worker, spec, Reason.WORKER_LOST)


def _note_fenced(
    scene: Scene, fleet: Fleet, worker: Judged, hand: Judged | None, epoch: int
) -> WriteWorkerSpec:
    spec = replace(
        _base(scene, fleet, worker, hand, epoch), incarnation="", revoking=(), fencing_epoch=0
    )
    return _write(worker, spec, Reason.WORKER_FENCED)


def _base(
    scene: Scene, fleet: Fleet, worker: Judged, hand: Judged | None, epoch: int
) -> WorkerSpec:
    """Return the present spec with the new epoch, the duties that stand, and all slots."""
    duties = kept_duties(scene, worker)
    if hand is not None and worker.name == hand.name:
        duties = (*duties, *new_duties(scene, epoch))
    slots = set(worker.spec.slots) | set(range(scene.app.spec.threads_per_worker))
    return replace(
        worker.spec,
        epoch=epoch,
        duties=duties,
        slots=tuple(sorted(slots)),
        threads=scene.app.spec.threads_per_worker,
        paused=scene.app.spec.paused,
        drain=worker.name in fleet.unwanted,
        acceptable_lag=scene.app.spec.assignment.acceptable_recovery_lag,
        live=_live(scene, worker.spec),
    )


def _live(scene: Scene, old: WorkerSpec | None = None) -> LiveSettings | None:
    """Return what a worker is to take over; nothing while nothing was ever said of it."""
    wanted = live_settings(scene.app.spec)
    was_said = old is not None and old.live is not None
    return wanted if was_said or wanted != LiveSettings() else None


def _update(
    scene: Scene,
    fleet: Fleet,
    placing: Placing,
    worker: Judged,
    hand: Judged | None,
    epoch: int,
    *,
    replaced: Collection[str],
) -> Iterator[WriteWorkerSpec]:
    """Yield the write of a worker that is neither lost nor fenced in this round, if one is due."""
    spec = _base(scene, fleet, worker, hand, epoch)
    returns = worker.spec.drain and worker.name in fleet.wanted
    share = None if placing.share is None else placing.share.get(worker.name, ())
    joining = joins(scene, worker, share, anew=returns or worker.name in replaced)
    spec = replace(spec, joining=joining)
    step = placing.steps.get(worker.name)
    if step is not None:
        if step.granted or _is_copy_for_new_process(worker, step):
            spec = replace(spec, incarnation=worker.status.incarnation)
        spec = replace(
            spec,
            active=step.hold,
            standby=step.standby,
            warmup=step.warmup,
            revoking=tuple(sorted(worker.held - frozenset(step.hold))),
            # A worker ends as soon as it is told to drain: until then it keeps what has to wait.
            drain=spec.drain and not (step.hold or step.standby or step.warmup),
            why=_why(worker.spec, step),
        )
    reason = _reason(scene, worker, spec)
    if reason is not None:
        yield _write(worker, spec, reason)


def _is_copy_for_new_process(worker: Judged, step: Step) -> bool:
    """Whether copies are to be granted to a process that was granted nothing yet.

    One that still lists tasks was granted them before they were taken from it: named again before
    it has let go of them, it would count as their holder.
    """
    is_new = worker.is_live and not worker.is_bound and not worker.held
    return is_new and bool(step.standby or step.warmup) and not listed_as_active(worker.status)


def _why(old: WorkerSpec, step: Step) -> tuple[Placement, ...]:
    """Say of every task why it is here: what was true when it came."""
    known = {task: placement.reason for placement in old.why for task in placement.tasks}
    found: dict[str, list[TaskId]] = {}
    for before, now in (
        (old.active, step.hold),
        (old.standby, step.standby),
        (old.warmup, step.warmup),
    ):
        for task in now:
            reason = known.get(task, _UNKNOWN_WHY) if task in before else str(Why.STANDBY)
            found.setdefault(str(step.why.get(task, reason)), []).append(task)
    return tuple(
        Placement(reason=reason, tasks=tuple(sorted(tasks)))
        for reason, tasks in sorted(found.items())
    )


def _reason(scene: Scene, worker: Judged, spec: WorkerSpec) -> Reason | None:
    """Return why ``spec`` is to be written; ``None`` if nothing in it is worth a write."""
    old = worker.spec
    asked = {duty.id for duty in spec.duties} - {duty.id for duty in old.duties}
    reasons = (
        (generation_of(old.epoch) != scene.observed.generation, Reason.ADOPTED),
        (worker.view.is_tampered, Reason.TAMPERED),
        (set(spec.active) - set(old.active), Reason.TASKS_GRANTED),
        (set(old.active) - set(spec.active), Reason.TASKS_REVOKED),
        (spec.drain and not old.drain, Reason.DRAIN),
        (old.drain and not spec.drain, Reason.WORKER_RETURNS),
        (any(duty.startswith("fence-") for duty in asked), Reason.FENCE_LOST_WORKER),
        (asked, Reason.DUTY),
        (has_dangerous_duty(scene, worker), Reason.DUTY_WITHDRAWN),
        (_starts_again_after_a_fence(worker), Reason.SLOT_FENCED),
        (_copies(spec) != _copies(old), Reason.COPIES),
        (spec.acceptable_lag != old.acceptable_lag, Reason.ACCEPTABLE_LAG),
        ((spec.slots, spec.threads) != (old.slots, old.threads), Reason.THREADS),
        (spec.joining != old.joining, Reason.JOINS),
        (spec.live != old.live, Reason.LIVE_SETTINGS),
        (spec.paused and not old.paused, Reason.PAUSED),
        (old.paused and not spec.paused, Reason.RESUMED),
    )
    return next((reason for is_due, reason in reasons if is_due), None)


def _copies(spec: WorkerSpec) -> tuple[object, ...]:
    """Return the copies that a spec grants, and to which process."""
    holder = spec.incarnation if spec.standby or spec.warmup else ""
    return spec.standby, spec.warmup, holder


def _starts_again_after_a_fence(worker: Judged) -> bool:
    """Whether a slot was fenced although its tasks are its own: they wait for a greater epoch."""
    status, spec = worker.status, worker.spec
    return (
        bool(status.fenced_slots)
        and status.incarnation == spec.incarnation
        and status.acknowledged_epoch == spec.epoch
        and bool(spec.active)
    )


def _create(scene: Scene, name: str, epoch: int) -> WriteWorkerSpec:
    spec = WorkerSpec(
        app=scene.app.name,
        epoch=epoch,
        slots=tuple(range(scene.app.spec.threads_per_worker)),
        threads=scene.app.spec.threads_per_worker,
        paused=scene.app.spec.paused,
        acceptable_lag=scene.app.spec.assignment.acceptable_recovery_lag,
        live=_live(scene),
        joining=bool(scene.app.spec.assignment.move_windows),
    )
    return WriteWorkerSpec(worker=name, spec=spec, replaces=0, reason=Reason.WORKER_CREATED)


def _write(worker: Judged, spec: WorkerSpec, reason: Reason) -> WriteWorkerSpec:
    return WriteWorkerSpec(worker=worker.name, spec=spec, replaces=worker.spec.epoch, reason=reason)
