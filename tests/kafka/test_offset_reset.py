"""A source without a committed offset starts at records of the last while (KIP-1106)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import wait_for

from headwater import AutoOffsetReset, KafkaStreams
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000


def _copied(name: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        own = AutoOffsetReset.by_duration(3 * HOUR_MS)
        builder.stream(f"{name}-by-default").merge(
            builder.stream(f"{name}-by-itself", offset_reset=own)
        ).merge(builder.stream(f"{name}-old")).to(f"{name}-out")

    return build


def test_records_of_a_duration_are_read_by_source_and_by_default(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    topics = [f"{unique_name}-{it}" for it in ("by-default", "by-itself", "old", "out")]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for topic, hours in ((topics[0], (4, 2, 0.5)), (topics[1], (4, 2, 0.5)), (topics[2], (4, 2))):
        for age in hours:
            producer.produce(
                topic, value=f"{topic}, {age} hours", timestamp=now_ms - int(age * HOUR_MS)
            )
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": unique_name})
    consumer.assign([TopicPartition(topics[3], 0, OFFSET_BEGINNING)])
    seen: set[str] = set()
    expected = {
        f"{topics[0]}, 0.5 hours",
        f"{topics[1]}, 2 hours",
        f"{topics[1]}, 0.5 hours",
        f"{topics[2]}, now",
    }

    def has_seen() -> bool:
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                seen.add(message.value().decode())
        return seen >= expected

    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "auto.offset.reset": "by_duration:PT1H",
        "commit.interval.ms": 100,
        "default.key.serde": "string",
        "default.value.serde": "string",
        "state.dir": str(tmp_path / "state"),
    }
    with KafkaStreams(_copied(unique_name), config) as streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
        producer.produce(topics[2], value=f"{topics[2]}, now")
        assert producer.flush(60) == 0
        wait_for(has_seen, what="what is not too old", timeout_s=60)
    consumer.close()

    assert seen == expected
