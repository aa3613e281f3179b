"""TopologyTestDriver: a topology run record by record in memory, with the engines' StreamTask.

    driver = TopologyTestDriver(topology, {"application.id": "test"})
    lines = driver.create_input_topic("lines", Serdes.string, Serdes.string)
    counts = driver.create_output_topic("counts", Serdes.string, Serdes.long)
    lines.pipe_input("k", "hello world")
    assert counts.read_key_values_to_map() == {"hello": 1, "world": 1}

As in Kafka Streams' driver, every record is processed to the end and committed, and what is written
to a topic that the topology reads is read back. The tasks and their loop are those of the engines:
a task for each sub-topology and partition. A topic has one partition unless ``partitions`` says
otherwise::

    driver = TopologyTestDriver(topology, config, partitions={"lines": 3})
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.model.durations import millis
from headwater.model.partitions import external_topics, plan
from headwater.model.patterns import check_apart, is_pattern, matching, of_topics
from headwater.model.reporting import changelog_of, decorate
from headwater.native.calls import ThreadCallers
from headwater.native.global_stores import GlobalStores, global_topics
from headwater.native.loop import ProcessingLoop
from headwater.native.measured import ThreadNumbers
from headwater.native.opening import RunningTask
from headwater.processor.resolving import serde_of, store_serdes
from headwater.processor.task import StreamTask
from headwater.state import CacheBudget, TimedStore, memory_backend, open_store
from headwater.testing.clock import ManualClock
from headwater.testing.collector import ProducedRecord
from headwater.testing.memory import (
    LastingBackend,
    MemoryClients,
    MemoryCommitter,
    MemoryOffsets,
    RecordByRecord,
)
from headwater.testing.numbers import THREAD, driver_metrics
from headwater.testing.storeviews import FoundStore, StoreViews
from headwater.testing.topics import TestInputTopic, TestOutputTopic
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from headwater.model.durations import Duration
    from headwater.model.metrics.kafka import KafkaMetric, MetricName
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.model.topology import Topology
    from headwater.ports import Headers, KeyValueStore, PartitionOffsets
    from headwater.serde import Serde
    from headwater.state import LayeredStore


class TopologyTestDriver(StoreViews):
    """Runs ``topology`` without a broker (Kafka Streams' ``TopologyTestDriver``).

    Args:
        topology: what ``StreamsBuilder.build()`` returned.
        config: options as for ``StreamsConfig.parse``; the application id may be left out.
        partitions: of topics with more than one. If given, repartition topics have as many as on a
            broker, else one. A key's records are in the partition that it has in Kafka, records
            without a key in the first.
        start_ms: where the wall clock starts.

    Raises:
        PartitionMismatchError: topics that must be co-partitioned have different counts.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, object] | StreamsConfig | None = None,
        *,
        partitions: Mapping[str, int] | None = None,
        start_ms: int = 0,
    ) -> None:
        if not isinstance(config, StreamsConfig):
            given = dict(config or {})
            if "application.id" not in given:
                given.setdefault("application_id", "test")
            config = StreamsConfig.parse(given)
        self.config = config
        """The configuration in use."""
        self.warnings: list[str] = []
        """A sentence per record that a handler or extractor let go."""
        self._topology = topology = topology.configured(config.originals)
        self._clock = ManualClock(start_ms)
        self._partitions = partitions
        self._matched: dict[str, int] = {}
        """Topics that match a pattern, and were written to."""
        self._backends: dict[tuple[TaskId, str], LastingBackend] = {}
        self._inputs = self._planned()
        counts = dict(partitions or {})
        for found in self._inputs.values():
            counts |= {p.topic: max(counts.get(p.topic, 1), p.partition + 1) for p in found}
        self._counts = counts
        self._read_topics = dict.fromkeys(p.topic for found in self._inputs.values() for p in found)
        self._clients = MemoryClients(counts)
        self._committer = MemoryCommitter()
        self._callers = ThreadCallers()
        self._captured = 0
        self._outputs: defaultdict[str, deque[ProducedRecord]] = defaultdict(deque)
        self._numbers = ThreadNumbers(config, self._clock, THREAD)
        self._loop = ProcessingLoop(
            config=config,
            clock=self._clock,
            clients=self._clients,
            committer=self._committer,
            opener=MemoryOffsets(),
            policy=RecordByRecord(self._clients.consumer),
            ratios=self._numbers.ratios,
        )
        self._cache = CacheBudget(config.statestore_cache_max_bytes)
        self._globals = GlobalStores(
            topology.global_subtopologies,
            config,
            {topic: counts.get(topic, 1) for topic in global_topics(topology)},
            self._clock,
            self.warnings.append,
            measures=self._numbers.measures,
        )
        self._global_offsets: Counter[TopicPartition] = Counter()
        self._tasks = [self._task_of(task_id) for task_id in self._inputs]
        self._loop.add(self._tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def topic_name(self, topic: str) -> str:
        """Return the broker's name of a topic of the topology."""
        if topic in self._topology.repartition_topics:
            return decorate(self.config.application_id, topic)
        return topic

    # ---- topics --------------------------------------------------------------------------------

    def create_input_topic(
        self,
        name: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        start_ms: int | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """Return a topic to write to.

        Args:
            name: a topic that the topology reads.
            key_serde: ``None`` for the configured default.
            value_serde: likewise.
            start_ms: timestamp of the first record; by default the wall clock's.
            auto_advance: how much later each further record is; a ``timedelta`` or milliseconds.
        """
        return TestInputTopic(
            self,
            name,
            *self._serdes(name, key_serde, value_serde),
            start_ms=self._clock.now_ms() if start_ms is None else start_ms,
            auto_advance=auto_advance,
        )

    def create_output_topic(
        self, name: str, key_serde: Serde[Any] | None = None, value_serde: Serde[Any] | None = None
    ) -> TestOutputTopic:
        """Return a topic to read from; serdes of ``None`` are the configured defaults."""
        return TestOutputTopic(self, name, *self._serdes(name, key_serde, value_serde))

    def pipe_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = None,
        partition: int | None = None,
    ) -> None:
        """Write one record in bytes and process everything that follows from it.

        Args:
            topic: the broker's name of a topic that the topology reads.
            key: ``None`` for a null key.
            value: ``None`` for a tombstone.
            timestamp: milliseconds.
            headers: the record's headers.
            partition: where to; the key's if not given.

        Raises:
            ValueError: the topology does not read ``topic``.
            RecordError: the record could not be handled.
        """
        if topic not in self._read_topics and topic not in self._globals.tasks:
            self._match(topic)
        if topic not in self._read_topics and topic not in self._globals.tasks:
            there = ", ".join([*self._read_topics, *self._globals.tasks])
            raise ValueError(f"the topology does not read topic {topic!r}; it reads {there}")
        self._enqueue(ProducedRecord(topic, partition, key, value, timestamp, headers))
        self._complete()

    def output_queue(self, topic: str) -> deque[ProducedRecord]:
        """Return the records written to ``topic`` that were not read yet."""
        return self._outputs[topic]

    @property
    def history(self) -> tuple[ProducedRecord, ...]:
        """Everything written, changelogs included, in order."""
        return tuple(self._clients.producer.records)

    @property
    def produced_topic_names(self) -> frozenset[str]:
        """Topics that were written to."""
        return frozenset(record.topic for record in self._clients.producer.records)

    # ---- time ----------------------------------------------------------------------------------

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Move the wall clock, call what is due, and process what follows from it.

        ``duration`` is a ``timedelta`` or whole milliseconds.
        """
        self._clock.advance(millis("advance_wall_clock_time()", duration))
        self._loop.punctuate()
        self._commit()
        self._complete()

    # ---- metrics -------------------------------------------------------------------------------

    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """Return what is measured, by Kafka Streams' names (``TopologyTestDriver.metrics``).

        What ``metrics.recording.level`` does not record is not there. Latencies are those of the
        machine; ages of records are by the driver's wall clock.
        """
        return driver_metrics(self._numbers, self.config, self._tasks, self._globals)

    # ---- stores --------------------------------------------------------------------------------

    def get_all_state_stores(self, partition: int = 0) -> dict[str, Any]:
        """Return every store of the tasks of a partition, and the global ones, by name."""
        names = [*self._globals.stores] + [
            name
            for running in self._tasks
            if running.task_id.partition == partition
            for name in running.stores
        ]
        return {name: self.get_state_store(name, partition) for name in names}

    @property
    def tasks(self) -> tuple[StreamTask, ...]:
        """Every task, by sub-topology and partition."""
        return tuple(running.task for running in self._tasks)

    @property
    def task(self) -> StreamTask:
        """The first task; of a topology without repartition topics, the only one."""
        return self._tasks[0].task

    def close(self) -> None:
        """Close processors and stores."""
        for running in self._tasks:
            running.task.close()
        for backend in self._backends.values():
            backend.release()
        self._globals.close()
        self._callers.close()

    # ---- inside --------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Process, punctuate and commit record by record until nothing can go on."""
        self._capture()
        while not self._loop.is_over:
            self._loop.run_once()
            self._capture()

    def _commit(self) -> None:
        self._loop.commit_now(every_offset=True)

    def _capture(self) -> None:
        """Take what was written since the last time to the topics, and read back what is read."""
        records, read = self._clients.producer.records, self._read_topics
        while self._captured < len(records):
            record = records[self._captured]
            self._captured += 1
            self._outputs[record.topic].append(record)
            if record.topic in read or record.topic in self._globals.tasks:
                self._enqueue(record)

    def _enqueue(self, record: ProducedRecord) -> None:
        topic, number, key, value, timestamp, headers = record
        if number is None:
            count = self._counts.get(topic, 1)
            number = 0 if key is None or count == 1 else partition_for_key(key, count)
        partition = TopicPartition(topic, number)
        if topic in self._globals.tasks:
            # At once, as in Kafka Streams' driver: what waits is joined with it.
            raw = (self._global_offsets[partition], timestamp, key, value, headers)
            self._global_offsets[partition] += 1
            self._globals.update(partition, [raw])
        else:
            self._clients.consumer.append(partition, key, value, timestamp, headers)

    def _match(self, topic: str) -> None:
        """Read ``topic``, too, if a source does by pattern: its tasks are opened anew for it."""
        patterns = [t for found in self._topology.subtopologies for t in found.source_topics]
        if not matching(patterns, [topic]):
            return
        check_apart(patterns, [topic])
        self._matched[topic] = self._counts.setdefault(topic, 1)
        before, self._inputs = self._inputs, self._planned()
        changed = [task for task, read in self._inputs.items() if read != before.get(task)]
        self._read_topics |= dict.fromkeys(p.topic for t in changed for p in self._inputs[t])
        self._commit()
        for running in self._loop.remove(changed):
            running.task.close()
        opened = {
            running.task_id: self._task_of(running.task_id, running.task.offsets())
            for running in self._tasks
            if running.task_id in changed
        }
        for running in self._tasks:
            if running.task_id in opened:
                _go_on(running.stores, opened[running.task_id].stores)
        opened |= {task: self._task_of(task) for task in changed if task not in opened}
        running_before = {running.task_id: running for running in self._tasks}
        self._tasks = [opened.get(task) or running_before[task] for task in self._inputs]
        self._loop.add(opened.values())

    def _planned(self) -> Mapping[TaskId, tuple[TopicPartition, ...]]:
        """Return the tasks with what they read."""
        if self._partitions is None:
            read = {
                TaskId(found.id, 0): tuple(
                    TopicPartition(self.topic_name(topic), 0)
                    for topic in found.source_topics
                    if not is_pattern(topic)
                )
                for found in map(self._with_topics, self._topology.subtopologies)
            }
            return {task: partitions for task, partitions in read.items() if partitions}
        report = self._topology.report(self.config.application_id)
        counts = dict.fromkeys(external_topics(report), 1) | dict(self._partitions)
        return plan(report, counts | self._matched).inputs

    def _with_topics(self, subtopology: Subtopology) -> Subtopology:
        return of_topics(subtopology, self._matched)

    def _task_of(self, task_id: TaskId, committed: Iterable[PartitionOffsets] = ()) -> RunningTask:
        (found,) = (it for it in self._topology.subtopologies if it.id == task_id.subtopology)
        subtopology = self._with_topics(found)
        stores = {spec.name: self._open(spec, task_id) for spec in subtopology.stores}
        inputs = self._inputs[task_id]
        task = StreamTask(
            task_id=task_id,
            subtopology=subtopology,
            partitions=inputs,
            config=replace(self.config, windows_emit_interval_ms=0, joins_emit_interval_ms=0),
            collector=self._clients.producer,
            stores=stores,
            clock=self._clock,
            topic_name=self.topic_name,
            warn=self.warnings.append,
            global_stores=self._globals.stores,
            callers=self._callers,
            measures=self._numbers.measures,
        )
        read = {found.partition: (found.offset, found.metadata) for found in committed}
        task.restore_metadata(read)
        start = {p: read[p][0] if p in read else 0 for p in inputs}
        return RunningTask(task=task, stores=stores, changelogs={}, start=start)

    def _found(self, store: str, partition: int) -> FoundStore | None:
        for task in self._globals.tasks.values():
            if task.name == store:
                return FoundStore(*task.store, task.current)
        for running in self._tasks:
            if store in running.stores and running.task_id.partition == partition:
                kind = self._topology.stores[store].kind
                return FoundStore(running.stores[store], kind, running.task.current)
        return None

    def _serdes(
        self, topic: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> tuple[Serde[Any], Serde[Any]]:
        owner = f"topic {topic}"
        return (
            serde_of(self.config, "key", key, owner),
            serde_of(self.config, "value", value, owner),
        )

    def _backend(self, spec: StoreSpec, task_id: TaskId) -> Any:
        place = task_id, spec.name
        if place not in self._backends:
            self._backends[place] = LastingBackend(memory_backend(spec))
        return self._backends[place]

    def _open(self, spec: StoreSpec, task_id: TaskId) -> LayeredStore:
        topic = changelog_of(self.config.application_id, spec)
        key_serde, value_serde = store_serdes(self.config, spec)
        return open_store(
            spec,
            task=task_id,
            changelog_topic=topic,
            backend=self._backend(spec, task_id),
            cache=self._cache,
            changelog_send=self._clients.producer.sender(topic),
            key_serde=key_serde,
            value_serde=value_serde,
        )


def _go_on(before: Mapping[str, KeyValueStore], now: Mapping[str, KeyValueStore]) -> None:
    """Have stores that are opened anew number duplicates as if they had never been closed."""
    for name, store in before.items():
        again = now[name]
        if isinstance(store, TimedStore) and isinstance(again, TimedStore):
            again.go_on_after(store)
