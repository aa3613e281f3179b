"""A table whose topic is its changelog: nothing is logged, and its store is restored from there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import wait_for

from headwater import KafkaStreams, Serdes
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka


class Broker:
    """Three topics of two partitions, and what lies in the one that is written."""

    def __init__(self, servers: str, name: str) -> None:
        self.users, self.clicks, self.out = (f"{name}-{it}" for it in ("users", "clicks", "out"))
        self.admin = AdminClient({"bootstrap.servers": servers})
        new = [NewTopic(topic, 2) for topic in (self.users, self.clicks, self.out)]
        for future in self.admin.create_topics(new).values():
            future.result(60)
        self._producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(self.out, n, OFFSET_BEGINNING) for n in range(2)])
        self.seen: dict[str, list[str]] = {}

    def send(self, topic: str, **values: str) -> None:
        for key, value in values.items():
            self._producer.produce(topic, key=key, value=value)
        assert self._producer.flush(60) == 0

    def has_seen(self, **expected: list[str]) -> bool:
        for message in self._consumer.consume(100, 0.2):
            if message.error() is None:
                self.seen.setdefault(message.key().decode(), []).append(message.value().decode())
        return self.seen == expected

    def close(self) -> None:
        self._consumer.close()


def _joined(users: str, clicks: str, out: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        table = builder.table(
            users, store="users", key_serde=Serdes.string, value_serde=Serdes.string
        )
        table.to_stream().map_values(lambda user: f"is {user}").to(out)
        builder.stream(clicks, key_serde=Serdes.string, value_serde=Serdes.string).join(
            table, lambda click, user: f"{click} by {user}"
        ).to(out)

    return build


@pytest.fixture
def broker(bootstrap_servers: str, unique_name: str) -> Iterator[Broker]:
    broker = Broker(bootstrap_servers, unique_name)
    yield broker
    broker.close()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_store_is_restored_from_its_source_topic_up_to_what_was_committed(
    broker: Broker, bootstrap_servers: str, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "state.dir": str(tmp_path / "state"),
        "topology.optimization": "all",
        "default.key.serde": "string",
        "default.value.serde": "string",
    }

    build = _joined(broker.users, broker.clicks, broker.out)

    def run(*, sent: dict[str, dict[str, str]], expected: dict[str, list[str]]) -> None:
        with KafkaStreams(build, config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
            for topic, values in sent.items():
                broker.send(topic, **values)
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")

    broker.send(broker.users, a="Ann", b="Bob")
    run(sent={}, expected={"a": ["is Ann"], "b": ["is Bob"]})
    shutil.rmtree(tmp_path / "state")
    broker.send(broker.users, a="Amy")

    run(
        sent={},
        expected={"a": ["is Ann", "is Amy"], "b": ["is Bob"]},
    )
    run(
        sent={broker.clicks: {"a": "click", "b": "click"}},
        expected={
            "a": ["is Ann", "is Amy", "click by Amy"],
            "b": ["is Bob", "click by Bob"],
        },
    )

    topics = broker.admin.list_topics(timeout=60).topics
    assert not [topic for topic in topics if topic.startswith(f"{unique_name}-users-")]
