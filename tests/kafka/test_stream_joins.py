"""A join of two streams on real topics: what waits for a partner outlives its worker's disk."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.support.waiting import wait_for

from headwater import JoinWindows, KafkaStreams, Serdes
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka

TEXT: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
BOTH: Any = {**TEXT, "other_value_serde": Serdes.string}
WITHIN = JoinWindows.of_time_difference_and_grace(100, 50)


def joined(name: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        left, right = (builder.stream(f"{name}-{it}", **TEXT) for it in ("left", "right"))
        left.outer_join(right, lambda a, b: f"{a}+{b}", WITHIN, store="pairs", **BOTH).to(
            f"{name}-out", **TEXT
        )

    return build


class Sides:
    """Two topics of two partitions, and what their outer join has put out."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.name = servers, name
        self.admin = AdminClient({"bootstrap.servers": servers})
        topics = [f"{name}-{it}" for it in ("left", "right", "out")]
        for future in self.admin.create_topics([NewTopic(it, 2) for it in topics]).values():
            future.result(60)
        self._producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{name}-seen",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topics[2], n, OFFSET_BEGINNING) for n in range(2)])
        self.seen: list[tuple[str, str, int]] = []

    def send(self, side: str, key: str, value: str, timestamp: int) -> None:
        self._producer.produce(f"{self.name}-{side}", value, key, timestamp=timestamp)
        assert self._producer.flush(60) == 0

    def has_seen(self, *expected: tuple[str, str, int]) -> bool:
        for message in self._consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            self.seen.append((key.decode(), value.decode(), message.timestamp()[1]))
        return sorted(self.seen) == sorted(expected)

    def cleanup_policy(self, store: str) -> str:
        topic = ConfigResource(ResourceType.TOPIC, f"{self.name}-{store}-changelog")
        (described,) = self.admin.describe_configs([topic]).values()
        return str(described.result(60)["cleanup.policy"].value)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def sides(bootstrap_servers: str, unique_name: str) -> Iterator[Sides]:
    sides = Sides(bootstrap_servers, unique_name)
    yield sides
    sides.close()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.sampled
def test_what_waits_for_a_partner_is_restored(sides: Sides, tmp_path: Path, guarantee: str) -> None:
    config: dict[str, Any] = {
        "application.id": sides.name,
        "bootstrap.servers": sides.servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "max.task.idle.ms": 1_000,
        "state.dir": str(tmp_path / "state"),
    }

    def run(*sent: tuple[str, str, str, int], expected: list[tuple[str, str, int]]) -> None:
        with KafkaStreams(joined(sides.name), config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=120)
            for one in sent:
                sides.send(*one)
            wait_for(lambda: sides.has_seen(*expected), what=f"{expected}", timeout_s=120)

    pairs = [("a", "1+x", 1_010)]
    run(
        ("left", "a", "1", 1_000),
        ("left", "b", "2", 1_000),
        ("left", "c", "3", 1_000),
        ("right", "a", "x", 1_010),
        expected=pairs,
    )
    shutil.rmtree(tmp_path / "state")

    # One of those that wait meets its partner, the other's window passes in both partitions.
    pairs.append(("b", "2+y", 1_050))
    run(("right", "b", "y", 1_050), expected=pairs)
    pairs.append(("c", "3+None", 1_000))
    later = [("left", f"later-{n}", "-", 2_000) for n in range(10)]
    run(*later, expected=pairs)

    assert sides.cleanup_policy("pairs-outer-this-join-store") == "delete"
    assert sides.cleanup_policy("pairs-outer-shared-join-store") == "compact"
