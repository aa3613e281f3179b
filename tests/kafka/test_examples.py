"""The examples that count words do it on real Kafka, with what their StreamApps say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import wait_for

from headwater import KafkaStreams
from headwater.model.appfile import stream_apps
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
SECOND_MS = 1_000


@pytest.mark.parametrize(
    ("example", "lines", "expected"),
    [
        (
            "word_count_by_key",
            ["The quick fox", "the LAZY dog", "a fox"],
            {"quick": "1", "fox": "2", "lazy": "1", "dog": "1", "a": "1"},
        ),
        (
            "word_count_processor",
            ["all streams lead to Kafka", "hello kafka streams", "join kafka"],
            {
                "all": "1", "streams": "2", "lead": "1", "to": "1", "kafka": "3", "hello": "1",
                "join": "1",
            },
        ),
    ],
)  # fmt: skip
def test_an_example_counts_words(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    example: str,
    lines: list[str],
    expected: Mapping[str, str],
) -> None:
    file = ROOT / "examples" / example / "streamapp.yaml"
    (app,) = stream_apps(file.read_text(), file)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = {topic.name: topic.partitions for topic in app.spec.kafka.topics}
    new = [NewTopic(name, count) for name, count in topics.items()]
    for future in admin.create_topics(new).values():
        future.result(60)
    source, sink = topics
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number, line in enumerate(lines):
        # In one partition, or each task has a stream time of its own.
        producer.produce(source, value=line, partition=0, timestamp=(number + 1) * SECOND_MS)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique_name,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(sink, n, OFFSET_BEGINNING) for n in range(topics[sink])])
    counts: dict[str, str] = {}

    def all_counted() -> bool:
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                counts[message.key().decode()] = message.value().decode()
        return counts == expected

    config = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
        "processing.guarantee": app.spec.processing_guarantee,
        "commit.interval.ms": 100,
    }
    assert app.spec.topology.module is not None
    with KafkaStreams(app.spec.topology.module, config) as streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
        wait_for(all_counted, what="all counts", timeout_s=60)
    consumer.close()
