"""The bounds of a loop: how far its tasks go, and what is told of its commits.

    Endless                 a StreamThread: until it is stopped
    up to a turn or a cut   ``headwater.spark``: until the tasks have reached given offsets
    record by record        ``headwater.testing``: one record, then its commit

A policy is an object that the loop is given. It is asked once a poll or a round, never per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TopicPartition
    from headwater.native.intake import Intake
    from headwater.native.opening import RunningTask


class LoopPolicy(Protocol):
    """Where the work of a ``ProcessingLoop`` ends."""

    @property
    def is_record_by_record(self) -> bool:
        """Whether each record has a round and a commit of its own.

        No commit comes before the first record then, as the intervals of a StreamThread ask for.
        """
        ...

    def lags(self, running: RunningTask, intake: Intake) -> Mapping[TopicPartition, int]:
        """Return 0 for each partition of a task that has nothing more behind what was fetched.

        Asked after a poll, for tasks with several partitions (``max.task.idle.ms``).
        """
        ...

    def is_over(self, intake: Intake, now_ms: int) -> bool:
        """Whether nothing is left to do but to commit."""
        ...


class Endless:
    """Goes on until somebody stops it: the policy of a StreamThread."""

    is_record_by_record = False

    def lags(self, running: RunningTask, intake: Intake) -> Mapping[TopicPartition, int]:
        """Say which partitions have nothing more on the broker."""
        return intake.lags(running)

    def is_over(self, intake: Intake, now_ms: int) -> bool:
        """Return ``False``."""
        del intake, now_ms
        return False


class CommitListener(Protocol):
    """Hears what becomes of the work of a loop, once a commit."""

    def sealed(self, tasks: Collection[RunningTask]) -> None:
        """A commit has begun: what is processed from now on belongs to the next."""
        ...

    def committed(self) -> None:
        """What was sealed last is committed."""
        ...

    def given_up(self, tasks: Collection[RunningTask]) -> None:
        """The tasks are back at their last commit."""
        ...


class Unheard:
    """Hears, and does nothing: a StreamThread counts what it has processed, committed or not."""

    def sealed(self, tasks: Collection[RunningTask]) -> None:
        """See ``CommitListener``."""

    def committed(self) -> None:
        """See ``CommitListener``."""

    def given_up(self, tasks: Collection[RunningTask]) -> None:
        """See ``CommitListener``."""
