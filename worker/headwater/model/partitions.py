"""From a topology report and partition counts to tasks and internal topics.

By Kafka Streams' rules and in its order: infer the counts of repartition topics, enforce
co-partitioning, derive tasks, derive changelogs, compare with what exists. (``RepartitionTopics``,
``CopartitionedTopicsEnforcer``, ``PartitionGrouper``, ``ChangelogTopics``.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headwater.errors import MissingTopicError, PartitionMismatchError
from headwater.ids import TaskId, TopicPartition
from headwater.model.patterns import with_topics
from headwater.model.topics import ChangelogKind, InternalTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from headwater.model.topics import (
        ChangelogTopic,
        RepartitionTopic,
        SubtopologyReport,
        TopologyReport,
    )

_DAY_MS: Final = 86_400_000
_LONG_MAX: Final = (1 << 63) - 1

_REPARTITION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What runs, and the internal topics it needs.

    Attributes:
        inputs: the input partitions of every task, sorted.
        changelogs: the changelog partitions of every stateful task, sorted.
        internal_topics: repartition topics and changelogs, by name.
        on_disk: those of ``changelogs`` whose stores lie on disk, for tasks that have such a
            store; the positions of these make up ``StoredTask.changelogs``.
    """

    inputs: Mapping[TaskId, tuple[TopicPartition, ...]]
    changelogs: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    internal_topics: tuple[InternalTopic, ...] = ()
    on_disk: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Every task, sorted."""
        return tuple(sorted(self.inputs))

    @property
    def stateful(self) -> frozenset[TaskId]:
        """The tasks with state to restore."""
        return frozenset(self.changelogs)

    @property
    def can_stand_by(self) -> frozenset[TaskId]:
        """The tasks of which a standby or warm-up can be kept."""
        return frozenset(self.on_disk)

    @property
    def stateless(self) -> frozenset[TaskId]:
        """The tasks without."""
        return frozenset(self.inputs) - self.stateful

    def missing_topics(self, partitions: Mapping[str, int]) -> tuple[InternalTopic, ...]:
        """Return the internal topics that ``partitions`` does not name."""
        return tuple(topic for topic in self.internal_topics if topic.name not in partitions)


def topics_to_describe(report: TopologyReport) -> tuple[str, ...]:
    """Return the names of every topic whose partition count :func:`plan` wants to know, sorted."""
    names = {topic.name for topic in _repartition_topics(report).values()}
    for subtopology in report.subtopologies:
        names.update(subtopology.source_topics)
        names.update(changelog.name for changelog in subtopology.changelogs)
    return tuple(sorted(names))


def external_topics(report: TopologyReport) -> tuple[str, ...]:
    """Return the names of the source topics that do not belong to us, sorted."""
    internal = _repartition_topics(report)
    topics = {t for subtopology in report.subtopologies for t in subtopology.source_topics}
    return tuple(sorted(topics - internal.keys()))


def with_unread(message: str, unread: Mapping[str, int]) -> str:
    """Add to the message of a ``PartitionMismatchError`` how many records wait unread.

    Args:
        message: of the error.
        unread: records in partitions without a committed offset, by topic.
    """
    waiting = {topic: count for topic, count in sorted(unread.items()) if count}
    if not waiting:
        return message
    said = " and ".join(
        f"{count:,} record{'s' if count != 1 else ''} of {topic}"
        for topic, count in waiting.items()
    )
    return f"{message}. Nobody reads the new partitions: {said} wait there"


def internal_topic_names(report: TopologyReport) -> tuple[str, ...]:
    """Return the names of every repartition topic and changelog that belongs to us, sorted."""
    names = {topic.name for topic in _repartition_topics(report).values()}
    for subtopology in report.subtopologies:
        names.update(
            changelog.name for changelog in subtopology.changelogs if not changelog.is_source
        )
    return tuple(sorted(names))


def plan(report: TopologyReport, partitions: Mapping[str, int]) -> PartitionPlan:
    """Derive tasks and internal topics.

    Args:
        report: of the topology.
        partitions: the counts of all topics of :func:`topics_to_describe` that exist.

    Raises:
        MissingTopicError: an external source topic does not exist, or the count of a repartition
            topic cannot be inferred because nothing writes to it.
        PartitionMismatchError: topics that must be co-partitioned are not, or an existing internal
            topic has another count than the topology needs.
    """
    report = with_topics(report, partitions)
    counts = _external_counts(report, partitions)
    repartitions = _repartition_topics(report)
    inferred = _infer(report, repartitions, counts)
    counts |= _enforce(report, repartitions, inferred, counts)
    topics = [
        InternalTopic(
            name=topic.name,
            partitions=counts[topic.name],
            configs={**_REPARTITION, **report.topic_configs, **topic.configs},
            replication_factor=report.replication_factor,
        )
        for topic in repartitions.values()
    ]
    inputs: dict[TaskId, tuple[TopicPartition, ...]] = {}
    changelogs: dict[TaskId, tuple[TopicPartition, ...]] = {}
    on_disk: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for subtopology in report.subtopologies:
        tasks = _tasks(subtopology, counts)
        inputs |= tasks
        if tasks:  # a source by pattern may match nothing yet
            topics += _changelog_topics(report, subtopology, len(tasks))
        # What a source topic restores, whoever opens the task restores himself.
        ours = [changelog for changelog in subtopology.changelogs if not changelog.is_source]
        changelogs |= _changelogs(tasks, ours)
        on_disk |= _changelogs(tasks, [c for c in ours if c.persistent])
    found = tuple(sorted(topics, key=lambda topic: topic.name))
    _compare_with_existing(report, topics, counts, partitions)
    return PartitionPlan(
        inputs=inputs,
        changelogs=changelogs,
        internal_topics=found,
        on_disk=on_disk,
    )


def _changelogs(
    tasks: Iterable[TaskId], changelogs: Collection[ChangelogTopic]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    if not changelogs:
        return {}
    names = sorted(changelog.name for changelog in changelogs)
    return {task: tuple(TopicPartition(name, task.partition) for name in names) for task in tasks}


def changelog_configs(changelog: ChangelogTopic, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the complete settings of a changelog: the library's, then defaults, then its own."""
    configs = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    with_slack = str(min(changelog.retention_ms + _DAY_MS, _LONG_MAX))
    match changelog.kind:
        case ChangelogKind.KEY_VALUE:
            pass
        case ChangelogKind.WINDOWED:
            configs |= {"cleanup.policy": "compact,delete", "retention.ms": with_slack}
        case ChangelogKind.VERSIONED:
            configs |= {"min.compaction.lag.ms": with_slack}
    return {**configs, **defaults, **changelog.configs}


