"""Who hears how the stores of a program's tasks are filled from their changelogs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.ids import TopicPartition


class RestoreStep(StrEnum):
    """What has become of the restore of a store; the values are methods of the listener."""

    START = "on_restore_start"
    BATCH = "on_batch_restored"
    END = "on_restore_end"
    SUSPENDED = "on_restore_suspended"


class StateRestoreListener:
    """Hears how stores are restored (Kafka Streams' interface of this name).

    Derive a class from it, and give an object of that to
    ``KafkaStreams.set_global_state_restore_listener``. A method that is not overridden does
    nothing. They are called in the program's process, one after the other, by the thread that
    supervises the StreamThreads: let them return at once. What they raise is logged.
    """

    def on_restore_start(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        starting_offset: int,
        ending_offset: int,
    ) -> None:
        """A restore begins.

        Args:
            topic_partition: the changelog; of a global store, its topic.
            store_name: the store.
            starting_offset: the first offset to read.
            ending_offset: where the changelog ends, which is read up to there.
        """

    def on_batch_restored(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        batch_end_offset: int,
        num_restored: int,
    ) -> None:
        """Some records were written to the store.

        Args:
            topic_partition: the changelog.
            store_name: the store.
            batch_end_offset: of the last record.
            num_restored: how many records were read for it. Of a key only the newest is written.
        """

    def on_restore_end(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The store holds what its changelog holds.

        Args:
            topic_partition: the changelog.
            store_name: the store.
            total_restored: how many records were read, all batches together.
        """

    def on_restore_suspended(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The restore was broken off: its task is given up, or it begins anew.

        Args:
            topic_partition: the changelog.
            store_name: the store.
            total_restored: how many records were read until then.
        """
