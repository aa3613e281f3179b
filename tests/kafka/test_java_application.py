"""The Java word count, which take-over tests start beside ours, does its work."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java.tool import JavaTool
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.java]

LINES = ["The quick fox", "the LAZY dog, the end", "...", "fox"]
COUNTS = {b"the": 3, b"quick": 1, b"fox": 2, b"lazy": 1, b"dog": 1, b"end": 1}


# By a line it ends in the tests that take over from it.
@pytest.mark.parametrize("ends_by", [pytest.param("line", marks=pytest.mark.soak), "signal"])
def test_java_counts_words_and_stops_clean(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    ends_by: str,
) -> None:
    source, sink = f"{unique_name}-lines", f"{unique_name}-counts"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(source, 2), NewTopic(sink, 1)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for line in LINES:
        producer.produce(source, value=line.encode())
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": unique_name})
    consumer.assign([TopicPartition(sink, 0, OFFSET_BEGINNING)])
    seen: dict[bytes, int] = {}

    def counted() -> bool:
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                seen[message.key()] = int.from_bytes(message.value())
        return seen == COUNTS

    app = JavaTool(Path(__file__).parents[1] / "java" / "apps").start(
        "WordCountApp",
        f"application.id={unique_name}",
        f"bootstrap.servers={bootstrap_servers}",
        f"input={source}",
        f"output={sink}",
        f"state.dir={tmp_path}",
        "commit.interval.ms=100",
        "processing.guarantee=exactly_once_v2",
    )
    wait_for(counted, timeout_s=240, what=f"Java counted all words, not only {seen}")
    consumer.close()
    if ends_by == "line":
        app.stdin.write("stop\n")
        app.stdin.flush()
    else:
        app.send_signal(signal.SIGTERM)

    said, _ = app.communicate(timeout=240)

    assert "STATE REBALANCING RUNNING" in said.splitlines()
    # The state listener hears of the end in another thread, maybe after this was printed.
    assert "CLOSED" in said.splitlines()[-2:]
    assert app.returncode in {0, 128 + signal.SIGTERM}
    assert f"{unique_name}-counts-store-changelog" in admin.list_topics(timeout=60).topics
