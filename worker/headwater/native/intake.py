"""What the tasks of a loop read: polled, grouped by task, buffered; full partitions are paused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.errors import OffsetsExpiredError
from headwater.kafka.consumer import FROM_END, FROM_START
from headwater.model.offset_reset import OffsetReset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.committed import CommittedOffset
    from headwater.native.opening import RunningTask
    from headwater.native.ports import Reader

log = logging.getLogger(__name__)


class Intake:
    """Fills the buffers of running tasks.

    Args:
        consumer: reads their partitions.
        records_max: how many records a partition buffers before it is paused
            (``buffered.records.per.partition``).
        reset_policy: ``auto.offset.reset`` of a topic.
        offset_since: where the records of a partition begin that are no older than milliseconds.
        check_lease: called between waiting for records and taking them in.

    Attributes:
        owners: the task of each partition that is read.
        several: the tasks with several partitions.
        filled: the tasks that have got records, by id, until the loop finds that they have none.
    """

    def __init__(
        self,
        *,
        consumer: Reader,
        records_max: int,
        reset_policy: Callable[[str], OffsetReset],
        offset_since: Callable[[TopicPartition, int], int | None],
        check_lease: Callable[[], None],
    ) -> None:
        self.owners: dict[TopicPartition, RunningTask] = {}
        self.several: list[RunningTask] = []
        self.filled: dict[TaskId, RunningTask] = {}
        self._consumer = consumer
        self._records_max = records_max
        self._reset_policy = reset_policy
        self._offset_since = offset_since
        self._check_lease = check_lease
        self._paused: set[TopicPartition] = set()

    def add(self, running: Iterable[RunningTask]) -> None:
        """Read the partitions of these tasks, too."""
        offsets: dict[TopicPartition, int] = {}
        for found in running:
            self.owners |= dict.fromkeys(found.start, found)
            offsets |= found.start
            if len(found.start) > 1:
                self.several.append(found)
        self._consumer.assign(offsets)

    def remove(self, running: Iterable[RunningTask]) -> None:
        """Read the partitions of these tasks no more."""
        removed = list(running)
        partitions = [partition for found in removed for partition in found.start]
        for partition in partitions:
            del self.owners[partition]
        for found in removed:
            self.filled.pop(found.task_id, None)
        self._paused.difference_update(partitions)
        self._consumer.unassign(partitions)
        self.several = [found for found in self.several if found not in removed]

    def poll(self, timeout_s: float) -> int:
        """Buffer what is there, waiting for it at most ``timeout_s`` seconds; return how many.

        Raises:
            OffsetsExpiredError: records were deleted before they were read, and no policy says
                where to go on.
            HeadwaterError: as the consumer.
        """
        limit = self._records_max
        found = self._consumer.poll(timeout_s)
        self._check_lease()
        count = 0
        for partition, records in found:
            count += len(records)
            running = self.owners.get(partition)
            if running is None:
                continue  # unassigned since it was fetched
            held = running.task.add_records(partition, records)
            self.filled[running.task_id] = running
            if held > limit and partition not in self._paused:
                self._paused.add(partition)
                self._consumer.pause([partition])
        for partition in self._consumer.take_lost():
            if partition in self.owners:
                self._reset_offset(partition)
        return count

    def resume(self) -> None:
        """Go on with paused partitions of which enough is processed."""
        # Java resumes at the limit. The client forgets what it has fetched of a paused partition,
        # so pausing for a few records would fetch everything again and again.
        enough = self._records_max // 2
        ready = [p for p in self._paused if self.owners[p].task.buffered(p) <= enough]
        if ready:
            self._paused.difference_update(ready)
            self._consumer.resume(ready)

    def rewind(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Read again from the committed offsets, or from where the tasks have begun."""
        for partition, running in self.owners.items():
            found = committed.get(partition)
            start = running.start[partition]
            self._consumer.seek(partition, start if found is None else found.offset)
        self._paused.clear()

    def reading(self) -> list[TopicPartition]:
        """Return the partitions whose next records are wanted now: all but the paused ones."""
        return [partition for partition in self.owners if partition not in self._paused]

    def buffered(self) -> int:
        """How many records wait in all buffers."""
        return sum(owner.task.buffered(partition) for partition, owner in self.owners.items())

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return a partition's end if everything before it was fetched, else ``None``."""
        return self._consumer.end_of(partition)

    def lags(self, running: RunningTask) -> Mapping[TopicPartition, int]:
        """Return 0 for each partition of a task of which everything is fetched, else 1."""
        end_of = self._consumer.end_of
        return {p: 1 if end_of(p) is None else 0 for p in running.start}

    def observe_positions(self) -> None:
        """Let committed offsets pass what no record stands for: transaction markers, gaps."""
        for partition, running in self.owners.items():
            end = self._consumer.end_of(partition)
            if end is not None:
                running.task.observe_position(partition, end)

    def _reset_offset(self, partition: TopicPartition) -> None:
        """The next offset is not on the broker: deleted before it was read, or never there."""
        policy = self._reset_policy(partition.topic)
        if policy == OffsetReset.NONE:
            raise OffsetsExpiredError(
                f"{partition}: the records to read next were deleted, and auto.offset.reset is "
                "none; set it to earliest or latest, or commit an offset that exists"
            )
        log.warning(
            "%s: the offset to read next is not on the broker (records were deleted before they "
            "were read, or the log was truncated); going on by auto.offset.reset: %s",
            partition,
            policy,
        )
        offset = FROM_START if policy == OffsetReset.EARLIEST else FROM_END
        if (duration_ms := policy.duration_ms) is not None:
            found = self._offset_since(partition, duration_ms)
            offset = FROM_END if found is None else found
        self._consumer.seek(partition, offset)
