"""What a broker says of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

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


def offset_of(answer: Any) -> int:
    """Return the offset in an answer to ListOffsets; -1 if there is none of that time.

    Raises:
        KafkaException: no broker has answered for the partition. The client says nothing of that:
            if it lost the leader it leaves the offset as it was, which is no offset.
    """
    offset: int = answer.offset
    if offset < -1:
        code = KafkaError._TRANSPORT  # noqa: SLF001  # the client has no other name for it
        raise KafkaException(KafkaError(code, "no broker answered", retriable=True))
    return offset


def ours(partition: Any) -> TopicPartition:
    """Return a partition of the client as ours."""
    return TopicPartition(partition.topic, partition.partition)
