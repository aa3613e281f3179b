"""Which worker may hold which task now: target by the assignor, steps by the refiner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.assignor.group import Group, GroupAssignment, Member
from headwater.assignor.refine import Holder, Rules, Step, next_step, refine
from headwater.assignor.sticky import assign
from headwater.model.cluster import generation_of
from headwater.model.lifecycle import TaskState
from headwater_operator.decide.autoscaling.owner import is_patient
from headwater_operator.decide.duties import is_reset_under_way
from headwater_operator.decide.engines import engine_reason, owed_engine
from headwater_operator.decide.judge import listed_as_active
from headwater_operator.decide.limits import FIRST_WAIT_MS
from headwater_operator.decide.moving import Waiting, hold_back
from headwater_operator.decide.stores import usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.ids import TaskId
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """What every worker may hold now.

    Attributes:
        steps: by worker; lost workers and those being fenced have none.
        waits_for: why nothing is granted or moved; empty when nothing stands in the way.
        away: tasks that are not where the target has them; empty when there is no target.
        share: the tasks that are meant for each worker; ``None`` when there is no target.
        waiting: moves that wait for a window.
    """

    steps: Mapping[str, Step] = field(default_factory=dict)
    waits_for: str = ""
    away: frozenset[TaskId] = frozenset()
    share: Mapping[str, tuple[TaskId, ...]] | None = None
    waiting: Waiting = field(default_factory=Waiting)


def place(scene: Scene, fleet: Fleet) -> Placing:
    """Decide what every worker may hold now."""
    waits_for = next(_obstacles(scene, fleet), "")
    target, waiting, steps = _refined(scene, fleet) if not waits_for else (None, Waiting(), None)
    return Placing(
        steps={
            name: step
            for name, step in (steps or _as_it_is(scene, fleet)).items()
            if (worker := scene.named(name)) is not None and not worker.owes_fence
        },
        waits_for=waits_for,
        away=frozenset(
            task
            for task, owner in (target.owners() if target is not None else {}).items()
            if (worker := scene.named(owner)) is None or task not in worker.spec.active
        ),
        share=None if target is None else target.active,
        waiting=waiting,
    )


def _as_it_is(scene: Scene, fleet: Fleet) -> dict[str, Step]:
    """Let everybody keep what it has if it is to have anything; grant nothing, move nothing."""
    stay = [worker for worker in scene.workers if fleet.takes_tasks and not worker.owes_fence]
    steps = next_step(
        GroupAssignment(active={worker.name: worker.spec.active for worker in stay}),
        {worker.name: worker.held for worker in scene.workers},
        {worker.name: _releasing(worker) for worker in scene.workers},
    )
    copies = {worker.name: (worker.spec.standby, worker.spec.warmup) for worker in stay}
    return {
        name: replace(step, standby=standby, warmup=warmup)
        for name, step in steps.items()
        for standby, warmup in (copies.get(name, ((), ())),)
    }


def _releasing(worker: Judged) -> frozenset[TaskId]:
    """Return what is on its way out.

    Only what the spec grants is ever kept. A task that a process merely lists is on its way out, or
    the list is from before the worker was fenced.
    """
    return worker.held - frozenset(worker.spec.active)


def _obstacles(scene: Scene, fleet: Fleet) -> Iterator[str]:
    """Yield why no task may be granted or moved now."""
    if not fleet.takes_tasks:
        is_resetting = is_reset_under_way(scene)
        yield "waiting for the reset that is under way" if is_resetting else "nothing is to run"
    if owed_engine(scene) is not None:
        yield engine_reason(scene)
    if not scene.is_adopted:
        yield "this run of the control loop takes the workers over"
    if scene.topology is None:
        yield "waiting for a worker to report the topology"
    if scene.memory.members is None or scene.memory.engine is None:
        yield "waiting for a look at the consumer group"
    elif scene.memory.members:
        yield "waiting for foreign members to leave the consumer group"
    if scene.memory.partitions is None:
        yield "waiting for a look at the topics"
    elif scene.missing_listed:
        yield "waiting for the topics that the StreamApp lists to be created"
    elif scene.plan is None:
        yield "waiting for the topics to be as the topology needs them"
    elif scene.plan.missing_topics(scene.memory.partitions):
        yield "waiting for internal topics to be created"
    if not scene.is_anything_held and _is_first_wait(scene, fleet):
        yield "waiting for all workers to start"


def _is_first_wait(scene: Scene, fleet: Fleet) -> bool:
    """Whether more workers may be about to start: tasks granted now would move in a moment."""
    if len(fleet.wanted) + len(fleet.away) < scene.app.wanted_workers:
        return True
    awaited = [
        worker
        for worker in scene.workers
        if worker.name in fleet.wanted and not worker.view.is_hopeless
    ]
    live = [worker for worker in awaited if worker.is_live]
    if live and len(live) == len(awaited):
        return False
    since = min((worker.memory.live_ms or scene.now_ms for worker in live), default=scene.now_ms)
    return scene.now_ms - since < FIRST_WAIT_MS


def _refined(
    scene: Scene, fleet: Fleet
) -> tuple[GroupAssignment | None, Waiting, dict[str, Step] | None]:
    """Return the target and the steps towards it; ``None`` while nobody is there to have tasks."""
    assert scene.plan is not None
    policy = scene.app.spec.assignment
    members = {
        worker.name: _member(scene, worker)
        for worker in scene.workers
        if worker.name in fleet.wanted
        and worker.name not in scene.misfits
        and _counts(scene, worker)
    }
    if not members:
        return None, Waiting(), None
    group = Group(
        members=tuple(members.values()),
        stateful=scene.plan.stateful,
        stateless=scene.plan.stateless,
        can_stand_by=scene.plan.can_stand_by,
        standby_replicas=policy.standby_replicas,
        topology_keys=policy.topology_keys,
        preferred=scene.demands.preferred,
    )
    rules = Rules(
        movable=group.can_stand_by,
        replicas=max(0, group.replicas),
        max_warmups=policy.max_warmup_replicas,
    )
    holders = [
        _holder(scene, fleet, worker, members.get(worker.name) or _member(scene, worker))
        for worker in scene.workers
    ]
    target, waiting = hold_back(scene, assign(group), members)
    return target, waiting, refine(target, holders, rules)


def _counts(scene: Scene, worker: Judged) -> bool:
    """Whether tasks are meant for a worker: it is there, or is expected back in a moment."""
    if worker.owes_fence:
        return is_expected_back(scene, worker)
    return worker.is_live or bool(worker.held) or is_expected_back(scene, worker)


def is_expected_back(scene: Scene, worker: Judged) -> bool:
    """Whether the tasks of a worker wait for its next process, which will have their state.

    They do when its process ended for the first time in a while. They do not when it is merely
    silent, because there is no telling when it comes back; nor when its process is known not to
    begin. A task with a caught-up standby never waits.
    """
    memory = worker.memory
    if worker.view.is_hopeless:
        return False
    if memory.gone_ms is None or worker.is_silent or memory.early_deaths > 1:
        return False
    return scene.now_ms - memory.gone_ms < scene.app.spec.assignment.move_delay_ms


def _member(scene: Scene, worker: Judged) -> Member:
    active = frozenset(worker.spec.active)
    if not worker.is_live:
        # What its last process had, so that it gets that back.
        active |= frozenset(worker.spec.revoking) | listed_as_active(worker.status)
    copies = worker.copies
    return Member(
        name=worker.name,
        threads=scene.app.spec.threads_per_worker,
        active=active,
        stored=usable(scene, worker.status),
        standby=frozenset(worker.spec.standby),
        lags={task: status.lag for task, status in copies.items()},
        caught_up=frozenset(task for task, status in copies.items() if status.caught_up),
        labels=worker.view.labels,
    )


def _holder(scene: Scene, fleet: Fleet, worker: Judged, member: Member) -> Holder:
    is_leaving = worker.name not in fleet.wanted
    stalled = frozenset(
        task
        for name, task in scene.memory.warmups
        if name == worker.name and is_stalled(scene, name, task)
    )
    return Holder(
        name=worker.name,
        threads=member.threads,
        held=worker.held,
        releasing=_releasing(worker),
        running=running_tasks(worker),
        standby=frozenset(worker.spec.standby),
        warmup=frozenset(worker.spec.warmup),
        near=member.nearness(),
        stalled=stalled,
        is_live=worker.is_live and not worker.owes_fence,
        can_take=(
            not is_leaving
            and not worker.owes_fence
            and worker.name not in scene.misfits
            and _can_take(scene, worker)
        ),
        is_leaving=is_leaving,
        is_late=is_leaving and _has_waited(scene, worker),
    )


def running_tasks(worker: Judged) -> frozenset[TaskId]:
    """Return the active tasks that a worker's living process says it processes."""
    if not worker.is_live or not worker.is_bound or worker.owes_fence:
        return frozenset()
    granted = frozenset(worker.spec.active)
    return frozenset(
        status.task
        for status in worker.status.tasks
        if status.state is TaskState.RUNNING and status.task in granted
    ) & listed_as_active(worker.status)


