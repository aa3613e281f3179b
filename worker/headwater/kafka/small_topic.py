"""Reads a partition that is small enough to be read whole, up to its end of that moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.errors import KafkaUnavailableError

if TYPE_CHECKING:
    from headwater.ids import TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.ports import RawRecord


class SmallTopic:
    """One partition, read from its beginning, and on from there each time.

    Args:
        partition: which.
        admin: asked where it ends.
        consumer: reads it, and nothing else; closed with this.
    """

    def __init__(
        self, partition: TopicPartition, admin: Admin, consumer: PartitionConsumer
    ) -> None:
        self._partition = partition
        self._admin = admin
        self._consumer = consumer
        self._next = 0
        consumer.assign({partition: 0})

    def read_on(self, timeout_s: float, *, committed_only: bool = False) -> list[RawRecord]:
        """Return what was not returned before, up to the end of this moment.

        Args:
            timeout_s: how long to wait for records.
            committed_only: up to the first open transaction, which is then not waited for.

        Raises:
            KafkaUnavailableError: the end was not reached in time.
        """
        ends = self._admin.end_offsets([self._partition], committed_only=committed_only)
        end = ends[self._partition]
        deadline = time.monotonic() + timeout_s
        found: list[RawRecord] = []
        while self._next < end:
            for _, records in self._consumer.poll(0.1):
                found += records
                self._next = records[-1][0] + 1
            reached = self._consumer.end_of(self._partition)
            if reached is not None:
                self._next = max(self._next, reached)
            if self._next < end and time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"cannot read {self._partition.topic} up to offset {end}; check that the "
                    "broker runs"
                )
        return found

    def close(self) -> None:
        """Release the consumer."""
        self._consumer.close()
