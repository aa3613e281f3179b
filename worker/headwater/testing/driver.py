"""TopologyTestDriver: a topology run record by record in memory, with the engines' StreamTask.

    driver = TopologyTestDriver(topology, {"application.id": "test"})
    lines = driver.create_input_topic("lines", Serdes.string, Serdes.string)
    counts = driver.create_output_topic("counts", Serdes.string, Serdes.long)
    lines.pipe_input("k", "hello world")
    assert counts.read_key_values_to_map() == {"hello": 1, "world": 1}

As in Kafka Streams' driver, the whole topology is one task of partition 0, every record is
processed to the end and committed, and what is written to a topic it reads is read back.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Self

from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.model.nodes import ProcessorNode, Subtopology
from headwater.model.reporting import changelog_topic, decorate
from headwater.processor.resolving import serde_of, store_serdes
from headwater.processor.stores import KeyValueStore, TimestampedKeyValueStore, view
from headwater.processor.task import StreamTask
from headwater.state import CacheBudget, LayeredStore, MemoryBackend, open_store
from headwater.testing.collector import MemoryCollector, ProducedRecord
from headwater.testing.topics import TestInputTopic, TestOutputTopic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from headwater.model.stores import StoreSpec
    from headwater.model.topology import Topology
    from headwater.ports import Headers
    from headwater.serde import Serde


class ManualClock:
    """A wall clock that stands still until it is moved."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward."""
        if milliseconds < 0:
            raise ValueError(f"time only moves forward, not by {milliseconds} ms")
        self._now_ms += milliseconds


