"""What a StateUpdater asks the broker about changelogs: waiting for it, or in passing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.state.restore import ChangelogFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.admin import Admin

_DELETE_RETENTION: Final = "delete.retention.ms"
_CLEANUP: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A changelog partition, seen in passing.

    Attributes:
        facts: as the broker told them; the start of the log is not among them, because a reader
            that falls behind it is told so. ``None`` if the topic does not exist.
        asked_at_ms: wall-clock time at which ``facts.log_end`` was the end, or later.
    """

    facts: ChangelogFacts | None
    asked_at_ms: int


class _Settings(NamedTuple):
    """What is asked once of a topic."""

    delete_retention_ms: int
    is_expiring: bool


class Changelogs:
    """Answers questions about changelog partitions.

    Args:
        admin: asked.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._settings: dict[str, _Settings] = {}

    def facts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ChangelogFacts]:
        """Ask about partitions, and wait; the end offsets come last, open transactions counted.

        A partition whose topic does not exist is not in the answer.

        Raises:
            KafkaUnavailableError: nobody answered.
            MissingTopicError: a topic was deleted at this moment.
        """
        described = self._admin.describe_topics({partition.topic for partition in partitions})
        found = [partition for partition in partitions if partition.topic in described]
        self._learn(described.keys() - self._settings.keys())
        starts = self._admin.earliest_offsets(found)
        ends = self._admin.end_offsets(found)
        return {
            partition: ChangelogFacts(
                topic_id=described[partition.topic].topic_id,
                log_start=starts[partition],
                log_end=ends[partition],
                delete_retention_ms=self._settings[partition.topic].delete_retention_ms,
                is_expiring=self._settings[partition.topic].is_expiring,
            )
            for partition in found
        }

    def _learn(self, topics: Collection[str]) -> None:
        """Note the settings of topics: of each all, or none if Kafka stops answering meanwhile."""
        retention = self._admin.topic_settings(topics, _DELETE_RETENTION)
        cleanup = self._admin.topic_settings(topics, _CLEANUP)
        self._settings |= {
            topic: _Settings(int(retention[topic]), "delete" in cleanup[topic]) for topic in topics
        }

    def look(
        self, positions: Mapping[TopicPartition, int]
    ) -> Callable[[], dict[TopicPartition, Sight] | None]:
        """Ask about partitions without waiting.

        Args:
            positions: of every partition, how far it was read by now. Its facts were known before.

        Returns:
            A function that gives ``None`` until the answer is there. A partition about which
            nothing could be found out is not in it.
        """
        asked_at_ms = now_ms()
        topics = self._admin.describe_topics_later({partition.topic for partition in positions})
        ends = self._admin.ends_later(list(positions), committed_only=False)
        answered: list[Mapping[TopicPartition, int]] = []

        def answer() -> dict[TopicPartition, Sight] | None:
            if not answered:
                found_ends = ends()
                if found_ends is None:
                    return None
                answered.append(found_ends)
            described = topics()
            if described is None:
                return None
            sights = {}
            for partition in positions:
                topic = described.get(partition.topic)
                if topic is None:
                    sights[partition] = Sight(facts=None, asked_at_ms=asked_at_ms)
                elif topic.topic_id and partition in answered[0]:
                    facts = ChangelogFacts(
                        topic_id=topic.topic_id,
                        log_start=0,
                        log_end=answered[0][partition],
                        delete_retention_ms=self._settings[partition.topic].delete_retention_ms,
                        is_expiring=self._settings[partition.topic].is_expiring,
                    )
                    sights[partition] = Sight(facts=facts, asked_at_ms=asked_at_ms)
            return sights

        return answer


def now_ms() -> int:
    """Return the wall-clock time, to which positions are compared after a restart too."""
    return time.time_ns() // 1_000_000
