"""The programs of docs/feeding.md, on a real broker."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.creating import create_known
from tests.support.reading import held

from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

INPUT, OUTPUT = "TextLinesTopic", "WordsWithCountsTopic"


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A Kafka of its own: the names of the topics are those of the page."""
    with KafkaBroker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        create_known(admin, NewTopic(INPUT, 2, 1), NewTopic(OUTPUT, 2, 1))
        yield running.bootstrap_servers


def run(program: str, servers: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.word_count.{program}", *arguments],
        env={**os.environ, "KAFKA": servers},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled
def test_lines_are_fed(broker: str) -> None:
    said = run("feed", broker, "all streams lead to Kafka", "all roads lead to Rome")

    assert said == "2 lines are written\n"
    assert sorted(message.value() or b"" for message in held(broker, INPUT)) == [
        b"all roads lead to Rome",
        b"all streams lead to Kafka",
    ]


def test_counts_are_read_to_the_end(broker: str) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for count in (1, 2):
        producer.produce(OUTPUT, struct.pack(">q", count), b"lead")
    assert producer.flush(60) == 0

    assert run("read", broker).splitlines() == ["lead 1", "lead 2"]
