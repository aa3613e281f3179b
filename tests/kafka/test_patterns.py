"""Topics that match a pattern are read, also those that are made while the application runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import wait_for

from headwater import KafkaStreams
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka


def _counted(name: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        builder.stream(re.compile(f"{name}-orders-.*")).group_by_key().count(
            store="counts"
        ).to_stream().map_values(str).to(f"{name}-out")

    return build


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.sampled
def test_a_topic_that_is_made_while_the_application_runs_is_read(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def make(topic: str, partitions: int) -> None:
        for future in admin.create_topics([NewTopic(topic, partitions)]).values():
            future.result(60)

    make(f"{unique_name}-out", 1)
    make(f"{unique_name}-orders-a", 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique_name,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(f"{unique_name}-out", 0, OFFSET_BEGINNING)])
    seen: dict[str, str] = {}

    def send(topic: str) -> None:
        for key in "abcdefgh":
            producer.produce(f"{unique_name}-orders-{topic}", key=key, value="order")
        assert producer.flush(60) == 0

    def all_are(count: str) -> bool:
        for message in consumer.consume(100, 0.2):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                seen[key.decode()] = value.decode()
        return seen == dict.fromkeys("abcdefgh", count)

    config = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": guarantee,
        "state.dir": str(tmp_path / "state"),
        "commit.interval.ms": 100,
        "metadata.max.age.ms": 1000,
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    send("a")
    with KafkaStreams(_counted(unique_name), config) as streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
        wait_for(lambda: all_are("1"), what="the first topic", timeout_s=60)
        make(f"{unique_name}-orders-b", 2)
        send("b")
        wait_for(lambda: all_are("2"), what="a topic that was made", timeout_s=60)
        send("a")
        wait_for(lambda: all_are("3"), what="the first topic again", timeout_s=60)
    make(f"{unique_name}-orders-c", 2)
    send("c")

    with KafkaStreams(_counted(unique_name), config):
        wait_for(lambda: all_are("4"), what="a topic that was made meanwhile", timeout_s=60)
    consumer.close()
