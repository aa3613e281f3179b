"""The Kafka clients of one StreamThread, made from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.ids import SlotId
from headwater.kafka.admin import Admin
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import Connection
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.settings import (
    admin_settings,
    batch_records,
    consumer_settings,
    producer_settings,
)

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.native.messages import ChildSettings


class ThreadClients:
    """A consumer, a producer and an admin client that share what they know of the broker.

    Args:
        settings: whose they are.
        config: the application's.

    Attributes:
        connection: whether a broker answers.
        admin: topics, offsets, purges.
        producer: idempotent, or transactional with the slot's id.
        consumer: reads the tasks' input; names the group.
    """

    def __init__(self, settings: ChildSettings, config: StreamsConfig) -> None:
        slot = SlotId(settings.worker, settings.slot)
        self._config = config
        self._client_id = f"{config.client_id or config.application_id}-{slot}"
        self.connection = Connection(config.bootstrap_servers)
        self.admin = Admin(
            admin_settings(config, self.connection, client_id=f"{self._client_id}-admin"),
            self.connection,
            timeout_s=config.request_timeout_ms / 1000,
        )
        exactly_once = config.exactly_once
        self.producer = StreamsProducer(
            producer_settings(
                config,
                self.connection,
                client_id=f"{self._client_id}-producer",
                transactional_id=(
                    slot.transactional_id(config.application_id) if exactly_once else None
                ),
            ),
            self.connection,
            block_s=config.task_timeout_ms / 1000,
        )
        self.consumer = PartitionConsumer(
            consumer_settings(config, self.connection, client_id=f"{self._client_id}-consumer"),
            self.connection,
            batch_records=batch_records(config),
        )

    def restore_consumer(self) -> PartitionConsumer:
        """Make a consumer for changelogs; whoever asked closes it."""
        settings = consumer_settings(
            self._config,
            self.connection,
            client_id=f"{self._client_id}-restore-consumer",
            role="restore",
        )
        return PartitionConsumer(settings, self.connection)
