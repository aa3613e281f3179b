"""A table whose topic is its changelog: nothing is logged, and its store is restored from there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import wait_for

from headwater import KafkaStreams, Serdes, Stores, StreamsBuilder
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import ProcessorContext, Record, Topology

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


SETTER = '''
import os
from pathlib import Path

from headwater import RocksDBConfigSetter


class Noting(RocksDBConfigSetter):
    """Sets an option, and notes what it was asked for."""

    def set_config(self, store_name, options, configs):
        options.set_max_open_files(50)
        with Path(os.environ["NOTES"]).open("a") as notes:
            notes.write(f"opened {store_name}\\n")

    def close(self, store_name, options):
        pass
'''


def _looked_up(users: str, clicks: str, out: str) -> Callable[[], Topology]:
    def build() -> Topology:
        def keep(record: Record[str, str], context: ProcessorContext[Any, Any]) -> None:
            context.get_state_store("users").put(record.key, record.value)

        def find(record: Record[str, str], context: ProcessorContext[Any, Any]) -> Any:
            user = context.get_state_store("users").get(record.key)
            return record.with_value(f"{record.value} by {user}")

        builder = StreamsBuilder()
        builder.stream(clicks).process(find, name="find").to(out)
        topology = builder.build()
        store = Stores.key_value_store_builder(
            Stores.persistent_key_value_store("users"), Serdes.string, Serdes.string
        )
        topology.add_read_only_state_store(store, "from", users, "keep", keep)
        return topology.connect_processor_and_state_stores("find", "users")

    return build


def test_a_read_only_store_is_filled_from_its_topic_with_the_options_of_the_application(
    broker: Broker,
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / f"setter_{unique_name.replace('-', '_')}.py").write_text(SETTER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "commit.interval.ms": 100,
        "state.dir": str(tmp_path / "state"),
        "rocksdb.config.setter": f"setter_{unique_name.replace('-', '_')}:Noting",
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    build = _looked_up(broker.users, broker.clicks, broker.out)

    def run(sent: dict[str, dict[str, str]], expected: dict[str, list[str]]) -> None:
        with KafkaStreams(build, config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
            for topic, values in sent.items():
                broker.send(topic, **values)
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")

    broker.send(broker.users, a="Ann", b="Bob")
    run({broker.clicks: {"c": "first"}}, {"c": ["first by None"]})
    shutil.rmtree(tmp_path / "state")
    run(
        {broker.clicks: {"a": "click", "b": "click"}},
        {"a": ["click by Ann"], "b": ["click by Bob"], "c": ["first by None"]},
    )

    assert "opened users" in (tmp_path / "notes").read_text()
    topics = broker.admin.list_topics(timeout=60).topics
    assert not [one for one in topics if one.startswith(unique_name) and one.endswith("-changelog")]
