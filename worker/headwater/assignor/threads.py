"""The tasks of one worker over its slots (Kafka Streams' ``assignTasksToThreads``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.assignor.group import Group, Member
from headwater.assignor.sticky import assign

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TaskId


def assign_to_slots(
    tasks: Collection[TaskId],
    *,
    slots: Collection[int],
    owned: Mapping[TaskId, int],
    stateless: Collection[TaskId] = (),
) -> dict[int, tuple[TaskId, ...]]:
    """Give every task of a worker to exactly one of its slots.

    Args:
        tasks: the worker's active tasks.
        slots: the slots that may be given tasks; at least one.
        owned: the slot that has a task now. A task stays there as far as balance allows.
        stateless: those of ``tasks`` that have no state; they fill up after the others.
    """
    names = {_name(slot): slot for slot in slots}
    group = Group(
        members=tuple(
            Member(
                name=name,
                threads=1,
                active=frozenset(task for task in tasks if owned.get(task) == slot),
            )
            for name, slot in names.items()
        ),
        stateful=frozenset(tasks) - frozenset(stateless),
        stateless=frozenset(tasks) & frozenset(stateless),
    )
    return {names[name]: its for name, its in assign(group).active.items()}


def _name(slot: int) -> str:
    """Return a name that sorts as the number does."""
    return f"{slot:06d}"
