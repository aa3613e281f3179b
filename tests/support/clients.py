"""The clients of one application on a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from headwater.config import StreamsConfig
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.kafka.admin import Admin
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import Connection
from headwater.kafka.native_clients import new_consumer, new_producer
from headwater.kafka.native_module import native
from headwater.kafka.settings import (
    admin_settings,
    batch_records,
    consumer_settings,
    producer_settings,
)
from headwater.model.topics import InternalTopic
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from headwater.kafka.producer import StreamsProducer

Reader = TypeVar("Reader", bound=PartitionConsumer)


class Clients:
    """Clients of one application."""

    def __init__(self, bootstrap_servers: str, application_id: str, **settings: Any) -> None:
        self.config = StreamsConfig.parse(
            {
                "application.id": application_id,
                "bootstrap.servers": bootstrap_servers,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.connection = Connection(bootstrap_servers)
        self.admin = Admin(
            admin_settings(self.config, self.connection, client_id="admin"), self.connection
        )
        self.access = Access(
            config=self.config, connection=self.connection, admin=self.admin, client_id="test"
        )
        self.native = native(self.config.headwater_native)
        """Records take this path in C, if it is one, but those of global consumers."""
        self.topic = application_id
        self.first = TopicPartition(self.topic, 0)
        self.second = TopicPartition(self.topic, 1)

    def create(self, **configs: str) -> None:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([InternalTopic(name=self.topic, partitions=2, configs=settings)])
        wait_for(lambda: self.topic in self.admin.describe_topics([self.topic]), what="the topic")

    def consumer(
        self,
        role: str = "main",
        kind: type[Reader] = PartitionConsumer,  # type: ignore[assignment]
        **options: Any,
    ) -> Reader:
        if kind is PartitionConsumer and role in {"main", "restore"}:
            kind = new_consumer(self.native)  # type: ignore[assignment]
        return kind(
            consumer_settings(self.config, self.connection, client_id="consumer", role=role),
            self.connection,
            batch_records=batch_records(self.config),
            **options,
        )

    def producer(self, *, slot: int | None = None, **options: Any) -> StreamsProducer:
        return new_producer(self.native)(
            producer_settings(
                self.config,
                self.connection,
                client_id="producer",
                transactional_id=None if slot is None else f"{self.topic}-w-{slot}",
            ),
            self.connection,
            **options,
        )

    def transactional(self, slot: int = 0) -> StreamsProducer:
        producer = self.producer(slot=slot)
        producer.init_transactions(30)
        producer.begin()
        return producer
