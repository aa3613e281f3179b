"""The target assignment: every task to exactly one worker, balanced, moving the fewest.

Stateful tasks first, stateless ones on top of them (kafka-streams' ``HighAvailabilityTaskAssignor``
and the broker's sticky assignor have the same two passes). Within a pass a worker keeps what it has
up to its share; the rest goes to workers with room: first to one with a caught-up copy, then to the
one that is nearest to the end of the changelogs. Standbys come last (``spread``).

This is where tasks are to be in the end. What a worker may hold now is ``refine``'s to say.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headwater.assignor.group import Group, GroupAssignment, Member
from headwater.assignor.quota import Places, Taker, keep, shares
from headwater.assignor.spread import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId

    Nearness = Mapping[TaskId, Mapping[str, int]]


def assign(group: Group) -> GroupAssignment:
    """Give every task to exactly one member, and its standbys to others.

    The answer depends on nothing but ``group``; asked again with its own answer it does not change.

    Args:
        group: with at least one member. A task that two members claim as active stays with the
            first by name.
    """
    assert group.members
    members = sorted(group.members, key=lambda member: member.name)
    placed: dict[str, list[TaskId]] = {member.name: [] for member in members}
    owners = _owners(members, group.preferred)
    near = nearness_of(members)
    for tasks in (group.stateful, group.stateless):
        _share_out(tasks, members, owners, placed, near, frozenset(group.preferred))
    active = {name: tuple(sorted(tasks)) for name, tasks in placed.items()}
    return GroupAssignment(active=active, standby=spread(group, active, near))


def nearness_of(members: list[Member]) -> dict[TaskId, dict[str, int]]:
    """Return by task how near each member with state of it is to the end of its changelogs."""
    found: dict[TaskId, dict[str, int]] = {}
    for member in members:
        for task, near in member.nearness().items():
            found.setdefault(task, {})[member.name] = near
    return found


def _owners(members: list[Member], preferred: Mapping[TaskId, str]) -> dict[TaskId, str]:
    names = {member.name for member in members}
    owners = {task: name for task, name in preferred.items() if name in names}
    for member in members:
        for task in member.active:
            owners.setdefault(task, member.name)
    return owners


def _share_out(
    tasks: frozenset[TaskId],
    members: list[Member],
    owners: dict[TaskId, str],
    placed: dict[str, list[TaskId]],
    near: Nearness,
    preferred: frozenset[TaskId],
) -> None:
    """Add ``tasks`` to ``placed``; who has ``preferred`` ones keeps these first."""
    owned: dict[str, list[TaskId]] = {member.name: [] for member in members}
    for task in tasks & owners.keys():
        owned[owners[task]].append(task)
    nearest = Counter(
        name for task in tasks if task not in owners for name in _nearest(near.get(task, {}))
    )
    share = shares(
        len(tasks),
        [
            Taker(
                name=member.name,
                capacity=member.threads,
                base=len(placed[member.name]),
                owned=len(owned[member.name]),
                near=nearest.get(member.name, 0),
            )
            for member in members
        ],
    )
    with_room = {name for name, its in owned.items() if len(its) < share[name]}
    settled: set[TaskId] = set()
    room: dict[str, int] = {}
    for name, its in owned.items():
        elsewhere = {} if len(its) <= share[name] else _elsewhere(its, near, with_room)
        first = sorted(preferred & set(its))[: share[name]] if preferred else []
        rest = [task for task in its if task not in first]
        kept = (*first, *keep(rest, share[name] - len(first), elsewhere))
        placed[name].extend(kept)
        settled.update(kept)
        room[name] = share[name] - len(kept)
    places = Places(room, placed)
    for task in sorted(tasks - settled, key=lambda task: _order(task, near)):
        places.place(task, near.get(task, {}))


def _nearest(near: Mapping[str, int]) -> list[str]:
    """Return who is nearest."""
    best = max(near.values(), default=0)
    return [name for name, how in near.items() if how == best]


def _elsewhere(tasks: list[TaskId], near: Nearness, with_room: set[str]) -> dict[TaskId, int]:
    """Return how near the nearest of those with room is, for tasks of which they have state."""
    found: dict[TaskId, int] = {}
    for task in tasks:
        ways = [how for name, how in near.get(task, {}).items() if name in with_room]
        if ways:
            found[task] = max(ways)
    return found


def _order(task: TaskId, near: Nearness) -> tuple[int, int, TaskId]:
    """Order who chooses first: the furthest state first, then those with less choice."""
    found = near.get(task)
    if not found:
        return (1, 0, task)
    best = max(found.values())
    return (-best, sum(how == best for how in found.values()), task)
