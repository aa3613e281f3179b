"""What a topic holds, up to where it ends when one begins to read: a busy one has no other end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWER_S = 60
_NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
"""What is said of a topic that has been created just now."""


def held(
    bootstrap_servers: str, topic: str, *, isolation: str = "read_committed"
) -> Iterator[Message]:
    """Yield every record that a topic holds now, each partition's in their order.

    Raises:
        KafkaException: the broker does not let us.
        AssertionError: it does not answer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # what is purged meanwhile is not held any more
        }
    )
    try:
        ends = _ends(consumer, topic)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        while ends:
            message = consumer.poll(_ANSWER_S)
            assert message is not None, f"{topic}: no answer, {ends} not reached"
            error, number = message.error(), message.partition() or 0
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ends.pop(number, None)
                elif error.code() not in _NOT_YET:
                    raise KafkaException(error)
                continue
            following = (message.offset() or 0) + 1
            if number in ends and following <= ends[number]:
                yield message
            if following >= ends.get(number, following):
                ends.pop(number, None)
    finally:
        consumer.close()


def by_partition(
    bootstrap_servers: str, topic: str, *, isolation: str = "read_committed"
) -> list[Message]:
    """Return what ``held`` yields, by partition: twice the same if nothing was written."""
    found = held(bootstrap_servers, topic, isolation=isolation)
    return sorted(found, key=lambda message: message.partition() or 0)


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    """Where each partition ends that is not empty; what is not committed yet lies beyond."""

    def answered() -> tuple[dict[int, int]] | None:
        try:
            return (_asked(consumer, topic),)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET:
                raise
            return None

    return wait_for(answered, what=f"the leaders of {topic}", timeout_s=_ANSWER_S)[0]


def _asked(consumer: Consumer, topic: str) -> dict[int, int]:
    found = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    limits = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), _ANSWER_S)
        for number in found.partitions
    }
    return {number: high for number, (low, high) in limits.items() if low < high}
