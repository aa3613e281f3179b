"""From a task id to a StreamTask that may run: its partitions, its stores, where it starts to read.

stores      opened as the StateUpdater left them: at the end of their changelogs
offsets     the committed ones, stable, read only after ``Go``
            none, and the changelog holds records -> OffsetsExpiredError
            some, and the changelog is gone       -> ChangelogLostError
            none, and there is nothing to lose    -> the source's auto.offset.reset
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import (
    ConfigError,
    MissingTopicError,
    OffsetsExpiredError,
    PartitionMismatchError,
)
from headwater.ids import TopicPartition
from headwater.model import losses
from headwater.model.offset_reset import OffsetReset
from headwater.model.partitions import topics_to_describe
from headwater.model.patterns import is_pattern, matching, of_topics
from headwater.model.reporting import changelog_of, decorate
from headwater.native.calls import ThreadCallers
from headwater.native.pace import Pace
from headwater.native.stores import LogEnds
from headwater.processor.task import StreamTask

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headwater.ids import TaskId
    from headwater.kafka.committed import CommittedOffset
    from headwater.kafka.topics import TopicDescription
    from headwater.measuring.task import Measures
    from headwater.model.nodes import Subtopology
    from headwater.model.topology import Topology
    from headwater.native.clients import TaskClients
    from headwater.native.losses import ChangelogGuard
    from headwater.native.stores import StoreOpener
    from headwater.ports import Clock, KeyValueStore, RecordCollector
    from headwater.processor.environment import GlobalStore

log = logging.getLogger(__name__)

_PROPAGATION_S: Final = 10.0
_PROPAGATION_STEP_S: Final = 0.1


@dataclass(slots=True, kw_only=True)
class RunningTask:
    """A StreamTask with what the engine must know about it to commit it."""

    task: StreamTask
    stores: Mapping[str, KeyValueStore]
    changelogs: Mapping[str, TopicPartition]
    """Changelog partition of each store that has one; it may be among the inputs."""
    start: Mapping[TopicPartition, int]
    """Where each input partition is read from, and from where again if nothing is committed."""
    is_new: bool = False
    """An input partition has no committed offset yet."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    """The offsets committed last, as far as this process knows."""
    pace: Pace = field(default_factory=Pace)
    """What it may take of a round of its thread."""
    held_bytes: int = 0
    """Of its uncommitted writes, when it was looked at last."""

    @property
    def task_id(self) -> TaskId:
        """Which task it is."""
        return self.task.task_id


class _Logs(NamedTuple):
    """Where partitions begin and end, asked of the broker for all tasks that are opened."""

    first: Mapping[TopicPartition, int]
    """Of the inputs without a committed offset, and of the changelogs of their tasks."""
    end: Mapping[TopicPartition, int]
    """Of these, and of all changelogs."""
    asked_at_ms: int


class TaskOpener:
    """Makes StreamTasks of one topology for one StreamThread.

    Args:
        topology: what the tasks run.
        clients: asked about topics and offsets.
        collector: where the tasks send to.
        stores: opens the tasks' stores.
        clock: the wall clock.
        default_reset: ``auto.offset.reset`` for sources without their own.
        guard: asked about a changelog that does not exist.
        check: called before anything is opened; raises if the state must not be used.
        group: whose committed offsets count; the application's own if not given.
        global_stores: those of the process, by name, before the first task is opened.
        topics: what patterns are matched with; all topics there are if not given.
        measures: what is measured; nothing if not given.
    """

    def __init__(
        self,
        *,
        topology: Topology,
        clients: TaskClients[Any],
        collector: RecordCollector,
        stores: StoreOpener,
        clock: Clock,
        default_reset: OffsetReset,
        guard: ChangelogGuard,
        check: Callable[[], None],
        group: str | None = None,
        global_stores: Mapping[str, GlobalStore] = MappingProxyType({}),
        topics: Collection[str] | None = None,
        measures: Measures | None = None,
    ) -> None:
        self._measures = measures
        self._global_stores = global_stores
        self._matched_with = topics
        self._callers = ThreadCallers()
        self._topology = topology
        self._subtopologies = {found.id: found for found in topology.subtopologies}
        self._default_reset = default_reset
        self._internal = topology.repartition_topics
        config = self._config = clients.access.config
        self._admin = clients.admin
        self._collector = collector
        self._stores = stores
        self._clock = clock
        self._guard = guard
        self._check = check
        self._group = group or config.application_id
        self._topics: dict[str, TopicDescription] = {}
        self._added: set[TopicPartition] = set()
        self._resets = self._policies()
        named = {topic for found in topology.subtopologies for topic in found.source_topics}
        self.patterns = frozenset(filter(is_pattern, named))
        """What sources read by pattern; ``model.patterns`` says how it is written."""
        report = topology.report(config.application_id) if self.patterns else None
        self._taken = named.union(topics_to_describe(report)) if report is not None else named

    def measure(self, measures: Measures) -> None:
        """Have tasks that are opened from now on measured by these."""
        self._measures = measures

    def topic_name(self, topic: str) -> str:
        """Return the broker's name of a topic of the topology."""
        if topic in self._internal:
            return decorate(self._config.application_id, topic)
        return topic

    def _policies(self) -> dict[str, OffsetReset]:
        return {
            self.topic_name(topic): source.offset_reset or self._default_reset
            for subtopology in self._subtopologies.values()
            for source in subtopology.sources
            for topic in source.topics
        }

    def _match(self, existing: Iterable[str]) -> None:
        """Let sources by pattern read those of the topics that match.

        Raises:
            TopologyError: two patterns match one topic.
        """
        if self.patterns:
            there = set(existing) - self._taken
            self._subtopologies = {
                found.id: of_topics(found, there) for found in self._topology.subtopologies
            }
            self._resets = self._policies()

    def _read(self, subtopology: Subtopology) -> list[str]:
        """Return the broker's names of the topics that a sub-topology reads."""
        return [
            self.topic_name(topic) for topic in subtopology.source_topics if not is_pattern(topic)
        ]

    @property
    def repartition_topics(self) -> frozenset[str]:
        """The broker's names of all repartition topics."""
        return frozenset(self.topic_name(topic) for topic in self._internal)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The UUIDs under which the topics were opened."""
        return {topic: self._topics[topic].topic_id for topic in topics if topic in self._topics}

    def reset_policy(self, topic: str) -> OffsetReset:
        """Where a partition of ``topic`` is read from without a committed offset."""
        return self._resets[topic]

    def offset_since(self, partition: TopicPartition, duration_ms: int) -> int | None:
        """Return where the records begin that are not older than ``duration_ms``, if any is.

        Raises:
            KafkaUnavailableError: nobody answered.
        """
        since_ms = max(0, self._clock.now_ms() - duration_ms)
        return self._admin.offsets_at([partition], since_ms)[partition]

    def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets, as ``Admin.committed``."""
        return self._admin.committed(self._group, partitions)

    def grown(
        self, tasks: Mapping[TaskId, RunningTask], partitions: Mapping[str, int]
    ) -> tuple[TaskId, ...]:
        """Return the running tasks that have more to read than what they were opened with.

        A task reads the partition of its number of every source, of those that have one. What is
        found here was added since: it has no committed offset, and none can have expired.

        Args:
            tasks: that run.
            partitions: how many partitions topics have now, by name.
        """
        found: dict[TaskId, None] = {}
        self._match(partitions)
        for task_id, running in tasks.items():
            for topic in self._read(self._subtopologies[task_id.subtopology]):
                partition = TopicPartition(topic, task_id.partition)
                is_there = partition.partition < partitions.get(partition.topic, 0)
                if is_there and partition not in running.start:
                    found[task_id] = None
                    self._added.add(partition)
        return tuple(found)

    def open(self, task_ids: Collection[TaskId]) -> list[RunningTask]:
        """Open tasks. Nothing stays open if one of them fails.

        Raises:
            BackfillUnfinishedError: the state is loaded only in part.
            ChangelogLostError: a changelog does not exist although its records were read, or is
                younger than a store on disk.
            MissingTopicError: a source topic does not exist, or an internal one.
            OffsetsExpiredError: see the module.
            StateError: a store cannot be opened.
        """
        self._check()
        if self.patterns:
            known = self._matched_with
            self._match(self._admin.matching(self.patterns) if known is None else known)
        self._look_up_topics(task_ids)
        inputs = {task_id: self._inputs(task_id) for task_id in task_ids}
        wanted = {partition for partitions in inputs.values() for partition in partitions}
        committed = self.committed(wanted)
        logs = self._logs(inputs, committed)
        self._stores.prepare({one: self._subtopologies[one.subtopology] for one in task_ids})
        opened: list[RunningTask] = []
        try:
            for task_id in task_ids:
                opened.append(  # noqa: PERF401
                    self._open(task_id, inputs[task_id], committed, logs)
                )
        except BaseException:
            for running in opened:
                running.task.close()
            raise
        return opened

    def _logs(
        self,
        inputs: Mapping[TaskId, tuple[TopicPartition, ...]],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> _Logs:
        """Ask once where everything begins and ends that these tasks may have to know.

        A request a task takes longer than all the rest where there are hundreds of tasks.
        """
        logs: dict[TopicPartition, None] = {}
        new: dict[TopicPartition, None] = {}
        for task_id, partitions in inputs.items():
            own = [p for p in self._changelogs(task_id).values() if p not in partitions]
            missing = [partition for partition in partitions if partition not in committed]
            logs |= dict.fromkeys(own)
            if missing:
                new |= dict.fromkeys([*missing, *own])
        asked_at_ms = self._clock.now_ms()
        return _Logs(
            first=self._admin.earliest_offsets(new),
            end=self._admin.end_offsets(logs | new),
            asked_at_ms=asked_at_ms,
        )

    def close(self) -> None:
        """End what calls functions that wait; the tasks are closed."""
        self._callers.close()

    def _open(
        self,
        task_id: TaskId,
        inputs: tuple[TopicPartition, ...],
        committed: Mapping[TopicPartition, CommittedOffset],
        logs: _Logs,
    ) -> RunningTask:
        subtopology = self._subtopologies[task_id.subtopology]
        changelogs = self._changelogs(task_id)
        missing = tuple(partition for partition in inputs if partition not in committed)
        start = {p: committed[p].offset for p in inputs if p in committed}
        own_logs = tuple(partition for partition in changelogs.values() if partition not in inputs)
        if start:
            # Every commit has all offsets of a task: this topic matches since then.
            self._added |= {p for p in missing if matching(self.patterns, [p.topic])}
        start |= self._first_offsets(task_id, missing, own_logs, logs)
        topic_ids = self.topic_ids(partition.topic for partition in changelogs.values())
        # Of its source topic a store holds what was committed; without that, nothing.
        ends = {
            partition: (
                logs.end[partition]
                if partition not in inputs
                else committed[partition].offset
                if partition in committed
                else 0
            )
            for partition in changelogs.values()
        }
        stores = self._stores.open(
            task_id, subtopology, changelogs, topic_ids, LogEnds(ends, logs.asked_at_ms)
        )
        try:
            task = StreamTask(
                task_id=task_id,
                subtopology=subtopology,
                partitions=inputs,
                config=self._config,
                collector=self._collector,
                stores=stores,
                clock=self._clock,
                topic_name=self.topic_name,
                warn=log.warning,
                global_stores=self._global_stores,
                callers=self._callers,
                measures=self._measures,
            )
            task.restore_metadata(
                {p: (start[p], committed[p].metadata if p in committed else None) for p in inputs}
            )
        except BaseException:
            for store in stores.values():
                store.close()
            raise
        log.info("task %s: reading from %s", task_id, _at(start))
        return RunningTask(
            task=task, stores=stores, changelogs=changelogs, start=start, is_new=bool(missing)
        )

    def _look_up_topics(self, task_ids: Iterable[TaskId]) -> None:
        """Ask once about every topic that these tasks read or log to."""
        topics = set()
        for task_id in task_ids:
            subtopology = self._subtopologies.get(task_id.subtopology)
            if subtopology is None:
                raise ConfigError(
                    f"task {task_id}: the topology has no sub-topology {task_id.subtopology}; "
                    "all workers must run the same code"
                )
            topics |= set(self._read(subtopology))
            topics |= {p.topic for p in self._changelogs(task_id).values()}
        found = self._admin.describe_topics(topics)
        deadline = time.monotonic() + _PROPAGATION_S
        while self._lacks_partitions(task_ids, found) and time.monotonic() < deadline:
            # A broker may not have heard yet of partitions that another one has told of.
            time.sleep(_PROPAGATION_STEP_S)
            found = self._admin.describe_topics(topics)
        absent = sorted(topics - found.keys())
        if absent:
            self._guard.check_missing(absent)
            raise MissingTopicError(losses.absent(absent))
        self._topics |= found

    def _lacks_partitions(
        self, task_ids: Iterable[TaskId], found: Mapping[str, TopicDescription]
    ) -> bool:
        """Whether a task has nothing to read, although its topics are there."""
        sources = {
            task_id: [
                found[topic]
                for topic in self._read(self._subtopologies[task_id.subtopology])
                if topic in found
            ]
            for task_id in task_ids
        }
        return any(
            topics and all(task_id.partition >= topic.partitions for topic in topics)
            for task_id, topics in sources.items()
        )

    def _inputs(self, task_id: TaskId) -> tuple[TopicPartition, ...]:
        topics = self._read(self._subtopologies[task_id.subtopology])
        inputs = tuple(
            TopicPartition(topic, task_id.partition)
            for topic in topics
            if task_id.partition < self._topics[topic].partitions
        )
        if not inputs:
            counts = ", ".join(f"{topic} has {self._topics[topic].partitions}" for topic in topics)
            raise PartitionMismatchError(
                f"task {task_id} has no partition to read: {counts}; a topic was made anew with "
                "fewer. Give it as many as before, or reset the application"
            )
        return inputs

    def _changelogs(self, task_id: TaskId) -> dict[str, TopicPartition]:
        application_id = self._config.application_id
        return {
            spec.name: TopicPartition(changelog_of(application_id, spec), task_id.partition)
            for spec in self._subtopologies[task_id.subtopology].stores
            if spec.is_restorable
        }

    def _first_offsets(
        self,
        task_id: TaskId,
        partitions: tuple[TopicPartition, ...],
        changelogs: tuple[TopicPartition, ...],
        logs: _Logs,
    ) -> dict[TopicPartition, int]:
        """Where to begin without a committed offset; only where that can lose or repeat nothing."""
        if not partitions:
            return {}
        first, end = logs.first, logs.end
        # A partition that never held a record cannot have been read, so nothing has expired.
        read_before = [p for p in partitions if end[p] > 0 and p not in self._added]
        filled = [changelog for changelog in changelogs if end[changelog] > first[changelog]]
        if read_before and filled:
            raise OffsetsExpiredError(
                f"task {task_id}: group {self._group} has no committed offset for "
                f"{_named(read_before)}, yet changelog {_named(filled)} holds data; the offsets "
                "expired or were deleted, or the partition was added while nobody ran the "
                "application. Choose: `headwater reset` (on a cluster: kubectl "
                "annotate streamapp NAME headwater.dev/reset=now; for KafkaStreams in a program: "
                "kafka-streams-application-reset) to delete the state and read everything "
                "again, or set the offsets with kafka-consumer-groups --reset-offsets to keep the "
                "state and go on from there"
            )
        offsets = {}
        for partition in partitions:
            policy = self.reset_policy(partition.topic)
            if policy == OffsetReset.NONE:
                raise OffsetsExpiredError(
                    f"task {task_id}: no committed offset for {partition}, and auto.offset.reset "
                    "is none; set it to earliest or latest, or commit an offset"
                )
            offsets[partition] = (first if policy == OffsetReset.EARLIEST else end)[partition]
            if (duration_ms := policy.duration_ms) is not None:
                found = self.offset_since(partition, duration_ms)
                offsets[partition] = end[partition] if found is None else found
        return offsets


def _at(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{partition} at {offset}" for partition, offset in offsets.items())


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in partitions)
