"""The independent consumer that reads what a run wrote: records, bytes, totals, commits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_S = 600
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Written:
    """What is in a topic."""

    records: int
    size: int
    """Bytes of keys and values."""
    total: int
    """Sum of the last value of each key, for values that are counts."""
    keys: int
    commits: int = 0
    """Transactions, by the partition that most of them wrote to; of a topic that is not compacted.

    A transaction ends with a marker in each of its partitions, which takes an offset. One that was
    aborted counts for as many as it has records there, and one more.
    """


def read(
    servers: str, topic: str, *, partitions: int, counts: bool, as_text: bool = False
) -> Written:
    """Read a topic from its start to its end, committed records only.

    Args:
        servers: where the broker is.
        topic: to be read.
        partitions: how many it has.
        counts: values are counts.
        as_text: counts are written as text, not as numbers of four or eight bytes.

    Raises:
        TimeoutError: the end was not reached in ten minutes.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "audit",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.min.messages": 200_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    records = size = ended = 0
    last: dict[Any, Any] = {}
    markers = [0] * partitions
    deadline = time.monotonic() + _TIMEOUT_S
    while ended < partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: the end was not read in {_TIMEOUT_S} s")
        messages = consumer.consume(_BATCH, 0.2)
        if any(map(Message.error, messages)):
            for number, end in _ends(topic, messages):
                markers[number] += end
                ended += 1
            messages = [message for message in messages if message.error() is None]
        records += len(messages)
        for message in messages:
            markers[message.partition() or 0] -= 1
        keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
        size += sum(len(key or b"") for key in keys) + sum(len(value or b"") for value in values)
        if counts:
            last.update(zip(keys, values, strict=True))
    consumer.close()
    number = int if as_text else _number
    total = sum(number(value) for value in last.values() if value is not None)
    return Written(
        records=records, size=size, total=total, keys=len(last), commits=max(markers, default=0)
    )


def _number(value: bytes) -> int:
    """Counts are eight bytes here and in Java, four in quixstreams."""
    return int.from_bytes(value, "big")


def _ends(topic: str, messages: list[Message]) -> Iterator[tuple[int, int]]:
    """Partitions that are read to their end, each with the offset behind its last record."""
    for message in messages:
        error = message.error()
        if error is None:
            continue
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's name for it
            raise OSError(f"{topic}: {error}")
        yield message.partition() or 0, message.offset() or 0
