"""How far a StreamThread processes again because an output was refused (docs/adr/0023)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.ids import TopicPartition
    from headwater.native.opening import RunningTask
    from headwater.native.ports import Output

_COMMIT_INTERVAL_S: Final = 0.1
"""Short, so that the next refused output costs little."""


class Repeating:
    """Knows when all that had been processed before an output was refused is committed.

    Args:
        producer: told then.
    """

    def __init__(self, producer: Output) -> None:
        self._producer = producer
        self._until: dict[TopicPartition, int] = {}

    def begin(self, tasks: Iterable[RunningTask]) -> None:
        """Note how far tasks have come that go back to their last commit."""
        for running in tasks:
            for done in running.task.offsets():
                self._until[done.partition] = max(done.offset, self._until.get(done.partition, 0))

    def end_if_done(self, owners: Mapping[TopicPartition, RunningTask]) -> None:
        """Look, after a commit, whether everything is committed that was processed before.

        Args:
            owners: the tasks of this thread; what others process now is no business of its.

        Raises:
            ProductionError: an output was refused, not made again, and is not to be dropped.
        """
        if not self._until:
            return
        self._until = {
            partition: offset
            for partition, offset in self._until.items()
            if partition in owners and owners[partition].committed.get(partition, -1) < offset
        }
        if not self._until:
            self._producer.settle_refused()

    @property
    def commit_interval_s(self) -> float:
        """How often to commit meanwhile; 0 when nothing is processed again."""
        return _COMMIT_INTERVAL_S if self._until else 0.0
