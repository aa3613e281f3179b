"""The application that is backfilled: its topology, its topics and tasks, its clients."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError, KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.kafka.settings import offset_reset
from headwater.model import partitions
from headwater.model.patterns import expanded, is_pattern, with_topics
from headwater.model.reporting import configured
from headwater.native.loading import built
from headwater.service.duties import Duties
from headwater.spark.latest import outputs_topic, waiting_topic
from headwater.spark.outputs import Outputs
from headwater.spark.passes import SLICE_RECORDS
from headwater.spark.stages import repartition_topics

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater.ids import TaskId
    from headwater.model.partitions import PartitionPlan
    from headwater.model.topics import InternalTopic, TopologyReport
    from headwater.native.application import ApplicationSettings

_POLL_S: Final = 0.01
BEGINNING: Final = "beginning"
EARLIEST: Final = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSettings:
    """What a backfill is told.

    Attributes:
        application: its configuration and topology.
        outputs: what is written to topics that are not the application's own.
        since: ``"beginning"``, ``"earliest"`` (what retention has left), or a time in milliseconds;
            ``None`` begins at the beginning, or goes on with what was begun.
        until: a time in milliseconds; ``None`` for what there is now, or what was begun.
        target: ``"auto"``, which computes as DataFrames what can be; ``"t1"``, which leaves all to
            StreamTasks; ``"t2"``, which refuses a topology of which something has to be left.
        worker_ids: transactional ids of workers that there were; whoever of them is left is fenced.
        slice_records: of each source partition in one pass, where sub-topologies feed each other.
    """

    application: ApplicationSettings
    outputs: Outputs = Outputs.NONE
    since: str | int | None = None
    until: int | None = None
    target: str = "t1"
    worker_ids: tuple[str, ...] = ()
    slice_records: int = SLICE_RECORDS


class Application:
    """One application with the clients of a backfill's driver.

    Args:
        settings: its configuration and topology.
        outputs: what a backfill writes to topics that are not the application's own.

    Raises:
        ConfigError: an option is wrong or missing.
        ImportPathError: the topology cannot be had.
        TopologyError: the topology breaks a rule.
    """

    def __init__(self, settings: ApplicationSettings, *, outputs: Outputs = Outputs.NONE) -> None:
        config = self.config = settings.parsed()
        if not config.bootstrap_servers:
            raise ConfigError(
                "bootstrap.servers is missing: set spec.kafka.bootstrapServers of the StreamApp, "
                "or give --bootstrap host:port"
            )
        self.topology = built(settings)
        self.id = config.application_id
        self.report: TopologyReport = configured(self.topology.report(self.id), config)
        self.client_id = f"{config.client_id or self.id}-backfill"
        self.timeout_s = config.request_timeout_ms / 1000
        self.duties = Duties(config, client_id=self.client_id, timeout_s=self.timeout_s)
        self.access = self.duties.access
        self.admin = self.access.admin
        self.repartition_topics = repartition_topics(self.report)
        self._is_latest = outputs is Outputs.LATEST
        named = {t for found in self.report.subtopologies for t in found.source_topics}
        self.patterns = frozenset(filter(is_pattern, named))
        """What sources read by pattern (``model.patterns``)."""
        self._begun_with: frozenset[str] | None = None

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """Repartition topics and changelogs, and where outputs wait, by the broker's names."""
        names = partitions.internal_topic_names(self.report)
        return (*names, outputs_topic(self.id)) if self._is_latest else names

    @cached_property
    def topics_to_make(self) -> tuple[InternalTopic, ...]:
        """The internal topics as they are to be created."""
        topics = tuple(self.plan.internal_topics)
        if not self._is_latest:
            return topics
        factor = self.report.replication_factor
        return (*topics, waiting_topic(self.id, len(self.plan.tasks), factor))

    @cached_property
    def waiting(self) -> dict[TaskId, TopicPartition]:
        """Where the outputs of each task wait for the cut, if only the last are written."""
        if not self._is_latest:
            return {}
        topic = outputs_topic(self.id)
        tasks = sorted(self.plan.tasks)
        return {task: TopicPartition(topic, number) for number, task in enumerate(tasks)}

    def keep_to(self, topics: Collection[str]) -> None:
        """Let patterns match none but these: those with which a backfill was begun."""
        self._begun_with = frozenset(topics)

    @cached_property
    def matched(self) -> TopologyReport:
        """The report with the topics that match in place of each pattern.

        Raises:
            KafkaUnavailableError: nobody answered.
            TopologyError: two patterns match one topic.
        """
        if not self.patterns:
            return self.report
        found = self.admin.matching(self.patterns) if self._begun_with is None else self._begun_with
        return with_topics(self.report, found)

    @cached_property
    def plan(self) -> PartitionPlan:
        """Tasks and internal topics, from the source topics as they are now.

        Raises:
            MissingTopicError: a source topic does not exist.
            PartitionMismatchError: topics that must be co-partitioned are not.
        """
        sources = {topic for found in self.matched.subtopologies for topic in found.source_topics}
        return partitions.plan(self.matched, self.duties.partitions(sources))

    @cached_property
    def inputs(self) -> tuple[TopicPartition, ...]:
        """Every partition that a task reads."""
        return tuple(sorted({p for found in self.plan.inputs.values() for p in found}))

    @cached_property
    def sources(self) -> tuple[TopicPartition, ...]:
        """Those of ``inputs`` that are not the application's own."""
        return tuple(p for p in self.inputs if p.topic not in self.repartition_topics)

    @cached_property
    def durations_ms(self) -> dict[str, int]:
        """How far back the topics count that ``auto.offset.reset`` looks back in by duration."""
        there = {partition.topic for partition in self.sources}
        default = offset_reset(self.config)
        return {
            topic: duration_ms
            for found in self.topology.subtopologies
            for source in found.sources
            if (duration_ms := (source.offset_reset or default).duration_ms) is not None
            for topic in expanded(source.reads, there)
            if topic in there
        }

    @cached_property
    def changelogs(self) -> tuple[TopicPartition, ...]:
        """Every changelog partition."""
        return tuple(sorted({p for found in self.plan.changelogs.values() for p in found}))

    def settled_ends(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions end to which nobody writes any more.

        A transaction counts as committed before its markers are in all its partitions, so an end is
        only believed when no transaction is open before it.

        Raises:
            KafkaUnavailableError: one stays open.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            committed = self.admin.end_offsets(wanted, committed_only=True)
            ends = self.admin.end_offsets(wanted)
            unsettled = [p for p in wanted if committed[p] != ends[p]]
            if not unsettled:
                return ends
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"{unsettled[0]}: a transaction is open although every task of the backfill "
                    "has ended; does somebody else write there? Then run the backfill again"
                )
            time.sleep(_POLL_S)

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics, and wait until the broker shows none of them.

        Raises:
            KafkaUnavailableError: one stays.
        """
        self.admin.delete_topics(names)
        deadline = time.monotonic() + self.timeout_s
        while left := self.admin.describe_topics(names):
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"the broker still shows {', '.join(sorted(left))} although it deleted them; "
                    "run the backfill again"
                )
            time.sleep(_POLL_S)
