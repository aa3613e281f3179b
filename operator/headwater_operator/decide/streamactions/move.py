"""MoveTask: the assignor takes the worker for the owner of the task until it has arrived.

The task moves as every task does, behind a warm-up if it has state. A worker that has its share
already gives up another task for it; the action is complete when that one has left, too. From then
on the assignor keeps the task there by itself, because it is sticky.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.decide.placing import running_tasks
from headwater_operator.decide.streamactions.standing import (
    Standing,
    complete,
    failed,
    listed,
    runs,
    waits,
)
from headwater_operator.decide.streamactions.workers import refused, why_nothing_runs

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.placing import Placing
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView

STEP: Final = "Moving"


def begin(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """See whether there are such a task and such a worker."""
    part = view.spec.move_task
    assert part is not None
    if (problem := refused(scene, part.worker)) is not None:
        return problem
    if part.worker not in fleet.wanted:
        return failed("UnknownWorker", f"{part.worker} is about to go: name another worker")
    if scene.plan is None:
        return waits("TasksUnknown", "no worker has reported the topology and its tasks yet")
    if part.task not in scene.plan.tasks:
        its = listed(sorted(scene.plan.tasks))
        return failed(
            "UnknownTask",
            f"{part.task}: no task of {scene.app.name}; its tasks are "
            f"{its}. Create another StreamAction with one of these",
        )
    return runs(STEP, f"{part.task} is to move to {part.worker}", total=1)


def go_on(scene: Scene, fleet: Fleet, placing: Placing, view: ActionView) -> Standing:
    """Tell where the task is."""
    part = view.spec.move_task
    assert part is not None
    task, name = part.task, part.worker
    if said := why_nothing_runs(scene):
        return runs(STEP, f"it goes on when the application runs: {said}", total=1)
    worker = scene.named(name)
    if worker is None or name not in fleet.wanted:
        return failed("WorkerLeaves", f"{name} is to go: name another worker in a new StreamAction")
    if task not in running_tasks(worker):
        return _on_its_way(scene, placing, worker, task)
    others = sorted(placing.away & frozenset(worker.spec.active))
    if not others and not placing.waits_for:
        return complete(f"{task} runs on {name}", done=1, total=1)
    said = placing.waits_for or f"{listed(others)} is to leave {name} for it"
    return runs(STEP, f"{task} runs on {name}; {said}", done=1, total=1)


def _on_its_way(scene: Scene, placing: Placing, worker: Judged, task: TaskId) -> Standing:
    name = worker.name
    if task in worker.spec.active:
        return runs(STEP, f"{task} starts on {name}", total=1)
    if task in worker.copies:
        return runs(STEP, f"{task} warms up on {name}", total=1)
    is_judged = (
        worker.is_live
        and not worker.owes_fence
        and name not in scene.misfits
        and not placing.waits_for
    )
    if is_judged and task not in placing.away:
        return failed(
            "NoShare",
            f"the load is level only if {name} has no such task: it has too few threads, or there "
            "are fewer tasks than workers. Name another worker in a new StreamAction",
        )
    return runs(STEP, placing.waits_for or f"{task} is to move to {name}", total=1)