def _repartition_topics(report: TopologyReport) -> dict[str, RepartitionTopic]:
    return {
        topic.name: topic
        for subtopology in report.subtopologies
        for topic in subtopology.repartition_sources
    }


def _external_counts(report: TopologyReport, partitions: Mapping[str, int]) -> dict[str, int]:
    wanted = external_topics(report)
    missing = [topic for topic in wanted if topic not in partitions]
    if missing:
        raise MissingTopicError(
            f"source topic{'s' if len(missing) > 1 else ''} {_listed(missing)} "
            f"{'do' if len(missing) > 1 else 'does'} not exist; create "
            f"{'them' if len(missing) > 1 else 'it'}, or correct the name in the topology"
        )
    return {topic: partitions[topic] for topic in wanted}


def _infer(
    report: TopologyReport,
    repartitions: Mapping[str, RepartitionTopic],
    external: Mapping[str, int],
) -> dict[str, int]:
    """Give every repartition topic the largest count among the sources of whoever writes to it."""
    known = {
        name: topic.partitions
        for name, topic in repartitions.items()
        if topic.partitions is not None
    }
    unknown = sorted(set(repartitions) - set(known))
    while unknown:
        resolved = {
            name: count
            for name in unknown
            if (count := _largest_upstream(report, name, {**external, **known})) is not None
        }
        if not resolved:
            plural = "s" if len(unknown) > 1 else ""
            raise MissingTopicError(
                f"cannot tell how many partitions repartition topic{plural} {_listed(unknown)} "
                "need: no sub-topology with a known source writes there; "
                "give a number to repartition(partitions=...)"
            )
        known |= resolved
        unknown = [name for name in unknown if name not in resolved]
    return known


def _largest_upstream(report: TopologyReport, name: str, known: Mapping[str, int]) -> int | None:
    counts = [
        known[source]
        for subtopology in report.subtopologies
        if name in subtopology.sink_topics
        for source in _sources(subtopology)
        if source in known
    ]
    return max(counts, default=None)


def _sources(subtopology: SubtopologyReport) -> list[str]:
    repartitions = (topic.name for topic in subtopology.repartition_sources)
    return sorted({*subtopology.source_topics, *repartitions})


def _enforce(
    report: TopologyReport,
    repartitions: Mapping[str, RepartitionTopic],
    inferred: Mapping[str, int],
    external: Mapping[str, int],
) -> dict[str, int]:
    """Level the counts of repartition topics within every co-partition group."""
    counts = dict(inferred)
    for group in _merged(report.copartition_groups):
        counts |= _enforce_group(sorted(group), repartitions, counts, external)
    return counts


