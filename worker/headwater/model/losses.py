"""Which changelogs are lost, and what can be done about it. Pure.

A changelog is lost if the application has read the records that its state was made of, but the
topic does not exist, or is another one than the stores on disk were written with. Kafka Streams
creates it again and begins with an empty store. We ask first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.partitions import internal_topic_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.ids import TopicPartition
    from headwater.model.topics import SubtopologyReport, TopologyReport

OPTION = "allow.lost.changelogs"
"""The setting that accepts the loss of the changelogs it names."""


def topics_above(report: TopologyReport) -> dict[str, tuple[str, ...]]:
    """Return for each changelog the topics that its state is made of, near and far, sorted.

    A repartition topic does not tell whether records were read: with it Kafka deletes the offsets
    that were committed for it. So the topics behind it count as well.
    """
    return {
        changelog.name: _above(report, subtopology)
        for subtopology in report.subtopologies
        for changelog in subtopology.changelogs
        if not changelog.is_source
    }


def topics_read(report: TopologyReport) -> dict[str, tuple[str, ...]]:
    """Return for each changelog the topics that its own sub-topology reads, sorted.

    A partition of these is committed by the very task that writes the same partition of the
    changelog, so an offset says that the task has run.
    """
    return {
        changelog.name: tuple(sorted(_inputs(subtopology)))
        for subtopology in report.subtopologies
        for changelog in subtopology.changelogs
    }


def _above(report: TopologyReport, subtopology: SubtopologyReport) -> tuple[str, ...]:
    internal = set(internal_topic_names(report))
    found: set[str] = set()
    waiting = _inputs(subtopology)
    while waiting:
        topic = waiting.pop()
        if topic in found:
            continue
        found.add(topic)
        if topic in internal:
            for other in report.subtopologies:
                if topic in other.sink_topics:
                    waiting |= _inputs(other)
    return tuple(sorted(found))


def _inputs(subtopology: SubtopologyReport) -> set[str]:
    repartitions = (topic.name for topic in subtopology.repartition_sources)
    return {*subtopology.source_topics, *repartitions}


def read_up_to(
    committed: Mapping[TopicPartition, tuple[int, str]], first: Mapping[TopicPartition, int]
) -> tuple[TopicPartition, int] | None:
    """Return a partition of which records were read, and its committed offset; the first by name.

    An offset at the beginning that carries no metadata was set by a tool, such as
    ``kafka-streams-application-reset``: an application commits metadata with its offsets.

    Args:
        committed: offset and metadata of each partition that has any.
        first: the first offset that each partition still has.
    """
    for partition, (offset, metadata) in sorted(committed.items()):
        was_set = not metadata and offset <= first.get(partition, 0)
        if offset > 0 and not was_set:
            return partition, offset
    return None


def choices(changelog: str) -> str:
    """Return what somebody can do who has lost a changelog: the same words everywhere."""
    return (
        "Choose: `headwater reset` (for KafkaStreams in a program: "
        "kafka-streams-application-reset) to read everything again, `headwater backfill` to "
        f"compute the state anew, or {OPTION}={changelog} in the configuration to go on from the "
        "committed offsets with an empty store; a store on disk is then set aside, not deleted"
    )


def missing(changelog: str, partition: TopicPartition, offset: int) -> str:
    """Say that a changelog is missing beside committed offsets, and what to do."""
    return (
        f"changelog topic {changelog} does not exist, although the application has read "
        f"{partition} up to offset {offset}. It was deleted, or its store is new in the topology: "
        f"a new one would lack what was read before. {choices(changelog)}"
    )


def younger(changelog: TopicPartition, store: str, why: str) -> str:
    """Say that a store on disk may be the last copy of its state, and what to do."""
    return (
        f"{store}: {why}, so the store on disk may be the last copy of its state; it was left as "
        f"it is. {choices(changelog.topic)}"
    )


def absent(topics: Sequence[str]) -> str:
    """Say that topics do not exist with which no state is lost, and what to do."""
    verb = "topic {} does" if len(topics) == 1 else "topics {} do"
    return (
        f"{verb.format(', '.join(topics))} not exist; create the source topics; internal ones are "
        "created when the application starts"
    )


def deleted(changelog: str, *, is_there_again: bool) -> str:
    """Say that a changelog was deleted while the application ran, and what to do."""
    again = " and created again" if is_there_again else ""
    return (
        f"changelog topic {changelog} was deleted{again} while the application uses it. "
        f"{choices(changelog)}"
    )
