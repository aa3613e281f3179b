"""DrainWorker: the tasks leave behind warm-ups, the process ends, and is started anew or kept out.

    Draining ──holds nothing, process has ended──► Returning ──ready──► Complete
                                 └──keepOut────────────────────────────────┘

How tasks leave is what a scale-down does: the worker is leaving as long as the step says Draining.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.decide.judge import is_quiet
from headwater_operator.decide.rolling import is_settled
from headwater_operator.decide.streamactions.asked import DRAINING, RETURNING
from headwater_operator.decide.streamactions.standing import Standing, complete, failed, runs
from headwater_operator.decide.streamactions.workers import refused
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView


def begin(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """See whether others can take its tasks."""
    part = view.spec.drain_worker
    assert part is not None
    if (problem := refused(scene, part.worker)) is not None:
        return problem
    if (problem := leaves_already(fleet, part.worker)) is not None:
        return problem
    if not part.keep_out and (problem := without_it(fleet, part.worker)) is not None:
        return problem
    worker = scene.named(part.worker)
    count = len(worker.held) if worker is not None else 0
    return runs(DRAINING, f"{leave(count)} {part.worker}", total=count)


def go_on(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """Tell how far it has come."""
    part = view.spec.drain_worker
    assert part is not None
    total = view.status.total
    worker = scene.named(part.worker)
    if view.status.step == RETURNING:
        return returning(scene, fleet, worker, part.worker, total)
    if worker is None or worker.is_retired:
        if part.keep_out:
            said = f"{part.worker} has no process and no tasks; it returns when replicas grow"
            return complete(said, done=total, total=total)
        return runs(
            RETURNING, f"{part.worker} has ended and is started anew", done=total, total=total
        )
    left = len(worker.held)
    said = still_held(scene, worker)
    if part.worker not in fleet.unwanted:
        said = f"no other worker takes the tasks of {part.worker}: scale to 2 or more"
    return runs(DRAINING, said, done=min(total, max(0, total - left)), total=total)


def leave(count: int) -> str:
    """Say that tasks leave a worker, whose name follows."""
    return counted(count, "task leaves", "tasks leave")


def still_held(scene: Scene, worker: Judged) -> str:
    """Say what a worker that is drained still has to do, and what happens if it is silent."""
    if not worker.held:
        return f"{worker.name} is to end"
    said = f"{counted(len(worker.held), 'task is', 'tasks are')} to leave {worker.name}"
    if not worker.is_silent and not is_quiet(worker.view, worker.memory, scene.now_ms):
        return said
    return f"{said}, which does not answer: others get them once its Lease has run out"


def leaves_already(fleet: Fleet, name: str) -> Standing | None:
    """Return why a worker that is to go cannot be drained as well; ``None`` if it is to stay."""
    if name in fleet.wanted:
        return None
    # In its place another one would be taken away.
    said = f"{name} is about to go already: name another worker in a new StreamAction"
    return failed("WorkerLeaves", said)


def without_it(fleet: Fleet, name: str) -> Standing | None:
    """Return why the others cannot do without a worker for a while; ``None`` if they can."""
    if len(fleet.wanted - {name}) + len(fleet.new) > 0:
        return None
    return failed(
        "NobodyTakesItsTasks",
        f"{name} is the only worker: scale to 2 or more first, or drain it with keepOut, with "
        "which another worker takes its place",
    )


def returning(scene: Scene, fleet: Fleet, worker: Judged | None, name: str, total: int) -> Standing:
    """Tell whether a worker that was drained runs anew."""
    if worker is None or name not in fleet.wanted:
        said = f"{name} was drained, and is not wanted any more"
        return complete(said, done=total, total=total)
    if worker.is_live and not worker.spec.drain and is_settled(scene, worker):
        said = f"{name} was drained and runs anew; tasks return behind warm-ups"
        return complete(said, done=total, total=total)
    return runs(RETURNING, f"{name} is started anew", done=total, total=total)
