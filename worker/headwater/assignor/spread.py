"""Where standbys go: apart from the active task and from each other, level, moving the fewest.

Kafka Streams' rack-aware standbys (KIP-708): the copies of a task are spread over the values of the
first topology key (zones), then of the next (nodes). Of places that are equally far apart, one that
has a copy already comes first, then the one that is nearest to the end of the changelogs, then the
least loaded. In the end standbys move to less loaded members as long as no task is spread worse.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from headwater.assignor.group import CAUGHT_UP, NOWHERE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headwater.assignor.group import Group, Member
    from headwater.ids import TaskId

    Cost = tuple[int, ...]


def spread(
    group: Group,
    active: Mapping[str, Sequence[TaskId]],
    near: Mapping[TaskId, Mapping[str, int]],
) -> dict[str, tuple[TaskId, ...]]:
    """Choose the standbys of every task that can have some.

    Args:
        group: the question.
        active: the answer so far.
        near: by task how near each member with state of it is.

    Returns:
        the standbys of every member, sorted; empty if there are to be none.
    """
    if group.replicas <= 0 or not group.can_stand_by:
        return {}
    sites = Sites(group.members, group.topology_keys)
    present: dict[TaskId, set[str]] = {}
    for member in group.members:
        for task in member.standby:
            present.setdefault(task, set()).add(member.name)
    while True:
        found = _Spreading(group, active, near, sites).answer(present)
        # With one key the first answer is the best there is. With more, a better one may show once
        # standbys have been levelled; every answer is spread at least as well as the one before.
        if found == present or len(sites.keys) < 2:
            break
        present = found
    standby: dict[str, list[TaskId]] = {member.name: [] for member in group.members}
    for task in sorted(found):
        for name in found[task]:
            standby[name].append(task)
    return {name: tuple(tasks) for name, tasks in sorted(standby.items())}


class Sites:
    """Where members run, and what it costs to have copies of a task there.

    Args:
        members: of the group.
        topology_keys: the most important first. One by which no two members differ is left out.
    """

    def __init__(self, members: Iterable[Member], topology_keys: Sequence[str]) -> None:
        everybody = list(members)
        self.keys = tuple(
            key
            for key in topology_keys
            if len({member.labels.get(key, "") for member in everybody}) > 1
        )
        self._places = {
            member.name: tuple(member.labels.get(key, "") for key in self.keys)
            for member in everybody
        }
        self._values = [len({places[i] for places in self._places.values()}) for i in self._depths]

    @property
    def _depths(self) -> range:
        return range(len(self.keys))

    def cost(self, name: str, others: Iterable[str]) -> Cost:
        """Return by key with how many of ``others`` a member shares its place."""
        mine = self._places[name]
        theirs = [self._places[other] for other in others]
        return tuple(sum(place[i] == mine[i] for place in theirs) for i in self._depths)

    def total(self, names: Collection[str]) -> Cost:
        """Return by key how many pairs of ``names`` share a place."""
        found = [0] * len(self.keys)
        for i in self._depths:
            counts: dict[str, int] = {}
            for name in names:
                place = self._places[name][i]
                found[i] += counts.get(place, 0)
                counts[place] = counts.get(place, 0) + 1
        return tuple(found)

    def least(self, others: Collection[str]) -> Cost:
        """Return a cost that no further member is below."""
        found = []
        for i in self._depths:
            counts: dict[str, int] = {}
            for other in others:
                place = self._places[other][i]
                counts[place] = counts.get(place, 0) + 1
            found.append(0 if len(counts) < self._values[i] else min(counts.values()))
        return tuple(found)


class _Spreading:
    """One round over all tasks."""

    def __init__(
        self,
        group: Group,
        active: Mapping[str, Sequence[TaskId]],
        near: Mapping[TaskId, Mapping[str, int]],
        sites: Sites,
    ) -> None:
        self._replicas = group.replicas
        self._tasks = sorted(group.can_stand_by)
        self._near = near
        self._sites = sites
        self._threads = {member.name: member.threads for member in group.members}
        self._owners = {
            task: name
            for name, tasks in active.items()
            for task in tasks
            if task in group.can_stand_by
        }
        # What counts is state: active tasks that have some, and standbys.
        self._counts = {
            name: sum(task in group.stateful for task in active.get(name, ()))
            for name in sorted(self._threads)
        }
        self._heap = [(self._load(name), name) for name in self._counts]
        heapify(self._heap)
        self._chosen: dict[TaskId, set[str]] = {}

    def answer(self, present: Mapping[TaskId, set[str]]) -> dict[TaskId, set[str]]:
        """Return the members with a standby of each task.

        Args:
            present: those that have one now.
        """
        for task in self._tasks:
            names = self._choose(task, present.get(task, set()))
            self._chosen[task] = names
            for name in names:
                self._counts[name] += 1
        self._level()
        return self._chosen

    def _load(self, name: str) -> float:
        """Return the load of a member with one more."""
        return (self._counts[name] + 1) / self._threads[name]

    def _choose(self, task: TaskId, present: set[str]) -> set[str]:
        owner = self._owners[task]
        stay = {name for name in present if name != owner and name in self._threads}
        if len(stay) == self._replicas and not any(self._total(owner, stay)):
            return stay  # No two of them share a place: there is nothing better.
        near = {name: how for name, how in self._near.get(task, {}).items() if name != owner}
        taken = [owner]
        while len(taken) <= self._replicas:
            best = self._emptiest(taken)
            cost = self._sites.cost(best, taken)
            known = [
                name
                for name in {*stay, *near}
                if name not in taken and self._sites.cost(name, taken) <= cost
            ]
            taken.append(
                min(
                    known,
                    key=lambda name: (
                        self._sites.cost(name, taken),
                        name not in stay,
                        -near.get(name, NOWHERE),
                        self._load(name),
                        name,
                    ),
                    default=best,
                )
            )
        if len(stay) == self._replicas and self._total(owner, stay) <= self._sites.total(taken):
            return stay
        return set(taken[1:])

    def _total(self, owner: str, names: set[str]) -> Cost:
        return self._sites.total([owner, *names])

    def _emptiest(self, taken: list[str]) -> str:
        """Return the least loaded of those that are the furthest from ``taken``."""
        least = self._sites.least(taken)
        best: tuple[Cost, float, str] | None = None
        aside: list[tuple[float, str]] = []
        while self._heap:
            load, name = heappop(self._heap)
            if load != self._load(name):
                # Loads only grow meanwhile, so one that is out of date is too small.
                heappush(self._heap, (self._load(name), name))
                continue
            aside.append((load, name))
            if name in taken:
                continue
            cost = self._sites.cost(name, taken)
            if best is None or (cost, load, name) < best:
                best = (cost, load, name)
            if cost == least:
                break
        for entry in aside:
            heappush(self._heap, entry)
        assert best is not None
        return best[-1]

    def _level(self) -> None:
        """Move standbys to less loaded members until no single move makes the loads more level."""
        standby: dict[str, set[TaskId]] = {name: set() for name in self._counts}
        for task, names in self._chosen.items():
            for name in names:
                standby[name].add(task)
        has_moved = True
        while has_moved:
            has_moved = False
            takers = [(self._load(name), name) for name in self._counts]
            heapify(takers)
            for source in sorted(standby, key=lambda name: (-self._load(name), name)):
                has_moved = self._relieve(source, standby, takers) or has_moved

    def _relieve(
        self, source: str, standby: dict[str, set[TaskId]], takers: list[tuple[float, str]]
    ) -> bool:
        """Move standbys away from ``source``; return whether one could be moved."""
        has_moved = False
        aside: list[tuple[float, str]] = []
        while takers and self._counts[source] / self._threads[source] > takers[0][0]:
            load, taker = heappop(takers)
            if load != self._load(taker):
                heappush(takers, (self._load(taker), taker))
                continue
            task = self._movable(standby[source], source, taker)
            if task is None:
                aside.append((load, taker))
                continue
            standby[source].remove(task)
            standby[taker].add(task)
            self._chosen[task] = self._chosen[task] - {source} | {taker}
            self._counts[source] -= 1
            self._counts[taker] += 1
            heappush(takers, (self._load(taker), taker))
            has_moved = True
        for entry in aside:
            heappush(takers, entry)
        return has_moved

    def _movable(self, tasks: set[TaskId], source: str, taker: str) -> TaskId | None:
        """Return what ``taker`` can take from ``source``: the nearest to it, new copies first."""

        def order(task: TaskId) -> tuple[int, bool, TaskId]:
            near = self._near.get(task, {})
            return -near.get(taker, NOWHERE), near.get(source) == CAUGHT_UP, task

        for task in sorted(tasks, key=order):
            owner, names = self._owners[task], self._chosen[task]
            if taker == owner or taker in names:
                continue
            if self._total(owner, names - {source} | {taker}) <= self._total(owner, names):
                return task
        return None
