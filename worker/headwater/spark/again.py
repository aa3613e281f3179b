"""Topics that an application writes and reads again, of which a backfill writes nothing. Pure.

Without outputs, what is read there is what workers have left. It belongs to the records that they
had read by then, so a backfill that ends elsewhere would miss some of it, or have some made twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TopicPartition
    from headwater.model.topics import SubtopologyReport, TopologyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A partition of which workers have not processed exactly what the backfill would read.

    Attributes:
        partition: which.
        processed: up to where workers have come.
        end: up to where the backfill reads it.
    """

    partition: TopicPartition
    processed: int
    end: int


def read_again(report: TopologyReport) -> dict[str, frozenset[str]]:
    """Return the topics of others that are written and read again, by the broker's names.

    Each with all topics from which something comes to it, directly or by repartition topics.
    """
    read = {topic for found in report.subtopologies for topic in found.source_topics}
    written = {topic for found in report.subtopologies for topic in found.sink_topics}
    return {topic: _behind(report, topic) for topic in sorted(read & written)}


def gaps(
    partitions: Collection[TopicPartition],
    *,
    committed: Mapping[TopicPartition, int],
    start: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Gap]:
    """Return the partitions of which something would be missing, or made twice.

    Args:
        partitions: those from which something comes to the topic in question.
        committed: by the application's workers.
        start: where the backfill begins, if not at 0; nobody wants what lies before.
        ends: where it ends; a repartition topic where its writers have left it.
    """
    found = []
    for partition in sorted(partitions):
        processed = max(committed.get(partition, 0), start.get(partition, 0))
        if processed != ends[partition]:
            found.append(Gap(partition=partition, processed=processed, end=ends[partition]))
    return found


def _behind(report: TopologyReport, topic: str) -> frozenset[str]:
    found: set[str] = set()
    left = [topic]
    while left:
        wanted = left.pop()
        for writer in report.subtopologies:
            if wanted in writer.sink_topics:
                news = _inputs(writer) - found
                found |= news
                left += [name for name in news if _is_repartition(report, name)]
    return frozenset(found)


def _inputs(subtopology: SubtopologyReport) -> set[str]:
    internal = {topic.name for topic in subtopology.repartition_sources}
    return internal.union(subtopology.source_topics)


def _is_repartition(report: TopologyReport, name: str) -> bool:
    return any(
        name == topic.name for found in report.subtopologies for topic in found.repartition_sources
    )
