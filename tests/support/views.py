"""What a worker shows of itself, for those who read it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.service.view import TaskView, WorkerView

if TYPE_CHECKING:
    from headwater.ids import TaskId


def task_view(task: TaskId, **fields: Any) -> TaskView:
    """A task of slot 0 about which nothing is known but what ``fields`` say."""
    bare = TaskView(
        task=task,
        state="RUNNING",
        slot=0,
        records_per_s=0.0,
        stats=None,
        restored=0,
        remaining=None,
    )
    return replace(bare, **fields)


def worker_view(*tasks: TaskView, **fields: Any) -> WorkerView:
    """A worker that holds these tasks."""
    bare = WorkerView(
        at_ms=1,
        application_id="app",
        worker="app-w-0",
        incarnation="i",
        epoch=1,
        has_lease=True,
        is_ready=True,
        is_stopping=False,
        tasks=tasks,
    )
    return replace(bare, **fields)
