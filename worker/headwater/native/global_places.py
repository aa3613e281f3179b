"""Where the global stores of a worker lie, as the process sees them that writes them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.ids import TopicPartition
from headwater.state.global_store import GlobalStoreFiles, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.kafka.admin import Admin
    from headwater.kafka.topics import TopicDescription
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend, Position
    from headwater.state import BlockCache, StateDirectory

log = logging.getLogger(__name__)

_DELETE_RETENTION = "delete.retention.ms"


class GlobalPlaces:
    """Opens the stores of global sub-topologies on a disk, and keeps their positions.

    Args:
        directory: of the application's state.
        holder: who writes, for the message that somebody else may get.
        blocks: the process' block cache.
        is_first: this process is the worker's first one: stores in memory begin anew.
    """

    def __init__(
        self, directory: StateDirectory, holder: str, blocks: BlockCache, *, is_first: bool
    ) -> None:
        self._directory = directory
        self._holder = holder
        self._blocks = blocks
        self._is_first = is_first
        self._files: dict[str, GlobalStoreFiles] = {}
        self._of_store: dict[str, GlobalStoreFiles] = {}

    def open(
        self,
        groups: Iterable[Subtopology],
        topics: Mapping[str, TopicDescription],
        admin: Admin,
        now_ms: int,
    ) -> dict[TopicPartition, int]:
        """Open every store; return from where each partition of its topic is read.

        Raises:
            StateError: a store cannot be opened.
            KafkaUnavailableError: nobody answered.
        """
        retention = admin.topic_settings(topics.keys(), _DELETE_RETENTION)
        offsets: dict[TopicPartition, int] = {}
        for group in groups:
            (topic,) = group.source_topics
            (spec,) = group.stores
            partitions = [TopicPartition(topic, n) for n in range(topics[topic].partitions)]
            starts = admin.earliest_offsets(partitions)
            ends = admin.end_offsets(partitions)
            facts = TopicFacts(
                topics[topic].topic_id,
                tuple(starts[p] for p in partitions),
                tuple(ends[p] for p in partitions),
                int(retention[topic]),
            )
            files = GlobalStoreFiles(spec, self._directory, self._holder, self._blocks)
            self._files[topic] = self._of_store[spec.name] = files
            files.open(facts, now_ms, keep=spec.persistent or not self._is_first)
            if files.news:
                log.warning("global store %s filled anew: %s", spec.name, files.news)
            offsets |= dict(zip(partitions, files.offsets, strict=True))
        return offsets

    def backend_of(self, spec: StoreSpec) -> Backend:
        """Return the open backend of a store."""
        return self._of_store[spec.name].backend

    def position(self, partition: TopicPartition, offset: int) -> Position:
        """Return a store's position once everything of a partition below ``offset`` is in it."""
        files = self._files[partition.topic]
        files.move(partition.partition, offset)
        return files.position()

    def grow(self, added: Iterable[TopicPartition]) -> None:
        """Take in partitions that a topic has got since."""
        for partition in added:
            self._files[partition.topic].add_partition()

    def complete(self, topic: str, at_ms: int) -> Position:
        """Return a store's position once it is known to be complete as of a time."""
        self._files[topic].complete(at_ms)
        return self._files[topic].position()

    def publish(self, topic: str, *, filled: bool = False) -> None:
        """Tell the readers of a store how far it is."""
        self._files[topic].publish(filled=filled)

    def close(self) -> None:
        """Release the files."""
        for files in self._files.values():
            files.close()
