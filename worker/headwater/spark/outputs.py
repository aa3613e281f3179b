"""Which records of a backfill reach Kafka: always what makes state, outputs only if wanted."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from headwater.spark.latest import waiting_sender

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.ids import TopicPartition
    from headwater.ports import Headers, OnRefused, RecordCollector, Send


class Outputs(StrEnum):
    """What a backfill writes to topics that are not the application's own."""

    NONE = "none"
    """Nothing: the outputs were made long ago, or nobody wants them."""
    LATEST = "latest"
    """Of each task the last record of a key and topic, at the cut (``latest``)."""
    ALL = "all"
    """Every record, once, as a worker would have written it."""


class ChosenOutputs:
    """Passes on what is wanted of what a task sends (a ``RecordCollector``).

    Repartition topics, changelogs and dead letters are always written.

    Args:
        target: sends.
        internal: topics of the application itself, by the broker's names.
        outputs: whether other topics are written.
        waiting: where outputs wait of which only the last are written.
    """

    def __init__(
        self,
        target: RecordCollector,
        *,
        internal: Collection[str],
        outputs: Outputs,
        waiting: TopicPartition | None = None,
    ) -> None:
        self._target = target
        self._internal = internal
        self._outputs = outputs
        self._waiting = waiting
        self._dead_letters: list[Callable[[], int]] = []

    @property
    def dead_letters(self) -> int:
        """How many records were sent that no sink and no store has sent."""
        return sum(count() for count in self._dead_letters)

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that sends to ``topic``, or drops what is not wanted."""
        if topic in self._internal:
            return self._target.sender(topic, on_refused)
        if on_refused is None:
            # Only sinks ask a handler about a refusal, so this is where dead letters go.
            return self._counted(self._target.sender(topic))
        if self._outputs is Outputs.LATEST and self._waiting is not None:
            send = self._target.sender(self._waiting.topic)
            return waiting_sender(send, topic, self._waiting.partition)
        return self._target.sender(topic, on_refused) if self._outputs is Outputs.ALL else _drop

    def _counted(self, send: Send) -> Send:
        count = 0

        def counted(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            nonlocal count
            count += 1
            send(key, value, timestamp, headers, partition)

        self._dead_letters.append(lambda: count)
        return counted

    def partitions(self, topic: str) -> int:
        """Return how many partitions ``topic`` has."""
        return self._target.partitions(topic)


def _drop(
    _key: bytes | None,
    _value: bytes | None,
    _timestamp: int,
    _headers: Headers,
    _partition: int | None,
) -> None:
    """Take an output that nobody wants."""
