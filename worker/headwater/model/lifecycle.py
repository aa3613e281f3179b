"""States of a client, a StreamThread and a task, their legal moves, the one function that moves.

    client   CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING
                             |             +-----> PENDING_ERROR    -> ERROR
                             +-> PENDING_SHUTDOWN, PENDING_ERROR
    thread   CREATED -> STARTING -> PARTITIONS_ASSIGNED <-> PARTITIONS_REVOKED
                                    PARTITIONS_ASSIGNED -> RUNNING -> both; all -> PENDING_SHUTDOWN
                                    -> DEAD
    task     CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED -> CREATED (revived)
                 +----------+-----------------> SUSPENDED -> RESTORING

As Kafka Streams' ``KafkaStreams.State``, ``StreamThread.State`` and ``Task.State``.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Engine(StrEnum):
    """What executes the topology."""

    NATIVE = "Native"
    SPARK = "Spark"


class ClientState(StrEnum):
    """What a whole application is doing, seen from outside (``KafkaStreams.State``)."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


class ThreadState(StrEnum):
    """What one StreamThread is doing (``StreamThread.State``)."""

    CREATED = "CREATED"
    STARTING = "STARTING"
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


class TaskState(StrEnum):
    """What one task is doing (``Task.State``)."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


class IllegalTransitionError(HeadwaterError):
    """A state machine was asked for a move its table does not have: our mistake, not the user's."""


CLIENT_MOVES: Final[Mapping[ClientState, frozenset[ClientState]]] = MappingProxyType(
    {
        ClientState.CREATED: frozenset({ClientState.REBALANCING, ClientState.PENDING_SHUTDOWN}),
        ClientState.REBALANCING: frozenset(
            {ClientState.RUNNING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR}
        ),
        ClientState.RUNNING: frozenset(
            {
                ClientState.REBALANCING,
                ClientState.RUNNING,
                ClientState.PENDING_SHUTDOWN,
                ClientState.PENDING_ERROR,
            }
        ),
        ClientState.PENDING_SHUTDOWN: frozenset({ClientState.NOT_RUNNING}),
        ClientState.NOT_RUNNING: frozenset(),
        ClientState.PENDING_ERROR: frozenset({ClientState.ERROR}),
        ClientState.ERROR: frozenset(),
    }
)

THREAD_MOVES: Final[Mapping[ThreadState, frozenset[ThreadState]]] = MappingProxyType(
    {
        ThreadState.CREATED: frozenset({ThreadState.STARTING, ThreadState.PENDING_SHUTDOWN}),
        ThreadState.STARTING: frozenset(
            {
                ThreadState.PARTITIONS_REVOKED,
                ThreadState.PARTITIONS_ASSIGNED,
                ThreadState.PENDING_SHUTDOWN,
            }
        ),
        ThreadState.PARTITIONS_REVOKED: frozenset(
            {
                ThreadState.PARTITIONS_REVOKED,
                ThreadState.PARTITIONS_ASSIGNED,
                ThreadState.PENDING_SHUTDOWN,
            }
        ),
        ThreadState.PARTITIONS_ASSIGNED: frozenset(
            {
                ThreadState.PARTITIONS_REVOKED,
                ThreadState.PARTITIONS_ASSIGNED,
                ThreadState.RUNNING,
                ThreadState.PENDING_SHUTDOWN,
            }
        ),
        ThreadState.RUNNING: frozenset(
            {
                ThreadState.PARTITIONS_REVOKED,
                ThreadState.PARTITIONS_ASSIGNED,
                ThreadState.RUNNING,
                ThreadState.PENDING_SHUTDOWN,
            }
        ),
        ThreadState.PENDING_SHUTDOWN: frozenset({ThreadState.DEAD}),
        ThreadState.DEAD: frozenset(),
    }
)

TASK_MOVES: Final[Mapping[TaskState, frozenset[TaskState]]] = MappingProxyType(
    {
        TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.SUSPENDED}),
        TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED}),
        TaskState.RUNNING: frozenset({TaskState.SUSPENDED}),
        TaskState.SUSPENDED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
        TaskState.CLOSED: frozenset({TaskState.CREATED}),
    }
)

State = TypeVar("State", ClientState, ThreadState, TaskState)

# The members of the three enums are strings and compare equal across enums, so a table is found by
# the type.
_TABLES: Final[Mapping[type, Mapping[Any, Any]]] = MappingProxyType(
    {ClientState: CLIENT_MOVES, ThreadState: THREAD_MOVES, TaskState: TASK_MOVES}
)


def legal_moves(state: State) -> frozenset[State]:
    """Return the states that may follow ``state`` in its own machine."""
    return cast("frozenset[State]", _TABLES[type(state)][state])


def move(current: State, target: State, *, subject: str = "") -> State:
    """Go from ``current`` to ``target`` and return it.

    Args:
        current: the state now.
        target: the state wanted, of the same machine.
        subject: whose state it is (``"task 0_3"``), for the message.

    Raises:
        IllegalTransitionError: the machine has no such move.
    """
    if target not in legal_moves(current):
        legal = ", ".join(sorted(legal_moves(current))) or "nothing: it is final"
        raise IllegalTransitionError(
            f"{subject or type(current).__name__} cannot go from {current} to {target}; "
            f"from there it may go to {legal}"
        )
    return target


def client_state_of(threads: Mapping[str, ThreadState]) -> ClientState:
    """Tell what a started client is doing from its StreamThreads.

    As ``KafkaStreams.StreamStateListener``: it is RUNNING when every live thread is RUNNING; a
    thread on its way out does not count as long as another one runs.

    Args:
        threads: thread name to state; dead threads may be left out.
    """
    alive = {
        state
        for state in threads.values()
        if state not in (ThreadState.DEAD, ThreadState.PENDING_SHUTDOWN)
    }
    if alive == {ThreadState.RUNNING}:
        return ClientState.RUNNING
    return ClientState.REBALANCING
