"""Which tasks of a worker should change places, by how busy they keep their StreamThreads.

``assign_to_slots`` gives each slot as many tasks as the others. Where tasks cost different amounts,
one StreamThread may have all the work. Then two tasks of the same kind change places, or one goes
to a slot that has fewer: the counts stay as balanced as they were, so the assignment holds. A task
that changes its slot is closed and opened; nothing is restored. So a task with a store in memory,
which is lost with its process, stays where it is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.assignor.threads import assign_to_slots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from headwater.ids import TaskId

WINDOW_MS: Final = 30_000
"""Over so long a time the load of a task is measured."""
PAUSE_MS: Final = 60_000
"""So long after a change the next one is thought of."""
BUSY: Final = 0.7
"""The busiest slot has at least this load, as a share of the time, or nothing is changed."""
GAIN: Final = 0.15
"""A change takes at least so much off the busiest slot, as a share of the time."""


@dataclass(slots=True)
class TaskLoad:
    """How busy one task has kept the slot that it runs in.

    Attributes:
        slot: where it runs.
        since_ms: when the measurement began.
        busy_s: how long it had been processed by then, in seconds since it was opened.
        load: the share of the time in the last whole window; ``None`` before the first.
    """

    slot: int
    since_ms: int
    busy_s: float
    load: float | None = None


@dataclass(slots=True)
class Loads:
    """The loads of a worker's tasks, and where they were put because of them.

    Attributes:
        places: the slot of each task that has changed its place.
        window_ms: over so long a time loads are measured.
        pause_ms: so long after a change the next one is thought of.
    """

    places: dict[TaskId, int] = field(default_factory=dict)
    window_ms: int = WINDOW_MS
    pause_ms: int = PAUSE_MS
    _tasks: dict[TaskId, TaskLoad] = field(default_factory=dict)
    _changed_ms: int = 0

    def observe(self, slot: int, busy_s: Mapping[TaskId, float], now_ms: int) -> None:
        """Learn what a StreamThread says of its tasks.

        Args:
            slot: the StreamThread's.
            busy_s: how long each task has been processed since it was opened, in seconds.
            now_ms: boot-time clock.
        """
        for task_id, busy in busy_s.items():
            known = self._tasks.get(task_id)
            if known is None or known.slot != slot or busy < known.busy_s:
                self._tasks[task_id] = TaskLoad(slot, now_ms, busy)
            elif now_ms - known.since_ms >= self.window_ms:
                known.load = (busy - known.busy_s) * 1000 / (now_ms - known.since_ms)
                known.since_ms, known.busy_s = now_ms, busy

    def rebalance(
        self,
        placed: Mapping[TaskId, int],
        slots: Collection[int],
        stateless: Collection[TaskId],
        fixed: Collection[TaskId],
        now_ms: int,
    ) -> None:
        """Note in ``places`` who is to change places, if that is worth it.

        Args:
            placed: the slot in which each task runs; to be asked while none is on its way.
            slots: those that may have tasks.
            stateless: the tasks without state.
            fixed: the tasks that stay, because they have a store in memory.
            now_ms: boot-time clock.
        """
        if now_ms - self._changed_ms < self.pause_ms or len(slots) < 2:
            return
        if not set(slots).issuperset(placed.values()):
            return  # The tasks of a slot that is given up are about to be placed anew.
        loads = {task_id: self._load_of(task_id, slot) for task_id, slot in placed.items()}
        known = {task_id: load for task_id, load in loads.items() if load is not None}
        if len(known) < len(placed):
            return
        found = better_places(known, placed, slots, frozenset(stateless), frozenset(fixed))
        if found:
            self.places.update(found)
            self._changed_ms = now_ms
            self._tasks.clear()

    def forget_others(self, tasks: Collection[TaskId], slots: Collection[int]) -> None:
        """Forget the loads and places of all but these tasks, and places in other slots."""
        for task_id, slot in list(self.places.items()):
            if task_id not in tasks or slot not in slots:
                del self.places[task_id]
        for task_id in self._tasks.keys() - set(tasks):
            del self._tasks[task_id]

    def _load_of(self, task_id: TaskId, slot: int) -> float | None:
        known = self._tasks.get(task_id)
        return known.load if known is not None and known.slot == slot else None


def better_places(
    loads: Mapping[TaskId, float],
    placed: Mapping[TaskId, int],
    slots: Collection[int],
    stateless: frozenset[TaskId],
    fixed: frozenset[TaskId] = frozenset(),
) -> dict[TaskId, int]:
    """Return new slots for one task or two, or nothing if no change is worth it.

    Args:
        loads: how busy each task keeps its slot, as a share of the time.
        placed: the slot of each task.
        slots: those that may have tasks.
        stateless: the tasks without state.
        fixed: the tasks that stay, because they have a store in memory.
    """
    totals = dict.fromkeys(slots, 0.0)
    members: dict[int, list[TaskId]] = defaultdict(list)
    for task_id, slot in sorted(placed.items()):
        totals[slot] += loads[task_id]
        if task_id not in fixed:
            members[slot].append(task_id)
    busiest = max(sorted(totals), key=lambda slot: totals[slot])
    if totals[busiest] < BUSY:
        return {}
    candidates: list[tuple[float, dict[TaskId, int]]] = []
    for other in sorted(totals.keys() - {busiest}):
        for moved in _changes(busiest, other, members, stateless):
            shift = sum(loads[t] if slot == other else -loads[t] for t, slot in moved.items())
            candidates.append((max(totals[busiest] - shift, totals[other] + shift), moved))
    for highest, moved in sorted(candidates, key=lambda one: (one[0], len(one[1]))):
        if totals[busiest] - highest < GAIN:
            return {}
        if _holds({**placed, **moved}, slots, stateless):
            return moved
    return {}


def _changes(
    busiest: int, other: int, members: Mapping[int, list[TaskId]], stateless: frozenset[TaskId]
) -> Iterator[dict[TaskId, int]]:
    """Give each single move to another slot, and each exchange of two tasks of the same kind."""
    for given in members.get(busiest, ()):
        yield {given: other}
        for taken in members.get(other, ()):
            if (given in stateless) == (taken in stateless):
                yield {given: other, taken: busiest}


def _holds(
    places: Mapping[TaskId, int], slots: Collection[int], stateless: frozenset[TaskId]
) -> bool:
    """Whether the assignor leaves every task where these places have it."""
    placed = assign_to_slots(places, slots=slots, owned=places, stateless=stateless & places.keys())
    return all(places[task_id] == slot for slot, tasks in placed.items() for task_id in tasks)
