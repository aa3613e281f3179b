"""The examples do under ``headwater up`` on real Kafka what their READMEs say."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from examples.stock_market.app import STATISTICS, TRADES, build
from examples.stock_market.test_app import trades
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_for

from headwater import Serdes
from headwater.dsl.loading import build_topology
from headwater.model.appfile import stream_apps
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SECOND_MS = 1_000


class Example:
    """An example's topics on a broker, and what it puts out."""

    def __init__(self, servers: str, name: str) -> None:
        file = ROOT / "examples" / name / "streamapp.yaml"
        (app,) = stream_apps(file.read_text(), file)
        self._document = yaml.safe_load(file.read_text())
        self._servers = servers
        self.topics = {it.name: it.partitions for it in app.spec.kafka.topics}
        self._admin = AdminClient({"bootstrap.servers": servers})
        new = [NewTopic(topic, count) for topic, count in self.topics.items()]
        for future in self._admin.create_topics(new).values():
            future.result(60)
        self._producer = Producer({"bootstrap.servers": servers})
        self._consumer: Consumer | None = None

    def send(
        self, records: Sequence[tuple[str, str | None, str | bytes]], begun_s: int = 0
    ) -> None:
        """Send values to the first partition of topics, a second after each other."""
        for number, (topic, key, value) in enumerate(records):
            at = (begun_s + number + 1) * SECOND_MS
            self._producer.produce(topic, value, key, partition=0, timestamp=at)
        assert self._producer.flush(60) == 0

    def read(self, group: str) -> dict[str, str]:
        """Return texts that have come since, the last value of each key."""
        return {key.decode(): value.decode() for key, value in self.read_bytes(group).items()}

    def read_bytes(self, group: str) -> dict[bytes, bytes]:
        """Return what has come since to the last topic, the last value of each key."""
        sink = list(self.topics)[-1]
        return self.read_sinks(group, [sink])[sink]

    def read_sinks(self, group: str, sinks: Sequence[str]) -> dict[str, dict[bytes, bytes]]:
        """Return what has come since to each of some topics, the same at every call."""
        if self._consumer is None:
            settings = {"bootstrap.servers": self._servers, "group.id": f"{group}-seen"}
            self._consumer = Consumer({**settings, "isolation.level": "read_committed"})
            places = [(sink, number) for sink in sinks for number in range(self.topics[sink])]
            self._consumer.assign([TopicPartition(*it, OFFSET_BEGINNING) for it in places])
        found: dict[str, dict[bytes, bytes]] = {sink: {} for sink in sinks}
        for message in self._consumer.consume(100, 0.2):
            if message.error() is None:
                found[str(message.topic())][message.key() or b""] = message.value() or b""
        return found

    def wait_until_told(self, group: str, expected: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Wait until these topics have these keys, each with this value as its last."""
        found: dict[str, dict[bytes, bytes]] = {topic: {} for topic in expected}

        def is_told() -> bool:
            for topic, results in self.read_sinks(group, list(expected)).items():
                found[topic].update(results)
            return found == expected

        try:
            wait_for(is_told, what="the results", timeout_s=60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{found}\ninstead of\n{expected}") from error

    def committed(self, group: str) -> int:
        """How many records the application has read."""
        (described,) = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)]
        ).values()
        return sum(max(0, it.offset) for it in described.result(60).topic_partitions)

    @contextlib.contextmanager
    def running(self, application_id: str, directory: Path) -> Iterator[None]:
        """Run its StreamApp with ``headwater up``, on this broker."""
        document = self._document
        spec = document["spec"]
        spec["applicationId"] = application_id
        spec["kafka"]["bootstrapServers"] = self._servers
        spec["config"] = {**spec.get("config", {}), "commit.interval.ms": 100}
        with LocalCluster(directory, application_id) as cluster:
            cluster.up(document)
            try:
                yield
            except AssertionError as error:
                raise AssertionError(f"{error}\n{cluster.output}") from error
        if self._consumer is not None:
            self._consumer.close()


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
@pytest.mark.sampled
def test_an_example_counts_words(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    example: str,
    lines: list[str],
    expected: Mapping[str, str],
) -> None:
    example_of = Example(bootstrap_servers, example)
    source = next(iter(example_of.topics))
    # In one partition, or each task has a stream time of its own.
    sent = [(source, None, line) for line in lines]
    example_of.send(sent)
    counts: dict[str, str] = {}

    def all_counted() -> bool:
        counts.update(example_of.read(unique_name))
        return counts == expected

    with example_of.running(unique_name, tmp_path):
        wait_for(all_counted, what="all counts", timeout_s=60)


@pytest.mark.sampled
def test_clicks_meet_profiles_and_searches(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    example = Example(bootstrap_servers, "click_stream")
    found: dict[str, Any] = {}

    def is_enriched() -> bool:
        found.update({key: json.loads(value) for key, value in example.read(unique_name).items()})
        return "ann" in found

    with example.running(unique_name, tmp_path):
        example.send([("user-profiles", "ann", '{"name": "Ann"}')])
        example.send([("searches", "ann", '{"terms": "skis"}')])
        wait_for(lambda: example.committed(unique_name) == 2, what="profile and search")
        example.send([("page-views", "ann", '{"page": "/alps"}')])
        wait_for(is_enriched, what="an activity", timeout_s=60)

    assert found["ann"] == {"page": "/alps", "name": "Ann", "interests": [], "search": "skis"}


def test_orders_follow_the_changes_of_their_customers(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    example = Example(bootstrap_servers, "changed_orders")
    names: list[str] = []

    def is_renamed() -> bool:
        names.extend(
            json.loads(value)["customer_name"] for value in example.read(unique_name).values()
        )
        return names[-1:] == ["Anna"]

    with example.running(unique_name, tmp_path):
        order = '{"op": "create", "after": {"customer": "c1", "total": 5}}'
        example.send([("shop.orders", "o1", order)])
        example.send([("shop.customers", "c1", '{"op": "create", "after": {"name": "Ann"}}')])
        example.send([("shop.customers", "c1", '{"op": "update", "after": {"name": "Anna"}}')])
        wait_for(is_renamed, what="the new name", timeout_s=60)


LONG, DOUBLE = struct.Struct(">q").pack, struct.Struct(">d").pack


@pytest.mark.parametrize(
    ("example", "sent", "expected"),
    [
        (
            "five_minutes",
            [("payments", "ann", LONG(10)), ("payments", "ann", LONG(20))],
            {
                "sums-of-five-minutes": {b"ann@0": LONG(30)},
                "sums-of-sessions": {b"ann@1": LONG(30)},
            },
        ),
        (
            "daily_top_ten",
            [("article-readings", "a", b"read"), ("article-readings", "a", b"read")],
            {"daily-top-ten": {LONG(0): b'[["a",2]]'}},
        ),
    ],
)
@pytest.mark.sampled
def test_an_example_has_windows(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    example: str,
    sent: list[tuple[str, str, bytes]],
    expected: Mapping[str, Mapping[bytes, bytes]],
) -> None:
    running = Example(bootstrap_servers, example)
    running.send(sent)
    with running.running(unique_name, tmp_path):
        running.wait_until_told(unique_name, expected)


@pytest.mark.sampled
def test_real_prices_have_on_kafka_the_statistics_of_the_test_driver(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    # The rows are sorted by ticker: each eleventh one makes some ten prices of each of the five.
    prices = [(ticker, price) for ticker, price, _ in trades()[::11]][:50]
    with TopologyTestDriver(build_topology(build)) as driver:
        stocks = driver.create_input_topic(TRADES, Serdes.string, Serdes.double)
        for number, (ticker, price) in enumerate(prices):
            stocks.pipe_input(ticker, price, timestamp=(number + 1) * SECOND_MS)
        told = driver.create_output_topic(STATISTICS, Serdes.bytes, Serdes.bytes)
        expected = told.read_key_values_to_map()
    assert {key.partition(b"@")[0] for key in expected} == {
        b"MSFT", b"AMZN", b"IBM", b"GOOG", b"AAPL",
    }  # fmt: skip

    running = Example(bootstrap_servers, "stock_market")
    running.send([(TRADES, ticker, DOUBLE(price)) for ticker, price in prices])
    with running.running(unique_name, tmp_path):
        running.wait_until_told(unique_name, {STATISTICS: expected})


@pytest.mark.sampled
def test_late_reports_are_told_when_their_hour_is_closed(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    example, hour_s, found = Example(bootstrap_servers, "late_reports"), 3_600, dict[bytes, bytes]()

    def is_told() -> bool:
        # What has closed is looked for once in a second, when time goes on.
        example.send([("device-reports", "watch", LONG(1))], begun_s=13 * hour_s)
        found.update(example.read_bytes(unique_name))
        return found == {b"phone@0": LONG(150)}

    with example.running(unique_name, tmp_path):
        example.send([("device-reports", "phone", LONG(100))])
        example.send([("device-reports", "watch", LONG(7))], begun_s=12 * hour_s)
        example.send([("device-reports", "phone", LONG(50))])
        wait_for(lambda: example.committed(unique_name) == 3, what="three reports")
        wait_for(is_told, what="the hour", timeout_s=60)
