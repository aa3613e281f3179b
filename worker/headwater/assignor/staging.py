"""Where tasks with state are until the target can be carried out, and which copies that takes.

The refiner of the broker's streams groups (KIP-1071, after KIP-441's warm-ups): a task whose worker
of the target has no caught-up copy stays where it is, or goes to whoever has one; where it is to be
in the end it is restored as a warm-up task first. Warm-ups are copies beyond the standbys, so there
are never more than ``max_warmups`` of them. A standby that changes its place does the same: the old
one stays until the new one has caught up.

A warm copy is one that could take its task over at once. The last one is never given up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from headwater.assignor.group import CAUGHT_UP, NOWHERE
from headwater.model.cluster import OFFSET_BUCKET, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.assignor.group import GroupAssignment
    from headwater.ids import TaskId

    Roles = dict[str, Role]


class Why(StrEnum):
    """Why a task has come to where it is."""

    LEVEL = "the load is level so, and no state of it was anywhere nearer"
    NEAREST = "its state here was the nearest to the end of its changelogs"
    CAUGHT_UP = "its copy here had caught up"
    STANDBY = "as a standby: apart from the task and from its other copies, and level"
    WARMUP = "as a warm-up: the task is to move here once it has caught up"
    STANDBY_MOVES = "as a warm-up: a standby is to move here once it has caught up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One worker, as it is at this moment.

    Attributes:
        name: the worker's name.
        threads: its capacity.
        held: every task it may hold as active, in whatever state.
        releasing: those of ``held`` that were asked back already.
        running: active tasks that it processes: their state is complete.
        standby: tasks of which it is to keep a standby.
        warmup: tasks it is to restore in order to take them over.
        near: how near it is to the end of the changelogs, as :meth:`Member.nearness`.
        stalled: its warm-ups that have made no progress for too long.
        is_live: its process is there; only then do its copies count.
        can_take: tasks and copies can be given to it now.
        is_leaving: it is to release everything and end.
        is_late: it was to have ended by now: its tasks move without waiting for their state.
    """

    name: str
    threads: int = 1
    held: frozenset[TaskId] = frozenset()
    releasing: frozenset[TaskId] = frozenset()
    running: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()
    near: Mapping[TaskId, int] = field(default_factory=dict)
    stalled: frozenset[TaskId] = frozenset()
    is_live: bool = True
    can_take: bool = True
    is_leaving: bool = False
    is_late: bool = False

    def is_caught_up(self, task: TaskId) -> bool:
        """Whether it has a copy that could take ``task`` over at once."""
        return self.is_live and self.near.get(task) == CAUGHT_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How tasks move.

    Attributes:
        movable: tasks that move behind a warm-up; all others move at once.
        replicas: how many standbys each of them is to have.
        max_warmups: how many warm-ups there may be at a time, at least 1.
    """

    movable: frozenset[TaskId] = frozenset()
    replicas: int = 0
    max_warmups: int = 2


@dataclass(slots=True)
class Copies:
    """Standby and warm-up tasks by worker.

    Attributes:
        standby: as wanted now.
        warmup: as wanted now.
        why: of those that are new.
    """

    standby: dict[str, set[TaskId]] = field(default_factory=dict)
    warmup: dict[str, set[TaskId]] = field(default_factory=dict)
    why: dict[str, dict[TaskId, Why]] = field(default_factory=dict)

    def put(self, name: str, task: TaskId, role: Role, why: Why | None = None) -> None:
        """Add one copy."""
        by_worker = self.standby if role is Role.STANDBY else self.warmup
        by_worker.setdefault(name, set()).add(task)
        if why is not None:
            self.why.setdefault(name, {})[task] = why

    @property
    def warmups(self) -> int:
        """How many warm-ups there are."""
        return sum(map(len, self.warmup.values()))


def stage(
    target: GroupAssignment, workers: Mapping[str, Holder], rules: Rules
) -> dict[str, tuple[TaskId, ...]]:
    """Return the active tasks of every worker as far as the target can be carried out now."""
    staged: dict[str, list[TaskId]] = {name: [] for name in target.active}
    loads = {name: len(holder.held) for name, holder in workers.items()}
    holders = held_by(workers)
    takers = _takers(workers, rules)
    for task, owner in sorted(target.owners().items()):
        name = owner
        if task in rules.movable:
            name = _stays(task, owner, holders.get(task, ()), workers)
            name = name or _best(owner, takers.get(task, {}), workers, loads)
        if name not in holders.get(task, ()):
            loads[name] += 1
        staged.setdefault(name, []).append(task)
    return {name: tuple(tasks) for name, tasks in staged.items()}


def held_by(workers: Mapping[str, Holder]) -> dict[TaskId, tuple[str, ...]]:
    """Return by task who may hold it."""
    found: dict[TaskId, tuple[str, ...]] = {}
    for name, holder in sorted(workers.items()):
        for task in holder.held:
            found[task] = (*found.get(task, ()), name)
    return found


def _takers(workers: Mapping[str, Holder], rules: Rules) -> dict[TaskId, dict[str, int]]:
    """Return by task how near those are that could take it over."""
    found: dict[TaskId, dict[str, int]] = {}
    for name, holder in sorted(workers.items()):
        if holder.is_live and not holder.is_leaving:
            for task, near in holder.near.items():
                if task in rules.movable:
                    found.setdefault(task, {})[name] = near
    return found


def _stays(
    task: TaskId, owner: str, holders: tuple[str, ...], workers: Mapping[str, Holder]
) -> str:
    """Return who keeps a task that is held, or its owner if it is to move; empty if neither."""
    keepers = [name for name in holders if task not in workers[name].releasing]
    if owner in keepers or (holders and workers[owner].is_caught_up(task)):
        return owner
    return next((name for name in keepers if not workers[name].is_late), "")


def _best(
    owner: str,
    takers: Mapping[str, int],
    workers: Mapping[str, Holder],
    loads: Mapping[str, int],
) -> str:
    """Return who is to have a task that nobody has.

    Args:
        owner: who is to have it in the end.
        takers: how near those are that could take it.
        workers: as they are.
        loads: how many tasks each has.
    """
    ready = [name for name, near in takers.items() if near == CAUGHT_UP]
    if owner in ready:
        return owner
    if ready:
        return min(ready, key=lambda name: (loads[name] / workers[name].threads, name))
    if not takers or not workers[owner].is_live:
        # If it is not there, it is expected back in a moment, with its state.
        return owner
    nearest = max(takers, key=lambda name: (takers[name], name))
    is_nearer = takers[nearest] >= takers.get(owner, NOWHERE) + OFFSET_BUCKET
    return nearest if is_nearer else owner


@dataclass(frozen=True, slots=True, order=True)
class _Wish:
    """A warm-up that somebody would like to have; the smallest come first."""

    is_not_urgent: bool
    is_standby: bool
    minus_load: float
    taker_load: float
    task: TaskId
    name: str


def copies(
    target: GroupAssignment,
    staged: Mapping[str, Iterable[TaskId]],
    hold: Mapping[str, frozenset[TaskId]],
    workers: Mapping[str, Holder],
    rules: Rules,
) -> Copies:
    """Decide which copies there are to be now.

    Args:
        target: the assignment to arrive at.
        staged: where active tasks are to be now.
        hold: what each worker may hold as active from now on.
        workers: as they are.
        rules: how tasks move.
    """
    found = Copies()
    wishes: list[_Wish] = []
    situations = _situations(target, staged, hold, workers, rules)
    for task in sorted(rules.movable):
        situation = situations.get(task)
        if situation is not None:
            _Task(task, situation, workers, rules, hold).decide(found, wishes)
    _limit(found, workers, rules)
    room = rules.max_warmups - found.warmups
    for wish in sorted(wishes)[: max(0, room)]:
        why = Why.STANDBY_MOVES if wish.is_standby else Why.WARMUP
        found.put(wish.name, wish.task, Role.WARMUP, why)
    return found


@dataclass(slots=True)
class _Situation:
    """Everything about one task.

    Attributes:
        owner: who is to have it in the end.
        now: who is to have it now.
        taken: who holds it, or is granted it: no copy can be there.
        present: the copies there are, on live workers and on those that are expected back.
        wanted: where standbys are to be in the end.
    """

    owner: str
    now: str
    taken: set[str]
    present: Roles
    wanted: list[str]


def _situations(
    target: GroupAssignment,
    staged: Mapping[str, Iterable[TaskId]],
    hold: Mapping[str, frozenset[TaskId]],
    workers: Mapping[str, Holder],
    rules: Rules,
) -> dict[TaskId, _Situation]:
    now = {task: name for name, tasks in staged.items() for task in tasks}
    found = {
        task: _Situation(owner=owner, now=now[task], taken=set(), present={}, wanted=[])
        for task, owner in target.owners().items()
        if task in rules.movable
    }
    for name, holder in sorted(workers.items()):
        for task in holder.held | hold.get(name, frozenset()):
            if task in found:
                found[task].taken.add(name)
        for role, its in ((Role.STANDBY, holder.standby), (Role.WARMUP, holder.warmup)):
            for task in its:
                if task in found and (holder.is_live or name in target.active):
                    found[task].present[name] = role
    for name, tasks in sorted(target.standby.items()):
        for task in tasks:
            if task in found:
                found[task].wanted.append(name)
    for situation in found.values():
        for name in situation.taken:
            situation.present.pop(name, None)
        situation.wanted = [name for name in situation.wanted if name not in situation.taken]
    return found


class _Task:
    """Decides about the copies of one task."""

    def __init__(
        self,
        task: TaskId,
        situation: _Situation,
        workers: Mapping[str, Holder],
        rules: Rules,
        hold: Mapping[str, frozenset[TaskId]],
    ) -> None:
        self._task = task
        self._at = situation
        self._workers = workers
        self._rules = rules
        # It is processed by somebody who keeps it.
        self._is_warm = any(
            task in workers[name].running and task in hold.get(name, ()) for name in situation.taken
        )

    def decide(self, found: Copies, wishes: list[_Wish]) -> None:
        """Add what is to be to ``found``, and what would be good to ``wishes``."""
        at, task = self._at, self._task
        # What is about to be promoted stays as it is until it is.
        heirs = [name for name in at.present if name in (at.owner, at.now)]
        stay = [name for name in at.wanted if name in at.present and name not in heirs]
        spare = self._spare(stay, heirs)
        standbys = {*stay, *spare}
        for name in heirs:
            if at.present[name] is Role.STANDBY:
                standbys.add(name)
            if not self._is_given_up(name):
                found.put(name, task, at.present[name])
        for name in stay:
            if not spare or self._is_caught_up(name):
                found.put(name, task, Role.STANDBY)
            elif not self._is_given_up(name):
                found.put(name, task, at.present[name])
        for name in spare:
            # It stands in for a standby, so the warm-ups that are to replace it are not held up.
            found.put(name, task, Role.STANDBY if self._rules.replicas else at.present[name])
        free = self._rules.replicas - len(standbys)
        # Where the tasks of a lost worker are to be is known better once somebody has them.
        is_settled = at.now in at.taken and self._workers[at.now].is_live
        for name in self._missing():
            if free > 0:
                found.put(name, task, Role.STANDBY, Why.STANDBY)
                free -= 1
            elif is_settled and task not in self._workers[name].stalled:
                wishes.append(self._wish(name))

    def _missing(self) -> list[str]:
        """Return who has no copy and needs one: first who is to have the task in the end."""
        at = self._at
        is_moving = at.owner not in (at.now, *at.taken)
        names = [*([at.owner] if is_moving else []), *at.wanted]
        return [name for name in names if name not in at.present and self._workers[name].can_take]

    def _is_given_up(self, name: str) -> bool:
        """Whether a copy is a warm-up that makes no progress: others are to have its place."""
        return (
            self._at.present[name] is Role.WARMUP
            and self._task in self._workers[name].stalled
            and not self._is_caught_up(name)
        )

    def _spare(self, stay: list[str], heirs: Iterable[str]) -> list[str]:
        """Return the copies nobody wants in the end that are needed until others have caught up."""
        at = self._at
        good = sum(self._is_caught_up(name) for name in {*stay, *heirs})
        spare = sorted(
            (
                name
                for name in at.present
                if name not in stay
                and name not in heirs
                and self._workers[name].is_live
                and not self._workers[name].is_late
            ),
            key=lambda name: (
                not self._is_caught_up(name),
                at.present[name] is not Role.STANDBY,
                -self._workers[name].near.get(self._task, NOWHERE),
                name,
            ),
        )
        needed = max(0, self._rules.replicas - good)
        if not needed and not good and not self._is_warm and spare:
            # The only warm copy, if it is one.
            needed = int(self._is_caught_up(spare[0]))
        return spare[:needed]

    def _is_caught_up(self, name: str) -> bool:
        return self._workers[name].is_caught_up(self._task)

    def _wish(self, name: str) -> _Wish:
        holder, taker = self._workers[self._at.now], self._workers[name]
        return _Wish(
            is_not_urgent=not holder.is_leaving,
            is_standby=name != self._at.owner,
            minus_load=-len(holder.held) / holder.threads,
            taker_load=len(taker.held) / taker.threads,
            task=self._task,
            name=name,
        )


def _limit(found: Copies, workers: Mapping[str, Holder], rules: Rules) -> None:
    """Take away warm-ups above the limit, those that are the furthest from the end first."""
    surplus = found.warmups - rules.max_warmups
    if surplus <= 0:
        return
    given_up = sorted(
        (
            (workers[name].near.get(task, NOWHERE), task, name)
            for name, tasks in found.warmup.items()
            for task in tasks
            if not workers[name].is_caught_up(task)
        ),
    )
    for _, task, name in given_up[:surplus]:
        found.warmup[name].remove(task)
