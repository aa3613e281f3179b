"""Reads whole topics, up to the end of this moment, committed records only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater.errors import KafkaUnavailableError, MissingTopicError
from headwater.ids import TopicPartition
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.settings import consumer_settings
from headwater.model.diffing import Contents

if TYPE_CHECKING:
    from headwater.kafka.access import Access

_PATIENCE_S: Final = 30.0


def contents_of(access: Access, topic: str) -> Contents:
    """Read a topic from its beginning.

    Args:
        access: to the broker.
        topic: its name.

    Raises:
        MissingTopicError: there is no such topic.
        KafkaUnavailableError: nothing came for 30 seconds although there is more.
    """
    described = access.admin.describe_topics([topic])
    if topic not in described:
        raise MissingTopicError(f"topic {topic} does not exist: run the version that writes it")
    partitions = [TopicPartition(topic, n) for n in range(described[topic].partitions)]
    first = access.admin.earliest_offsets(partitions)
    ends = access.admin.end_offsets(partitions, committed_only=True)
    open_ = {p for p in partitions if first[p] < ends[p]}
    found = Contents()
    settings = consumer_settings(
        access.config, access.connection, client_id=f"{access.client_id}-contents", role="global"
    )
    consumer = PartitionConsumer(settings, access.connection)
    try:
        consumer.assign({p: first[p] for p in open_})
        deadline = time.monotonic() + _PATIENCE_S
        while open_:
            for partition, records in consumer.poll(0.1):
                deadline = time.monotonic() + _PATIENCE_S
                for offset, _timestamp, key, value, _headers in records:
                    if offset < ends[partition]:
                        found.add(key, value)
                if records[-1][0] + 1 >= ends[partition]:
                    open_.discard(partition)
            # Behind the last record there may be marks of transactions.
            open_ = {p for p in open_ if (consumer.end_of(p) or 0) < ends[p]}
            if open_ and time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"cannot read {min(open_)} up to offset {ends[min(open_)]}; check that the "
                    "broker runs"
                )
    finally:
        consumer.close()
    return found
