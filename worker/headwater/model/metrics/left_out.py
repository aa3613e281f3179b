"""Numbers of Kafka Streams that there are not here, with the reason."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAUSED: Final = "a pause leaves restores and copies alone: no StateUpdater has a paused task"
_COPIES: Final = (
    "a worker counts what its copies have read: `stream_state_updater_standby_update_records_total`"
)

LEFT_OUT: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("stream-metrics", "application-id"): "it is a label of every number",
        ("stream-metrics", "commit-id"): "a version of Headwater stands for one commit",
        ("stream-metrics", "topology-description"): (
            "a label cannot hold pages; `headwater describe` prints it"
        ),
        ("stream-state-updater-metrics", "active-paused-tasks"): _PAUSED,
        ("stream-state-updater-metrics", "standby-paused-tasks"): _PAUSED,
        ("stream-state-updater-metrics", "checkpoint-ratio"): (
            "there are no checkpoints: a position lies in the batch of its data"
        ),
        ("stream-task-metrics", "update-rate"): _COPIES,
        ("stream-task-metrics", "update-total"): _COPIES,
        ("stream-thread-metrics", "tasks-revoked-latency-avg"): "there is no rebalance protocol",
        ("stream-thread-metrics", "tasks-revoked-latency-max"): "there is no rebalance protocol",
        ("stream-thread-metrics", "tasks-assigned-latency-avg"): "there is no rebalance protocol",
        ("stream-thread-metrics", "tasks-assigned-latency-max"): "there is no rebalance protocol",
        ("stream-thread-metrics", "tasks-lost-latency-avg"): "there is no rebalance protocol",
        ("stream-thread-metrics", "tasks-lost-latency-max"): "there is no rebalance protocol",
        ("stream-processor-node-metrics", "idempotent-update-skip-rate"): (
            "Kafka Streams does not record it either"
        ),
        ("stream-processor-node-metrics", "idempotent-update-skip-total"): (
            "Kafka Streams does not record it either"
        ),
        ("stream-state-metrics", "restore-latency-avg"): (
            "stores are restored in batches over all of a task: `stream_task_restore_total`"
        ),
        ("stream-state-metrics", "restore-latency-max"): (
            "stores are restored in batches over all of a task: `stream_task_restore_total`"
        ),
        ("stream-state-metrics", "restore-rate"): (
            "stores are restored in batches over all of a task: `stream_task_restore_rate`"
        ),
        (
            "stream-state-metrics",
            "memtable-flush-time-min",
        ): "RocksDB's statistics keep no least time",
        ("stream-state-metrics", "compaction-time-min"): "RocksDB's statistics keep no least time",
        ("stream-state-metrics", "number-open-files"): "-1 in Kafka Streams, too, since 4.0",
    }
)
"""The reason by group and name."""
