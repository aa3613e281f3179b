"""Are the topics that a StreamThread uses still there, and still the same? The client never says.

librdkafka goes on waiting for an assigned topic that was deleted. So we ask, without waiting for
the answer: every few seconds, and more often while no broker answers, which also finds out when
one does again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import ChangelogLostError, KafkaUnavailableError, MissingTopicError
from headwater.model import losses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headwater.errors import EnvironmentProblemError
    from headwater.kafka.admin import Admin
    from headwater.kafka.errors import Connection
    from headwater.kafka.topics import TopicDescription

_INTERVAL_S: Final = 5.0
_INTERVAL_LOST_S: Final = 1.0
_MISSING_ANSWERS: Final = 2
"""A broker that has just started may not know all topics yet: believe the second answer."""


class Advice(NamedTuple):
    """What an error says of a topic that is gone, behind the topic's name."""

    deleted: str
    made_anew: str


_OF_TASKS: Final = Advice(
    "was deleted while the application uses it; create it again, or take it out of the topology, "
    "and reset the application",
    "was deleted and created again: the committed offsets belong to the old one; reset the "
    "application",
)


class TopicWatch:
    """Compares the topics on the broker with those that were opened.

    Args:
        admin: asked about them.
        connection: told when a broker answers, asked whether one is lost.
        advice: what to do about a topic that is gone.
    """

    def __init__(self, admin: Admin, connection: Connection, advice: Advice = _OF_TASKS) -> None:
        self._advice = advice
        self._admin = admin
        self._connection = connection
        self._ids: Mapping[str, str] = {}
        self._answer: Callable[[], dict[str, TopicDescription] | None] | None = None
        self._changelogs: frozenset[str] = frozenset()
        self._patterns: frozenset[str] = frozenset()
        self._asked: Mapping[str, str] = {}
        self._due = 0.0
        self._missing: dict[str, int] = {}

    def watch(
        self,
        topic_ids: Mapping[str, str],
        changelogs: Collection[str] = (),
        patterns: Collection[str] = (),
    ) -> None:
        """Watch these topics from now on, and no others.

        Args:
            topic_ids: their UUIDs.
            changelogs: those of them with which the state would be lost.
            patterns: topics that match are looked for, too.
        """
        self._patterns = frozenset(patterns)
        self._ids = dict(topic_ids)
        self._changelogs = frozenset(changelogs)
        self._missing.clear()
        self._due = time.monotonic() + _INTERVAL_S

    def check(self) -> Mapping[str, int]:
        """Look at the answer if there is one, and ask if it is time. Never waits.

        Returns:
            how many partitions each topic has, if that was answered just now; else nothing.

        Raises:
            ChangelogLostError: a changelog was deleted, or deleted and created again.
            MissingTopicError: another topic was.
        """
        if self._answer is not None:
            found = self._answer()
            if found is not None:
                self._answer = None
                self._compare(found)
                return {name: topic.partitions for name, topic in found.items()}
        elif self._ids and time.monotonic() >= self._due:
            lost = self._connection.lost_for_s > 0
            self._due = time.monotonic() + (_INTERVAL_LOST_S if lost else _INTERVAL_S)
            self._asked = self._ids
            self._answer = self._admin.describe_topics_later({*self._ids, *self._matching()})
        return {}

    def _matching(self) -> Collection[str]:
        """Return the topics that match a pattern; this waits for a broker, for a moment."""
        try:
            is_there = self._connection.lost_for_s == 0
            return self._admin.matching(self._patterns) if self._patterns and is_there else ()
        except KafkaUnavailableError:
            return ()  # the look-up that follows says so, too

    def _compare(self, found: Mapping[str, TopicDescription]) -> None:
        if not any(description.topic_id for description in found.values()) and found:
            return  # every look-up failed: nobody answered
        self._connection.answered()
        for topic, topic_id in self._asked.items():
            if topic not in self._ids:
                continue
            description = found.get(topic)
            if description is None:
                self._missing[topic] = self._missing.get(topic, 0) + 1
                self._due = min(self._due, time.monotonic() + _INTERVAL_LOST_S)
                if self._missing[topic] >= _MISSING_ANSWERS:
                    raise self._gone(topic, self._advice.deleted, is_there_again=False)
            elif description.topic_id not in {"", topic_id}:
                raise self._gone(topic, self._advice.made_anew, is_there_again=True)
            else:
                self._missing.pop(topic, None)

    def _gone(self, topic: str, what: str, *, is_there_again: bool) -> EnvironmentProblemError:
        if topic in self._changelogs:
            return ChangelogLostError(losses.deleted(topic, is_there_again=is_there_again))
        return MissingTopicError(f"topic {topic} {what}")
