"""Turns: a loop with one task works up to given offsets, commits there, and is given the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TopicPartition
    from headwater.native.intake import Intake
    from headwater.native.loop import ProcessingLoop
    from headwater.native.opening import RunningTask
    from headwater.spark.reader import TurnReader


class UpToTurnEnd:
    """The policy of a turn (a ``LoopPolicy``): up to its ends, or until only a later one reads on.

    Args:
        reader: reads no further than the turn goes.
    """

    is_record_by_record = False

    def __init__(self, reader: TurnReader) -> None:
        self._reader = reader
        self._ends: Mapping[TopicPartition, int] = {}
        self._more: frozenset[TopicPartition] = frozenset()

    def move(self, ends: Mapping[TopicPartition, int], more: frozenset[TopicPartition]) -> None:
        """Read up to the ends of the next turn.

        Args:
            ends: of the partitions that are read.
            more: those among them that have records beyond.
        """
        self._ends, self._more = ends, more
        self._reader.read_up_to(ends)

    def reads(self, partition: TopicPartition) -> bool:
        """Whether the turn reads a partition."""
        return partition in self._ends

    def lags(self, running: RunningTask, intake: Intake) -> Mapping[TopicPartition, int]:
        """Say which partitions have nothing more, as of when the turn was planned."""
        return {
            p: 0
            if p in self._ends and p not in self._more and self._is_read(running, p, intake)
            else 1
            for p in running.start
        }

    def is_over(self, intake: Intake, now_ms: int) -> bool:
        """Whether there is nothing more to do in this turn but to commit."""
        return self._has_reached(intake) or self._has_to_wait(intake, now_ms)

    def _has_reached(self, intake: Intake) -> bool:
        """Whether everything before the turn's ends is processed, or was passed over."""
        owners = intake.owners
        return all(
            self._is_read(owners[p], p, intake) and not owners[p].task.buffered(p)
            for p in self._ends
        )

    def _is_read(self, owner: RunningTask, partition: TopicPartition, intake: Intake) -> bool:
        """Whether everything before the end was returned by the reader; nothing is, too."""
        if intake.end_of(partition) is not None:
            return True
        return any(
            found.partition == partition and found.offset >= self._ends[partition]
            for found in owner.task.offsets()
        )

    def _has_to_wait(self, intake: Intake, now_ms: int) -> bool:
        """Whether the task waits for a record that only a later turn may read.

        Of several partitions the lowest timestamp is next. One that ends here, but has more, may
        have it; so may, for ``max.task.idle.ms``, one that has no more yet. Other tasks have no
        next turn before this one is over.
        """
        if not intake.several:
            return False
        empty = {p: owner for p, owner in intake.owners.items() if not owner.task.buffered(p)}
        return all(
            p not in self._ends or self._is_read(owner, p, intake) for p, owner in empty.items()
        ) and not any(owner.task.is_ready(now_ms) for owner in intake.several)


class TurnLoop:
    """Drives a loop with one task turn by turn: it commits at the end of each, seldom within.

    Args:
        loop: has the task.
        policy: the loop's.
        running: the task.
    """

    def __init__(self, loop: ProcessingLoop, policy: UpToTurnEnd, running: RunningTask) -> None:
        self._loop = loop
        self._policy = policy
        self._running = running

    def begin(self, ends: Mapping[TopicPartition, int], more: frozenset[TopicPartition]) -> None:
        """Begin a turn; see ``UpToTurnEnd.move``."""
        self._policy.move(ends, more)
        self._loop.begin()

    def run_once(self) -> None:
        """Work for some milliseconds.

        Raises:
            HeadwaterError: as ``ProcessingLoop.run_once``.
        """
        self._loop.run_once()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do in the turn but to commit."""
        return self._loop.is_over

    def end(self) -> bool:
        """Commit what the turn has done; return whether that was possible.

        If it was not, the task is back at its last commit, and the turn goes on from there.

        Raises:
            HeadwaterError: as ``ProcessingLoop.commit_now``.
        """
        # A partition without committed offset gets one, or no turn would ever read it.
        leaves_out = any(not self._policy.reads(p) for p in self._running.start)
        return self._loop.end(every_offset=leaves_out)
