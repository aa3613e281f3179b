"""Which workers there are to be: who stays, who is drained, who comes back, who is new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.model.cluster import worker_name, worker_ordinal
from headwater.model.streamapp import ScaleDownPolicy
from headwater_operator.decide.duties import is_reset_under_way
from headwater_operator.decide.engines import owed_engine, runs_natively
from headwater_operator.decide.observed import Intent, ProcessState
from headwater_operator.decide.stores import only_there, state_by_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers there are to be.

    Attributes:
        wanted: names of existing workers that are to have a process.
        unwanted: names of existing workers that are to release everything and end.
        new: names of workers to create.
        away: those of the unwanted that a StreamAction drains, and that come back.
        takes_tasks: whether wanted workers may be given tasks. A worker can be wanted for nothing
            but its duties: to fence the slots of a lost one, or to carry out a reset.
    """

    wanted: frozenset[str]
    unwanted: frozenset[str]
    new: tuple[str, ...]
    away: frozenset[str] = frozenset()
    takes_tasks: bool


def plan_fleet(scene: Scene) -> Fleet:
    """Decide which workers there are to be."""
    replicas = scene.app.wanted_workers if scene.intent is Intent.RUN else 0
    if not runs_natively(scene):
        replicas = 0
    count = max(replicas, 1 if _is_hand_needed(scene) else 0)
    # Where all are to go, none goes first; and a hand is taken from whom there is.
    removed = frozenset(scene.app.spec.scale_down.workers_to_remove if replicas > 0 else ())
    removed |= scene.demands.kept_out if replicas > 0 else frozenset()
    away = _away(scene, replicas, removed)
    count -= len(away)
    candidates = [worker for worker in scene.workers if worker.name not in removed | away]
    staying = [worker for worker in candidates if not worker.spec.drain]
    surplus = len(staying) - count
    if surplus > 0:
        staying = _staying(scene, staying, surplus)
    stay = {worker.name for worker in staying}
    new: list[str] = []
    if surplus < 0:
        drained = [worker for worker in candidates if worker.spec.drain]
        returning = _returning(scene, staying, drained, -surplus)
        stay |= {worker.name for worker in returning}
        new = _new_names(scene, -surplus - len(returning), removed)
    return Fleet(
        wanted=frozenset(stay),
        unwanted=frozenset(worker.name for worker in scene.workers) - stay,
        new=tuple(new),
        away=away,
        takes_tasks=replicas > 0 and not is_reset_under_way(scene),
    )


def _away(scene: Scene, replicas: int, removed: frozenset[str]) -> frozenset[str]:
    """Return whom a StreamAction drains for a moment: nobody, if that left nobody to take tasks."""
    names = {worker.name for worker in scene.workers} - removed
    away = scene.demands.away & names
    return away if replicas > len(away) else frozenset()


def _is_hand_needed(scene: Scene) -> bool:
    """Whether a worker is needed although nothing is to be processed."""
    if scene.owes_fence and scene.app.is_exactly_once:
        return True
    if owed_engine(scene) is not None:
        return True
    return scene.intent is Intent.RESET and not scene.memory.reset_done


def _staying(scene: Scene, staying: list[Judged], surplus: int) -> list[Judged]:
    """Return who stays when so many are drained, one after the other.

    Not live before live; by the policy; newest before older. The least state is that of which the
    least would have to be restored by those that stay, then the least of all.
    """
    is_by_state = scene.app.spec.scale_down.policy is ScaleDownPolicy.LEAST_STATE
    state = state_by_worker(scene) if is_by_state else {}
    for _ in range(surplus):
        leaving = _first_to_leave(staying, state)
        staying = [worker for worker in staying if worker is not leaving]
    return staying


def _first_to_leave(staying: list[Judged], state: Mapping[str, Mapping[TaskId, int]]) -> Judged:
    own = {worker.name: state.get(worker.name, {}) for worker in staying}
    alone = only_there(own)

    def rank(worker: Judged) -> tuple[bool, int, int, int]:
        name = worker.name
        return worker.is_live, alone[name], sum(own[name].values()), -worker_ordinal(name)

    return min(staying, key=rank)


def _returning(
    scene: Scene, staying: list[Judged], drained: list[Judged], count: int
) -> list[Judged]:
    """Return who of those that were drained comes back, one after the other.

    Who was drained for a moment first; then with a process; then who has most state that no wanted
    worker has; then most state of use; then the oldest.
    """
    state = state_by_worker(scene)
    there: dict[TaskId, int] = {}
    returning: list[Judged] = []
    for wanted in staying:
        _add(there, state[wanted.name])

    def rank(worker: Judged) -> tuple[bool, bool, int, int, int]:
        own = state[worker.name]
        was_away = worker.name in scene.demands.returning
        missing = sum(max(0, size - there.get(task, 0)) for task, size in own.items())
        has_process = worker.view.process is ProcessState.RUNNING
        return (
            not was_away,
            not has_process,
            -missing,
            -sum(own.values()),
            worker_ordinal(worker.name),
        )

    while drained and len(returning) < count:
        best = min(drained, key=rank)
        _add(there, state[best.name])
        returning.append(best)
        drained = [worker for worker in drained if worker is not best]
    return returning


def _add(there: dict[TaskId, int], state: Mapping[TaskId, int]) -> None:
    for task, size in state.items():
        there[task] = max(there.get(task, 0), size)


def _new_names(scene: Scene, count: int, removed: frozenset[str]) -> list[str]:
    taken = {worker.name for worker in scene.workers} | removed
    names: list[str] = []
    ordinal = 0
    while len(names) < count:
        name = worker_name(scene.app.name, ordinal)
        if name not in taken:
            names.append(name)
        ordinal += 1
    return names
