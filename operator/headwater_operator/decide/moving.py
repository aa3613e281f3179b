"""Moves that may wait: outside the windows of ``spec.assignment.moveWindows`` nothing is balanced.

A move waits if nobody needs it: the worker that has the task runs it and stays. A task never waits
whose worker is lost, goes or cannot run it; nor one that moves to a worker that joins: that was
added, or replaced on purpose, and has yet to get its share. Nor does a task wait that a
StreamAction moves, or that leaves a worker to make room for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.model.movewindows import may_move, next_opening, shown
from headwater_operator.decide.processes import was_told_just_now
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.assignor.group import GroupAssignment
    from headwater.ids import TaskId
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene

_NAMED = 3
"""So many moves are named; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Moves that wait for a window.

    Attributes:
        moves: by task, the worker that has it and the one that is to have it.
        until: when the next window opens.
    """

    moves: Mapping[TaskId, tuple[str, str]] = field(default_factory=dict)
    until: str = ""

    @property
    def described(self) -> str:
        """What waits until when; empty for nothing."""
        if not self.moves:
            return ""
        count = len(self.moves)
        named = [
            f"{task} from {giver} to {taker}"
            for task, (giver, taker) in sorted(self.moves.items())[:_NAMED]
        ]
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        return (
            f"{counted(count, 'move for balance waits', 'moves for balance wait')} "
            f"until {self.until} (spec.assignment.moveWindows): {', '.join(named)}{more}"
        )


def hold_back(
    scene: Scene, target: GroupAssignment, members: Collection[str]
) -> tuple[GroupAssignment, Waiting]:
    """Return the target without the moves that may wait, and those moves.

    Args:
        scene: what is known.
        target: the balanced assignment.
        members: the workers that it is about.
    """
    windows, minute = scene.app.spec.assignment.move_windows, scene.observed.minute
    if may_move(windows, minute):
        return target, Waiting()
    keepers = {
        task: worker.name
        for worker in scene.workers
        if worker.name in members and _keeps(worker)
        for task in worker.spec.active
    }
    joining = {worker.name for worker in scene.workers if worker.spec.joining}
    preferred = scene.demands.preferred
    making_room = set(preferred.values())
    moves = {
        task: (keepers[task], owner)
        for task, owner in target.owners().items()
        if keepers.get(task, owner) != owner
        and owner not in joining
        and task not in preferred
        and keepers[task] not in making_room
    }
    if not moves:
        return target, Waiting()
    active: dict[str, set[TaskId]] = {name: set(tasks) for name, tasks in target.active.items()}
    for task, (giver, taker) in moves.items():
        active[taker].discard(task)
        active.setdefault(giver, set()).add(task)
    held = replace(
        target,
        active={name: tuple(sorted(tasks)) for name, tasks in active.items()},
        standby=_standbys(scene, target, members, moves),
    )
    return held, Waiting(moves=moves, until=shown(next_opening(windows, minute)))


def _standbys(
    scene: Scene,
    target: GroupAssignment,
    members: Collection[str],
    moves: Mapping[TaskId, tuple[str, str]],
) -> dict[str, tuple[TaskId, ...]]:
    """Return where standbys are to be while moves wait: where they are, if there are enough.

    The target's are for the time after the moves. A copy that warms up for one of them would draw
    another task there at the next look, and so on without end.
    """
    owners = {**target.owners(), **{task: giver for task, (giver, _) in moves.items()}}
    found: dict[str, set[TaskId]] = {name: set() for name in target.standby}
    meant: dict[TaskId, list[str]] = {}
    for name, tasks in target.standby.items():
        for task in tasks:
            meant.setdefault(task, []).append(name)
    for task, names in meant.items():
        there = [
            worker.name
            for worker in scene.workers
            if worker.name in members and task in worker.spec.standby
        ]
        # Where the task is, no standby of it can be; where it is to be, one is welcome.
        places = [*there, *names, *([moves[task][1]] if task in moves else [])]
        places = [name for name in dict.fromkeys(places) if name != owners[task]]
        for name in places[: len(names)]:
            found.setdefault(name, set()).add(task)
    return {name: tuple(sorted(tasks)) for name, tasks in found.items()}


def _keeps(worker: Judged) -> bool:
    """Whether a worker can go on with its tasks: it is there, and nothing was taken from it."""
    return worker.is_live and worker.is_bound and not worker.owes_fence


def joins(scene: Scene, worker: Judged, target: Collection[TaskId] | None, *, anew: bool) -> bool:
    """Whether a worker has yet to get its share of the tasks.

    Args:
        scene: what is known.
        worker: which.
        target: the tasks that are meant for it; ``None`` while that is not known.
        anew: it is added again, or its process is about to be replaced on purpose.
    """
    if not scene.app.spec.assignment.move_windows:
        return False
    if anew:
        return True
    is_current = worker.view.revision in ("", scene.observed.revision)
    is_there = worker.is_live and is_current and not was_told_just_now(scene, worker)
    has_share = target is not None and is_there and set(target) <= set(worker.spec.active)
    return worker.spec.joining and not has_share
