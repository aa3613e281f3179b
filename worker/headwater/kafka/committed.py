"""Reads a group's committed offsets, stable ones only.

A consumer asks, not the admin client: while a coordinator moves or starts, librdkafka 2.16 crashes
the process in the admin's request. A consumer that reads committed records asks for stable offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headwater.ids import TopicPartition
from headwater.kafka.errors import MISSING, NOT_ALLOWED, Refusals, error_of
from headwater.wire.offset_metadata import without_remains

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.kafka.errors import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for one partition."""

    offset: int
    metadata: str


class CommittedReader:
    """Asks for the committed offsets of one group; to be closed.

    Args:
        settings: of any client of the application.
        connection: tells a broker that is away from one that holds the answer back.
        group: whose offsets.
    """

    def __init__(self, settings: Mapping[str, Any], connection: Connection, group: str) -> None:
        self._connection = connection
        self._consumer = Consumer(
            {
                **settings,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )

    def read(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets; a partition without one is not in the answer.

        Raises:
            KafkaException: UNSTABLE_OFFSET_COMMIT while a transaction holds one back; or as the
                client says.
            KafkaAuthError: a topic may not be read.
        """
        wanted = [ClientPartition(p.topic, p.partition) for p in partitions]
        try:
            answers = self._consumer.committed(wanted, timeout=timeout_s)
        except KafkaException as error:
            if (refused := self._refusal()) is not None:
                raise KafkaException(refused) from error
            # The client asks again by itself while a transaction holds offsets back.
            timed_out = error_of(error).code() == KafkaError._TIMED_OUT  # noqa: SLF001
            if timed_out and not self._connection.lost_for_s:
                raise KafkaException(KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)) from error
            raise
        found = {}
        with Refusals("looking up the committed offsets of", "Read") as refusals:
            for answer in answers:
                if answer.error is not None and answer.error.code() not in MISSING:
                    refusals.note(answer.topic, KafkaException(answer.error))
        for answer in answers:
            if answer.offset >= 0:
                partition = TopicPartition(answer.topic, answer.partition)
                found[partition] = CommittedOffset(
                    offset=answer.offset, metadata=metadata_of(answer)
                )
        return found

    def _refusal(self) -> KafkaError | None:
        """Why no coordinator answered, if it is that we may not ask: told as an event, not here."""
        while (message := self._consumer.poll(0.1)) is not None:
            error = message.error()
            if error is not None and error.code() in NOT_ALLOWED:
                return error
        return None

    def close(self) -> None:
        """Release the connections."""
        self._consumer.close()


def metadata_of(answer: ClientPartition) -> str:
    """Return the text beside an offset, without the bytes that the client may give behind it."""
    try:
        text = answer.metadata or ""
    except UnicodeDecodeError as error:
        text = error.object.decode("latin-1")
    return without_remains(text)
