"""What a worker shows of itself, for those who read it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.service.view import TaskView, WorkerView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ids import TaskId


def task_view(task: TaskId, **fields: Any) -> TaskView:
    """A task of slot 0 that runs, as far as ``fields`` do not say otherwise."""
    return replace(TaskView(task=task, state="RUNNING", slot=0), **fields)


def worker_view(*tasks: TaskView, numbers: Iterable[Snapshot] = (), **fields: Any) -> WorkerView:
    """A worker that holds these tasks."""
    worker = {metrics.ASSIGNMENT_EPOCH: 1, metrics.LEASE_HELD: True, metrics.READY: True}
    bare = WorkerView(
        at_ms=1,
        application_id="app",
        worker="app-w-0",
        incarnation="i",
        is_stopping=False,
        numbers=Snapshot.merged([Snapshot.of(worker), *numbers]),
        tasks=tasks,
    )
    return replace(bare, **fields)
