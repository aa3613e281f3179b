"""What the driver, Spark's Python workers and the task hosts say to each other. Pure.

planner ──► Turn (one a task, each micro-batch) ──► host of the task ──► TurnDone ──► driver
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import EnvironmentProblemError, FencedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.model.engine import EngineRecord
    from headwater.native.application import ApplicationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """All that a task host is told; it travels pickled.

    Attributes:
        application: its configuration and topology.
        record: under which the driver runs; tasks write nothing once it is another.
        state_dir: where the stores of tasks lie on each machine.
    """

    application: ApplicationSettings
    record: EngineRecord
    state_dir: str


@dataclass(frozen=True, slots=True, order=True)
class TurnNumber:
    """Which turns come after which, whatever was started again between them.

    Attributes:
        generation: of the take-over.
        attempt: of the driver; a later one's are greater.
        query: of that driver; it begins another one when Spark has given one up.
        number: counted by the planner of that query, from 1.
    """

    generation: int
    attempt: int
    query: int
    number: int

    def __str__(self) -> str:
        return f"{self.generation}.{self.attempt}.{self.query}.{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one task is to do in one micro-batch.

    Attributes:
        number: tells a turn that is run again, or comes late, from the next one.
        task: which.
        slot: which host of an executor with several has the task.
        ends: up to where each input partition is read, and no further, whoever runs the turn and
            how often. One that is missing has no committed offset yet, and nothing of it is read.
        more: those among them that have records beyond.
        inputs: what the task is to read; one that was opened with less is opened anew.
    """

    number: TurnNumber
    task: TaskId
    slot: int
    ends: Mapping[TopicPartition, int]
    more: frozenset[TopicPartition] = frozenset()
    inputs: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDone:
    """A turn whose transaction is committed.

    Attributes:
        number: of the turn.
        task: which.
        processed: records processed and committed by whoever has ended the turn.
        dropped: those among them that had no key, came too late, or were let go by a handler.
        offsets: what is committed now.
        opened: the task was opened for this turn: the first one here, or the first after a failure.
    """

    number: TurnNumber
    task: TaskId
    processed: int
    dropped: int
    offsets: Mapping[TopicPartition, int]
    opened: bool


class TakenOverError(FencedError):
    """Another driver has the application, or the workers do."""


class LateTurnError(EnvironmentProblemError):
    """A newer turn of the task has been taken: this one does nothing."""


@dataclass(frozen=True, slots=True)
class Again:
    """A turn that failed for a reason that may pass."""

    message: str


def shares(
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
) -> dict[TopicPartition, int]:
    """Return up to where each partition is read in one micro-batch.

    Every partition gets the share of ``limit`` that it has of what waits, rounded up: none starves.

    Args:
        committed: from where; a partition that is missing has no committed offset.
        ends: what there is.
        limit: how many offsets at most, all partitions together.
    """
    waiting = {p: max(0, ends[p] - offset) for p, offset in committed.items()}
    total = sum(waiting.values())
    if total <= limit:
        return {p: committed[p] + count for p, count in waiting.items()}
    return {p: committed[p] - -count * limit // total for p, count in waiting.items()}
