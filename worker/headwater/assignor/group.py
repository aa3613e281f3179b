"""What an assignor is told and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId

CAUGHT_UP: Final = 1 << 62
"""How near a caught-up copy is to the end of its changelogs: nearer than anything else."""

_FOLLOWING: Final = 1 << 61
NOWHERE: Final = -1
"""How near a worker without any state of a task is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One worker that may be given tasks (Kafka Streams' ``ClientState``).

    Attributes:
        name: the worker's name; ties are broken by it, so that the answer is deterministic.
        threads: its capacity.
        active: tasks it has as active now.
        stored: tasks whose state lies in its directory, with how far
            (``StoredTask.offset_bucket``). State that would be thrown away is left out.
        standby: tasks of which it is to keep a standby now.
        lags: records still to read of every copy it follows, standby or warm-up.
        caught_up: those copies whose lag is acceptable.
        labels: where it runs, by topology key: zone, node.
    """

    name: str
    threads: int
    active: frozenset[TaskId] = frozenset()
    stored: Mapping[TaskId, int] = field(default_factory=dict)
    standby: frozenset[TaskId] = frozenset()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    caught_up: frozenset[TaskId] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def nearness(self) -> dict[TaskId, int]:
        """Return how near it is to the end, for every task of which it has state.

        Only the order counts: a caught-up copy, then one that is followed, the smaller lag first,
        then what is merely stored, the greater offset first.
        """
        return {
            **self.stored,
            **{task: _FOLLOWING - lag for task, lag in self.lags.items()},
            **dict.fromkeys(self.caught_up, CAUGHT_UP),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The question: members and tasks.

    Attributes:
        members: at least one, with distinct names and at least one thread each.
        stateful: tasks with state to restore.
        stateless: the others.
        can_stand_by: those of ``stateful`` of which copies can be kept.
        standby_replicas: how many standbys each of these is to have, if there are enough members.
        topology_keys: labels whose values the copies of a task are spread over, the most important
            first.
        preferred: the member that is to have a task, by task. It counts as its owner, and keeps it
            before any other; it takes no more tasks than its share for that.
    """

    members: tuple[Member, ...]
    stateful: frozenset[TaskId]
    stateless: frozenset[TaskId] = frozenset()
    can_stand_by: frozenset[TaskId] = frozenset()
    standby_replicas: int = 0
    topology_keys: tuple[str, ...] = ()
    preferred: Mapping[TaskId, str] = field(default_factory=dict)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """All tasks."""
        return self.stateful | self.stateless

    @property
    def replicas(self) -> int:
        """How many standbys each task can have: at most one on every other member."""
        return min(self.standby_replicas, len(self.members) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The answer.

    Attributes:
        active: the active tasks of every member, sorted.
        standby: the standby tasks of every member, sorted; empty if there are to be none.
    """

    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)

    def owners(self) -> dict[TaskId, str]:
        """Return the member that has each task as active."""
        return {task: name for name, tasks in self.active.items() for task in tasks}