class TopologyTestDriver:
    """Runs ``topology`` without a broker (Kafka Streams' ``TopologyTestDriver``).

    Args:
        topology: what ``StreamsBuilder.build()`` returned.
        config: options as for ``StreamsConfig.parse``; the application id may be left out.
        start_ms: where the wall clock starts.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, object] | StreamsConfig | None = None,
        *,
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
        self._topology = topology
        self._clock = ManualClock(start_ms)
        self._collector = MemoryCollector()
        self._captured = 0
        self._outputs: defaultdict[str, deque[ProducedRecord]] = defaultdict(deque)
        self._offsets: defaultdict[str, int] = defaultdict(int)
        self._subtopology = _whole(topology)
        self._stores = {spec.name: self._open(spec) for spec in self._subtopology.stores}
        inputs = [TopicPartition(self.topic_name(t), 0) for t in self._subtopology.source_topics]
        self._task = StreamTask(
            task_id=TaskId(0, 0),
            subtopology=self._subtopology,
            partitions=inputs,
            config=config,
            collector=self._collector,
            stores=self._stores,
            clock=self._clock,
            topic_name=self.topic_name,
            warn=self.warnings.append,
        )
        self._task.update_lags(dict.fromkeys(inputs, 0))
        self._task.initialize()
        self._inputs = {partition.topic: partition for partition in inputs}

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
        auto_advance_ms: int = 0,
    ) -> TestInputTopic:
        """Return a topic to write to.

        Args:
            name: a topic that the topology reads.
            key_serde: ``None`` for the configured default.
            value_serde: likewise.
            start_ms: timestamp of the first record; by default the wall clock's.
            auto_advance_ms: how much later each further record is.
        """
        return TestInputTopic(
            self,
            name,
            *self._serdes(name, key_serde, value_serde),
            start_ms=self._clock.now_ms() if start_ms is None else start_ms,
            auto_advance_ms=auto_advance_ms,
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
    ) -> None:
        """Write one record in bytes and process everything that follows from it.

        Raises:
            ValueError: the topology does not read ``topic``.
            RecordError: the record could not be handled.
        """
        if topic not in self._inputs:
            there = ", ".join(self._inputs)
            raise ValueError(f"the topology does not read topic {topic!r}; it reads {there}")
        self._enqueue(topic, key, value, timestamp, headers)
        self._complete()

    def output_queue(self, topic: str) -> deque[ProducedRecord]:
        """Return the records written to ``topic`` that were not read yet."""
        return self._outputs[topic]

    @property
    def history(self) -> tuple[ProducedRecord, ...]:
        """Everything written, changelogs included, in order."""
        return tuple(self._collector.records)

    @property
    def produced_topic_names(self) -> frozenset[str]:
        """Topics that were written to."""
        return frozenset(record.topic for record in self._collector.records)

    # ---- time ----------------------------------------------------------------------------------

    def advance_wall_clock_time(self, milliseconds: int) -> None:
        """Move the wall clock, call what is due, and process what follows from it."""
        self._clock.advance(milliseconds)
        self._task.punctuate_wall_clock(self._clock.now_ms())
        self._commit()
        self._complete()

    # ---- stores --------------------------------------------------------------------------------

    def get_state_store(self, name: str) -> Any:
        """Return the store ``name`` as a processor sees it, or ``None`` if there is none."""
        for spec in self._subtopology.stores:
            if spec.name == name:
                return view(spec.kind, self._stores[name], self._task.current)
        return None

    def get_key_value_store(self, name: str) -> KeyValueStore | None:
        """Return a view of a key-value store as plain values, or ``None`` if there is none."""
        store = self._stores.get(name)
        return None if store is None else KeyValueStore(store, self._task.current)

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore | None:
        """Return a view of a key-value store with timestamps, or ``None`` if there is none."""
        store = self._stores.get(name)
        return None if store is None else TimestampedKeyValueStore(store, self._task.current)

    def get_all_state_stores(self) -> dict[str, Any]:
        """Return every store by name."""
        return {name: self.get_state_store(name) for name in self._stores}

    @property
    def task(self) -> StreamTask:
        """The one task."""
        return self._task

    def close(self) -> None:
        """Close processors and stores."""
        self._task.close()

    # ---- inside --------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Process, punctuate and commit record by record until nothing can go on."""
        self._capture()
        while self._task.is_ready(self._clock.now_ms()):
            self._task.process(1, self._clock.now_ms())
            self._task.punctuate_stream_time()
            self._commit()
            self._capture()

    def _commit(self) -> None:
        self._task.prepare_commit()
        self._task.post_commit({})

    def _capture(self) -> None:
        while self._captured < len(self._collector.records):
            record = self._collector.records[self._captured]
            self._captured += 1
            self._outputs[record.topic].append(record)
            if record.topic in self._inputs:
                topic, _, key, value, timestamp, headers = record
                self._enqueue(topic, key, value, timestamp, headers)

    def _enqueue(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
    ) -> None:
        offset = self._offsets[topic]
        self._offsets[topic] += 1
        self._task.add_records(self._inputs[topic], [(offset, timestamp, key, value, headers)])

    def _serdes(
        self, topic: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> tuple[Serde[Any], Serde[Any]]:
        owner = f"topic {topic}"
        return (
            serde_of(self.config, "key", key, owner),
            serde_of(self.config, "value", value, owner),
        )

    def _open(self, spec: StoreSpec) -> LayeredStore:
        topic = changelog_topic(self.config.application_id, spec.name)
        key_serde, value_serde = store_serdes(self.config, spec)
        return open_store(
            spec,
            task=TaskId(0, 0),
            changelog_topic=topic,
            backend=MemoryBackend(),
            cache=CacheBudget(self.config.statestore_cache_max_bytes),
            changelog_send=self._collector.sender(topic),
            key_serde=key_serde,
            value_serde=value_serde,
        )


def _whole(topology: Topology) -> Subtopology:
    """Return all nodes as one sub-topology, stores in the order of their first use."""
    names = dict.fromkeys(
        store
        for node in topology.nodes.values()
        if isinstance(node, ProcessorNode)
        for store in node.stores
    )
    return Subtopology(
        id=0,
        nodes=tuple(topology.nodes.values()),
        stores=tuple(topology.stores[name] for name in names),
    )
