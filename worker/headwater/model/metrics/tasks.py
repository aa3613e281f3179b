"""Numbers of a task, of its processor nodes, and of the topics that it reads and writes."""

from __future__ import annotations

from typing import Final

from headwater.metrics_settings import RecordingLevel
from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState
from headwater.model.metrics.declaring import (
    Scope,
    Unit,
    counter,
    gauge,
    rate,
    spread,
)

_DEBUG: Final = RecordingLevel.DEBUG
_INFO: Final = RecordingLevel.INFO
_ACTIVE: Final = (Role.ACTIVE,)
_COPIES: Final = (Role.STANDBY, Role.WARMUP)
_TASK, _NODE, _TOPIC = Scope.TASK, Scope.NODE, Scope.TOPIC

TASK_PROCESS: Final = counter(
    _TASK,
    "process-total",
    "Records processed since the thread took the task.",
    Unit.RECORDS,
    java_level=_DEBUG,
    roles=_ACTIVE,
    key="processed",
)
TASK_PROCESS_RATE: Final = gauge(
    _TASK,
    "process-recent-rate",
    "Records processed per second, between the last two reports.",
    Unit.PER_SECOND,
    is_kafkas=False,
    roles=_ACTIVE,
    is_scraped=False,
    key="recordsPerSecond",
    absent=0.0,
)
TASK_PROCESS_LATENCY: Final = spread(
    _TASK,
    "process-latency",
    "the time that a record took, by rounds",
    Unit.MS,
    level=_DEBUG,
    roles=_ACTIVE,
)
TASK_PUNCTUATE: Final = counter(
    _TASK, "punctuate-total", "Punctuators called.", java_level=_DEBUG, roles=_ACTIVE
)
TASK_PUNCTUATE_LATENCY: Final = spread(
    _TASK,
    "punctuate-latency",
    "the time that a punctuator took",
    Unit.MS,
    level=_DEBUG,
    roles=_ACTIVE,
)
RECORD_LATENESS: Final = spread(
    _TASK,
    "record-lateness",
    "how much older than the stream time a record was",
    Unit.MS,
    level=_DEBUG,
    roles=_ACTIVE,
)
ENFORCED_PROCESSING: Final = counter(
    _TASK,
    "enforced-processing-total",
    "Times that `max.task.idle.ms` ended and the task went on without records of some partition.",
    java_level=_DEBUG,
    roles=_ACTIVE,
)
DROPPED_RECORDS: Final = counter(
    _TASK,
    "dropped-records-total",
    "Records dropped.",
    Unit.RECORDS,
    roles=_ACTIVE,
    key="dropped",
)
DEAD_LETTERS: Final = counter(
    _TASK,
    "dead-letters-total",
    "Records that an exception handler has sent to a dead-letter topic.",
    Unit.RECORDS,
    is_kafkas=False,
    roles=_ACTIVE,
)
ACTIVE_PROCESS_RATIO: Final = gauge(
    _TASK,
    "active-process-ratio",
    "Share of the task in the time that its thread spends on processing.",
    Unit.RATIO,
    roles=_ACTIVE,
)
CACHE_SIZE_BYTES: Final = gauge(
    _TASK,
    "cache-size-bytes-total",
    "What the record caches of the task hold.",
    Unit.BYTES,
    roles=_ACTIVE,
)
ACTIVE_BUFFER_COUNT: Final = gauge(
    _TASK,
    "active-buffer-count",
    "Records fetched and not yet processed.",
    Unit.RECORDS,
    java_level=_DEBUG,
    roles=_ACTIVE,
    key="buffered",
)
RECORDS_LAG: Final = gauge(
    _TASK,
    "records-lag",
    "Input records not yet processed.",
    Unit.RECORDS,
    is_kafkas=False,
    roles=_ACTIVE,
    key="lag",
    absent=None,
)
STREAM_TIME: Final = gauge(
    _TASK,
    "stream-time",
    "The greatest timestamp processed, in milliseconds; -1 before the first record.",
    Unit.MS,
    is_kafkas=False,
    roles=_ACTIVE,
    is_scraped=False,
    key="streamTime",
    absent=None,
)
RESTORE_REMAINING_RECORDS: Final = gauge(
    _TASK,
    "restore-remaining-records-total",
    "Changelog offsets still to read.",
    Unit.RECORDS,
    roles=_ACTIVE,
    key="remaining",
    absent=None,
)
TASK_RESTORED: Final = counter(
    _TASK,
    "restore-total",
    "Changelog records applied in restores.",
    Unit.RECORDS,
    java_level=_DEBUG,
    roles=_ACTIVE,
)
RESTORED_RECORDS: Final = gauge(
    _TASK,
    "restored-records",
    "Changelog records applied in the restore under way.",
    Unit.RECORDS,
    is_kafkas=False,
    roles=_ACTIVE,
)
LAST_RESTORED_RECORDS: Final = gauge(
    _TASK,
    "last-restored-records",
    "Changelog records applied in the restore under way, or in the last one.",
    Unit.RECORDS,
    is_kafkas=False,
    roles=_ACTIVE,
    is_scraped=False,
    key="restored",
)
STANDBY_RECORDS_LAG: Final = gauge(
    _TASK,
    "standby-records-lag",
    "Changelog offsets that a standby or warm-up task has still to read.",
    Unit.RECORDS,
    is_kafkas=False,
    roles=_COPIES,
    key="remaining",
    absent=None,
)
TASK_STATE: Final = gauge(
    _TASK,
    "state",
    "1 for the state that the task is in.",
    is_kafkas=False,
    states=tuple(TaskState),
)
TASK_STATE_NUMBER: Final = gauge(
    _TASK,
    "task-state",
    f"The same as a number: {', '.join(f'{i} {s}' for i, s in enumerate(TaskState))}.",
    is_kafkas=False,
)
METRICS_OF_TASKS: Final = (
    TASK_PROCESS,
    rate(TASK_PROCESS),
    TASK_PROCESS_RATE,
    *TASK_PROCESS_LATENCY,
    TASK_PUNCTUATE,
    rate(TASK_PUNCTUATE),
    *TASK_PUNCTUATE_LATENCY,
    *RECORD_LATENESS,
    ENFORCED_PROCESSING,
    rate(ENFORCED_PROCESSING),
    DROPPED_RECORDS,
    rate(DROPPED_RECORDS),
    DEAD_LETTERS,
    ACTIVE_PROCESS_RATIO,
    CACHE_SIZE_BYTES,
    ACTIVE_BUFFER_COUNT,
    RECORDS_LAG,
    STREAM_TIME,
    RESTORE_REMAINING_RECORDS,
    TASK_RESTORED,
    rate(TASK_RESTORED),
    RESTORED_RECORDS,
    LAST_RESTORED_RECORDS,
    STANDBY_RECORDS_LAG,
    TASK_STATE,
    TASK_STATE_NUMBER,
)

