"""Which partitions hold records whose transaction has not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import AdminClient


def open_transactions(admin: AdminClient, topics: Iterable[str]) -> list[str]:
    """Say of each such partition up to where it is stable, and written; topics may be missing."""
    metadata = admin.list_topics(timeout=10).topics
    wanted = {
        TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for topic in topics
        if topic in metadata
        for number in metadata[topic].partitions
    }
    # What was written is asked first: what is not stable afterwards is not committed then.
    ends = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    stable = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    found = []
    for partition in wanted:
        end, lso = ends[partition].result(10).offset, stable[partition].result(10).offset
        if lso < end:
            found.append(
                f"{partition.topic}-{partition.partition} stable to {lso}, written to {end}"
            )
    return found