def is_stalled(scene: Scene, name: str, task: TaskId) -> bool:
    """Whether a warm-up has made no progress for too long, or was given up because of that."""
    known = scene.memory.warmups[name, task]
    return scene.now_ms - known.progress_ms >= scene.app.spec.assignment.warmup_timeout_ms


def _has_waited(scene: Scene, worker: Judged) -> bool:
    """Whether a worker that is to go has waited long enough for copies of its state elsewhere."""
    asked = {*scene.app.spec.scale_down.workers_to_remove}
    asked |= scene.demands.away | scene.demands.kept_out
    if is_patient(scene.app) and worker.name not in asked:
        return False  # nobody has asked for it to go: its tasks do not stop for that
    since_ms = worker.memory.leaving_ms
    limit_ms = scene.app.spec.scale_down.drain_timeout_ms
    return since_ms is not None and scene.now_ms - since_ms >= limit_ms


def _can_take(scene: Scene, worker: Judged) -> bool:
    """Whether a worker's process is known to listen, and what it says of itself is not out of date.

    It has taken notice of something that this run of the control loop wrote; if nothing is granted
    to this very process yet, of the last that was written, and has nothing left of what an earlier
    grant gave it.
    """
    spec, status = worker.spec, worker.status
    if not worker.is_live or generation_of(status.acknowledged_epoch) != scene.observed.generation:
        return False
    if worker.is_bound:
        return True
    is_empty = not worker.held and not listed_as_active(status)
    return is_empty and status.acknowledged_epoch >= spec.epoch
