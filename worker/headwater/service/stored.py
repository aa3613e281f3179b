"""What a worker's directory stores of tasks that it does not hold, as the control loop is told."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from headwater.model.cluster import StoredTask, changelogs_digest, offset_bucket
from headwater.model.reporting import changelog_topic
from headwater.model.stores import is_of_source, store_of
from headwater.state.position import POSITION_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ids import TaskId
    from headwater.ports import Position
    from headwater.state.directory import StoredStore

_HOUR_MS: Final = 3_600_000


def stored_tasks(application_id: str, stores: Iterable[StoredStore]) -> dict[TaskId, StoredTask]:
    """Sum the stores up by task.

    A store that never committed counts for nothing, and so does one whose position is of a format
    that we cannot read: it would be built anew.

    Args:
        application_id: names the changelogs.
        stores: as found on disk.
    """
    positions: dict[TaskId, dict[str, Position]] = defaultdict(dict)
    for store in stores:
        if is_of_source(store.store):
            continue  # its task takes no state along: see PartitionPlan
        if store.position is not None and not store.position.topic_id:
            continue  # it has no changelog, and no position but for queries
        if store.position is not None and store.position.format == POSITION_FORMAT:
            topic = changelog_topic(application_id, store_of(store.store))
            held = positions[store.task].get(topic)
            # A store that got headers, or lost them, lies there in both formats: one is in use.
            if held is None or held.offset < store.position.offset:
                positions[store.task][topic] = store.position
    return {task: _stored_task(task, found) for task, found in positions.items()}


def _stored_task(task: TaskId, positions: dict[str, Position]) -> StoredTask:
    oldest_ms = min(position.committed_at_ms for position in positions.values())
    return StoredTask(
        task=task,
        offset_bucket=offset_bucket(sum(position.offset for position in positions.values())),
        changelogs=changelogs_digest(
            {topic: position.topic_id for topic, position in positions.items()}
        ),
        saved_hour=oldest_ms // _HOUR_MS,
    )
