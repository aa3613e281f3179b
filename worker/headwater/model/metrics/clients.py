"""Numbers of a worker: Kafka Streams' client, and its StateUpdaters."""

from __future__ import annotations

from typing import Final

from headwater.metrics_settings import RecordingLevel
from headwater.model.lifecycle import ClientState
from headwater.model.metrics.declaring import Scope, Unit, counter, gauge, rate

_UPDATER: Final = "stream-state-updater-metrics"

VERSION: Final = gauge(
    Scope.CLIENT, "version", "The version of Headwater, as the label `version`.", tags=("version",)
)
REVISION: Final = gauge(
    Scope.CLIENT,
    "revision",
    "The revision of the specification that the worker was started from, as the label `revision`.",
    is_kafkas=False,
    tags=("revision",),
)
RECORDING_LEVEL: Final = gauge(
    Scope.CLIENT,
    "recording-level",
    f"The level in use: {', '.join(f'{it.number} {it.upper()}' for it in RecordingLevel)}.",
)
STATE: Final = gauge(
    Scope.CLIENT, "state", "1 for the state that the worker is in.", states=tuple(ClientState)
)
CLIENT_STATE: Final = gauge(
    Scope.CLIENT,
    "client-state",
    f"The same as a number: {', '.join(f'{i} {s}' for i, s in enumerate(ClientState))}.",
)
ALIVE_STREAM_THREADS: Final = gauge(
    Scope.CLIENT, "alive-stream-threads", "StreamThreads that have a process."
)
FAILED_STREAM_THREADS: Final = counter(
    Scope.CLIENT, "failed-stream-threads", "StreamThreads that were replaced."
)
READY: Final = gauge(
    Scope.CLIENT,
    "ready",
    "1 when every granted task is processed.",
    is_kafkas=False,
    flag=True,
    key="ready",
)
PAUSED: Final = gauge(
    Scope.CLIENT,
    "paused",
    "1 while nothing is processed because somebody has paused the application.",
    is_kafkas=False,
    flag=True,
)
LEASE_HELD: Final = gauge(
    Scope.CLIENT,
    "lease-held",
    "1 while the worker's Lease is renewed in time.",
    is_kafkas=False,
    flag=True,
    key="lease",
)
ASSIGNMENT_EPOCH: Final = gauge(
    Scope.CLIENT, "assignment-epoch", "The acknowledged epoch.", is_kafkas=False, key="epoch"
)
ACTIVE_RESTORING_TASKS: Final = gauge(
    Scope.CLIENT, "active-restoring-tasks", "Tasks being restored.", group=_UPDATER
)
STANDBY_UPDATING_TASKS: Final = gauge(
    Scope.CLIENT,
    "standby-updating-tasks",
    "Standby and warm-up tasks being followed.",
    group=_UPDATER,
)
STANDBY_CAUGHT_UP_TASKS: Final = gauge(
    Scope.CLIENT,
    "standby-caught-up-tasks",
    "Standby and warm-up tasks whose lag is acceptable.",
    group=_UPDATER,
    is_kafkas=False,
)
RESTORE_RECORDS: Final = counter(
    Scope.CLIENT,
    "restore-records-total",
    "Changelog records applied in restores.",
    Unit.RECORDS,
    group=_UPDATER,
    is_kafkas=False,
    key="restoredTotal",
)
RESTORE_RECORDS_RATE: Final = rate(RESTORE_RECORDS)
STANDBY_UPDATE_RECORDS: Final = counter(
    Scope.CLIENT,
    "standby-update-records-total",
    "Changelog records applied to standby and warm-up tasks.",
    Unit.RECORDS,
    group=_UPDATER,
    is_kafkas=False,
    key="followedTotal",
)
GLOBAL_REMAINING: Final = gauge(
    Scope.CLIENT,
    "global-restore-remaining-records",
    "Records of global stores that are still to be read before tasks start.",
    Unit.RECORDS,
    is_kafkas=False,
    key="globalRemaining",
    absent=None,
)
OTLP_FAILED_PUSHES: Final = counter(
    Scope.CLIENT,
    "otlp-failed-pushes-total",
    "Pushes by OTLP that failed; the next one holds what they would have told.",
    is_kafkas=False,
)
HTTP_REFUSED_REQUESTS: Final = counter(
    Scope.CLIENT,
    "http-refused-requests-total",
    "Callers by HTTP that were refused, by `reason`: `missing`, `wrong` or `expired` token, "
    "`forbidden`, `unknown_key`.",
    is_kafkas=False,
    tags=("reason",),
)
STATE_DIR_SIZE: Final = gauge(
    Scope.CLIENT,
    "state-dir-size-bytes",
    "The size of the file system that holds the stores.",
    Unit.BYTES,
    is_kafkas=False,
)
STATE_DIR_AVAILABLE: Final = gauge(
    Scope.CLIENT,
    "state-dir-available-bytes",
    "How much of the file system that holds the stores is available.",
    Unit.BYTES,
    is_kafkas=False,
)
METRICS_OF_CLIENTS: Final = (
    VERSION,
    REVISION,
    RECORDING_LEVEL,
    STATE,
    CLIENT_STATE,
    ALIVE_STREAM_THREADS,
    FAILED_STREAM_THREADS,
    READY,
    PAUSED,
    LEASE_HELD,
    ASSIGNMENT_EPOCH,
    ACTIVE_RESTORING_TASKS,
    STANDBY_UPDATING_TASKS,
    STANDBY_CAUGHT_UP_TASKS,
    RESTORE_RECORDS,
    RESTORE_RECORDS_RATE,
    STANDBY_UPDATE_RECORDS,
    GLOBAL_REMAINING,
    OTLP_FAILED_PUSHES,
    HTTP_REFUSED_REQUESTS,
    STATE_DIR_SIZE,
    STATE_DIR_AVAILABLE,
)
