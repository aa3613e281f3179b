"""StreamThreads of an embedded application, as ``KafkaStreams`` tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.model.lifecycle import ThreadState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetadata:
    """One task of a StreamThread (Kafka's ``TaskMetadata``).

    Attributes:
        task_id: which.
        committed_offsets: the next offset to read of each of its input partitions, as committed
            last; empty before the first commit was told of.
    """

    task_id: TaskId
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, hash=False)

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset(self.committed_offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMetadata:
    """One StreamThread (Kafka's ``ThreadMetadata``). Here it is a process.

    Attributes:
        thread_name: as ``add_stream_thread`` returns it.
        thread_state: what it is doing.
        pid: its process; ``None`` while it has none.
        active_tasks: the tasks that it has, or is about to have.
        main_consumer_client_id: client id of the consumer of its input.
        restore_consumer_client_id: likewise of the one that restores stores in memory.
        producer_client_ids: client ids of its producer.
        admin_client_id: likewise of its admin client.
    """

    thread_name: str
    thread_state: ThreadState
    pid: int | None
    active_tasks: frozenset[TaskMetadata]
    main_consumer_client_id: str
    restore_consumer_client_id: str
    producer_client_ids: frozenset[str]
    admin_client_id: str
