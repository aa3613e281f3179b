"""The table of all numbers, in the order in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.metrics.clients import METRICS_OF_CLIENTS
from headwater.model.metrics.driver import METRICS_OF_DRIVER
from headwater.model.metrics.stores import METRICS_OF_CACHES, METRICS_OF_ROCKSDB, METRICS_OF_STORES
from headwater.model.metrics.tasks import METRICS_OF_NODES, METRICS_OF_TASKS, METRICS_OF_TOPICS
from headwater.model.metrics.threads import (
    METRICS_OF_KAFKA_CLIENTS,
    METRICS_OF_THREADS,
    METRICS_OF_UPDATERS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.metrics.declaring import Metric

METRICS: Final[tuple[Metric, ...]] = (
    *METRICS_OF_CLIENTS,
    *METRICS_OF_THREADS,
    *METRICS_OF_UPDATERS,
    *METRICS_OF_TASKS,
    *METRICS_OF_NODES,
    *METRICS_OF_TOPICS,
    *METRICS_OF_STORES,
    *METRICS_OF_ROCKSDB,
    *METRICS_OF_CACHES,
    *METRICS_OF_KAFKA_CLIENTS,
    *METRICS_OF_DRIVER,
)
"""Every metric, in the order in which they are shown."""
BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in METRICS}
RATES: Final = tuple(metric for metric in METRICS if metric.rate_of)
"""Those that are made of counters."""
