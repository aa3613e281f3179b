"""Every number that a worker or Spark's driver tells of itself, declared once; and what carries it.

A metric is named after Kafka Streams' in snake_case: ``process-total`` of ``stream-thread-metrics``
is ``stream_thread_process``, which Prometheus knows with ``_total``. The table is all there is to
declare: ``/metrics``, ``/tasks`` and ``docs/reference/metrics.md`` are made from it, and the
operator reads ``/tasks`` by it.

    StreamThread ── Snapshot ──► worker ── /tasks ──► operator, live view: a Snapshot again
                                        └─ /metrics ► Prometheus
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState, ThreadState

if TYPE_CHECKING:
    from collections.abc import Iterable

Labels: TypeAlias = tuple[str, ...]
"""Whose number it is: ``()``, ``(thread_id,)`` or ``(task_id,)``; then its state, if it has one."""


class MetricType(StrEnum):
    """How a number moves, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Scope(StrEnum):
    """Of what there is one number each."""

    CLIENT = "client"
    THREAD = "thread"
    TASK = "task"
    DRIVER = "driver"


class RecordingLevel(StrEnum):
    """From which ``metrics.recording.level`` on Kafka Streams records the metric."""

    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"


_CLIENT: Final = ("application_id", "client_id")
_SCOPE_LABELS: Final[Mapping[Scope, Labels]] = {
    Scope.CLIENT: _CLIENT,
    Scope.THREAD: (*_CLIENT, "thread_id"),
    Scope.TASK: (*_CLIENT, "thread_id", "task_id"),
    Scope.DRIVER: (),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """One number, as declared; there is one value for each.

    Attributes:
        name: as Prometheus knows it, without the ``_total`` of a counter.
        type: counter or gauge.
        scope: of what there is one each.
        help: one sentence for people.
        level: Kafka Streams' recording level.
        states: one sample for each of them, with the label ``state``: 1 for the state that it is.
        roles: tasks in other roles do not have it; empty if all do.
        flag: 1 or 0; JSON shows true or false.
        is_scraped: whether ``/metrics`` shows it.
        key: where ``/tasks``, or ``/status`` of Spark's driver, shows it; ``"outer.inner"`` is
            a key of an inner object. Empty: it does not.
        absent: shown there while nobody has measured it; within an inner object nothing is.
    """

    name: str
    type: MetricType
    scope: Scope
    help: str
    level: RecordingLevel = RecordingLevel.INFO
    states: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    flag: bool = False
    is_scraped: bool = True
    key: str = ""
    absent: float | None = 0

    @property
    def labels(self) -> Labels:
        """The names of its labels."""
        return (*_SCOPE_LABELS[self.scope], *(("state",) if self.states else ()))

    @property
    def sample_name(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name

    def is_of(self, role: Role | None) -> bool:
        """Whether tasks in this role have it."""
        return not self.roles or role in self.roles


_declared: list[Metric] = []


def _gauge(scope: Scope, name: str, help_: str, **more: Any) -> Metric:
    _declared.append(Metric(name=name, type=MetricType.GAUGE, scope=scope, help=help_, **more))
    return _declared[-1]


def _counter(scope: Scope, name: str, help_: str, **more: Any) -> Metric:
    _declared.append(Metric(name=name, type=MetricType.COUNTER, scope=scope, help=help_, **more))
    return _declared[-1]


_DEBUG: Final = RecordingLevel.DEBUG
_ACTIVE: Final = (Role.ACTIVE,)
_COPIES: Final = (Role.STANDBY, Role.WARMUP)

# ---- a worker: Kafka Streams' client -----------------------------------------------------------

ALIVE_STREAM_THREADS: Final = _gauge(
    Scope.CLIENT, "stream_alive_stream_threads", "StreamThreads that have a process."
)
READY: Final = _gauge(
    Scope.CLIENT, "stream_ready", "1 when every granted task is processed.", flag=True, key="ready"
)
LEASE_HELD: Final = _gauge(
    Scope.CLIENT,
    "stream_lease_held",
    "1 while the worker's Lease is renewed in time.",
    flag=True,
    key="lease",
)
ASSIGNMENT_EPOCH: Final = _gauge(
    Scope.CLIENT, "stream_assignment_epoch", "The acknowledged epoch.", key="epoch"
)
ACTIVE_RESTORING_TASKS: Final = _gauge(
    Scope.CLIENT, "stream_state_updater_active_restoring_tasks", "Tasks being restored."
)
STANDBY_UPDATING_TASKS: Final = _gauge(
    Scope.CLIENT,
    "stream_state_updater_standby_updating_tasks",
    "Standby and warm-up tasks being followed.",
)
STANDBY_CAUGHT_UP_TASKS: Final = _gauge(
    Scope.CLIENT,
    "stream_state_updater_standby_caught_up_tasks",
    "Standby and warm-up tasks whose lag is acceptable.",
)
FAILED_STREAM_THREADS: Final = _counter(
    Scope.CLIENT, "stream_failed_stream_threads", "StreamThreads that were replaced."
)
RESTORE_RECORDS: Final = _counter(
    Scope.CLIENT,
    "stream_state_updater_restore_records",
    "Changelog records applied in restores.",
    key="restoredTotal",
)
STANDBY_UPDATE_RECORDS: Final = _counter(
    Scope.CLIENT,
    "stream_state_updater_standby_update_records",
    "Changelog records applied to standby and warm-up tasks.",
    key="followedTotal",
)

# ---- a StreamThread ----------------------------------------------------------------------------

THREAD_PROCESS: Final = _counter(
    Scope.THREAD, "stream_thread_process", "Records processed.", key="processed"
)
THREAD_PROCESS_RATE: Final = _gauge(
    Scope.THREAD,
    "stream_thread_process_rate",
    "Records processed per second, between the last two reports.",
    is_scraped=False,
    key="recordsPerSecond",
    absent=0.0,
)
COMMIT: Final = _counter(Scope.THREAD, "stream_thread_commit", "Commits.", key="commits")
PRODUCED_RECORDS: Final = _counter(
    Scope.THREAD,
    "stream_thread_produced_records",
    "Records sent: outputs and changelogs.",
    key="produced",
)
TRANSACTION_OPEN: Final = _gauge(
    Scope.THREAD,
    "stream_thread_transaction_open",
    "1 while something was sent that no commit covers.",
    flag=True,
    key="transactionOpen",
)
RATIOS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        part: _gauge(
            Scope.THREAD,
            f"stream_thread_{part}_ratio",
            f"Share of the thread's time spent in {part}.",
            key=f"ratios.{part}",
        )
        for part in ("poll", "process", "punctuate", "commit")
    }
)
"""By what the time is spent in."""
THREAD_RESTARTS: Final = _counter(
    Scope.THREAD,
    "stream_thread_restarts",
    "Times that the thread's process was replaced.",
    is_scraped=False,
    key="restarts",
)
THREAD_STATE: Final = _gauge(
    Scope.THREAD,
    "stream_thread_state",
    "1 for the state that the thread is in.",
    states=tuple(ThreadState),
)

