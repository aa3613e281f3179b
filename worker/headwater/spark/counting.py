"""Counts of what was committed: what a transaction that was aborted had done is not in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.native.loop import ProcessingLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.kafka.errors import TransactionAbortedError


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records were processed, how many of these dropped, how many dead letters sent."""

    processed: int = 0
    dropped: int = 0
    dead_letters: int = 0

    def less(self, other: Counts) -> Counts:
        """Return the difference."""
        return Counts(
            self.processed - other.processed,
            self.dropped - other.dropped,
            self.dead_letters - other.dead_letters,
        )


class CountingLoop(ProcessingLoop):
    """The loop of a StreamThread that knows how much of its work is committed.

    Args:
        dead_letters: how many were sent so far, if that is of interest.
        told: as for every loop.
    """

    def __init__(self, *, dead_letters: Callable[[], int] | None = None, **told: Any) -> None:
        super().__init__(**told)
        self.committed = Counts()
        """What was committed so far."""
        self._dead_letters = dead_letters
        self._sealed = Counts()
        self._given_up = Counts()

    def _counted(self) -> Counts:
        found = [running.task.statistics() for running in self.tasks.values()]
        return Counts(
            sum(f.processed for f in found),
            sum(f.dropped for f in found),
            self._dead_letters() if self._dead_letters is not None else 0,
        )

    def _start_commit(self, *, every_offset: bool = False) -> None:
        super()._start_commit(every_offset=every_offset)
        # What the record caches have let go is in this commit; what is processed from now on, not.
        self._sealed = self._counted()

    def _resume_commit(self) -> None:
        super()._resume_commit()
        if not self.is_committing:
            self.committed = self._sealed.less(self._given_up)

    def _abort(self, error: TransactionAbortedError) -> None:
        super()._abort(error)
        self._given_up = self._counted().less(self.committed)
