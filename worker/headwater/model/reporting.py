"""From a topology to the report that the operator reads: names and numbers, no code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from headwater.model.durations import LONG_MAX
from headwater.model.topics import (
    ChangelogKind,
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)
from headwater.topology_settings import WINDOW_CHANGELOG_SLACK_MS

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.model.topology import Topology


def decorate(application_id: str, topic: str) -> str:
    """Return the broker's name of an internal topic (``-repartition``, ``-changelog``)."""
    return f"{application_id}-{topic}"


def changelog_topic(application_id: str, store: str) -> str:
    """Return ``<application id>-<store>-changelog``."""
    return decorate(application_id, f"{store}-changelog")


def changelog_of(application_id: str, store: StoreSpec) -> str:
    """Return the topic that a store is restored from: its changelog, or its source topic."""
    return store.source_topic or changelog_topic(application_id, store.name)


def report(topology: Topology, application_id: str) -> TopologyReport:
    """Return what the operator needs to know; equal topologies have equal hashes."""
    internal = topology.repartition_topics
    groups = tuple(
        tuple(decorate(application_id, topic) if topic in internal else topic for topic in group)
        for group in topology.copartition_groups
    )
    subtopologies = tuple(
        _report_subtopology(topology, group, application_id)
        for group in topology.subtopologies
        if group.sources
    )
    description = topology.describe()
    facts: Any = [description, [asdict(group) for group in subtopologies], groups]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return TopologyReport(
        hash=digest, description=description, subtopologies=subtopologies, copartition_groups=groups
    )


def configured(found: TopologyReport, config: StreamsConfig) -> TopologyReport:
    """Return the report with what the configuration says about internal topics."""
    slack_ms = config.windowstore_changelog_additional_retention_ms
    subtopologies = found.subtopologies
    if slack_ms != WINDOW_CHANGELOG_SLACK_MS:
        subtopologies = tuple(
            replace(each, changelogs=tuple(_kept(log, slack_ms) for log in each.changelogs))
            for each in subtopologies
        )
    return replace(
        found,
        subtopologies=subtopologies,
        topic_configs={name: str(value) for name, value in config.topic_overrides().items()},
        replication_factor=config.replication_factor,
    )


def _kept(changelog: ChangelogTopic, slack_ms: int) -> ChangelogTopic:
    """Return a changelog that keeps windows so much longer than its store, unless it says more."""
    if changelog.kind is not ChangelogKind.WINDOWED or "retention.ms" in changelog.configs:
        return changelog
    retention = min(changelog.retention_ms + slack_ms, LONG_MAX)
    return replace(changelog, configs={**changelog.configs, "retention.ms": str(retention)})


def _report_subtopology(
    topology: Topology, group: Subtopology, application_id: str
) -> SubtopologyReport:
    internal = topology.repartition_topics
    sinks = dict.fromkeys(sink.topic for sink in group.sinks if isinstance(sink.topic, str))
    return SubtopologyReport(
        id=group.id,
        source_topics=tuple(topic for topic in group.source_topics if topic not in internal),
        repartition_sources=tuple(
            RepartitionTopic(name=decorate(application_id, topic), partitions=internal[topic])
            for topic in group.source_topics
            if topic in internal
        ),
        sink_topics=tuple(
            decorate(application_id, topic) if topic in internal else topic for topic in sinks
        ),
        changelogs=tuple(
            ChangelogTopic(
                name=changelog_of(application_id, store),
                store=store.name,
                kind=store.kind.changelog,
                retention_ms=store.retention_ms,
                configs=dict(store.topic_config),
                is_source=store.source_topic is not None,
                persistent=store.persistent,
            )
            for store in group.stores
            if store.is_restorable
        ),
        stores=tuple(store.name for store in group.stores),
    )
