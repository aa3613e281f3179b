"""Rolling changes as the decision makes them: who is replaced now, whose topology does not fit.

A new revision asks for new processes (``headwater.model.changes``). One worker at a time gets one,
the one with the least state first, by the rules of ``headwater_operator.rollout``. Until the last
has it, the revision before is what counts: its topology is the application's, and a worker of the
new revision that fails, or whose topology does not fit, stops the roll-out and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.decide.failures import worker_failure
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.processes import was_told_just_now
from headwater_operator.decide.scene import is_on_trial
from headwater_operator.decide.status import count_tasks, is_ready
from headwater_operator.decide.streamactions.asked import digest_of
from headwater_operator.rollout import Roll, RollingWorker, plan_roll
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene


def roll(scene: Scene, fleet: Fleet) -> Roll:
    """Decide about a rolling change; an empty roll if there is none."""
    revision = scene.observed.revision
    if not revision or scene.intent is not Intent.RUN or not fleet.takes_tasks:
        return Roll()
    workers = [
        _rolling(scene, worker) for worker in _least_first(scene) if worker.name in fleet.wanted
    ]
    upgrade = scene.app.spec.upgrade
    found = plan_roll(
        revision,
        workers,
        ready_timeout_ms=upgrade.ready_timeout_ms,
        canary_ms=upgrade.canary_ms,
        failed=scene.observed.failed_revision,
        is_on_trial=is_on_trial(scene.observed),
    )
    waits_for = _waits_for(scene, scene.named(found.next))
    return Roll(outdated=found.outdated, waits_for=waits_for) if waits_for else found


def roll_for_actions(scene: Scene, fleet: Fleet, rolled: Roll) -> Roll:
    """Decide whose process is replaced next because a StreamAction asks for it.

    Args:
        scene: what is known.
        fleet: which workers there are to be.
        rolled: how far a rolling change has come; it replaces processes, too, and goes first.
    """
    asked = scene.demands.processes
    if not asked or rolled.outdated or scene.intent is not Intent.RUN or not fleet.takes_tasks:
        return Roll(waits_for=_why_after(rolled))
    workers = []
    for worker in _least_first(scene):
        if worker.name not in fleet.wanted:
            continue
        is_to_end = not worker.has_ended and digest_of(worker.view.process_id) in asked
        workers.append(
            RollingWorker(
                name=worker.name,
                revision=_BEFORE if is_to_end else _NOW,
                is_ready=is_settled(scene, worker),
                is_covered=_is_covered(scene, worker),
                problem=_problem(scene, worker, is_outdated=is_to_end),
                starting_ms=_starting_ms(scene, worker),
            )
        )
    timeout_ms = scene.app.spec.upgrade.ready_timeout_ms
    found = plan_roll(_NOW, workers, ready_timeout_ms=timeout_ms)
    waits_for = _waits_for(scene, scene.named(found.next))
    return Roll(outdated=found.outdated, waits_for=waits_for) if waits_for else found


def _why_after(rolled: Roll) -> str:
    """Return why a StreamAction has to wait for a rolling change; empty if there is none."""
    if rolled.outdated and rolled.halted:
        return f"the roll-out has halted and goes first; correct the StreamApp: {rolled.halted}"
    return "the rolling change goes first" if rolled.outdated else ""


_BEFORE: Final = "before"
_NOW: Final = "now"
"""In place of revisions: whether a process was there when a StreamAction was begun."""


def _waits_for(scene: Scene, worker: Judged | None) -> str:
    """Return what the replacement of a worker has to wait for all the same; empty for nothing."""
    if worker is None:
        return ""
    if was_told_just_now(scene, worker):
        return f"{worker.name} is not ready yet"
    tasks = count_tasks(scene)
    is_failed = worker.view.revision == scene.observed.failed_revision != ""
    is_overdue = _starting_ms(scene, worker) >= scene.app.spec.upgrade.ready_timeout_ms
    is_given_up = is_failed or is_overdue or _problem(scene, worker, is_outdated=True)
    if tasks.running == tasks.total or is_given_up:
        return ""
    # The last one that was replaced may not have its tasks back yet.
    return f"{tasks.running} of {counted(tasks.total, 'task runs', 'tasks run')}"


def _least_first(scene: Scene) -> list[Judged]:
    newest_first = scene.workers[::-1]
    return sorted(newest_first, key=lambda worker: len(worker.held))


def _rolling(scene: Scene, worker: Judged) -> RollingWorker:
    revision = scene.observed.revision
    is_outdated = worker.view.revision not in ("", revision)
    return RollingWorker(
        name=worker.name,
        # One without a process is started as what is wanted.
        revision=worker.view.revision or revision,
        is_ready=is_settled(scene, worker),
        is_covered=_is_covered(scene, worker),
        problem=_problem(scene, worker, is_outdated=is_outdated),
        starting_ms=_starting_ms(scene, worker),
        ready_for_ms=_ready_for_ms(scene, worker),
    )


def _starting_ms(scene: Scene, worker: Judged) -> int:
    unready_ms = worker.memory.unready_ms
    is_other_next = worker.memory.revision not in ("", scene.observed.revision)
    if unready_ms is None or (is_other_next and not worker.view.revision):
        return 0  # The time of the process before is not the next one's.
    return scene.now_ms - unready_ms


def _ready_for_ms(scene: Scene, worker: Judged) -> int:
    ready_ms = worker.memory.ready_ms
    return 0 if ready_ms is None else scene.now_ms - ready_ms


def is_settled(scene: Scene, worker: Judged) -> bool:
    """Whether a worker does all it is to do, so that another one may be replaced.

    One that was told to stop a while ago, and is not seen to be stopping, was never told: that
    action was not carried out.
    """
    return (
        is_ready(worker)
        and not worker.view.is_stopping
        and not was_told_just_now(scene, worker)
        and worker.name not in scene.misfits
    )


def _is_covered(scene: Scene, worker: Judged) -> bool:
    """Whether each task that could have a standby has one that has caught up."""
    others = [each for each in scene.workers if each.name != worker.name and each.is_live]
    if scene.plan is None or not others or not scene.app.spec.assignment.standby_replicas:
        return True
    copied = {
        task
        for other in others
        for task, status in other.copies.items()
        if status.caught_up and task in other.spec.standby
    }
    return worker.held & frozenset(scene.plan.can_stand_by) <= copied


def _problem(scene: Scene, worker: Judged, *, is_outdated: bool) -> str:
    """Return why a worker's process cannot run; empty if it can, as far as is known."""
    if misfit := scene.misfits.get(worker.name):
        return misfit
    failure = worker_failure(worker)
    if failure is not None:
        return f"{failure.error}: {failure.message}"
    # One that has not begun loses nothing by being replaced.
    return worker.view.problem or (worker.view.waits_for if is_outdated else "")
