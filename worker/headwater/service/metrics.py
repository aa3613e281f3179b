"""A worker's metrics for Prometheus, named after Kafka Streams' in snake_case.

``stream-thread-metrics`` / ``process-total`` becomes ``stream_thread_process_total`` with the tag
``thread_id``; task metrics carry ``task_id`` too. Rates are left to Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState, ThreadState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

    from headwater.service.view import TaskView, ThreadView, WorkerView

_CLIENT: Final = ["application_id", "client_id"]
_THREAD: Final = [*_CLIENT, "thread_id"]
_TASK: Final = [*_THREAD, "task_id"]


class WorkerCollector(Collector):
    """Makes the metrics of one scrape from the worker's view.

    Args:
        view: returns the newest view.
    """

    def __init__(self, view: Callable[[], WorkerView]) -> None:
        self._view = view

    def describe(self) -> list[Metric]:
        """Nothing: names are not reserved, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        view = self._view()
        client = [view.application_id, view.worker]
        yield from _client_metrics(view, client)
        yield from _thread_metrics(view, client)
        yield from _task_metrics(view, client)


def _client_metrics(view: WorkerView, client: list[str]) -> Iterator[Metric]:
    alive = sum(thread.pid is not None for thread in view.threads)
    restoring = _restoring(view)
    copies = _copies(view)
    rows: list[tuple[str, str, float]] = [
        ("stream_alive_stream_threads", "StreamThreads that have a process.", alive),
        ("stream_ready", "1 when every granted task is processed.", view.is_ready),
        ("stream_lease_held", "1 while the worker's Lease is renewed in time.", view.has_lease),
        ("stream_assignment_epoch", "The acknowledged epoch.", view.epoch),
        (
            "stream_state_updater_active_restoring_tasks",
            "Tasks being restored.",
            len(restoring),
        ),
        (
            "stream_state_updater_standby_updating_tasks",
            "Standby and warm-up tasks being followed.",
            sum(task.updater is not None for task in copies),
        ),
        (
            "stream_state_updater_standby_caught_up_tasks",
            "Standby and warm-up tasks whose lag is acceptable.",
            sum(task.caught_up for task in copies),
        ),
    ]
    for name, help_, value in rows:
        yield _gauge(name, help_, _CLIENT, [(client, value)])
    counted: list[tuple[str, str, float]] = [
        ("stream_failed_stream_threads", "StreamThreads that were replaced.", view.failed_threads),
        (
            "stream_state_updater_restore_records",
            "Changelog records applied in restores.",
            view.restored_total,
        ),
        (
            "stream_state_updater_standby_update_records",
            "Changelog records applied to standby and warm-up tasks.",
            view.followed_total,
        ),
    ]
    for name, help_, value in counted:
        yield _counter(name, help_, _CLIENT, [(client, value)])


def _thread_metrics(view: WorkerView, client: list[str]) -> Iterator[Metric]:
    def tags(thread: ThreadView) -> list[str]:
        return [*client, f"{view.worker}-StreamThread-{thread.slot}"]

    with_stats = [(thread, thread.stats) for thread in view.threads if thread.stats is not None]
    yield _counter(
        "stream_thread_process",
        "Records processed.",
        _THREAD,
        [(tags(thread), stats.processed) for thread, stats in with_stats],
    )
    yield _counter(
        "stream_thread_commit",
        "Commits.",
        _THREAD,
        [(tags(thread), stats.commits) for thread, stats in with_stats],
    )
    yield _counter(
        "stream_thread_produced_records",
        "Records sent: outputs and changelogs.",
        _THREAD,
        [(tags(thread), stats.produced) for thread, stats in with_stats],
    )
    yield _gauge(
        "stream_thread_transaction_open",
        "1 while something was sent that no commit covers.",
        _THREAD,
        [(tags(thread), stats.transaction_open) for thread, stats in with_stats],
    )
    for part in ("poll", "process", "punctuate", "commit"):
        yield _gauge(
            f"stream_thread_{part}_ratio",
            f"Share of the thread's time spent in {part}.",
            _THREAD,
            [(tags(thread), stats.ratios.get(part, 0.0)) for thread, stats in with_stats],
        )
    yield _gauge(
        "stream_thread_state",
        "1 for the state that the thread is in.",
        [*_THREAD, "state"],
        [
            ([*tags(thread), state.value], float(thread.state == state))
            for thread in view.threads
            for state in ThreadState
        ],
    )


def _restoring(view: WorkerView) -> list[TaskView]:
    return [task for task in view.tasks if task.role is Role.ACTIVE and task.remaining is not None]


def _copies(view: WorkerView) -> list[TaskView]:
    return [task for task in view.tasks if task.role is not Role.ACTIVE]


def _task_metrics(view: WorkerView, client: list[str]) -> Iterator[Metric]:
    def tags(task: TaskView) -> list[str]:
        thread = f"StreamThread-{task.slot}"
        if task.role is not Role.ACTIVE:
            thread = f"StateUpdater-{task.updater or 0}"
        return [*client, f"{view.worker}-{thread}", str(task.task)]

    with_stats = [(task, task.stats) for task in view.tasks if task.stats is not None]
    yield _counter(
        "stream_task_process",
        "Records processed since the thread took the task.",
        _TASK,
        [(tags(task), stats.processed) for task, stats in with_stats],
    )
    yield _counter(
        "stream_task_dropped_records",
        "Records dropped.",
        _TASK,
        [(tags(task), stats.dropped) for task, stats in with_stats],
    )
    yield _gauge(
        "stream_task_active_buffer_count",
        "Records fetched and not yet processed.",
        _TASK,
        [(tags(task), stats.buffered) for task, stats in with_stats],
    )
    yield _gauge(
        "stream_task_records_lag",
        "Input records not yet processed.",
        _TASK,
        [(tags(task), stats.lag) for task, stats in with_stats],
    )
    restoring = _restoring(view)
    yield _gauge(
        "stream_task_restore_remaining_records",
        "Changelog offsets still to read.",
        _TASK,
        [(tags(task), task.remaining or 0) for task in restoring],
    )
    yield _gauge(
        "stream_task_restored_records",
        "Changelog records applied in the restore under way.",
        _TASK,
        [(tags(task), task.restored) for task in restoring],
    )
    yield _gauge(
        "stream_task_standby_records_lag",
        "Changelog offsets that a standby or warm-up task has still to read.",
        _TASK,
        [(tags(task), task.remaining) for task in _copies(view) if task.remaining is not None],
    )
    yield _gauge(
        "stream_task_state",
        "1 for the state that the task is in.",
        [*_TASK, "state"],
        [
            ([*tags(task), state.value], float(task.state == state))
            for task in view.tasks
            for state in TaskState
        ],
    )


def _gauge(
    name: str, help_: str, labels: list[str], rows: list[tuple[list[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_, labels=labels)
    for values, value in rows:
        family.add_metric(values, float(value))
    return family


def _counter(
    name: str, help_: str, labels: list[str], rows: list[tuple[list[str], float]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help_, labels=labels)
    for values, value in rows:
        family.add_metric(values, float(value))
    return family
