"""Counts of what was committed: what a transaction that was aborted had done is not in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.model.metrics import DROPPED_RECORDS, TASK_PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.native.opening import RunningTask


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


class CommitCounts:
    """Knows how much of a loop's work is committed (a ``CommitListener``).

    Args:
        dead_letters: how many were sent so far, if that is of interest.

    Attributes:
        total: what was committed so far.
    """

    def __init__(self, dead_letters: Callable[[], int] | None = None) -> None:
        self.total = Counts()
        self._dead_letters = dead_letters
        self._sealed = Counts()
        self._given_up = Counts()

    def sealed(self, tasks: Collection[RunningTask]) -> None:
        """See ``CommitListener``."""
        self._sealed = self._counted(tasks)

    def committed(self) -> None:
        """See ``CommitListener``."""
        self.total = self._sealed.less(self._given_up)

    def given_up(self, tasks: Collection[RunningTask]) -> None:
        """See ``CommitListener``."""
        self._given_up = self._counted(tasks).less(self.total)

    def _counted(self, tasks: Collection[RunningTask]) -> Counts:
        found = [running.task.statistics() for running in tasks]
        return Counts(
            sum(f.total(TASK_PROCESS) for f in found),
            sum(f.total(DROPPED_RECORDS) for f in found),
            self._dead_letters() if self._dead_letters is not None else 0,
        )
