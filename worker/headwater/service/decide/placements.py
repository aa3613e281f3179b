"""Where tasks are, as queries see it: those of a worker, and those of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.cluster import Role
from headwater.native.queries.values import Place, Standing
from headwater.service.decide.values import TaskPhase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ids import TaskId
    from headwater.model.cluster import WorkerStatus
    from headwater.service.decide.values import Table


def placements_of(table: Table) -> dict[TaskId, Place]:
    """Return where the tasks of a worker are, as queries see it."""
    found = {copy: Place(Standing.COPY) for copy in table.copies}
    for task in table.tasks.values():
        is_running = task.phase is TaskPhase.RUNNING
        place = Place(Standing.RUNNING, task.slot) if is_running else Place(Standing.MOVING)
        found[task.id] = place
    return found


def peers_of(statuses: Iterable[WorkerStatus]) -> dict[TaskId, str]:
    """Return the endpoints of the workers that say that they have active tasks.

    Args:
        statuses: of the application's workers, as far as they can be read.
    """
    return {
        task.task: status.endpoint
        for status in statuses
        if status.endpoint
        for task in status.tasks
        if task.role is Role.ACTIVE
    }
