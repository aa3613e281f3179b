"""Autoscaling as a part of the whole decision: from the scene, what counts and what is reported.

In mode Auto the number that counts is the one in the status, which is written before anything is
done about it; ``spec`` is never written. A change of ``spec.replicas`` is taken over as a new
beginning. In mode Advise, and while another autoscaler writes it, ``spec.replicas`` counts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headwater.model.appstatus import AutoscalingStatus
from headwater.model.lifecycle import Engine, TaskState
from headwater.model.streamapp_autoscaling import AutoscalingMode
from headwater_operator.decide.autoscaling.load import Load
from headwater_operator.decide.autoscaling.owner import is_automatic
from headwater_operator.decide.autoscaling.sizing import Shape
from headwater_operator.decide.autoscaling.verdict import ScalingMemory, Seen, Why, advise
from headwater_operator.decide.autoscaling.windows import Window
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.stores import state_by_worker

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.streamapp_autoscaling import AutoscalingSpec
    from headwater_operator.decide.autoscaling.load import Reading
    from headwater_operator.decide.autoscaling.verdict import Verdict
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene

_TELL_AGAIN_MS: Final = 60_000
"""Numbers and sentences that lead to nothing are written this often at most."""
_AT_ONCE: Final = frozenset({Why.BOUNDS, Why.UP, Why.DOWN, Why.COLD, Why.UNREAD})
"""What is told as soon as it is so."""


def autoscaled(scene: Scene) -> Scene:
    """Return the scene with the number of workers that counts, and what is to be said about it."""
    policy = scene.app.spec.autoscaling
    if policy is None or scene.app.spec.engine is not Engine.NATIVE:
        return replace(scene, memory=replace(scene.memory, scaling=ScalingMemory()))
    now = _replicas(scene)
    if now == 0 or scene.intent is not Intent.RUN or scene.app.spec.suspend:
        return _at_rest(scene, policy, now)
    memory = _with_known_capacity(scene, scene.memory.scaling)
    if _is_set_anew(scene):
        memory = replace(memory, ups=Window(), downs=Window())
    verdict, memory = advise(policy, _seen(scene, policy, now), memory, scene.now_ms)
    counts = verdict.replicas if _decides(scene) else now
    told, memory = _told(scene, _status(scene, policy, memory, verdict, counts), memory)
    app = replace(scene.app, spec=replace(scene.app.spec, replicas=counts))
    return replace(
        scene,
        observed=replace(scene.observed, app=app),
        memory=replace(scene.memory, scaling=memory),
        autoscaling=told,
    )


def _decides(scene: Scene) -> bool:
    return is_automatic(scene.app) and not scene.observed.scaled_by


def _replicas(scene: Scene) -> int:
    """Return the number that counts until it is decided anew."""
    wanted, before = scene.app.spec.replicas, scene.observed.status.autoscaling
    if before is None or not _decides(scene):
        return wanted
    is_owned = before.mode is AutoscalingMode.AUTO and before.spec_replicas == wanted
    return before.replicas if is_owned and before.replicas else wanted


def _is_set_anew(scene: Scene) -> bool:
    """Whether somebody has changed ``spec.replicas``: what was right before says nothing now."""
    before = scene.observed.status.autoscaling
    return before is not None and before.spec_replicas != scene.app.spec.replicas


def _at_rest(scene: Scene, policy: AutoscalingSpec, now: int) -> Scene:
    """Keep the number for when the application runs again; learn nothing meanwhile."""
    before = scene.observed.status.autoscaling or AutoscalingStatus()
    told = replace(
        before,
        mode=policy.mode,
        replicas=now,
        desired=now,
        reason="nothing is to run, so the number stays as it is",
        spec_replicas=scene.app.spec.replicas,
    )
    memory = replace(scene.memory, scaling=ScalingMemory())
    return replace(scene, memory=memory, autoscaling=told)


def _with_known_capacity(scene: Scene, memory: ScalingMemory) -> ScalingMemory:
    """Begin a run with the capacity that the one before has told, as a guess."""
    before = scene.observed.status.autoscaling
    if memory.asked_ms is not None or memory.load.capacity or before is None:
        return memory
    threads = scene.app.spec.threads_per_worker
    return replace(memory, load=Load(capacity=before.capacity_per_worker / threads))


def _seen(scene: Scene, policy: AutoscalingSpec, now: int) -> Seen:
    readings, unread = _readings(scene)
    plan = scene.plan
    cold = () if plan is None else tuple(sorted(plan.stateful - plan.can_stand_by))
    sizes: dict[TaskId, int] = {}
    for tasks in state_by_worker(scene).values():
        for task, size in tasks.items():
            sizes[task] = max(sizes.get(task, 0), size)
    return Seen(
        replicas=now,
        shape=Shape(
            tasks=0 if plan is None else len(plan.tasks),
            threads=scene.app.spec.threads_per_worker,
            state=sum(sizes.values()),
        ),
        readings=readings,
        unread=unread,
        unsettled=_unsettled(scene, now),
        cold=cold,
        bounds=policy.bounds(scene.observed.minute),
        is_advice=not _decides(scene),
    )


def _readings(scene: Scene) -> tuple[dict[TaskId, Reading] | None, str]:
    """Return what was told of all active tasks, and why that is not all; ``None`` if not asked."""
    loads = scene.observed.loads
    if loads is None:
        return None, ""
    found: dict[TaskId, Reading] = {}
    unread = ""
    for worker in scene.workers:
        told = loads.get(worker.name)
        if told is None and worker.spec.active:
            unread = unread or (
                f"{worker.name} does not answer; look in its log, and on Kubernetes whether a "
                "NetworkPolicy keeps the operator out"
            )
        for task in worker.spec.active:
            reading = (told or {}).get(task)
            if reading is not None and reading.lag is not None:
                found[task] = reading
            elif told is not None:
                unread = unread or (
                    f"{worker.name} does not know that of {task}; look in its log whether the "
                    "brokers answer"
                )
    return found, unread


def _unsettled(scene: Scene, now: int) -> str:
    """Return why no warm-up could follow a change now, or what is measured is no measure."""
    if scene.app.spec.paused:
        return "processing is paused"
    if scene.failure is not None:
        return scene.failure.message
    if scene.plan is None:
        return "the tasks are not known yet"
    revision = scene.observed.revision
    for worker in scene.workers:
        if why := _unsettled_worker(worker, revision):
            return f"{worker.name} {why}"
    if sum(not worker.spec.drain for worker in scene.workers) < now:
        return "a worker has yet to join"
    unsettled = scene.memory.unsettled
    return "nothing was decided yet" if unsettled is None else unsettled


def _unsettled_worker(worker: Judged, revision: str) -> str:
    if worker.spec.drain:
        return "" if worker.has_ended and not worker.held else "is on its way out"
    if revision and worker.view.revision not in ("", revision):
        return "is to be replaced by one of the new revision"
    if not worker.is_live or worker.owes_fence:
        return "does not run"
    if worker.spec.warmup:
        return "warms tasks up"
    running = {each.task for each in worker.status.tasks if each.state is TaskState.RUNNING}
    return "" if set(worker.spec.active) <= running else "does not run all its tasks yet"


def _status(
    scene: Scene, policy: AutoscalingSpec, memory: ScalingMemory, verdict: Verdict, counts: int
) -> AutoscalingStatus:
    least, most = policy.bounds(scene.observed.minute)
    load, threads = memory.load, scene.app.spec.threads_per_worker
    parts = [verdict.reason, *policy.problems(scene.observed.minute)]
    if is_automatic(scene.app) and scene.observed.scaled_by:
        parts.append(
            f"spec.replicas counts, because {scene.observed.scaled_by} writes it: delete that "
            "autoscaler and set another number with kubectl scale, or set mode: Advise"
        )
    is_known = load.at_ms is not None and verdict.why is not Why.UNREAD
    return AutoscalingStatus(
        mode=policy.mode,
        replicas=counts,
        desired=verdict.replicas,
        reason="; ".join(parts),
        min_replicas=least,
        max_replicas=most,
        lag=_rounded(load.lag) if is_known else None,
        arrival_rate=_rounded(load.arrival),
        process_rate=_rounded(load.processed),
        capacity_per_worker=_rounded(load.capacity * threads),
        spec_replicas=scene.app.spec.replicas,
    )


def _told(
    scene: Scene, status: AutoscalingStatus, memory: ScalingMemory
) -> tuple[AutoscalingStatus, ScalingMemory]:
    """Return what is to be written: with every sample would be too often."""
    before = scene.observed.status.autoscaling
    if before is not None and before.desired == status.desired and before.since is not None:
        status = replace(status, since=before.since)
    elif scene.observed.minute:
        since = datetime.fromtimestamp(scene.observed.minute * 60, UTC)
        status = replace(status, since=since.strftime("%Y-%m-%dT%H:%M:%SZ"))
    told_ms = memory.told_ms
    is_late = told_ms is None or scene.now_ms - told_ms >= _TELL_AGAIN_MS
    if before is not None and not is_late and not _is_news(before, status, memory):
        return before, memory
    return status, replace(memory, told_ms=scene.now_ms, told=memory.why)


def _is_news(before: AutoscalingStatus, status: AutoscalingStatus, memory: ScalingMemory) -> bool:
    if memory.why in _AT_ONCE and memory.why is not memory.told:
        return True
    return _decision(before) != _decision(status)


def _decision(status: AutoscalingStatus) -> tuple[object, ...]:
    bounds = status.min_replicas, status.max_replicas
    return status.mode, status.replicas, status.desired, bounds, status.spec_replicas


def _rounded(number: float) -> int:
    """Return a number with two digits that count: what differs by less is not worth a write."""
    return int(float(f"{number:.2g}"))
