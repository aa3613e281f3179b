"""Numbers of a StreamThread, and of its clients of Kafka."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headwater.model.lifecycle import ThreadState
from headwater.model.metrics.declaring import Metric, Scope, Unit, counter, gauge, rate, spread

if TYPE_CHECKING:
    from collections.abc import Mapping

_THREAD: Final = Scope.THREAD
_KAFKA: Final = Scope.KAFKA_CLIENT

THREAD_PROCESS: Final = counter(
    _THREAD, "process-total", "Records processed.", Unit.RECORDS, key="processed"
)
THREAD_PROCESS_RATE: Final = gauge(
    _THREAD,
    "process-recent-rate",
    "Records processed per second, between the last two reports.",
    Unit.PER_SECOND,
    is_kafkas=False,
    is_scraped=False,
    key="recordsPerSecond",
    absent=0.0,
)
COMMIT: Final = counter(_THREAD, "commit-total", "Commits.", key="commits")
FAILED_COMMITS: Final = counter(
    _THREAD,
    "failed-commits-total",
    "Times that the tasks went back to their last commit, because an output or the commit failed.",
    is_kafkas=False,
)
POLL: Final = counter(_THREAD, "poll-total", "Polls of the consumer.")
PUNCTUATE: Final = counter(_THREAD, "punctuate-total", "Punctuators called.")
PROCESS_LATENCY: Final = spread(
    _THREAD, "process-latency", "the time that a record took, by rounds", Unit.MS
)
COMMIT_LATENCY: Final = spread(
    _THREAD,
    "commit-latency",
    "the time that a commit took, waiting for the broker included",
    Unit.MS,
)
POLL_LATENCY: Final = spread(_THREAD, "poll-latency", "the time that a poll took", Unit.MS)
PUNCTUATE_LATENCY: Final = spread(
    _THREAD, "punctuate-latency", "the time that a punctuator took", Unit.MS
)
POLL_RECORDS: Final = spread(
    _THREAD, "poll-records", "the number of records that a poll returned", Unit.RECORDS
)
PROCESS_RECORDS: Final = spread(
    _THREAD, "process-records", "the number of records processed in a round", Unit.RECORDS
)
PRODUCED_RECORDS: Final = counter(
    _THREAD,
    "produced-records-total",
    "Records sent: outputs and changelogs.",
    Unit.RECORDS,
    is_kafkas=False,
    key="produced",
)
TRANSACTION_OPEN: Final = gauge(
    _THREAD,
    "transaction-open",
    "1 while something was sent that no commit covers.",
    is_kafkas=False,
    flag=True,
    key="transactionOpen",
)
RATIOS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        part: gauge(
            _THREAD,
            f"{part}-ratio",
            f"Share of the thread's time spent in {part}.",
            Unit.RATIO,
            key=f"ratios.{part}",
        )
        for part in ("poll", "process", "punctuate", "commit")
    }
)
"""By what the time is spent in."""
TASK_CREATED: Final = counter(_THREAD, "task-created-total", "Tasks opened.")
TASK_CLOSED: Final = counter(_THREAD, "task-closed-total", "Tasks closed.")
BLOCKED_TIME: Final = counter(
    _THREAD,
    "blocked-time-ns-total",
    "Time in which the thread waited for records or for the broker's answer to a commit.",
    Unit.NS,
)
THREAD_START_TIME: Final = gauge(
    _THREAD,
    "thread-start-time",
    "When the process began, in milliseconds since the epoch.",
    Unit.MS,
)
THREAD_RESTARTS: Final = counter(
    _THREAD,
    "restarts-total",
    "Times that the thread's process was replaced.",
    is_kafkas=False,
    is_scraped=False,
    key="restarts",
)
THREAD_STATE: Final = gauge(
    _THREAD, "state", "1 for the state that the thread is in.", states=tuple(ThreadState)
)
THREAD_STATE_NUMBER: Final = gauge(
    _THREAD,
    "thread-state",
    f"The same as a number: {', '.join(f'{i} {s}' for i, s in enumerate(ThreadState))}.",
)

_UPDATER: Final = "stream-state-updater-metrics"
UPDATER_IDLE_RATIO: Final = gauge(
    _THREAD,
    "idle-ratio",
    "Share of a StateUpdater's time without a task.",
    Unit.RATIO,
    group=_UPDATER,
)
UPDATER_RESTORE_RATIO: Final = gauge(
    _THREAD,
    "active-restore-ratio",
    "Share of a StateUpdater's time while tasks were restored.",
    Unit.RATIO,
    group=_UPDATER,
)
UPDATER_STANDBY_RATIO: Final = gauge(
    _THREAD,
    "standby-update-ratio",
    "Share of a StateUpdater's time while it only followed standby and warm-up tasks.",
    Unit.RATIO,
    group=_UPDATER,
)
RESTORE_CALLS: Final = counter(
    _THREAD,
    "restore-call-total",
    "Times that a StateUpdater asked for records to restore.",
    group=_UPDATER,
    is_kafkas=False,
)
METRICS_OF_UPDATERS: Final = (
    UPDATER_IDLE_RATIO,
    UPDATER_RESTORE_RATIO,
    UPDATER_STANDBY_RATIO,
    RESTORE_CALLS,
    rate(RESTORE_CALLS, is_kafkas=True),
)

KAFKA_QUEUED: Final = gauge(
    _KAFKA, "queued-records", "Records in the client's queues.", Unit.RECORDS, is_kafkas=False
)
KAFKA_QUEUED_BYTES: Final = gauge(
    _KAFKA, "queued-bytes", "Their bytes.", Unit.BYTES, is_kafkas=False
)
KAFKA_SENT: Final = counter(
    _KAFKA, "outgoing-records-total", "Records sent to brokers.", Unit.RECORDS, is_kafkas=False
)
KAFKA_SENT_BYTES: Final = counter(
    _KAFKA, "outgoing-bytes-total", "Bytes of requests to brokers.", Unit.BYTES, is_kafkas=False
)
KAFKA_RECEIVED: Final = counter(
    _KAFKA, "incoming-records-total", "Records received.", Unit.RECORDS, is_kafkas=False
)
KAFKA_RECEIVED_BYTES: Final = counter(
    _KAFKA, "incoming-bytes-total", "Bytes of answers of brokers.", Unit.BYTES, is_kafkas=False
)
KAFKA_REQUESTS: Final = counter(_KAFKA, "request-total", "Requests to brokers.", is_kafkas=False)
KAFKA_REQUEST_LATENCY: Final = gauge(
    _KAFKA,
    "request-latency-avg",
    "The average time until a broker answered, over the last interval of statistics.",
    Unit.MS,
    is_kafkas=False,
)
METRICS_OF_THREADS: Final = (
    THREAD_PROCESS,
    rate(THREAD_PROCESS),
    THREAD_PROCESS_RATE,
    *PROCESS_LATENCY,
    *PROCESS_RECORDS,
    COMMIT,
    rate(COMMIT),
    *COMMIT_LATENCY,
    FAILED_COMMITS,
    POLL,
    rate(POLL),
    *POLL_LATENCY,
    *POLL_RECORDS,
    PUNCTUATE,
    rate(PUNCTUATE),
    *PUNCTUATE_LATENCY,
    *RATIOS.values(),
    TASK_CREATED,
    rate(TASK_CREATED),
    TASK_CLOSED,
    rate(TASK_CLOSED),
    BLOCKED_TIME,
    THREAD_START_TIME,
    THREAD_STATE,
    THREAD_STATE_NUMBER,
    PRODUCED_RECORDS,
    TRANSACTION_OPEN,
    THREAD_RESTARTS,
)
METRICS_OF_KAFKA_CLIENTS: Final = (
    KAFKA_QUEUED,
    KAFKA_QUEUED_BYTES,
    KAFKA_SENT,
    KAFKA_SENT_BYTES,
    KAFKA_RECEIVED,
    KAFKA_RECEIVED_BYTES,
    KAFKA_REQUESTS,
    KAFKA_REQUEST_LATENCY,
)
