"""One StreamTask of a drawn topology, in memory, with a collector that keeps everything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headwater import Serdes, StreamsBuilder
from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.measuring.task import Measures
from headwater.native.calls import ThreadCallers
from headwater.processor.task import StreamTask
from headwater.state import CacheBudget, LayeredStore, MemoryBackend, open_store
from headwater.testing import ManualClock, MemoryCollector

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.metrics import Metric
    from headwater.ports import RawRecord


class TaskRig:
    """A task of partition 0 that reads every source topic of one sub-topology."""

    def __init__(
        self,
        draw: Callable[[StreamsBuilder], object],
        *,
        subtopology: int = 0,
        initialize: bool = True,
        **options: object,
    ) -> None:
        builder = StreamsBuilder()
        draw(builder)
        part = builder.build().subtopologies[subtopology]
        self.config = StreamsConfig.parse(
            {
                "application_id": "app",
                "default_key_serde": "string",
                "default_value_serde": "string",
                "statestore_cache_max_bytes": 0,
            }
            | options
        )
        self.clock = ManualClock(1_000_000)
        self.collector = MemoryCollector(partitions=4)
        self.warnings: list[str] = []
        cache = CacheBudget(self.config.statestore_cache_max_bytes)
        self.stores: dict[str, LayeredStore] = {
            spec.name: open_store(
                spec,
                task=TaskId(subtopology, 0),
                changelog_topic=f"app-{spec.name}-changelog",
                backend=MemoryBackend(),
                cache=cache,
                changelog_send=self.collector.sender(f"app-{spec.name}-changelog"),
                key_serde=spec.key_serde or Serdes.string,
                value_serde=spec.value_serde or Serdes.string,
            )
            for spec in part.stores
        }
        self.task = StreamTask(
            task_id=TaskId(subtopology, 0),
            subtopology=part,
            partitions=[TopicPartition(topic, 0) for topic in part.source_topics],
            config=self.config,
            collector=self.collector,
            stores=self.stores,
            clock=self.clock,
            topic_name=str,
            warn=self.warnings.append,
            callers=ThreadCallers(),
            measures=Measures.of(self.config.metrics, self.clock.now_ms, time.perf_counter_ns),
        )
        self.task.update_lags(dict.fromkeys(self.task.partitions, 0))
        if initialize:
            self.task.initialize()

    def add(self, topic: str, *records: RawRecord) -> int:
        """Buffer raw records of one topic."""
        return self.task.add_records(TopicPartition(topic, 0), list(records))

    def process(self, records_max: int = 1_000_000) -> int:
        """Process what is buffered."""
        return self.task.process(records_max)

    def sent(self, topic: str = "out") -> list[tuple[bytes | None, bytes | None, int]]:
        """Key, value and timestamp of what went to a topic."""
        return [(r.key, r.value, r.timestamp) for r in self.collector.of_topic(topic)]

    def measured(self, metric: Metric, *labels: str) -> float | None:
        """What is measured of the task."""
        return self.task.measured(0.0).value(metric, str(self.task.task_id), *labels)

    def commit(self) -> dict[TopicPartition, int]:
        """Commit as an engine would; return the offsets."""
        while not self.task.settle():
            self.task.wait_for_call(0.01)
        offsets = {wanted.partition: wanted.offset for wanted in self.task.prepare_commit()}
        self.task.post_commit({})
        self.task.resume()
        return offsets


def raw(offset: int, key: Any, value: Any, timestamp: int | None = None) -> RawRecord:
    """A raw record; texts become UTF-8, the timestamp is the offset unless given."""
    return (
        offset,
        offset if timestamp is None else timestamp,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
        None,
    )
