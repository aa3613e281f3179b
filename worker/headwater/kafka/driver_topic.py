"""The small topic in which drivers say what they do: manifests of backfills, engine records."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import HeadwaterError, KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.settings import consumer_settings, producer_settings
from headwater.kafka.small_topic import SmallTopic
from headwater.model.backfill import manifest_topic
from headwater.model.engine import driver_transactional_id
from headwater.model.topics import InternalTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.kafka.access import Access
    from headwater.kafka.admin import Admin
    from headwater.ports import PartitionOffsets

_READ_S: Final = 30.0
_POLL_S: Final = 0.005
_FETCH_MS: Final = 5
"""Whoever reads up to the end hears of it when the fetch behind it ends."""
_TOPIC_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
ENGINE_KEY: Final = b"engine"
MANIFEST_KEY: Final = b"manifest"


class DriverTopic:
    """The small topic of manifests and engine records.

    Args:
        access: to the broker; asked whether there is such a topic, and where it ends.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self.partition = TopicPartition(manifest_topic(access.config.application_id), 0)
        """Its only one."""

    def read(self) -> dict[bytes, bytes]:
        """Return the newest value of each key, read to the topic's end; empty without the topic.

        What stands in an open transaction is not said yet.

        Raises:
            KafkaUnavailableError: it cannot be read.
        """
        access, topic = self._access, self.partition.topic
        if topic not in access.admin.describe_topics([topic]):
            return {}
        settings = consumer_settings(
            access.config,
            access.connection,
            client_id=f"{access.client_id}-manifest",
            role="global",
        )
        settings["fetch.wait.max.ms"] = _FETCH_MS
        consumer = PartitionConsumer(settings, access.connection)
        small = SmallTopic(self.partition, access.admin, consumer)
        try:
            records = small.read_on(_READ_S, committed_only=True)
        finally:
            small.close()
        newest = {key: value for _, _, key, value, _ in records if key is not None}
        return {key: value for key, value in newest.items() if value is not None}


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Offsets to be committed in a group."""

    group: str
    offsets: Sequence[PartitionOffsets]


def _nothing() -> None:
    """Nothing is to be looked at."""


class DriverVoice:
    """Writes to the small topic, each record in a transaction, unless another driver has come.

    Making one fences the driver before; what is read afterwards is what that one has written.

    Args:
        access: to the broker; creates the topic.

    Raises:
        KafkaUnavailableError: nobody answered.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._timeout_s = access.config.request_timeout_ms / 1000
        self._partition = TopicPartition(manifest_topic(access.config.application_id), 0)
        topic = self._partition.topic
        _create(topic, access.admin, self._timeout_s)
        self._producer = StreamsProducer(
            producer_settings(
                access.config,
                access.connection,
                client_id=f"{access.client_id}-manifest-producer",
                transactional_id=driver_transactional_id(access.config.application_id),
            ),
            access.connection,
        )
        self._send = self._producer.sender(topic)
        self._producer.init_transactions(self._timeout_s)

    def write(
        self,
        key: bytes,
        value: bytes,
        *,
        offsets: GroupOffsets | None = None,
        last_look: Callable[[], None] = _nothing,
    ) -> None:
        """Write a record, and commit offsets with it; both count when this returns, or neither.

        Args:
            key: of the record.
            value: its value.
            offsets: committed in the same transaction: a driver that is fenced commits none.
            last_look: called before the transaction is committed, while whoever asks for the
                offsets has to wait; what it raises ends the transaction.

        Raises:
            FencedError: another driver has taken over; nothing was written.
            KafkaUnavailableError: nobody answered; whether it was written is unknown.
        """
        producer = self._producer
        producer.begin()
        try:
            self._send(key, value, time.time_ns() // 1_000_000, None, 0)
            if offsets is not None:
                member = self._nobody(offsets.group)
                producer.add_offsets(offsets.offsets, member, self._timeout_s)
            producer.flush(self._timeout_s)
            last_look()
        except HeadwaterError:
            producer.abort_transaction(self._timeout_s)
            raise
        producer.commit_transaction(self._timeout_s)
        self._wait_until_seen()

    def _nobody(self, group: str) -> Any:
        """Return what names a group to the broker, of which this client is no member."""
        access = self._access
        settings = consumer_settings(
            access.config, access.connection, client_id=f"{access.client_id}-group", group=group
        )
        consumer = PartitionConsumer(settings, access.connection)
        try:
            return consumer.group_metadata
        finally:
            consumer.close()

    def _wait_until_seen(self) -> None:
        """A transaction counts as committed before its marker is there: only then it is read."""
        deadline = time.monotonic() + self._timeout_s
        admin, wanted = self._access.admin, [self._partition]
        while admin.end_offsets(wanted, committed_only=True) != admin.end_offsets(wanted):
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"what was written to {self._partition.topic} cannot be read; see the broker's "
                    "log, then try again"
                )
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Release the client."""
        self._producer.discard()


def _create(topic: str, admin: Admin, timeout_s: float) -> None:
    admin.create_topics([InternalTopic(name=topic, partitions=1, configs=_TOPIC_CONFIG)])
    deadline = time.monotonic() + timeout_s
    # A broker that has just accepted a topic may not have heard of it from its controller yet.
    while topic not in admin.describe_topics([topic]):
        if time.monotonic() > deadline:
            raise KafkaUnavailableError(
                f"the broker does not show {topic} although it created it; see its log"
            )
        time.sleep(_POLL_S)
