"""What the state that workers have is worth, in offsets of its changelogs.

A store that its worker will throw away counts as empty: one of another changelog topic (deleted and
made anew), and one that was last committed so long ago that the changelog may have forgotten
deletions since (``delete.retention.ms``). Nobody tells how much state a task has that runs: it is
what others have stored of it before, or what the other tasks have on average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import changelogs_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import StoredTask, WorkerStatus
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene

_HOUR_MS: Final = 3_600_000


def usable(scene: Scene, status: WorkerStatus) -> dict[TaskId, int]:
    """Return how far a worker's stored state reaches, of every task for which it is of use."""
    return {
        stored.task: stored.offset_bucket for stored in status.stored if not is_stale(scene, stored)
    }


def state_by_worker(scene: Scene) -> dict[str, dict[TaskId, int]]:
    """Return how much state every worker has, by task; tasks without state are left out."""
    stored = {worker.name: usable(scene, worker.status) for worker in scene.workers}
    known: dict[TaskId, int] = {}
    for tasks in stored.values():
        for task, offset in tasks.items():
            known[task] = max(known.get(task, 1), offset + 1)
    usual = sum(known.values()) // len(known) if known else 1
    return {
        worker.name: _state_of(scene, worker, stored[worker.name], known, usual)
        for worker in scene.workers
    }


def _state_of(
    scene: Scene,
    worker: Judged,
    stored: Mapping[TaskId, int],
    known: Mapping[TaskId, int],
    usual: int,
) -> dict[TaskId, int]:
    found = {task: offset + 1 for task, offset in stored.items()}
    for task, status in worker.copies.items():
        size = known.get(task, usual)
        found[task] = size if status.caught_up else max(0, size - status.lag)
    found |= {task: known.get(task, usual) for task in worker.held}
    if scene.plan is None:
        return found
    return {task: size for task, size in found.items() if task in scene.plan.stateful}


def only_there(state: Mapping[str, Mapping[TaskId, int]]) -> dict[str, int]:
    """Return of every worker how much would have to be restored if it was gone."""
    most: dict[TaskId, int] = {}
    next_most: dict[TaskId, int] = {}
    for tasks in state.values():
        for task, size in tasks.items():
            before = most.get(task, 0)
            most[task] = max(before, size)
            next_most[task] = max(next_most.get(task, 0), min(before, size))
    return {
        worker: sum(size - next_most[task] for task, size in tasks.items() if size == most[task])
        for worker, tasks in state.items()
    }


def is_stale(scene: Scene, stored: StoredTask) -> bool:
    """Whether stored state is known to be of no use.

    What cannot be told, because the topics were not looked up yet, is taken to be of use: its
    worker judges for itself before it opens a store.
    """
    if scene.plan is None:
        return False
    partitions = scene.plan.on_disk.get(stored.task)
    if partitions is None:
        return True
    topics = [partition.topic for partition in partitions]
    ids = scene.memory.topic_ids
    if stored.changelogs and all(topic in ids for topic in topics):
        digest = changelogs_digest({topic: ids[topic] for topic in topics})
        if stored.changelogs != digest:
            return True
    kept_ms = min(
        (
            scene.memory.delete_retention_ms[topic]
            for topic in topics
            if topic in scene.memory.delete_retention_ms
        ),
        default=None,
    )
    if kept_ms is None or not scene.observed.hour or not stored.saved_hour:
        return False
    # As its worker: an hour is left for the restore.
    return (scene.observed.hour - stored.saved_hour) * _HOUR_MS >= kept_ms - _HOUR_MS
