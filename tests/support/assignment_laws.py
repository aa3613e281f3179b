"""The laws of an assignment, as functions that name every breach. Empty means lawful."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from headwater.assignor.spread import Sites

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from headwater.assignor.group import Group, GroupAssignment
    from headwater.assignor.refine import Step
    from headwater.assignor.staging import Holder
    from headwater.ids import TaskId


def breaches(group: Group, assignment: GroupAssignment) -> tuple[str, ...]:
    """Return every breach of: total, exclusive, known, balanced, and of those of standbys."""
    return (
        *_not_total(group, assignment),
        *shared_tasks(assignment.active),
        *_unknown(group, assignment),
        *_unbalanced(group, assignment, group.stateful, "stateful tasks"),
        *_unbalanced(group, assignment, group.tasks, "tasks"),
        *standby_breaches(group, assignment),
    )


def standby_breaches(group: Group, assignment: GroupAssignment) -> tuple[str, ...]:
    """Return every breach of: as many standbys as can be, apart, spread, balanced."""
    owners = assignment.owners()
    copies: dict[TaskId, list[str]] = {task: [] for task in group.can_stand_by}
    found: list[str] = []
    for name, tasks in sorted(assignment.standby.items()):
        for task in tasks:
            if task not in copies:
                found.append(f"task {task} cannot have a standby, {name} has one")
                continue
            copies[task].append(name)
    for task, names in sorted(copies.items()):
        if len(names) != max(0, group.replicas):
            found.append(f"task {task} has {len(names)} standbys instead of {group.replicas}")
        if len({owners[task], *names}) <= len(names):
            found.append(f"two copies of task {task} are on one of {owners[task]}, {names}")
    return (*found, *(_badly_placed(group, assignment, owners, copies) if not found else ()))


def _badly_placed(
    group: Group,
    assignment: GroupAssignment,
    owners: Mapping[TaskId, str],
    copies: Mapping[TaskId, list[str]],
) -> Iterator[str]:
    """Yield every single move of a standby that spreads its task better, or levels the loads."""
    sites = Sites(group.members, group.topology_keys)
    threads = {member.name: member.threads for member in group.members}
    counts = {
        name: sum(task in group.stateful for task in assignment.active.get(name, ()))
        + len(assignment.standby.get(name, ()))
        for name in threads
    }
    for task, names in sorted(copies.items()):
        present = {owners[task], *names}
        for source in names:
            for other in sorted(threads.keys() - present):
                now, then = sites.total(present), sites.total(present - {source} | {other})
                if then < now:
                    yield f"the standby of {task} on {source} were further apart on {other}"
                is_level = counts[source] / threads[source] <= (counts[other] + 1) / threads[other]
                if then == now and not is_level:
                    yield f"the standby of {task} on {source} were more level on {other}"


def shared_tasks(held: Mapping[str, Iterable[TaskId]]) -> tuple[str, ...]:
    """Return a sentence for every task that more than one worker holds."""
    holders: dict[TaskId, list[str]] = {}
    for name, tasks in sorted(held.items()):
        for task in tasks:
            holders.setdefault(task, []).append(name)
    return tuple(
        f"task {task} is active on {' and '.join(names)}"
        for task, names in sorted(holders.items())
        if len(names) > 1
    )


def standby_moves(before: Mapping[str, Iterable[TaskId]], after: GroupAssignment) -> int:
    """Count the standbys that were there and are not any more."""
    return sum(len(set(tasks) - set(after.standby.get(name, ()))) for name, tasks in before.items())


def moves(before: Mapping[str, Iterable[TaskId]], after: GroupAssignment) -> int:
    """Count the tasks that had an owner and now have another."""
    owners = {task: name for name, tasks in before.items() for task in tasks}
    return sum(
        owners[task] != name
        for name, tasks in after.active.items()
        for task in tasks
        if task in owners
    )


def _not_total(group: Group, assignment: GroupAssignment) -> tuple[str, ...]:
    given = {task for tasks in assignment.active.values() for task in tasks}
    return tuple(f"task {task} is given to nobody" for task in sorted(group.tasks - given))


def _unknown(group: Group, assignment: GroupAssignment) -> tuple[str, ...]:
    names = {member.name for member in group.members}
    strangers = (f"{name} is no member" for name in sorted(set(assignment.active) - names))
    given = {task for tasks in assignment.active.values() for task in tasks}
    inventions = (f"task {task} does not exist" for task in sorted(given - group.tasks))
    return (*strangers, *inventions)


def _unbalanced(
    group: Group, assignment: GroupAssignment, counted: frozenset[TaskId], what: str
) -> tuple[str, ...]:
    """One move from ``source`` to ``destination`` must not level their loads (tasks per thread)."""
    counts = {
        member.name: sum(task in counted for task in assignment.active.get(member.name, ()))
        for member in group.members
    }
    return tuple(
        f"{source.name} has {counts[source.name]} {what} for {source.threads} threads, "
        f"{destination.name} has {counts[destination.name]} for {destination.threads}"
        for source, destination in permutations(group.members, 2)
        if counts[source.name] / source.threads
        > (counts[destination.name] + 1) / destination.threads
    )


def given_up(
    holders: Iterable[Holder], steps: Mapping[str, Step], movable: Collection[TaskId]
) -> tuple[str, ...]:
    """Return a sentence for every task whose only warm copy the steps give up.

    Warm is whoever could process the task at once: who does, and who has a caught-up copy.
    """
    warm: dict[TaskId, list[str]] = {}
    kept: set[TaskId] = set()
    for holder in holders:
        step = steps[holder.name]
        stay = {*step.hold, *step.standby, *step.warmup}
        has = {*holder.standby, *holder.warmup} - holder.held
        running = holder.running & holder.held - holder.releasing
        for task in {*running, *(task for task in has if holder.is_caught_up(task))}:
            # What has to go now, or is on its way out already, is not given up here.
            if task not in movable or holder.is_late or not holder.is_live:
                continue
            warm.setdefault(task, []).append(holder.name)
            if task in stay:
                kept.add(task)
    return tuple(
        f"the only warm copy of task {task}, on {' and '.join(names)}, is given up"
        for task, names in sorted(warm.items())
        if task not in kept
    )
