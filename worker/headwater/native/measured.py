"""What a StreamThread, or a GlobalStreamThread, tells of itself now and then, as metrics."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.measuring.task import Measures
from headwater.measuring.windows import Rates
from headwater.model import metrics
from headwater.model.metrics import RecordingLevel, Snapshot
from headwater.native.ratios import Ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.statistics import ClientStatistics
    from headwater.metrics_settings import MetricsSettings
    from headwater.native.opening import RunningTask
    from headwater.ports import Clock
    from headwater.processor.task import StreamTask

    Lag = Callable[[TopicPartition], int | None]

TREE_INTERVAL_S: Final = 5.0
"""How often nodes, topics and stores are looked at: RocksDB is asked then."""


def topic_lags(task: StreamTask, lag: Lag) -> Snapshot:
    """Return how many records of each topic a task has not yet processed, by source node.

    Args:
        task: the task; what lies in its buffers counts.
        lag: how many records of a partition were not returned yet; None if that is unknown.
    """
    found: Counter[tuple[str, str]] = Counter()
    for partition, node in task.sources.items():
        found[node, partition.topic] += task.buffered(partition) + (lag(partition) or 0)
    name = str(task.task_id)
    return Snapshot.merged(
        Snapshot.of({metrics.TOPIC_RECORDS_LAG: lag}, name, node, topic)
        for (node, topic), lag in found.items()
    )


class ThreadNumbers:
    """The numbers of one StreamThread beside those that the control loop needs.

    Args:
        config: says what is measured.
        clock: the wall clock.
        thread_id: Kafka Streams' name of the thread.
    """

    def __init__(self, config: StreamsConfig, clock: Clock, thread_id: str) -> None:
        asked = self._asked = config.metrics
        self._clock = clock
        self.measures = self._measures_of(asked)
        self.is_on = asked.level.records(RecordingLevel.INFO)
        self.ratios = Ratios(self.measures.new_windows(), is_on=self.is_on)
        self._thread_id = thread_id
        self._started_ms = clock.now_ms()
        self._created = self._closed = 0
        window_s = asked.window_ms / 1000
        self._rates = Rates(asked.samples, window_s)
        self._tree_rates = Rates(asked.samples, window_s)
        self._tree_due = 0.0
        self._busy_s: dict[TaskId, float] = {}
        self.statistics: Mapping[str, ClientStatistics] = {}
        """What the clients of Kafka tell of themselves."""

    def _measures_of(self, asked: MetricsSettings) -> Measures:
        return Measures.of(asked, self._clock.now_ms, time.perf_counter_ns)

    def change_level(self, level: RecordingLevel) -> bool:
        """Measure at another level; tasks that are opened from now on do.

        Returns:
            Whether it is another one.
        """
        if level is self._asked.level:
            return False
        self._asked = replace(self._asked, level=level)
        self.measures = self._measures_of(self._asked)
        self.is_on = level.records(RecordingLevel.INFO)
        self.ratios.keep_averages(is_on=self.is_on)
        self._tree_due = 0.0
        return True

    def opened(self, count: int) -> None:
        """Note that tasks were opened; they are looked at soon."""
        self._created += count
        self._tree_due = 0.0

    def closed(self, count: int) -> None:
        """Note that tasks were closed."""
        self._closed += count

    def of_thread(self) -> Snapshot:
        """Return the numbers of the thread."""
        if not self.is_on:
            return Snapshot()
        return Snapshot.of(
            {
                **self.ratios.numbers(time.monotonic()),
                metrics.TASK_CREATED: self._created,
                metrics.TASK_CLOSED: self._closed,
                metrics.THREAD_START_TIME: self._started_ms,
            },
            self._thread_id,
        )

    def rates(self, numbers: Snapshot) -> Snapshot:
        """Return how fast the counters of thread and tasks grow."""
        return self._rates.of(numbers, time.monotonic()) if self.is_on else Snapshot()

    def tree(self, tasks: Collection[RunningTask], lag: Lag) -> Snapshot | None:
        """Return the numbers of nodes, topics and stores, if it is time to look at them.

        Args:
            tasks: that the thread has.
            lag: how many records of a partition were not returned yet; None if that is unknown.
        """
        now_s = time.monotonic()
        if not self.is_on or now_s < self._tree_due:
            return None
        self._tree_due = now_s + TREE_INTERVAL_S
        lags = [topic_lags(running.task, lag) for running in tasks]
        return Snapshot.merged([self.look(tasks), *lags])

    def look(self, tasks: Collection[RunningTask]) -> Snapshot:
        """Return the numbers of nodes, topics and stores."""
        now_s = time.monotonic()
        busy_s, busy = self._busy_s, {one.task_id: one.pace.busy_s for one in tasks}
        took_s = {task: at - min(at, busy_s.get(task, 0.0)) for task, at in busy.items()}
        all_s = sum(took_s.values())
        self._busy_s = busy
        parts = [running.task.measured(now_s) for running in tasks]
        for running in tasks:
            ratio = took_s[running.task_id] / all_s if all_s else 0.0
            values = {metrics.ACTIVE_PROCESS_RATIO: ratio}
            parts.append(Snapshot.of(values, str(running.task_id)))
        for name, client in self.statistics.items():
            parts.append(Snapshot.of(client.numbers(), self._thread_id, name))
        self.measures.windows.roll_if_due(now_s)
        parts.append(self.measures.users.numbers(self._thread_id, now_s))
        found = Snapshot.merged(parts)
        return Snapshot.merged([found, self._tree_rates.of(found, now_s)])


class GlobalNumbers:
    """The numbers of a GlobalStreamThread.

    Args:
        config: says what is measured.
        clock: the wall clock.
        thread_id: Kafka Streams' name of the thread.
    """

    def __init__(self, config: StreamsConfig, clock: Clock, thread_id: str) -> None:
        asked = config.metrics
        self.measures = Measures.of(asked, clock.now_ms, time.perf_counter_ns)
        self._is_on = asked.level.records(RecordingLevel.INFO)
        self._thread_id = thread_id
        self._rates = Rates(asked.samples, asked.window_ms / 1000)
        self._due = 0.0

    def look_soon(self) -> None:
        """Look at the stores with the next report."""
        self._due = 0.0

    def tree(self, measured: Callable[[float], Snapshot]) -> Snapshot | None:
        """Return the numbers of stores and nodes, if it is time to look at them."""
        now_s = time.monotonic()
        if not self._is_on or now_s < self._due:
            return None
        self._due = now_s + TREE_INTERVAL_S
        self.measures.windows.roll_if_due(now_s)
        users = self.measures.users.numbers(self._thread_id, now_s)
        found = Snapshot.merged([measured(now_s), users])
        return Snapshot.merged([found, self._rates.of(found, now_s)])