# ---- a task ------------------------------------------------------------------------------------

TASK_PROCESS: Final = _counter(
    Scope.TASK,
    "stream_task_process",
    "Records processed since the thread took the task.",
    level=_DEBUG,
    roles=_ACTIVE,
    key="processed",
)
TASK_PROCESS_RATE: Final = _gauge(
    Scope.TASK,
    "stream_task_process_rate",
    "Records processed per second, between the last two reports.",
    level=_DEBUG,
    roles=_ACTIVE,
    is_scraped=False,
    key="recordsPerSecond",
    absent=0.0,
)
DROPPED_RECORDS: Final = _counter(
    Scope.TASK, "stream_task_dropped_records", "Records dropped.", roles=_ACTIVE, key="dropped"
)
ACTIVE_BUFFER_COUNT: Final = _gauge(
    Scope.TASK,
    "stream_task_active_buffer_count",
    "Records fetched and not yet processed.",
    level=_DEBUG,
    roles=_ACTIVE,
    key="buffered",
)
RECORDS_LAG: Final = _gauge(
    Scope.TASK,
    "stream_task_records_lag",
    "Input records not yet processed.",
    roles=_ACTIVE,
    key="lag",
    absent=None,
)
STREAM_TIME: Final = _gauge(
    Scope.TASK,
    "stream_task_stream_time",
    "The greatest timestamp processed, in milliseconds; -1 before the first record.",
    level=_DEBUG,
    roles=_ACTIVE,
    is_scraped=False,
    key="streamTime",
    absent=None,
)
RESTORE_REMAINING_RECORDS: Final = _gauge(
    Scope.TASK,
    "stream_task_restore_remaining_records",
    "Changelog offsets still to read.",
    roles=_ACTIVE,
    key="remaining",
    absent=None,
)
RESTORED_RECORDS: Final = _gauge(
    Scope.TASK,
    "stream_task_restored_records",
    "Changelog records applied in the restore under way.",
    roles=_ACTIVE,
)
LAST_RESTORED_RECORDS: Final = _gauge(
    Scope.TASK,
    "stream_task_last_restored_records",
    "Changelog records applied in the restore under way, or in the last one.",
    roles=_ACTIVE,
    is_scraped=False,
    key="restored",
)
STANDBY_RECORDS_LAG: Final = _gauge(
    Scope.TASK,
    "stream_task_standby_records_lag",
    "Changelog offsets that a standby or warm-up task has still to read.",
    roles=_COPIES,
    key="remaining",
    absent=None,
)
TASK_STATE: Final = _gauge(
    Scope.TASK, "stream_task_state", "1 for the state that the task is in.", states=tuple(TaskState)
)

# ---- Spark's driver ----------------------------------------------------------------------------

