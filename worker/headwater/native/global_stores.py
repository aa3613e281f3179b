"""The global stores of one process, whoever reads their topics: all open, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.ids import TaskId, TopicPartition
from headwater.measuring.task import Measures, TaskMeasures
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.model.metrics.kafka import GLOBAL_TASK
from headwater.model.reporting import changelog_topic
from headwater.processor.global_task import GlobalTask
from headwater.processor.resolving import store_serdes
from headwater.state import memory_backend, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.model.metrics import Metric
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.model.topology import Topology
    from headwater.ports import Backend, Clock, Position, Records
    from headwater.processor.environment import GlobalStore, Warn
    from headwater.state import LayeredStore


def global_topics(topology: Topology) -> tuple[str, ...]:
    """Return the topics that global stores are made of."""
    return tuple(t for group in topology.global_subtopologies for t in group.source_topics)


class GlobalStores:
    """Keeps global stores of a topology.

    Args:
        groups: the sub-topologies that keep them.
        config: the application's.
        counts: how many partitions each of their topics has.
        clock: the wall clock.
        warn: told one sentence per record that is dropped.
        backend_of: opens where a store's rows lie; in memory if not given.
        on_part: called between the parts of a batch, which may take long.
        measures: what is measured; nothing if not given.

    Raises:
        ConfigError: a serde or handler cannot be found.
    """

    def __init__(
        self,
        groups: Iterable[Subtopology],
        config: StreamsConfig,
        counts: Mapping[str, int],
        clock: Clock,
        warn: Warn,
        backend_of: Callable[[StoreSpec], Backend] = memory_backend,
        on_part: Callable[[], None] | None = None,
        measures: Measures | None = None,
    ) -> None:
        self._measures = TaskMeasures(measures or Measures.off(), GLOBAL_TASK)
        self._tasks: dict[str, GlobalTask] = {}
        for group in groups:
            (topic,) = group.source_topics
            (spec,) = group.stores
            self._tasks[topic] = GlobalTask(
                subtopology=group,
                partitions=[TopicPartition(topic, n) for n in range(counts[topic])],
                config=config,
                store=open_global_store(group, config, backend_of(spec)),
                clock=clock,
                warn=warn,
                on_part=on_part,
                measures=self._measures,
            )
        for task in self._tasks.values():
            task.initialize()

    @property
    def tasks(self) -> Mapping[str, GlobalTask]:
        """What keeps each store, by topic."""
        return self._tasks

    @property
    def stores(self) -> dict[str, GlobalStore]:
        """The stores by name, as tasks read them."""
        return {task.name: task.store for task in self._tasks.values()}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that are read."""
        return tuple(p for task in self._tasks.values() for p in task.partitions)

    def update(
        self,
        partition: TopicPartition,
        records: Records,
        position: Position | None = None,
        *,
        filling: bool = False,
    ) -> None:
        """Apply records of one partition, in the order of their offsets.

        Args:
            partition: whose.
            records: of it.
            position: what the store is told to hold with them.
            filling: nobody reads the store yet, so a table's records may be copied as they are.

        Raises:
            RecordError: a record could not be handled and its handler said FAIL.
        """
        task = self._tasks[partition.topic]
        if filling and task.load(partition, records, position):
            return
        task.update(partition, records)
        task.commit(position)

    def grow(self, topic: str, count: int) -> list[TopicPartition]:
        """Take in the partitions that a topic has got since; return them."""
        task = self._tasks[topic]
        known = len(task.partitions)
        added = [TopicPartition(topic, number) for number in range(known, count)]
        task.add(added)
        return added

    def measured(self, now_s: float) -> Snapshot:
        """Return what is measured of the stores, and of the nodes that keep them.

        Args:
            now_s: of a clock that never goes back.
        """
        if not self._measures.is_on:
            return Snapshot()
        tasks = self._tasks.values()
        found = self._measures.numbers_inside([read for task in tasks for read in task.read], now_s)
        counted: dict[Metric, float | None] = {
            metrics.TASK_PROCESS: sum(task.processed for task in tasks),
            metrics.DROPPED_RECORDS: sum(task.dropped for task in tasks),
        }
        return Snapshot.merged([found, Snapshot.of(counted, GLOBAL_TASK)])

    def close(self) -> None:
        """Close processors and stores."""
        for task in self._tasks.values():
            task.close()


def open_global_store(
    group: Subtopology,
    config: StreamsConfig,
    backend: Backend,
    settled_bytes_max: int | None = None,
) -> LayeredStore:
    """Return the store of a global sub-topology over its backend.

    Args:
        group: names the store.
        config: has the default serdes.
        backend: the store closes it.
        settled_bytes_max: bound on the rows that are kept decoded, if not the usual one.

    Raises:
        ConfigError: a serde is missing.
    """
    (spec,) = group.stores
    key_serde, value_serde = store_serdes(config, spec)
    bound = {} if settled_bytes_max is None else {"settled_bytes_max": settled_bytes_max}
    return open_store(
        spec,
        task=TaskId(group.id, 0),
        changelog_topic=changelog_topic(config.application_id, spec.name),
        backend=backend,
        cache=None,
        changelog_send=None,
        key_serde=key_serde,
        value_serde=value_serde,
        **bound,
    )
