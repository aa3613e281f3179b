"""What keeps one global store: all partitions of a topic, through a source and a processor.

Every process that reads the store has a task of its own for it. A store is filled and kept in the
same way: from the topic's beginning each record goes through the processor (KIP-813).
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headwater.errors import HeadwaterError, ProcessingError, TopologyError
from headwater.ids import TaskId, TopicPartition
from headwater.measuring.task import Measures, TaskMeasures
from headwater.model.metrics.kafka import GLOBAL_TASK
from headwater.model.nodes import ProcessorNode, SourceNode, TimestampExtractors
from headwater.model.operators.table import TableSource
from headwater.ports import Unreadable
from headwater.processor.environment import Counters, Current, Environment, GlobalStore, Warn
from headwater.processor.failures import Failures
from headwater.processor.handlers import Handlers, LogAnd, Result
from headwater.processor.lane import Lane
from headwater.processor.pipeline import Pipeline
from headwater.processor.punctuation import Punctuations
from headwater.processor.resolving import serde_of, store_serdes
from headwater.wire.headers import encode_headers, insert_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.config import StreamsConfig
    from headwater.model.nodes import Subtopology
    from headwater.ports import (
        Clock,
        Headers,
        KeyValueStore,
        OnRefused,
        Position,
        Records,
        Send,
    )

_pack_timestamp: Final = struct.Struct(">q").pack
_PART: Final = 200
_WAY_OUT: Final = (
    "set processing.exception.handler to log-and-continue, and "
    "processing.exception.handler.global.enabled to true"
)


class GlobalTask:
    """Keeps a global store (Kafka's ``GlobalStateUpdateTask``).

    Args:
        subtopology: source, processor and store.
        partitions: all of the topic.
        config: the application's configuration.
        store: open and empty; the task closes it.
        clock: the wall clock.
        warn: told one sentence per record that is dropped.
        on_part: called between the parts of a batch, which may take long.
        measures: of all global stores of a process; nothing is measured if not given.

    Raises:
        ConfigError: a serde or handler cannot be found.
    """

    def __init__(
        self,
        *,
        subtopology: Subtopology,
        partitions: Iterable[TopicPartition],
        config: StreamsConfig,
        store: KeyValueStore,
        clock: Clock,
        warn: Warn,
        on_part: Callable[[], None] | None = None,
        measures: TaskMeasures | None = None,
    ) -> None:
        (spec,) = subtopology.stores
        self.name = spec.name
        """The store's name."""
        self.store = GlobalStore(store, spec.kind)
        """What tasks read."""
        self.current = Current()
        """The record under way."""
        self._on_part = on_part or _ignore
        self._clock = clock
        self._measures = measures or TaskMeasures(Measures.off(), GLOBAL_TASK)
        self._measures.watch(spec, store)
        task_id = self.task_id = TaskId(subtopology.id, 0)
        """By which it is named; no StreamThread has such a task."""
        counters, nobody = Counters(), _Nobody(spec.name, warn)
        store.follow(self.current)
        environment = Environment(
            task_id=task_id,
            config=config,
            collector=nobody,
            stores={spec.name: store},
            clock=clock,
            topic_name=str,
            current=self.current,
            counters=counters,
            failures=Failures(
                task_id=task_id,
                handlers=_handlers(config),
                collector=nobody,
                current=self.current,
                counters=counters,
                warn=warn,
                whose=f"global store {spec.name}",
                way_out=_WAY_OUT,
            ),
            punctuations=_NoPunctuations(self.current),
            request_commit=_ignore,
            stream_time=lambda: max(lane.partition_time for lane in self._lanes.values()),
            kinds={spec.name: spec.kind},
            warn=warn,
            measures=self._measures,
        )
        self._pipeline = Pipeline(_with_own_timestamps(subtopology), environment)
        self._environment = environment
        environment.count_expired((spec,))
        self._lanes: dict[TopicPartition, Lane] = {}
        self._copies = _is_plain_table(subtopology, config)
        self._counters = counters
        self.add(partitions)

    def initialize(self) -> None:
        """Initialise the processor; records may come from now on."""
        self._pipeline.init()

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Take in further partitions of the topic, from their beginning."""
        (source,) = self._pipeline.inputs.values()
        for partition in partitions:
            self._lanes[partition] = Lane(partition, source, self._environment)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What the store is made of."""
        return tuple(self._lanes)

    def load(
        self, partition: TopicPartition, records: Records, position: Position | None = None
    ) -> bool:
        """Write records of a table as they are, once it is sure that they can be decoded.

        Twice as fast as ``update`` and ``commit``, and what Kafka Streams does at the start.

        Returns:
            whether that was done; if not, a record needs a closer look, and nothing was written.

        Raises:
            StateError: the store cannot be written.
        """
        if not self._copies or isinstance(records, Unreadable):
            return False
        (source,) = self._pipeline.inputs.values()
        decode_key, decode_value = source.decode_key, source.decode_value
        kind, latest = self.store.kind, self._lanes[partition].partition_time
        rows: list[tuple[bytes, bytes | None]] = []
        try:
            for _, timestamp, key, value, headers in records:
                if key is None or timestamp < 0:
                    return False
                decode_key(key)
                row = value
                if value is not None:
                    decode_value(value)
                    if kind.keeps_headers:
                        row = insert_timestamp(encode_headers(headers) + value, timestamp)
                    elif kind.timestamped:
                        row = _pack_timestamp(timestamp) + value
                rows.append((key, row))
                latest = max(latest, timestamp)
        except Exception:
            return False
        self.store.store.load_rows(rows, position)  # type: ignore[attr-defined]  # of keys and values
        self._lanes[partition].partition_time = latest
        self._counters.processed += len(rows)
        return True

    def update(self, partition: TopicPartition, records: Records) -> None:
        """Apply records of one partition, in the order of their offsets.

        Args:
            partition: of the topic.
            records: its next ones.

        Raises:
            DeserializationError: a record cannot be read and the handler says FAIL.
            ProcessingError: the processor raised and the handler says FAIL.
            RecordError: a record could not be handled in another way.
            StateError: the store cannot be read or written.
        """
        lane = self._lanes[partition]
        lane.add(records)
        self._counters.processed += lane.size
        while lane.size:
            self._run(lane)
            self._on_part()
        self.current.leave()
        if self._measures.is_on:
            self._measures.sample(self._clock.now_ms())

    def _run(self, lane: Lane) -> None:
        try:
            lane.run(_PART)
        except HeadwaterError:
            raise
        except Exception as error:
            raise ProcessingError(
                f"global store {self.name}, {lane.partition} offset {self.current.offset}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def commit(self, position: Position | None = None) -> None:
        """Write what was applied, and the position if one is kept, to the store's backend."""
        self.store.store.flush_changelog()
        self.store.store.commit(position)

    @property
    def read(self) -> list[tuple[str, str, int, int]]:
        """What came of each partition: source node, topic, records and bytes."""
        return [
            (lane.node, partition.topic, lane.added - lane.size, lane.added_bytes)
            for partition, lane in self._lanes.items()
        ]

    @property
    def processed(self) -> int:
        """How many records have been applied."""
        return self._counters.processed

    @property
    def dropped(self) -> int:
        """How many records were dropped."""
        return self._counters.dropped

    def close(self) -> None:
        """Close processor and store."""
        self._pipeline.close()
        self.store.store.close()


def _is_plain_table(subtopology: Subtopology, config: StreamsConfig) -> bool:
    """Whether rows are what the topic has: a table's, in a store of keys and values."""
    (spec,) = subtopology.stores
    kind = spec.kind
    if kind.expires or kind.versioned or kind.is_buffer or spec.entries_max is not None:
        return False
    (source,) = (node for node in subtopology.nodes if isinstance(node, SourceNode))
    if not any(
        isinstance(node, ProcessorNode)
        and isinstance(node.operator, TableSource)
        and node.wrapped is None
        for node in subtopology.nodes
    ):
        return False
    read = (
        serde_of(config, "key", source.key_serde, f"node {source.name}"),
        serde_of(config, "value", source.value_serde, f"node {source.name}"),
    )
    kept = store_serdes(config, spec)
    return all(one is other for one, other in zip(read, kept, strict=True))


def _with_own_timestamps(subtopology: Subtopology) -> Subtopology:
    """Take the records' timestamps, as Kafka Streams does whatever extractor was named."""
    nodes = tuple(
        replace(node, timestamp_extractor=TimestampExtractors.FAIL_ON_INVALID)
        if isinstance(node, SourceNode)
        else node
        for node in subtopology.nodes
    )
    return replace(subtopology, nodes=nodes)


def _ignore() -> None:
    """A commit that is asked for comes anyway."""


class _NoPunctuations(Punctuations):
    def schedule(self, node: str, *_args: Any, **_given: Any) -> NoReturn:
        raise TopologyError(
            f"{node} keeps a global store and cannot schedule punctuations, as in Kafka Streams: "
            "schedule them in a processor that reads the store"
        )


def _handlers(config: StreamsConfig) -> Handlers:
    """Return the application's; what raises fails, unless the option says that one is asked."""
    found = Handlers.of(config)
    if config.processing_exception_handler_global_enabled:
        return found
    return replace(found, processing=LogAnd(Result.FAIL, None))


class _Nobody:
    """Takes no output: nothing is below what keeps a global store (a ``RecordCollector``).

    Dead letters are dropped, as in Kafka Streams.
    """

    def __init__(self, store: str, warn: Warn) -> None:
        self._store = store
        self._warn = warn

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        del on_refused

        def send(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            del key, value, timestamp, headers, partition
            self._warn(
                f"global store {self._store}: a dead letter for topic {topic} is not sent, because "
                "the process that keeps a global store sends nothing"
            )

        return send

    def partitions(self, topic: str) -> int:
        del topic
        return 1
