"""Topics that have come to match a pattern while Spark runs the application."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from headwater.errors import KafkaUnavailableError
from headwater.model.partitions import external_topics
from headwater.model.patterns import with_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.spark.application import Application

log = logging.getLogger(__name__)

NEW_TOPICS_S: Final = 3.0
"""How often topics are listed; natively they are every ``metadata.max.age.ms``, or 5 s."""


class NewTopics:
    """Looks for topics that match and that no task reads.

    Args:
        application: its sources say what matches.
        asks: the broker, and does not wait for long: the driver does nothing else meanwhile.
        inputs: what tasks read.
        now_s: a clock that never goes back.
    """

    def __init__(
        self,
        application: Application,
        asks: Admin,
        inputs: Mapping[TaskId, tuple[TopicPartition, ...]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._asks = asks
        self._read = {partition.topic for found in inputs.values() for partition in found}
        self._now_s = now_s
        self._next_s = now_s() + NEW_TOPICS_S
        self.are_there = False
        """Whether the last look has found some."""

    def look(self) -> bool:
        """Look, if it is time; return whether there are some. No answer is as good as none.

        Raises:
            TopologyError: two patterns match one topic.
        """
        application = self._application
        if application.patterns and self._now_s() >= self._next_s:
            try:
                there = self._asks.matching(application.patterns)
            except KafkaUnavailableError as error:
                log.info("nobody knows which topics match: %s", error)
                there = frozenset()
            topics = external_topics(with_topics(application.report, there))
            self.are_there = any(topic in there and topic not in self._read for topic in topics)
            self._next_s = self._now_s() + NEW_TOPICS_S
        return self.are_there