SPARK_GENERATION: Final = _gauge(
    Scope.DRIVER, "headwater_spark_generation", "Generation of the engine record.", key="generation"
)
SPARK_RUNNING: Final = _gauge(
    Scope.DRIVER, "headwater_spark_running", "1 while micro-batches are taken.", flag=True
)
SPARK_BATCHES: Final = _counter(
    Scope.DRIVER, "headwater_spark_batches", "Micro-batches done.", key="batches"
)
SPARK_RECORDS: Final = _counter(Scope.DRIVER, "headwater_spark_records", "Records processed.")
SPARK_DROPPED_RECORDS: Final = _counter(
    Scope.DRIVER, "headwater_spark_dropped_records", "Records dropped."
)
SPARK_TASKS_OPENED: Final = _counter(
    Scope.DRIVER, "headwater_spark_tasks_opened", "Times that a task was opened."
)
SPARK_TASKS: Final = _gauge(Scope.DRIVER, "headwater_spark_tasks", "Tasks of the topology.")
SPARK_BATCH_DURATION_MS: Final = _gauge(
    Scope.DRIVER, "headwater_spark_batch_duration_ms", "Of the last micro-batch."
)
SPARK_BUSY_SECONDS: Final = _gauge(
    Scope.DRIVER, "headwater_spark_busy_seconds", "Since the micro-batch under way began."
)
SPARK_INPUT_RATE: Final = _gauge(
    Scope.DRIVER,
    "headwater_spark_input_rows_per_second",
    "Records processed per second, pauses between micro-batches included; smoothed.",
    is_scraped=False,
    key="inputRowsPerSecond",
)
SPARK_PROCESSED_RATE: Final = _gauge(
    Scope.DRIVER,
    "headwater_spark_processed_rows_per_second",
    "Records processed per second of micro-batches; smoothed.",
    is_scraped=False,
    key="processedRowsPerSecond",
)

METRICS: Final[tuple[Metric, ...]] = tuple(_declared)
"""Every metric, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of a StreamThread, a worker or Spark's driver at one moment.

    It travels over a pipe once a second: plain values, by the name of the metric, then by labels.
    A task's labels do not name its thread: a worker holds a task once.
    """

    values: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[Metric, float | None], *labels: str) -> Snapshot:
        """Return the numbers of one thing; what is ``None`` was not measured."""
        return cls(
            {metric.name: {labels: value} for metric, value in values.items() if value is not None}
        )

    @classmethod
    def merged(cls, parts: Iterable[Snapshot]) -> Snapshot:
        """Return what is in any of the parts; the later one counts."""
        found: dict[str, dict[Labels, float]] = {}
        for part in parts:
            for name, rows in part.values.items():
                found.setdefault(name, {}).update(rows)
        return cls(found)

    @classmethod
    def read(
        cls, data: Mapping[str, object], scope: Scope, *labels: str, role: Role | None = None
    ) -> Snapshot:
        """Return the numbers that a JSON object shows, made by ``shown`` maybe of another version.

        Raises:
            ValueError: what should be a number is none.
        """
        found: dict[Metric, float | None] = {}
        for metric in METRICS:
            if metric.scope is scope and metric.key and metric.is_of(role):
                found[metric] = _number(metric, data)
        return cls.of(found, *labels)

    def only(self, *labels: str) -> Snapshot:
        """Return the numbers of one thing."""
        return Snapshot(
            {name: {labels: rows[labels]} for name, rows in self.values.items() if labels in rows}
        )

    def rows(self, metric: Metric) -> Mapping[Labels, float]:
        """Return one number of everything that has it."""
        return self.values.get(metric.name, {})

    def value(self, metric: Metric, *labels: str) -> float | None:
        """Return a number of one thing, ``None`` if nobody has measured it."""
        return self.rows(metric).get(labels)

    def count(self, metric: Metric, *labels: str) -> int | None:
        """Return a number of one thing that is a whole one."""
        value = self.value(metric, *labels)
        return None if value is None else int(value)

    def total(self, metric: Metric) -> int:
        """Return the sum of a whole number over everything that has it."""
        return int(sum(self.rows(metric).values()))

    def shown(self, scope: Scope, *labels: str, role: Role | None = None) -> dict[str, object]:
        """Return the numbers of one thing by their keys in JSON.

        Args:
            scope: what it is.
            labels: which.
            role: of a task.
        """
        found: dict[str, object] = {}
        inner: dict[str, dict[str, object]] = {}
        for metric in METRICS:
            if metric.scope is not scope or not metric.key:
                continue
            value = self.value(metric, *labels)
            outer, _, key = metric.key.partition(".")
            if key:
                found[outer] = inner.setdefault(outer, {})
                if value is not None:
                    inner[outer][key] = value
            elif metric.is_of(role) or outer not in found:
                told = metric.absent if value is None else value
                found[outer] = bool(told) if metric.flag else told
        return found


def _number(metric: Metric, data: Mapping[str, object]) -> float | None:
    outer, _, key = metric.key.partition(".")
    value = data.get(outer)
    if key:
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{metric.key} is no number: {value!r:.80}")
    return value