def _merged(groups: Iterable[Iterable[str]]) -> list[set[str]]:
    """Unite groups that share a topic."""
    merged: list[set[str]] = []
    for group in groups:
        united = set(group)
        apart = []
        for other in merged:
            if other & united:
                united |= other
            else:
                apart.append(other)
        merged = [*apart, united]
    return merged


def _enforce_group(
    group: list[str],
    repartitions: Mapping[str, RepartitionTopic],
    counts: Mapping[str, int],
    external: Mapping[str, int],
) -> dict[str, int]:
    fixed = {topic: external[topic] for topic in group if topic in external}
    enforced = {
        topic: count
        for topic in group
        if topic in repartitions and (count := repartitions[topic].partitions) is not None
    }
    if len(set(fixed.values())) > 1:
        raise PartitionMismatchError(
            f"topics that are joined by key must have equal partition counts, but "
            f"{_with_counts(fixed)}; call repartition() on the stream of one of them, which "
            "gives it a topic with the other's count (of a table: read its topic as a stream, then "
            "repartition() and to_table()), or re-create one of the topics"
        )
    required = fixed or enforced
    if len({*required.values(), *enforced.values()}) > 1:
        raise PartitionMismatchError(
            f"topics that are joined by key must have equal partition counts, but "
            f"{_with_counts({**fixed, **enforced})}; "
            "give the same number to repartition(partitions=...)"
        )
    internal = [topic for topic in group if topic in repartitions]
    count = next(iter(required.values()), None)
    if count is None:
        count = max((counts[topic] for topic in internal), default=0)
    return dict.fromkeys(internal, count)


def _tasks(
    subtopology: SubtopologyReport, counts: Mapping[str, int]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Make as many tasks as the widest source has partitions; each reads those there are."""
    sources = _sources(subtopology)
    widest = max((counts[topic] for topic in sources), default=0)
    return {
        TaskId(subtopology.id, partition): tuple(
            TopicPartition(topic, partition) for topic in sources if partition < counts[topic]
        )
        for partition in range(widest)
    }


def _changelog_topics(
    report: TopologyReport, subtopology: SubtopologyReport, partitions: int
) -> list[InternalTopic]:
    return [
        InternalTopic(
            name=changelog.name,
            partitions=partitions,
            configs=changelog_configs(changelog, report.topic_configs),
            replication_factor=report.replication_factor,
        )
        for changelog in subtopology.changelogs
        if not changelog.is_source
    ]


def _compare_with_existing(
    report: TopologyReport,
    topics: Iterable[InternalTopic],
    counts: Mapping[str, int],
    existing: Mapping[str, int],
) -> None:
    for topic in topics:
        found = existing.get(topic.name, topic.partitions)
        if found == topic.partitions:
            continue
        source = _widest_source(report, topic, counts)
        said = f", as many as {source} has" if source else ""
        if found < topic.partitions:
            first = (
                "Kafka cannot take partitions away, and records of a key may lie in another "
                "partition now. Go back"
            )
        else:
            first = f"Give {source} {found} partitions, go back" if source else "Go back"
        raise PartitionMismatchError(
            f"internal topic {topic.name} has {_partitions(found)}, but the topology needs "
            f"{topic.partitions}{said}. {first} to the topology before if it was changed, take "
            "another applicationId, or throw the state away and read everything again with "
            "'headwater reset' (on a cluster: kubectl annotate streamapp NAME "
            "headwater.dev/reset=now; for KafkaStreams in a program: "
            "kafka-streams-application-reset)"
        )


def _widest_source(
    report: TopologyReport, topic: InternalTopic, counts: Mapping[str, int]
) -> str | None:
    """Return the source that has given an internal topic its count, unless the user has."""
    repartition = _repartition_topics(report).get(topic.name)
    if repartition is not None and repartition.partitions is not None:
        return None
    sources = (
        source
        for subtopology in report.subtopologies
        if topic.name in subtopology.sink_topics
        or any(changelog.name == topic.name for changelog in subtopology.changelogs)
        for source in _sources(subtopology)
        if counts[source] == topic.partitions
    )
    return min(sources, default=None)


def _partitions(count: int) -> str:
    return f"{count} partition{'s' if count != 1 else ''}"


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _with_counts(counts: Mapping[str, int]) -> str:
    return " and ".join(f"{topic!r} has {count}" for topic, count in sorted(counts.items()))
