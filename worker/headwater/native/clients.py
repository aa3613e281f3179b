"""The Kafka clients of whoever drives StreamTasks: one StreamThread, or one task on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from headwater.kafka.access import Access
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.native_clients import new_consumer, new_producer
from headwater.kafka.settings import (
    batch_records,
    consumer_settings,
    producer_settings,
)
from headwater.kafka.statistics import ClientStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.config import StreamsConfig
    from headwater.kafka.native_module import Native

Reader = TypeVar("Reader", bound=PartitionConsumer)


class TaskClients(Generic[Reader]):
    """A consumer, a producer and an admin client that share what they know of the broker.

    Args:
        config: the application's.
        name: shown in the broker's logs, behind the application's.
        transactional_id: of the producer; ``None`` under at-least-once.
        group: where offsets are committed; the application's own if not given.
        reader: makes the consumer.
        native: what the producer sends and a restore reads with, if not with Python's clients.

    Attributes:
        access: the admin client, and what further clients are made with.
        connection: whether a broker answers.
        admin: topics, offsets, purges.
        native: as given.
        producer: idempotent, or transactional with the id.
        consumer: reads the tasks' input; names the group.
        statistics: what the two tell of themselves, if ``statistics.interval.ms`` asks for it.
    """

    def __init__(
        self,
        config: StreamsConfig,
        *,
        name: str,
        transactional_id: str | None,
        group: str | None = None,
        reader: Callable[..., Reader],
        native: Native | None = None,
    ) -> None:
        self.native = native
        client_id = f"{config.client_id or config.application_id}-{name}"
        access = self.access = Access.of(
            config, client_id=client_id, timeout_s=config.request_timeout_ms / 1000
        )
        self.connection = access.connection
        self.admin = access.admin
        self.statistics = {kind: ClientStatistics() for kind in ("consumer", "producer")}
        settings = producer_settings(
            config,
            self.connection,
            client_id=f"{client_id}-producer",
            transactional_id=transactional_id,
        )
        self.producer = new_producer(native)(
            self.statistics["producer"].settings(settings),
            self.connection,
            block_s=config.task_timeout_ms / 1000,
        )
        settings = consumer_settings(
            config, self.connection, client_id=f"{client_id}-consumer", group=group
        )
        self.consumer = reader(
            self.statistics["consumer"].settings(settings),
            self.connection,
            batch_records=batch_records(config),
        )

    def restore_consumer(self) -> PartitionConsumer:
        """Make a consumer for changelogs; whoever asked closes it."""
        settings = consumer_settings(
            self.access.config,
            self.connection,
            client_id=f"{self.access.client_id}-restore-consumer",
            role="restore",
        )
        return new_consumer(self.native)(settings, self.connection)

    def global_consumer(self) -> PartitionConsumer:
        """Make a consumer for the topics of global stores; whoever asked closes it."""
        return global_consumer(self.access)

    def close(self) -> None:
        """Throw away what was not sent, and leave the broker."""
        self.producer.discard()
        self.consumer.close()


def global_consumer(access: Access) -> PartitionConsumer:
    """Make a consumer for the topics of global stores; whoever asked closes it."""
    settings = consumer_settings(
        access.config,
        access.connection,
        client_id=f"{access.client_id}-global-consumer",
        role="global",
    )
    return PartitionConsumer(settings, access.connection, hands_on=True)
