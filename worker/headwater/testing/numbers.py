"""What a test driver measures, by Kafka Streams' names."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater.model.metrics import METRICS, Snapshot
from headwater.model.metrics.kafka import kafka_metrics, labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.config import StreamsConfig
    from headwater.model.metrics.kafka import KafkaMetric, MetricName
    from headwater.native.global_stores import GlobalStores
    from headwater.native.measured import ThreadNumbers
    from headwater.native.opening import RunningTask

THREAD: Final = "main"
"""The name of the thread in metrics, as in Kafka Streams' driver."""


def driver_metrics(
    numbers: ThreadNumbers,
    config: StreamsConfig,
    tasks: Sequence[RunningTask],
    global_stores: GlobalStores,
) -> dict[MetricName, KafkaMetric]:
    """Return the metrics of a driver's thread, tasks and global stores."""
    counted = [running.task.statistics() for running in tasks]
    kept = global_stores.measured(time.monotonic())
    told = Snapshot.merged([numbers.of_thread(), *counted, kept])
    found = Snapshot.merged([told, numbers.rates(told), numbers.look(tasks)])
    client = config.application_id, THREAD
    return kafka_metrics(
        (metric, [(labels_of(metric, row, client, THREAD), value) for row, value in rows.items()])
        for metric in (*METRICS, *found.of_users.values())
        if (rows := found.rows(metric))
    )
