"""What a worker reports about its topology: sub-topologies, their topics and stores.

The operator never sees user code; it derives tasks and internal topics from this report
(``model.partitions``). All topic names are the names on the broker: internal ones carry the
application id already.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headwater.model.fields import meta

TOPICS: Final = meta(max_items=10_000, each=meta(max_length=249))
"""Metadata of a list of topics."""


class ChangelogKind(StrEnum):
    """Which clean-up a changelog needs (Kafka Streams' three ``InternalTopicConfig`` classes)."""

    KEY_VALUE = "KeyValue"
    WINDOWED = "Windowed"
    VERSIONED = "Versioned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionTopic:
    """A repartition topic as a source of a sub-topology.

    Attributes:
        name: ``<application id>-<name>-repartition``.
        partitions: the count enforced by ``Repartitioned.with_number_of_partitions``; ``None`` to
            infer it.
        configs: topic settings that override Kafka Streams' own.
    """

    name: str
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogTopic:
    """The changelog of one store.

    Attributes:
        name: ``<application id>-<store>-changelog``, or the source topic that serves as changelog.
        store: the store's name.
        kind: decides ``cleanup.policy``.
        retention_ms: the store's retention (windowed) or history retention (versioned), in
            milliseconds.
        configs: topic settings of ``Materialized.with_logging_enabled``.
        is_source: the changelog is a source topic of the sub-topology, so nothing is to be created.
        persistent: the store lies on disk, so that another process can take it over; one in memory
            dies with its process.
    """

    name: str
    store: str
    kind: ChangelogKind = ChangelogKind.KEY_VALUE
    retention_ms: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)
    is_source: bool = False
    persistent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologyReport:
    """The topics of one sub-topology (Kafka Streams' ``TopicsInfo``).

    Attributes:
        id: the sub-topology's number in task ids.
        source_topics: external topics it reads.
        repartition_sources: repartition topics it reads.
        sink_topics: topics it writes to, repartition topics among them.
        changelogs: one per logged store; empty for a stateless sub-topology.
        stores: names of all its stores, logged or not.
    """

    id: int
    source_topics: tuple[str, ...] = field(default=(), metadata=TOPICS)
    repartition_sources: tuple[RepartitionTopic, ...] = field(
        default=(), metadata=meta(max_items=10_000)
    )
    sink_topics: tuple[str, ...] = field(default=(), metadata=TOPICS)
    changelogs: tuple[ChangelogTopic, ...] = field(default=(), metadata=meta(max_items=10_000))
    stores: tuple[str, ...] = field(default=(), metadata=TOPICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyReport:
    """What a worker built from the StreamApp's topology, without the code.

    Attributes:
        hash: a digest of ``description`` and everything below; two workers with different hashes
            run different code.
        description: ``Topology.describe()``.
        subtopologies: those that yield tasks, by id.
        copartition_groups: groups of source topics (repartition topics among them) that must have
            equal counts.
        topic_configs: the ``topic.``-prefixed settings of the application, without the prefix.
        replication_factor: for internal topics; -1 is the broker's default.
    """

    hash: str
    description: str = field(default="", metadata=meta(max_length=500_000))
    subtopologies: tuple[SubtopologyReport, ...] = field(
        default=(), metadata=meta(max_items=10_000)
    )
    copartition_groups: tuple[tuple[str, ...], ...] = field(
        default=(), metadata=meta(max_items=10_000, each=TOPICS)
    )
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """An internal topic as it is to be created.

    Attributes:
        name: on the broker.
        partitions: how many.
        configs: the complete settings.
        replication_factor: -1 is the broker's default.
    """

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1
