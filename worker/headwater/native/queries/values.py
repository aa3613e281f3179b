"""What a worker's main process, its query process and its StreamThreads say of queries.

    whoever asks ──► query process    StoreRequest ──► [PartitionAnswer]   More ──► PartitionAnswer
    main ──► query process            Placements  TaskAnswered
    query process ──► main            AskTask
    main ──► StreamThread             AskTask
    StreamThread ──► main             TaskAnswered

Keys and values are bytes everywhere: serdes are those of whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.positions import Position
    from headwater.model.queries import FailureReason
    from headwater.native.messages import ChildSettings
    from headwater.state.asks import Ask, Found

PAGE_ROWS: Final = 1_000
"""So many rows travel at a time."""
CALLER: Final = b"C"
"""Begins a message with the socket of a caller who sends pickled requests."""
HTTP: Final = b"H"
"""Begins a message with the socket of a caller by HTTP; its method and request follow, pickled."""


class Standing(StrEnum):
    """How a worker has a task."""

    RUNNING = "running"
    """It is active, and a StreamThread processes it."""
    MOVING = "moving"
    """It is to be active here: it is restored, opened, or about to leave."""
    COPY = "standby"
    """It is a standby or warm-up task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """What the query process is told at its start.

    Attributes:
        child: as of any child.
        channel: number of the descriptor on which callers arrive, each as a message of one byte
            and what it has said, with its socket.
    """

    child: ChildSettings
    channel: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task is: how the worker has it, and the slot whose StreamThread runs it, else -1."""

    standing: Standing
    slot: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """The tasks of this worker; sent whenever they change.

    Attributes:
        tasks: each with its place.
        is_stopping: the worker is about to end.
        peers: endpoints of the workers that have other tasks, as far as that is known here.
        partitions: how many partitions there are for each sub-topology, as far as that is known.
    """

    tasks: Mapping[TaskId, Place]
    is_stopping: bool = False
    peers: Mapping[TaskId, str] = field(default_factory=dict)
    partitions: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """A question to the partitions of a store that a worker has.

    Attributes:
        store: its name.
        ask: the question; ``None`` for one that the store does not know.
        partitions: only these; ``None`` for all that are here.
        require_active: only where the task runs; else copies and restoring tasks answer, too.
        bound: what the contents must have reached.
        page: so many rows at a time.
    """

    store: str
    ask: Ask | None
    partitions: frozenset[int] | None = None
    require_active: bool = False
    bound: Position
    page: int = PAGE_ROWS


@dataclass(frozen=True, slots=True)
class More:
    """The next rows of a partition, of the last request of this connection."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer:
    """What one partition of a store says.

    Attributes:
        partition: its number.
        standing: how the worker has its task; ``None`` if it has none.
        failure: why there is no answer, if there is none.
        message: the same for people, with the next step.
        position: of what was read.
        changelog_offset: the next offset of the changelog at that moment; -1 if it is not known.
        rows: what was found, or the first of it.
        more: whether there may be more rows.
        seconds: how long it took.
    """

    partition: int
    standing: Standing | None = None
    failure: FailureReason | None = None
    message: str = ""
    position: Position
    changelog_offset: int = -1
    rows: list[Found] = field(default_factory=list)
    more: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTask:
    """A question to a store in the memory of the StreamThread that runs the task.

    Attributes:
        id: repeated in the answer.
        task: whose store.
        slot: of the StreamThread.
        store: its name.
        ask: the question.
        limit: so many rows at most; ``None`` for all.
    """

    id: int
    task: TaskId
    slot: int
    store: str
    ask: Ask
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswered:
    """Answers ``AskTask``, from what was committed last.

    Attributes:
        id: of the question.
        is_here: whether the StreamThread has the task.
        read: the position, as ``wire.positions`` writes it.
        changelog_offset: the next offset of the changelog; -1 if there was no commit yet.
        rows: what was found, at most as many as were asked for.
        problem: why it could not be read.
    """

    id: int
    is_here: bool = True
    read: bytes = b""
    changelog_offset: int = -1
    rows: list[Found] = field(default_factory=list)
    problem: str = ""
