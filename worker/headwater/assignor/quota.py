"""How many tasks each of several takers gets, which of its own it keeps, where the rest goes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from headwater.assignor.group import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headwater.ids import TaskId


@dataclass(frozen=True, slots=True)
class Taker:
    """Somebody who can take tasks: a worker with threads, or a slot.

    Attributes:
        name: breaks ties.
        capacity: the load is tasks per capacity.
        base: tasks it has already, of a kind that is not to be shared out now.
        owned: how many of the tasks to share out it has now; ties go to whoever can keep one more.
        near: how many tasks that nobody has are stored furthest with it; it decides further ties.
    """

    name: str
    capacity: int
    base: int
    owned: int
    near: int = 0


def shares(count: int, takers: Sequence[Taker]) -> dict[str, int]:
    """Share out ``count`` tasks so that no single move between two takers would level their loads.

    One after the other goes to the taker whose load is the lowest with it (D'Hondt's method). Among
    equals it goes to one that can keep a task it owns, so that balance costs the fewest moves.
    """
    given = {taker.name: 0 for taker in takers}

    def entry(taker: Taker) -> tuple[float, bool, bool, str, Taker]:
        has = given[taker.name]
        return (
            (taker.base + has + 1) / taker.capacity,
            has >= taker.owned,
            has >= taker.owned + taker.near,
            taker.name,
            taker,
        )

    heap = [entry(taker) for taker in takers]
    heapify(heap)
    for _ in range(count):
        taker = heap[0][-1]
        given[taker.name] += 1
        heapreplace(heap, entry(taker))
    return given


def keep(
    owned: Collection[TaskId], share: int, near: Mapping[TaskId, int] | None = None
) -> tuple[TaskId, ...]:
    """Choose which ``share`` of its tasks a taker keeps: an even mix of sub-topologies.

    Tasks of one sub-topology cost about the same, so an even mix is an even load.

    Args:
        owned: what it has.
        share: how many it keeps at most.
        near: how near the nearest of those is that could have a task; what is near goes first.
    """
    elsewhere = near or {}
    kept: dict[int, list[TaskId]] = {}
    for task in sorted(owned, key=lambda task: (elsewhere.get(task, NOWHERE), task)):
        kept.setdefault(task.subtopology, []).append(task)
    for _ in range(len(owned) - share):
        largest = max(kept, key=lambda subtopology: (len(kept[subtopology]), subtopology))
        kept[largest].pop()
    return tuple(sorted(task for tasks in kept.values() for task in tasks))


class Places:
    """Finds a taker for one task after the other.

    Args:
        room: how many more each taker is to get.
        placed: what each has so far. Both are brought up to date with every task.
    """

    def __init__(self, room: dict[str, int], placed: Mapping[str, list[TaskId]]) -> None:
        self._room = room
        self._placed = placed
        self._sizes: dict[str, dict[int, int]] = {}
        for name, tasks in placed.items():
            sizes: dict[int, int] = {}
            for task in tasks:
                sizes[task.subtopology] = sizes.get(task.subtopology, 0) + 1
            self._sizes[name] = sizes
        self._heaps: dict[int, list[tuple[int, int, str]]] = {}

    def place(self, task: TaskId, near: Mapping[str, int]) -> None:
        """Give ``task`` to a taker with room.

        The one that is nearest to the end of its changelogs; else the one with the fewest tasks of
        its sub-topology, then with the most room, then the first by name.

        Args:
            task: to be placed; there is room for it.
            near: how near each taker is; those without any state of it are left out.
        """
        subtopology = task.subtopology
        nearest = min(
            (name for name in near if self._room.get(name, 0) > 0),
            key=lambda name: (-near[name], *self._entry(subtopology, name)),
            default=None,
        )
        name = nearest if nearest is not None else self._roomiest(subtopology)
        self._placed[name].append(task)
        self._room[name] -= 1
        sizes = self._sizes[name]
        sizes[subtopology] = sizes.get(subtopology, 0) + 1

    def _entry(self, subtopology: int, name: str) -> tuple[int, int, str]:
        return (self._sizes[name].get(subtopology, 0), -self._room[name], name)

    def _roomiest(self, subtopology: int) -> str:
        """Return the first in order. Entries only grow, so one that is out of date is too small."""
        heap = self._heaps.get(subtopology)
        if heap is None:
            heap = [self._entry(subtopology, name) for name, left in self._room.items() if left > 0]
            heapify(heap)
            self._heaps[subtopology] = heap
        while True:
            name = heap[0][-1]
            entry = self._entry(subtopology, name)
            if self._room[name] == 0:
                heappop(heap)
            elif entry != heap[0]:
                heapreplace(heap, entry)
            else:
                return name
