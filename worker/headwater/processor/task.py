"""A StreamTask: a sub-topology on one set of partitions. Every engine drives this one.

created ── initialize() ──► running ── suspend() ──► suspended ── close() ──► closed
                              ▲  │
                              └──┘ abort(): forget everything since the last commit

running: add_records -> process -> punctuate -> prepare_commit -> (commit) -> post_commit
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from headwater.attribution import TASK
from headwater.errors import HeadwaterError, ProcessingError, TopologyError
from headwater.measuring.task import Measures, TaskMeasures
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.ports import PartitionOffsets
from headwater.processor.buffer import RecordBuffer
from headwater.processor.environment import Counters, Current, Environment, Warn
from headwater.processor.failures import Failures
from headwater.processor.handlers import Handlers
from headwater.processor.lane import UNKNOWN_TIME
from headwater.processor.pipeline import Pipeline
from headwater.processor.punctuation import Punctuations
from headwater.processor.stages import Stages
from headwater.wire.offset_metadata import OffsetMetadata, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId, TopicPartition
    from headwater.model.topology import Subtopology
    from headwater.ports import Clock, Position, RecordCollector, Records, StoreMap
    from headwater.processor.callers import Callers
    from headwater.processor.environment import GlobalStore


class StreamTask:
    """Runs the records of some partitions through a sub-topology (Kafka's ``StreamTask``).

    Args:
        task_id: which task it is.
        subtopology: what it does.
        partitions: what it reads, by the broker's topic names.
        config: the application's configuration.
        collector: where its output goes.
        stores: its stores by name, open and restored; the task closes them.
        clock: the wall clock.
        topic_name: from a topic of the topology to the broker's name.
        warn: told one sentence per dropped record that a handler or extractor let go.
        global_stores: those of the process, by name; the task only reads them.
        callers: where functions that wait are run; shared by the tasks of a StreamThread.
        measures: what is measured; nothing if not given.

    Raises:
        ConfigError: a serde, handler or extractor cannot be found.
        TopologyError: a partition belongs to no source, or a store is missing.
    """

    def __init__(
        self,
        *,
        task_id: TaskId,
        subtopology: Subtopology,
        partitions: Iterable[TopicPartition],
        config: StreamsConfig,
        collector: RecordCollector,
        stores: StoreMap,
        clock: Clock,
        topic_name: Callable[[str], str],
        warn: Warn,
        global_stores: Mapping[str, GlobalStore] = MappingProxyType({}),
        callers: Callers | None = None,
        measures: Measures | None = None,
    ) -> None:
        self.task_id = task_id
        self.commit_requested = False
        """A processor asked for a commit, or too much is uncommitted."""
        self._config = config
        self._clock = clock
        self._measures = TaskMeasures(measures or Measures.off(), str(task_id))
        for spec in subtopology.stores:
            self._measures.watch(spec, stores[spec.name])
        # Registration order is the order of flushing (Kafka Streams flushes upstream stores first).
        self._stores = [stores[spec.name] for spec in subtopology.stores]
        self.current = Current()
        """The record under way."""
        self._counters = Counters()
        self._punctuations = Punctuations(self.current)
        self._failures = Failures(
            task_id=task_id,
            handlers=Handlers.of(config),
            collector=collector,
            current=self.current,
            counters=self._counters,
            warn=warn,
        )
        for store in self._stores:
            store.follow(self.current)
        self._processor_metadata: dict[str, int] = {}
        environment = Environment(
            task_id=task_id,
            config=config,
            collector=collector,
            stores=stores,
            clock=clock,
            topic_name=topic_name,
            current=self.current,
            counters=self._counters,
            failures=self._failures,
            punctuations=self._punctuations,
            request_commit=self._request_commit,
            stream_time=lambda: self.stream_time,
            kinds={spec.name: spec.kind for spec in subtopology.stores},
            warn=warn,
            global_stores=global_stores,
            processor_metadata=self._processor_metadata,
            stages=Stages(callers),
            measures=self._measures,
        )
        environment.count_expired(subtopology.stores)
        self._pipeline = Pipeline(subtopology, environment)
        self._stages = environment.stages
        self._buffer = self._buffer_of(partitions, environment)
        self._worked = self._is_settling = False
        self._committed: dict[TopicPartition, PartitionOffsets] = {}
        self._prepared: tuple[PartitionOffsets, ...] = ()
        self._running = False

    def _buffer_of(
        self, partitions: Iterable[TopicPartition], environment: Environment
    ) -> RecordBuffer:
        inputs = self._pipeline.inputs
        for partition in partitions:
            if partition.topic not in inputs:
                raise TopologyError(f"task {self.task_id}: no source reads {partition}")
        return RecordBuffer({tp: inputs[tp.topic] for tp in partitions}, environment)

    # ---- life ----------------------------------------------------------------------------------

    def restore_metadata(self, committed: Mapping[TopicPartition, tuple[int, str | None]]) -> None:
        """Take over committed offsets and partition times; comes before processing."""
        for partition, (offset, text) in committed.items():
            lane = self._buffer.lanes[partition]
            metadata = decode(text)
            lane.position = offset
            lane.partition_time = metadata.partition_time
            self._processor_metadata.update(metadata.processor)
            self._committed[partition] = PartitionOffsets(
                partition=partition, offset=offset, metadata=text or ""
            )

    def initialize(self) -> None:
        """Initialise the user's processors; records may come from now on."""
        self._guarded(self._pipeline.init)
        self._running = True

    def suspend(self) -> None:
        """Close the user's processors and stop processing; a last commit may follow."""
        if self._running:
            self._running = False
            self._punctuations.clear()
            self._guarded(self._pipeline.close)

    def abort(self) -> None:
        """Forget everything since the last commit: its transaction was aborted.

        Buffered records are dropped too. The engine reads again from the committed offsets.
        """
        self.suspend()
        self._buffer.clear()
        for store in self._stores:
            store.abort(resend=not self._config.exactly_once)
        for lane in self._buffer.lanes.values():
            lane.position, lane.partition_time = None, UNKNOWN_TIME
        self._processor_metadata.clear()
        self.restore_metadata(
            {tp: (done.offset, done.metadata) for tp, done in self._committed.items()}
        )
        self._worked = self._is_settling = False
        self.commit_requested = False
        self._pipeline.renew()
        self.initialize()

    def close(self) -> None:
        """Close processors and stores. What was not committed is lost."""
        self.suspend()
        self._buffer.clear()
        for store in self._stores:
            store.close()

    # ---- records -------------------------------------------------------------------------------

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What the task reads."""
        return tuple(self._buffer.lanes)

    @property
    def sources(self) -> Mapping[TopicPartition, str]:
        """The source node of each partition that it reads."""
        return {partition: lane.node for partition, lane in self._buffer.lanes.items()}

    @property
    def stream_time(self) -> int:
        """Largest timestamp processed, in milliseconds; -1 before the first."""
        return self._buffer.stream_time

    def add_records(self, partition: TopicPartition, records: Records) -> int:
        """Buffer records of one partition, in the order of their offsets.

        Returns:
            How many the partition holds now, to be held against ``buffered.records.per.partition``.
        """
        return self._buffer.add(partition, records)

    def buffered(self, partition: TopicPartition) -> int:
        """How many records of ``partition`` wait."""
        return self._buffer.lanes[partition].size

    @property
    def holds_records(self) -> bool:
        """Whether a record waits in a buffer, be the task ready to take it or not."""
        return self._buffer.size > 0

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Say how many records the broker holds beyond what was fetched (``max.task.idle.ms``)."""
        self._buffer.update_lags(lags)

    def is_ready(self, now_ms: int) -> bool:
        """Whether ``process`` would take a record now."""
        return self._running and self._buffer.is_ready(now_ms)

    def process(self, records_max: int, now_ms: int | None = None) -> int:
        """Process up to ``records_max`` buffered records.

        Args:
            records_max: a bound, so that the engine can poll and commit in time.
            now_ms: wall-clock time; read from the clock if not given.

        Returns:
            How many records were taken from the buffer, dropped ones included.

        Raises:
            RecordError: a record could not be handled and its handler said FAIL; it stays buffered.
        """
        if not self._running:
            return 0
        if now_ms is None:
            now_ms = self._clock.now_ms()
        measures = self._measures
        started = measures.now_ns() if measures.is_debug else 0
        TASK.set(self.task_id)
        try:
            if self._stages:
                taken = self._process_in_stages(records_max, now_ms)
            else:
                taken = self._buffer.process(records_max, now_ms)
        except HeadwaterError:
            raise
        except Exception as error:
            raise self._unexpected(error) from error
        TASK.set(None)
        if taken:
            if measures.is_on:
                measures.sample(now_ms)
                if measures.is_debug:
                    measures.processed(taken, measures.now_ns() - started)
            self._worked = True
            self._counters.processed += taken
            if self._stores and self.uncommitted_bytes() > self._config.max_uncommitted_bytes:
                self.commit_requested = True
        return taken

    def _process_in_stages(self, records_max: int, now_ms: int) -> int:
        """Process as many records as the stages have room for; forward what is over."""
        taken = 0
        while True:
            self._stages.advance()
            room = min(self._stages.room, records_max - taken)
            if self._is_settling or room <= 0:
                return taken
            found = self._buffer.process(room, now_ms)
            if not found:
                return taken
            taken += found

    # ---- functions that wait -------------------------------------------------------------------

    @property
    def has_stages(self) -> bool:
        """Whether records may wait inside the task, for calls or for their batch."""
        return bool(self._stages)

    @property
    def pending(self) -> int:
        """How many records wait inside the task; their offsets must not be committed."""
        return self._stages.pending

    @property
    def has_room(self) -> bool:
        """Whether the task would take a record: its calls and batches leave room for one."""
        return not self._is_settling and (not self._stages or self._stages.room > 0)

    def wait_for_call(self, timeout_s: float) -> None:
        """Wait until some call is over, of this task or another of the process."""
        self._stages.wait(timeout_s)

    def settle(self) -> bool:
        """Take no more records until ``resume``; return whether a commit may begin.

        It may once nothing waits inside the task: then its offsets, stores and outputs are those of
        the same records. What the record caches hold is let go here, for it may have to wait, too.

        Raises:
            RecordError: a record could not be handled.
        """
        if not self._stages:
            return True
        self._is_settling = True
        self._guarded(self._settle)
        return not self.pending

    def resume(self) -> None:
        """Take records again: the commit for which the task has settled has begun."""
        self._is_settling = False

    def _settle(self) -> None:
        while True:
            self._stages.flush()
            if self.pending:
                return
            self.current.leave()
            if not sum(store.flush_cache() for store in self._stores):
                return

    def tell_schedules(self, told: Callable[[], object]) -> None:
        """Have ``told`` called whenever the task, without a schedule until then, gets one."""
        self._punctuations.told = told

    @property
    def has_schedules(self) -> bool:
        """Whether a punctuator may be due."""
        return self._punctuations.is_any

    def punctuate(self, now_ms: int) -> int:
        """Call the punctuators that are due, stream time first; return how many were."""
        return self.punctuate_stream_time() + self.punctuate_wall_clock(now_ms)

    def punctuate_stream_time(self) -> int:
        """Call the punctuators due at the task's stream time; return how many were."""
        TASK.set(self.task_id)
        started = self._measures.now_ns()
        fired = self._punctuations.fire_stream_time(self.stream_time, self._failures)
        return self._fired(fired, started)

    def punctuate_wall_clock(self, now_ms: int) -> int:
        """Call the punctuators due at the wall-clock time ``now_ms``; return how many were."""
        TASK.set(self.task_id)
        started = self._measures.now_ns()
        fired = self._punctuations.fire_wall_clock(now_ms, self._failures)
        return self._fired(fired, started)

    def _fired(self, count: int, started_ns: int) -> int:
        TASK.set(None)
        if count:
            self._worked = True
            self._measures.punctuated(count, self._measures.now_ns() - started_ns)
        return count

    # ---- commit --------------------------------------------------------------------------------

    @property
    def commit_needed(self) -> bool:
        """Whether there is anything to commit."""
        return self._worked

    def uncommitted_bytes(self) -> int:
        """About how much memory the stores' uncommitted writes hold."""
        return sum(store.uncommitted_bytes() for store in self._stores)

    def observe_position(self, partition: TopicPartition, position: int) -> None:
        """Say that every offset below ``position`` was read or skipped.

        Counts when nothing is buffered: the committed offset then also passes transaction markers.
        """
        lane = self._buffer.lanes[partition]
        if not lane.size and (lane.position is None or lane.position < position):
            if lane.position is not None:
                self._worked = True
            lane.position = position

    def offsets(self) -> tuple[PartitionOffsets, ...]:
        """Return what would be committed now for every partition with a known position."""
        return tuple(
            PartitionOffsets(
                partition=partition,
                offset=lane.next_offset,
                metadata=encode(
                    OffsetMetadata(
                        partition_time=lane.partition_time, processor=self._processor_metadata
                    )
                ),
            )
            for partition, lane in self._buffer.lanes.items()
            if lane.next_offset is not None
        )

    def prepare_commit(self) -> tuple[PartitionOffsets, ...]:
        """Flush caches (which may forward) and changelogs; return the offsets that changed.

        The engine then flushes its producer, commits the offsets, and calls ``post_commit``. If it
        seals the stores, records may be processed meanwhile; they count for the next commit.

        Raises:
            RecordError: a record that was flushed downstream could not be handled.
        """
        self.current.leave()
        self._guarded(self._flush)
        assert not self.pending, "records wait inside the task: settle it first"
        self._prepared = self.offsets()
        self._worked = False
        self.commit_requested = False
        return tuple(
            wanted for wanted in self._prepared if self._committed.get(wanted.partition) != wanted
        )

    def post_commit(self, positions: Mapping[str, Position]) -> None:
        """Write the stores' committed entries and positions.

        Args:
            positions: per logged store, how far its changelog holds what was committed.
        """
        TASK.set(self.task_id)
        for store in self._stores:
            store.commit(positions.get(store.name))
        TASK.set(None)
        self._committed.update({done.partition: done for done in self._prepared})
        self._prepared = ()

    def _flush(self) -> None:
        # What one store forwards may be written to another that was flushed before it.
        while sum(store.flush_cache() for store in self._stores):
            pass
        if self._measures.is_on:
            self._measures.sample(self._clock.now_ms())
        for store in self._stores:
            store.flush_changelog()

    def statistics(self) -> Snapshot:
        """Return what the task did since it was created, and what it holds."""
        return Snapshot.of(
            {
                metrics.TASK_PROCESS: self._counters.processed,
                metrics.DROPPED_RECORDS: self._counters.dropped,
                metrics.DEAD_LETTERS: self._counters.dead_letters,
                metrics.ACTIVE_BUFFER_COUNT: self._buffer.size,
                metrics.STREAM_TIME: self.stream_time,
            },
            str(self.task_id),
        )

    def measured(self, now_s: float) -> Snapshot:
        """Return what is measured of the task's nodes, topics, stores and caches, and of itself.

        Args:
            now_s: of a clock that never goes back; averages are of the last windows.
        """
        sources = [
            (lane.node, partition.topic, lane.added - lane.size, lane.added_bytes)
            for partition, lane in self._buffer.lanes.items()
        ]
        return self._measures.numbers(sources, now_s)

    def _request_commit(self) -> None:
        self.commit_requested = True

    def _guarded(self, action: Callable[[], None]) -> None:
        TASK.set(self.task_id)
        try:
            action()
        except HeadwaterError:
            raise
        except Exception as error:
            raise self._unexpected(error) from error
        TASK.set(None)

    def _unexpected(self, error: Exception) -> ProcessingError:
        current = self.current
        place = f"task {self.task_id}"
        if current.offset >= 0:
            place += f", {current.source} offset {current.offset}"
        return ProcessingError(f"{place}: {type(error).__name__}: {error}")
