"""A worker's metrics as ``model.metrics`` declares them: for Prometheus, OTLP, ``KafkaStreams``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headwater.ids import SlotId, global_thread_id
from headwater.model.cluster import Role
from headwater.model.metrics import METRICS, MetricType, Scope
from headwater.model.metrics.kafka import GLOBAL_TASK, labels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric as Family

    from headwater.model.metrics import Labels, Metric, Snapshot
    from headwater.service.view import TaskView, WorkerView


class Told(NamedTuple):
    """One metric with what was measured: values of all its labels, and the number."""

    metric: Metric
    rows: list[tuple[Labels, float]]


def told(view: WorkerView) -> Iterator[Told]:
    """Yield every metric that a worker shows, those of the user's last."""
    threads = {str(task.task): _thread_id(view, task) for task in view.tasks}
    threads[GLOBAL_TASK] = global_thread_id(view.worker)
    numbers = view.all_numbers()
    for metric in (*METRICS, *numbers.of_users.values()):
        if metric.is_scraped and metric.scope is not Scope.DRIVER:
            yield Told(metric, list(_rows(view, numbers, metric, threads)))


def _rows(
    view: WorkerView, numbers: Snapshot, metric: Metric, threads: dict[str, str]
) -> Iterator[tuple[Labels, float]]:
    client: Labels = (view.application_id, view.worker)
    for labels, value in numbers.rows(metric).items():
        row = labels_of(metric, labels, client, threads.get(labels[0], "") if labels else "")
        if not metric.states:
            yield row, float(value)
        for state in metric.states:
            yield (*row[:-1], state), float(state == row[-1])


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
        """Yield every metric that was measured."""
        for metric, rows in told(self._view()):
            is_counter = metric.type is MetricType.COUNTER
            kind = CounterMetricFamily if is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in rows:
                family.add_metric(labels, value)
            yield family


def _thread_id(view: WorkerView, task: TaskView) -> str:
    if task.role is Role.ACTIVE:
        return SlotId(view.worker, task.slot).thread_id
    return f"{view.worker}-StateUpdater-{task.updater or 0}"
