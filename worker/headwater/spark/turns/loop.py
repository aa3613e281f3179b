"""The loop of a StreamThread with one task that works turn by turn: up to given offsets each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headwater.spark.counting import CountingLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.errors import TransactionAbortedError
    from headwater.native.opening import RunningTask
    from headwater.spark.reader import TurnReader


class TurnLoop(CountingLoop):
    """The loop of a StreamThread with one task, which commits at the end of a turn, seldom within.

    Args:
        consumer: reads no further than the turn goes.
        told: as for every loop.
    """

    def __init__(self, *, consumer: TurnReader, **told: Any) -> None:
        super().__init__(consumer=consumer, **told)
        self._reader = consumer
        self._ends: Mapping[TopicPartition, int] = {}
        self._more: frozenset[TopicPartition] = frozenset()
        self._was_aborted = False

    def begin_turn(
        self, ends: Mapping[TopicPartition, int], more: frozenset[TopicPartition]
    ) -> None:
        """Read up to the turn's ends; count the commit interval from now.

        Args:
            ends: of the partitions that are read.
            more: those among them that have records beyond.
        """
        self._ends, self._more = ends, more
        self._reader.read_up_to(ends)
        self._commit_due = time.monotonic() + self._commit_interval_s

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do in this turn but to commit."""
        return not self.is_committing and (self._has_reached() or self._has_to_wait())

    def end_turn(self) -> bool:
        """Commit what the turn has done; return whether that was possible.

        If it was not, the task is back at its last commit, and the turn goes on from there.

        Raises:
            HeadwaterError: as ``commit_now``.
        """
        self._was_aborted = False
        # A partition without committed offset gets one, or no turn would ever read it.
        self.commit_now(every_offset=any(p not in self._ends for p in self._owners))
        if self._was_aborted:
            return False
        self._purge_if_due(time.monotonic())
        return True

    def _has_reached(self) -> bool:
        """Whether everything before the turn's ends is processed, or was passed over."""
        return all(self._is_read(p) and not self._owners[p].task.buffered(p) for p in self._ends)

    def _is_read(self, partition: TopicPartition) -> bool:
        """Whether everything before the end was returned by the reader; nothing is, too."""
        if self._reader.end_of(partition) is not None:
            return True
        owner = self._owners[partition]
        return any(
            found.partition == partition and found.offset >= self._ends[partition]
            for found in owner.task.offsets()
        )

    def _has_to_wait(self) -> bool:
        """Whether the task waits for a record that only a later turn may read.

        Of several partitions the lowest timestamp is next. One that ends here, but has more, may
        have it; so may, for ``max.task.idle.ms``, one that has no more yet. Other tasks have no
        next turn before this one is over.
        """
        if not self._several:
            return False
        empty = [p for p, owner in self._owners.items() if not owner.task.buffered(p)]
        return all(p not in self._ends or self._is_read(p) for p in empty) and not any(
            owner.task.is_ready(self._clock.now_ms()) for owner in self._several
        )

    def _update_lags(self, running: RunningTask) -> None:
        """Say which empty partitions have nothing more, as of when the turn was planned."""
        running.task.update_lags(
            {
                p: 0 if p in self._ends and p not in self._more and self._is_read(p) else 1
                for p in running.start
            }
        )

    def _abort(self, error: TransactionAbortedError) -> None:
        super()._abort(error)
        self._was_aborted = True
