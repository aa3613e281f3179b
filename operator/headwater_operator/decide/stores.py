"""What the state that workers have on disk is worth.

A store that its worker will throw away counts as empty: one of another changelog topic (deleted and
made anew), and one that was last committed so long ago that the changelog may have forgotten
deletions since (``delete.retention.ms``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import changelogs_digest

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.cluster import StoredTask, WorkerStatus
    from headwater_operator.decide.scene import Scene

_HOUR_MS: Final = 3_600_000


def usable(scene: Scene, status: WorkerStatus) -> dict[TaskId, int]:
    """Return how far a worker's stored state reaches, of every task for which it is of use."""
    return {
        stored.task: stored.offset_bucket for stored in status.stored if not is_stale(scene, stored)
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