NODE_PROCESS: Final = counter(
    _NODE,
    "process-total",
    "Records that a source node has taken.",
    Unit.RECORDS,
    java_level=_DEBUG,
)
E2E_LATENCY: Final = spread(
    _NODE,
    "record-e2e-latency",
    "how old a record was, by its timestamp, when it reached a source node or one without "
    "children, or at level TRACE any node; sampled at each batch, from level DEBUG each record",
    Unit.MS,
    least=True,
)
SUPPRESSION_EMIT: Final = counter(
    _NODE, "suppression-emit-total", "Changes that a suppression has let go.", level=_DEBUG
)
FINAL_EMIT: Final = counter(
    _NODE,
    "window-aggregate-final-emit-total",
    "Results forwarded when windows had closed.",
    level=_DEBUG,
)
FINAL_EMIT_LATENCY: Final = spread(
    _NODE,
    "window-aggregate-final-emit-latency",
    "the time that it took to forward what had closed",
    Unit.MS,
    level=_DEBUG,
)
METRICS_OF_NODES: Final = (
    NODE_PROCESS,
    rate(NODE_PROCESS),
    *E2E_LATENCY,
    SUPPRESSION_EMIT,
    rate(SUPPRESSION_EMIT),
    FINAL_EMIT,
    rate(FINAL_EMIT),
    *FINAL_EMIT_LATENCY,
)

_ESTIMATED: Final = "estimated from samples of each batch, from level DEBUG exact"
RECORDS_CONSUMED: Final = counter(
    _TOPIC, "records-consumed-total", "Records that a source node has taken.", Unit.RECORDS
)
BYTES_CONSUMED: Final = counter(
    _TOPIC, "bytes-consumed-total", f"Bytes read, {_ESTIMATED}.", Unit.BYTES
)
RECORDS_PRODUCED: Final = counter(
    _TOPIC, "records-produced-total", "Records that a sink node has sent.", Unit.RECORDS
)
BYTES_PRODUCED: Final = counter(
    _TOPIC, "bytes-produced-total", f"Bytes sent, {_ESTIMATED}.", Unit.BYTES
)
TOPIC_RECORDS_LAG: Final = gauge(
    _TOPIC,
    "records-lag",
    "Records of the topic that the task has not yet processed.",
    Unit.RECORDS,
    is_kafkas=False,
)
METRICS_OF_TOPICS: Final = (
    RECORDS_CONSUMED,
    BYTES_CONSUMED,
    RECORDS_PRODUCED,
    BYTES_PRODUCED,
    TOPIC_RECORDS_LAG,
)
