"""What a broker says of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the broker has it."""

    partitions: int
    topic_id: str
    """UUID: a topic that was deleted and created again has another one."""

    @classmethod
    def of(cls, answer: Any) -> TopicDescription:
        """Return what the client's answer says."""
        return cls(partitions=len(answer.partitions), topic_id=str(answer.topic_id))


def ours(partition: Any) -> TopicPartition:
    """Return a partition of the client as ours."""
    return TopicPartition(partition.topic, partition.partition)
