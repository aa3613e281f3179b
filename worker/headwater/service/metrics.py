"""A worker's metrics for Prometheus, as ``model/metrics.py`` declares them.

Rates are left to Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headwater.ids import SlotId
from headwater.model.cluster import Role
from headwater.model.metrics import METRICS, MetricType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric as Family

    from headwater.model.metrics import Labels, Metric
    from headwater.service.view import TaskView, WorkerView


class WorkerCollector(Collector):
    """Makes the metrics of one scrape from the worker's view.

    Args:
        view: returns the newest view.
    """

    def __init__(self, view: Callable[[], WorkerView]) -> None:
        self._view = view

    def describe(self) -> list[Family]:
        """Nothing: names are not reserved, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield every metric."""
        view = self._view()
        threads = {str(task.task): _thread_id(view, task) for task in view.tasks}
        for metric in METRICS:
            if metric.is_scraped and metric.scope is not Scope.DRIVER:
                yield _family(view, metric, threads)


def _family(view: WorkerView, metric: Metric, threads: dict[str, str]) -> Family:
    is_counter = metric.type is MetricType.COUNTER
    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in view.numbers.rows(metric).items():
        client: Labels = (view.application_id, view.worker)
        thread: Labels = (threads[labels[0]],) if metric.scope is Scope.TASK else ()
        if not metric.states:
            family.add_metric((*client, *thread, *labels), float(value))
        for state in metric.states:
            is_it = state == labels[-1]
            family.add_metric((*client, *thread, *labels[:-1], state), float(is_it))
    return family


def _thread_id(view: WorkerView, task: TaskView) -> str:
    if task.role is Role.ACTIVE:
        return SlotId(view.worker, task.slot).thread_id
    return f"{view.worker}-StateUpdater-{task.updater or 0}"
