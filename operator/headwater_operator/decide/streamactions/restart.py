"""Restart: every process that was there when it was begun is replaced, one at a time.

The rules are those of a rolling change (``headwater_operator.rollout``): the next one ends only
when all others are ready and its tasks have a caught-up standby, if there are to be any. The
processes are noted in the status, so none is ended twice, whoever goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.decide.rolling import is_settled
from headwater_operator.decide.status import count_tasks
from headwater_operator.decide.streamactions.asked import digest_of
from headwater_operator.decide.streamactions.standing import Standing, complete, runs
from headwater_operator.decide.streamactions.workers import refused, why_nothing_runs
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.rollout import Roll

STEP: Final = "Restarting"


def begin(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """Note which processes there are."""
    names = _named(view)
    if (problem := refused(scene, *names)) is not None:
        return problem
    there = [worker for worker in _meant(scene, fleet, names) if not worker.has_ended]
    processes = tuple(sorted(digest_of(worker.view.process_id) for worker in there))
    count = len(processes)
    said = f"{counted(count, 'process is', 'processes are')} to be replaced, one at a time"
    return runs(STEP, said, total=count, processes=processes)


def go_on(scene: Scene, fleet: Fleet, view: ActionView, roll: Roll) -> Standing:
    """Tell which processes are still to be replaced."""
    total = view.status.total
    left = [worker.name for worker in scene.workers if is_to_end(worker, view.status.processes)]
    done = max(0, total - len(left))
    if said := why_nothing_runs(scene):
        return runs(STEP, f"it goes on when the application runs: {said}", done=done, total=total)
    if left:
        said = roll.halted or roll.waits_for or f"{roll.next or left[0]} is replaced"
        return runs(STEP, said, done=done, total=total)
    late = [
        worker.name
        for worker in _meant(scene, fleet, _named(view))
        if not is_settled(scene, worker)
    ]
    if late:
        return runs(STEP, f"{late[0]} is not ready yet", done=done, total=total)
    tasks = count_tasks(scene)
    if tasks.running < tasks.total:
        # The last one that was replaced does not have its tasks back yet.
        said = f"{tasks.running} of {counted(tasks.total, 'task runs', 'tasks run')}"
        return runs(STEP, said, done=done, total=total)
    said = f"{counted(total, 'process was', 'processes were')} replaced"
    return complete(said, done=total, total=total)


def is_to_end(worker: Judged, processes: tuple[str, ...] | frozenset[str]) -> bool:
    """Whether a worker still has one of those processes."""
    return not worker.has_ended and digest_of(worker.view.process_id) in processes


def _named(view: ActionView) -> tuple[str, ...]:
    return view.spec.restart.workers if view.spec.restart is not None else ()


def _meant(scene: Scene, fleet: Fleet, names: tuple[str, ...]) -> list[Judged]:
    return [
        worker
        for worker in scene.workers
        if worker.name in fleet.wanted and (not names or worker.name in names)
    ]
