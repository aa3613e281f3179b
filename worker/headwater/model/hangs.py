"""A user's function that has not returned in time, and where: what a worker reports of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.ids import TaskId, TopicPartition  # noqa: TC001  # read by the codec
from headwater.model.fields import meta

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A function that did not return within ``max.poll.interval.ms``; its thread was replaced.

    Attributes:
        task: the task that it was called for.
        node: the processor node whose function it is; empty if it could not be told.
        partition: where the record under way was read; ``None`` if there is none: in a punctuation,
            or while a processor begins or ends.
        offset: of that record; -1 if there is none.
        times: how often in a row it has happened at the same place.
    """

    task: TaskId
    node: str = field(default="", metadata=meta(max_length=1_024))
    partition: TopicPartition | None = None
    offset: int = UNKNOWN_OFFSET
    times: int = field(default=1, metadata=meta(minimum=1))

    def is_at(self, other: Hang) -> bool:
        """Whether both have hung at the same record of the same node."""
        here = (self.task, self.node, self.partition, self.offset)
        return here == (other.task, other.node, other.partition, other.offset)

    @property
    def place(self) -> str:
        """Task, node, topic, partition and offset, for people."""
        node = f"node {self.node}" if self.node else "an unknown node"
        if self.partition is None:
            return f"task {self.task}, {node}, with no record under way"
        topic, partition = self.partition
        return f"task {self.task}, {node}, topic {topic} partition {partition} offset {self.offset}"
