"""Which record of a task is next: the one with the lowest timestamp among its partitions' heads.

    ready?  a partition without records holds the task back while the broker is known to have more
            of it, or for ``max.task.idle.ms`` when it has none (KIP-353, KIP-695)

A task with one partition takes whole batches. With several, a run stays on one partition while its
next record is not later than the head of every other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headwater.processor.lane import UNKNOWN_TIME, Lane
from headwater.processor.priority import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TopicPartition
    from headwater.ports import Records
    from headwater.processor.environment import Environment
    from headwater.processor.loops import Head
    from headwater.processor.operators.endpoints import Input

NEVER_IDLE: Final = -1
_LAST_TIME: Final = 2**63 - 1


class RecordBuffer:
    """The queues of one task (Kafka's ``PartitionGroup``)."""

    def __init__(self, inputs: Mapping[TopicPartition, Input], environment: Environment) -> None:
        self.lanes = {
            partition: Lane(partition, source, environment) for partition, source in inputs.items()
        }
        """The queue of each partition."""
        self._current = environment.current
        self._idle_ms = environment.config.max_task_idle_ms
        self._only = next(iter(self.lanes.values())) if len(self.lanes) == 1 else None
        self._heap: HeadHeap[Lane] = HeadHeap()
        self._arrived: list[Lane] = []
        """Lanes that were empty and are not in the heap yet, in order of arrival."""
        self._lags: dict[TopicPartition, int] = {}
        self._measures = environment.measures
        self._idle_deadlines: dict[TopicPartition, int] = {}

    def add(self, partition: TopicPartition, records: Records) -> int:
        """Queue records of one partition; return how many it holds now."""
        lane = self.lanes[partition]
        if not lane.size and records:
            self._arrived.append(lane)
        lane.add(records)
        return lane.size

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Learn how many records the broker holds beyond what was fetched, per partition."""
        self._lags.update(lags)

    @property
    def size(self) -> int:
        """Records buffered in all partitions."""
        return sum(lane.size for lane in self.lanes.values())

    @property
    def stream_time(self) -> int:
        """Largest timestamp processed, -1 before the first."""
        return max((lane.partition_time for lane in self.lanes.values()), default=UNKNOWN_TIME)

    def is_ready(self, now_ms: int) -> bool:
        """Whether a record may be processed now, by the rules of ``max.task.idle.ms``."""
        if self._only is not None or self._idle_ms == NEVER_IDLE:
            return self.size > 0
        filled = False
        waiting = False
        enforced = 0
        for partition, lane in self.lanes.items():
            if lane.size:
                self._idle_deadlines.pop(partition, None)
                filled = True
            elif self._lags.get(partition) != 0:
                # Unknown, or more is on the broker: its records may be earlier than any we have.
                self._idle_deadlines.pop(partition, None)
                waiting = True
            elif now_ms < self._idle_deadlines.setdefault(partition, now_ms + self._idle_ms):
                waiting = True
            else:
                enforced = 1
        is_ready = filled and not waiting
        if is_ready:
            self._measures.enforced += enforced
        return is_ready

    def process(self, records_max: int, now_ms: int) -> int:
        """Run up to ``records_max`` records; return how many were taken, dropped ones included."""
        if self._only is not None:
            return self._only.run(records_max)
        before = self.size
        left = records_max
        while left > 0 and self._offer_arrived() and self.is_ready(now_ms):
            left -= self._run_heads(left)
        return before - self.size

    def _run_heads(self, records_max: int) -> int:
        """Run the lowest head, again and again, until a partition is empty."""
        current = self._current
        heap = self._heap
        lane = heap.pop()
        limit = heap.lowest_time()
        current.source = lane.partition
        head = lane.head
        taken = 0
        late, is_exact = self._measures.lateness, self._measures.is_debug
        try:
            while head is not None and taken < records_max:
                if head[3] > limit:
                    lane, limit = heap.replace(lane)
                    current.source = lane.partition
                    head = lane.head
                    continue
                record, key, value, timestamp = head
                current.record = record
                if timestamp > lane.partition_time:  # noqa: PLR1730 - max() costs a call
                    lane.partition_time = timestamp
                if late is not None:
                    late(timestamp)
                arrival = lane.arrival
                if arrival is not None:
                    if is_exact:
                        arrival(timestamp)
                    else:
                        arrival.timestamp = timestamp
                lane.forward(key, value, timestamp, record[4])
                taken += 1
                head = lane.advance()
        finally:
            if lane.head is not None:
                heap.push(lane)
            elif lane.size:
                self._arrived.append(lane)
        return taken

    def _offer_arrived(self) -> bool:
        """Put lanes with new records in the heap; return whether there is a record to process."""
        for lane in self._arrived:
            self._current.source = lane.partition
            if lane.advance() is not None:
                self._heap.push(lane)
        self._arrived.clear()
        return bool(self._heap)

    def clear(self) -> None:
        """Forget every record, lag and deadline."""
        for lane in self.lanes.values():
            lane.clear()
        self._heap = HeadHeap()
        self._arrived.clear()
        self._lags.clear()
        self._idle_deadlines.clear()


class Headed(Protocol):
    """What has a next record."""

    head: Head | None


Queue = TypeVar("Queue", bound=Headed)


class HeadHeap(PriorityQueue[Queue]):
    """Queues by the timestamp of their heads, which are known."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_time)

    def lowest_time(self) -> int:
        """Timestamp of the first lane's head; later than any if there is no lane."""
        return _time(self.items[0]) if self.items else _LAST_TIME

    def replace(self, lane: Queue) -> tuple[Queue, int]:
        """Push ``lane``, then pop; return what was popped and the lowest time that is left."""
        lanes = self.items
        if len(lanes) == 1:
            first, lanes[0] = lanes[0], lane
        else:
            self.push(lane)
            first = self.pop()
        return first, _time(lanes[0])


def _time(lane: Headed) -> int:
    assert lane.head is not None
    return lane.head[3]
