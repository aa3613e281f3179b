"""What the protocol relies on at the broker: the same suite on the model and on a real broker.

A model that forgives more, or less, than Kafka would make the simulation worthless.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka import (
    TopicPartition as KafkaPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.sim.broker import (
    TRANSACTION_TIMEOUT_MS,
    ModelBroker,
    ModelProducer,
    ProducerFencedError,
)
from tests.support.waiting import wait_for

from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator


HASTY_MS = 5_000
"""Long enough to begin a transaction on a busy machine."""


class AdapterProducer(Protocol):
    """One producer with a transactional id, bound to the adapter's topic and group."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, value: str) -> None: ...

    def send_offsets(self, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Adapter(Protocol):
    """A topic with one partition and a consumer group, fresh for every test."""

    def open_producer(self, transactional_id: str) -> AdapterProducer: ...

    def open_hasty_producer(self, transactional_id: str) -> AdapterProducer:
        """Return one whose transactions may not be open for long."""
        ...

    def outlast_the_hasty(self) -> None:
        """Let so much time pass that what such a producer has begun is open for too long."""
        ...

    def read_committed(self) -> list[str]: ...

    def committed_offset(self) -> int | None: ...

    def end_offset(self) -> int: ...


class ModelAdapter:
    """The suite's view of the model broker."""

    def __init__(self) -> None:
        self.broker = ModelBroker()
        self.broker.create_topic("t", 1)
        self.partition = TopicPartition("t", 0)

    def open_producer(self, transactional_id: str) -> AdapterProducer:
        return BoundModelProducer(self, ModelProducer(self.broker, transactional_id))

    def open_hasty_producer(self, transactional_id: str) -> AdapterProducer:
        return self.open_producer(transactional_id)

    def outlast_the_hasty(self) -> None:
        self.broker.advance(self.broker.now_ms + TRANSACTION_TIMEOUT_MS + 1)

    def read_committed(self) -> list[str]:
        return [str(record.value) for record in self.broker.read_committed(self.partition, 0)[0]]

    def committed_offset(self) -> int | None:
        return self.broker.committed_offset("g", self.partition)

    def end_offset(self) -> int:
        return self.broker.end_offset(self.partition)


class BoundModelProducer:
    """A model producer bound to the adapter's topic and group."""

    def __init__(self, adapter: ModelAdapter, producer: ModelProducer) -> None:
        self.adapter = adapter
        self.producer = producer
        self.init = producer.init
        self.begin = producer.begin
        self.commit = producer.commit
        self.abort = producer.abort

    def send(self, value: str) -> None:
        self.producer.send(self.adapter.partition, None, value)

    def send_offsets(self, offset: int) -> None:
        self.producer.send_offsets("g", {self.adapter.partition: offset})


class RealAdapter:
    """The suite's view of a real broker, through confluent_kafka alone."""

    def __init__(self, bootstrap: str) -> None:
        self.config = {"bootstrap.servers": bootstrap}
        self.topic = f"contract-{uuid.uuid4().hex}"
        self.group = f"group-{uuid.uuid4().hex}"
        self.admin = AdminClient(self.config)
        self.admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)
        self.producers: list[RealProducer] = []

    def open_producer(self, transactional_id: str) -> AdapterProducer:
        # Ids are unique to the test, because the broker outlives it.
        producer = RealProducer(self, f"{self.topic}-{transactional_id}")
        self.producers.append(producer)
        return producer

    def open_hasty_producer(self, transactional_id: str) -> AdapterProducer:
        name = f"{self.topic}-{transactional_id}"
        producer = RealProducer(self, name, {"transaction.timeout.ms": HASTY_MS})
        self.producers.append(producer)
        return producer

    def outlast_the_hasty(self) -> None:
        # The broker looks for such transactions now and then.
        before = self.end_offset()
        wait_for(lambda: self.end_offset() > before, what="the marker")

    def consumer(self) -> Consumer:
        return Consumer(
            {
                **self.config,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )

    def read_committed(self) -> list[str]:
        consumer = self.consumer()
        consumer.assign([KafkaPartition(self.topic, 0, 0)])
        values = []
        try:
            while True:
                message = consumer.poll(60)
                assert message is not None, "no end of partition within 60 s"
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return values
                values.append(message.value().decode())
        finally:
            consumer.close()

    def committed_offset(self) -> int | None:
        consumer = self.consumer()
        try:
            found = consumer.committed([KafkaPartition(self.topic, 0)], timeout=30)[0]
        finally:
            consumer.close()
        return found.offset if found.offset >= 0 else None

    def end_offset(self) -> int:
        partition = KafkaPartition(self.topic, 0)
        found = self.admin.list_offsets(
            {partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
        )
        return int(found[partition].result(30).offset)

    def close(self) -> None:
        for producer in self.producers:
            producer.consumer.close()
            producer.producer.purge()
        self.producers.clear()
        self.admin.delete_topics([self.topic])[self.topic].result(30)


class RealProducer:
    """A confluent_kafka producer bound to the adapter's topic and group."""

    def __init__(
        self, adapter: RealAdapter, transactional_id: str, config: dict[str, object] | None = None
    ) -> None:
        self.adapter = adapter
        own = {"transactional.id": transactional_id, "linger.ms": 0, **(config or {})}
        self.producer = Producer({**adapter.config, **own})
        self.consumer = adapter.consumer()
        self.has_sent = False

    def _call(self, function, *arguments) -> None:
        try:
            function(*arguments)
        except KafkaException as error:
            if error.args[0].fatal() or error.args[0].name() in ("_FENCED", "_STATE"):
                raise ProducerFencedError(str(error)) from error
            raise

    def init(self) -> None:
        self._call(self.producer.init_transactions, 30)

    def begin(self) -> None:
        self._call(self.producer.begin_transaction)
        self.has_sent = False

    def send(self, value: str) -> None:
        self.has_sent = True
        self._call(self.producer.produce, self.adapter.topic, value.encode())
        self._call(self.producer.flush, 30)

    def send_offsets(self, offset: int) -> None:
        self._call(
            self.producer.send_offsets_to_transaction,
            [KafkaPartition(self.adapter.topic, 0, offset)],
            self.consumer.consumer_group_metadata(),
            30,
        )

    def commit(self) -> None:
        self._end(self.producer.commit_transaction)

    def abort(self) -> None:
        self._end(self.producer.abort_transaction)

    def _end(self, function) -> None:
        """End the transaction, and wait for its marker: the broker answers before it is written."""
        before = self.adapter.end_offset()
        self._call(function, 30)
        if self.has_sent:
            wait_for(lambda: self.adapter.end_offset() > before, what="the marker")


class BrokerContract:
    """The suite; a subclass provides the adapter."""

    @pytest.fixture
    def adapter(self) -> Iterator[Adapter]:
        raise AssertionError("a subclass provides the adapter")

    def test_a_committed_transaction_is_visible(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send("1")
        producer.send("2")
        producer.commit()

        assert adapter.read_committed() == ["1", "2"]

    def test_an_open_transaction_is_not_visible(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send("1")

        assert adapter.read_committed() == []
        assert adapter.end_offset() == 1

    def test_an_aborted_transaction_is_never_visible(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send("1")
        producer.abort()
        producer.begin()
        producer.send("2")
        producer.commit()

        assert adapter.read_committed() == ["2"]

    def test_a_transaction_ends_with_a_marker_that_takes_an_offset(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send("1")
        producer.commit()

        # A real broker writes the marker after it has answered the commit.
        wait_for(lambda: adapter.end_offset() == 2, what="the marker")

    def test_an_open_transaction_hides_what_others_commit_behind_it(self, adapter: Adapter):
        first, second = adapter.open_producer("a"), adapter.open_producer("b")
        first.init()
        second.init()
        first.begin()
        first.send("1")
        second.begin()
        second.send("2")
        second.commit()

        assert adapter.read_committed() == []
        first.commit()
        assert adapter.read_committed() == ["1", "2"]

    def test_init_aborts_what_is_open_under_the_id(self, adapter: Adapter):
        zombie = adapter.open_producer("a")
        zombie.init()
        zombie.begin()
        zombie.send("1")
        zombie.send_offsets(1)

        adapter.open_producer("a").init()

        assert adapter.end_offset() == 2
        assert adapter.read_committed() == []
        assert adapter.committed_offset() is None

    def test_init_fences_the_producer_that_had_the_id(self, adapter: Adapter):
        zombie = adapter.open_producer("a")
        zombie.init()
        zombie.begin()
        zombie.send("1")

        adapter.open_producer("a").init()

        with pytest.raises(ProducerFencedError):
            zombie.commit()
        assert adapter.read_committed() == []

    def test_a_fenced_producer_cannot_begin_anew(self, adapter: Adapter):
        zombie = adapter.open_producer("a")
        zombie.init()

        adapter.open_producer("a").init()

        with pytest.raises(ProducerFencedError):  # noqa: PT012  # where it is noticed differs, that it is does not
            zombie.begin()
            zombie.send("1")
            zombie.send_offsets(1)
            zombie.commit()
        assert adapter.read_committed() == []
        assert adapter.committed_offset() is None

    def test_a_fenced_process_that_initialises_again_can_write_again(self, adapter: Adapter):
        zombie = adapter.open_producer("a")
        zombie.init()
        successor = adapter.open_producer("a")
        successor.init()

        again = adapter.open_producer("a")
        again.init()
        again.begin()
        again.send("zombie")
        again.commit()

        assert adapter.read_committed() == ["zombie"]
        with pytest.raises(ProducerFencedError):  # noqa: PT012  # as above
            successor.begin()
            successor.send("1")
            successor.commit()

    def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(
        self, adapter: Adapter
    ):
        slow = adapter.open_hasty_producer("a")
        slow.init()
        assert adapter.committed_offset() is None  # so that the group is known
        slow.begin()
        slow.send("1")
        slow.send_offsets(7)

        adapter.outlast_the_hasty()

        assert adapter.end_offset() == 2
        assert adapter.committed_offset() is None
        other = adapter.open_producer("b")
        other.init()
        other.begin()
        other.send("2")
        other.commit()
        assert adapter.read_committed() == ["2"]
        with pytest.raises(ProducerFencedError):
            slow.commit()
        assert adapter.read_committed() == ["2"]
        assert adapter.committed_offset() is None

    def test_other_ids_are_not_fenced(self, adapter: Adapter):
        other = adapter.open_producer("b")
        other.init()
        other.begin()
        other.send("1")

        adapter.open_producer("a").init()

        other.commit()
        assert adapter.read_committed() == ["1"]

    def test_offsets_are_committed_with_the_transaction(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send("1")
        producer.send_offsets(7)
        producer.commit()

        assert adapter.committed_offset() == 7

    def test_offsets_are_dropped_with_the_transaction(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send_offsets(7)
        producer.abort()

        assert adapter.committed_offset() is None

    def test_offsets_alone_can_be_committed(self, adapter: Adapter):
        producer = adapter.open_producer("a")
        producer.init()
        producer.begin()
        producer.send_offsets(7)
        producer.commit()

        assert adapter.committed_offset() == 7
        assert adapter.end_offset() == 0


class TestModelBroker(BrokerContract):
    @pytest.fixture
    def adapter(self) -> Adapter:
        return ModelAdapter()


@pytest.mark.kafka
class TestRealBroker(BrokerContract):
    @pytest.fixture
    def adapter(self, bootstrap_servers: str) -> Iterator[Adapter]:
        adapter = RealAdapter(bootstrap_servers)
        yield adapter
        adapter.close()
