"""A join by foreign key, and a suppression of its results, on real topics: natively and by Spark.

The two sub-topologies feed each other, so a backfill computes them in passes. What waits in the
buffer when the application ends is found again by whoever goes on.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import Producer

from headwater import BufferConfig, ClientState, KafkaStreams, Serdes, Suppressed
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.backfills import PATIENCE_S, Here, Listener, records, settings_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.spark.cluster import SparkCluster
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_800)]

TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
CUSTOMERS = ("ann", "bob", "eve", "nobody")
LATER_MS = 10_000_000


def build_on(builder: StreamsBuilder, prefix: str) -> None:
    """Join orders with their customers, and tell of each order what it has been for a while."""
    orders = builder.table(f"{prefix}-orders", **TEXTS)
    customers = builder.table(f"{prefix}-customers", **TEXTS)
    orders.left_join(
        customers,
        lambda order: order.split("/")[0] or None,
        lambda order, customer: f"{order}+{customer}",
        name="bought",
        store="joined",
        **TEXTS,
    ).suppress(
        Suppressed.until_time_limit(100_000, BufferConfig.unbounded()).with_name("calm")
    ).to_stream().to(f"{prefix}-out", **TEXTS)


class Shop:
    """Orders and customers on topics of one test."""

    def __init__(self, topics: Topics, prefix: str) -> None:
        self.topics, self.prefix = topics, prefix
        self.orders: dict[str, str | None] = {}
        self.customers: dict[str, str | None] = {}
        self._random = Random(prefix)
        self._now = 1_000_000
        self._producer = Producer(
            {"bootstrap.servers": topics.bootstrap_servers, "partitioner": "murmur2_random"}
        )
        for topic, partitions in (("orders", 2), ("customers", 3), ("out", 2)):
            topics.create(f"{prefix}-{topic}", partitions)

    @property
    def build(self) -> Callable[[StreamsBuilder], None]:
        prefix = self.prefix
        return lambda builder: build_on(builder, prefix)

    def config(self, app: str, **options: Any) -> dict[str, Any]:
        return {
            "application.id": app,
            "bootstrap.servers": self.topics.bootstrap_servers,
            "commit.interval.ms": 200,
            "processing.guarantee": "exactly_once_v2",
            # With a cache a customer that comes and goes between two flushes stays with an order
            # that asked in between, as in Java: tests/oracle/test_joins.py.
            "statestore.cache.max.bytes": 0,
            **options,
        }

    def update(self, count: int) -> None:
        """Send random updates of both tables."""
        choose = self._random.choice
        for number in range(count):
            if self._random.random() < 0.3:
                customer = choose(CUSTOMERS[:-1])
                value = choose((None, f"{customer.upper()}-{number}", f"{customer}-{number}"))
                self._put(self.customers, "customers", customer, value)
            else:
                value = choose((None, f"{choose(CUSTOMERS)}/{number}", f"/{number}"))
                self._put(self.orders, "orders", f"order-{number % 17}", value)
        assert self._producer.flush(60) == 0

    def pass_time(self) -> None:
        """Let everything go that waits, in every task; these orders themselves wait."""
        self._now += LATER_MS
        for number in range(20):
            self._put(self.orders, "orders", f"later-{number}", f"nobody/{self._now}")
        assert self._producer.flush(60) == 0

    def _put(self, table: dict[str, Any], topic: str, key: str, value: str | None) -> None:
        self._now += 7
        table[key] = value
        self._producer.produce(f"{self.prefix}-{topic}", value, key, timestamp=self._now)

    def expected(self) -> dict[str, str]:
        return {
            key: f"{order}+{self.customers.get(order.split('/')[0])}"
            for key, order in self.orders.items()
            if order is not None
        }

    def joined(self, app: str) -> dict[str, str]:
        """What the changelog of the join holds."""
        return self._last(f"{app}-joined-changelog")

    def told(self) -> dict[str, str]:
        """What was told last of each order, but for those that let time pass."""
        return self._but_later(self._last(f"{self.prefix}-out"))

    def expected_told(self) -> dict[str, str]:
        return self._but_later(self.expected())

    @staticmethod
    def _but_later(rows: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in rows.items() if not key.startswith("later")}

    def _last(self, topic: str) -> dict[str, str]:
        if topic not in self.topics.admin.list_topics(timeout=30).topics:
            return {}
        found = {key: value for _, key, value, _ in records(self.topics, topic)}
        return {k.decode(): v.decode() for k, v in found.items() if k is not None and v is not None}


@pytest.fixture
def shop(topics: Topics, unique_name: str) -> Shop:
    return Shop(topics, unique_name)


def go_on(shop: Shop, app: str, directory: Path) -> None:
    with KafkaStreams(shop.build, shop.config(app, **{"state.dir": str(directory)})) as streams:

        def is_joined() -> bool:
            assert streams.state is not ClientState.ERROR
            return shop.joined(app) == shop.expected()

        try:
            wait_for(is_joined, what="every order with its customer", timeout_s=PATIENCE_S)
        except AssertionError:
            assert shop.joined(app) == shop.expected()  # says what is wrong
            raise


@pytest.mark.sampled
def test_workers_join_and_find_again_what_waited(
    shop: Shop, unique_name: str, tmp_path: Path
) -> None:
    shop.update(300)
    go_on(shop, unique_name, tmp_path)
    assert shop.told() == {}

    shop.update(100)
    shop.pass_time()
    go_on(shop, unique_name, tmp_path)

    assert shop.told() == shop.expected_told()


@pytest.mark.sampled
def test_a_backfill_computes_both_sides_in_passes_and_workers_go_on(
    shop: Shop, unique_name: str, tmp_path: Path
) -> None:
    prefix = shop.prefix
    _backfilled(shop, unique_name, Here(), cloudpickle.dumps(lambda b: build_on(b, prefix)))

    shop.update(50)
    shop.pass_time()
    go_on(shop, unique_name, tmp_path)

    assert shop.told() == shop.expected_told()


@pytest.mark.spark
@pytest.mark.sampled
def test_spark_computes_it_as_well(shop: Shop, unique_name: str, spark: SparkCluster) -> None:
    prefix = shop.prefix
    _backfilled(shop, unique_name, spark, cloudpickle.dumps(lambda b: build_on(b, prefix)))


def _backfilled(shop: Shop, app: str, cluster: Any, topology: Any) -> None:
    shop.update(300)
    settings = settings_of(
        topology=topology, config=shop.config(app), outputs=Outputs.ALL, slice_records=40
    )

    report = Backfill(settings, cluster, Listener()).run()

    assert report.manifest.frames == ()
    assert shop.joined(app) == shop.expected()
