"""A record collector that keeps what it is given: for the test driver, and for tests of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headwater.ports import counted

if TYPE_CHECKING:
    from headwater.ports import Headers, OnRefused, Send


class ProducedRecord(NamedTuple):
    """A record as it was sent, in bytes."""

    topic: str
    partition: int | None
    """As demanded by the sender; ``None`` is the default partitioner's choice."""
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


class MemoryCollector:
    """Keeps every record in the order of sending (a ``RecordCollector``)."""

    def __init__(self, partitions: int = 1) -> None:
        self.records: list[ProducedRecord] = []
        """Everything sent so far."""
        self._partitions = partitions

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that keeps records for ``topic``; it refuses none."""
        del on_refused
        keep = self.records.append
        sent = 0

        def send(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            nonlocal sent
            sent += 1
            keep(ProducedRecord(topic, partition, key, value, timestamp, headers))

        return counted(send, lambda: sent)

    def partitions(self, topic: str) -> int:
        """Return the same number for every topic."""
        del topic
        return self._partitions

    def of_topic(self, topic: str) -> list[ProducedRecord]:
        """Return the records sent to ``topic``."""
        return [record for record in self.records if record.topic == topic]
