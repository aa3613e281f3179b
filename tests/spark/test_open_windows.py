"""A backfill's cut in the midst of open windows and joins: workers go on as if they had begun.

At the cut a tumbling window is held back by a suppression, sessions and windows that two streams
share are open, records of a join of streams wait for a partner, and others for late updates of a
versioned table. Orders are joined with customers by a foreign key. Processors keep two stores, and
the values of one of them have headers, of each record its own.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import Producer

from headwater import (
    BufferConfig,
    Joined,
    JoinWindows,
    KafkaStreams,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    Suppressed,
    TimeWindows,
    Windowed,
)
from headwater.dsl.loading import build_topology
from headwater.model.stores import StoreKind
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.agreement import (
    Expected,
    Left,
    check_changelogs,
    check_outputs,
    is_all_read,
    left_on_kafka,
)
from tests.support.applications import Order
from tests.support.backfills import PATIENCE_S, Here, Listener, settings_of
from tests.support.contents import is_shared_by_sides, without_number
from tests.support.random_applications import today_ms
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StoreSpec, StreamsBuilder
    from headwater.spark.cluster import SparkCluster
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
INPUTS = ("clicks", "views", "orders", "customers", "prices")
OUTPUTS = ("closed", "visits", "met", "bought", "priced", "shared", "changed", "headed")
OPEN = ("held", "sessions", "waiting", "subscribed", "late", "shared", "changed", "headed")
"""Stores that hold at the cut what comes out behind it."""
KEYS = ("ann", "bob", "eve")


def build_on(builder: StreamsBuilder, inputs: str, outputs: str) -> None:
    """Draw the application; topics have these prefixes, stores have none."""
    clicks = builder.stream(f"{inputs}clicks", **TEXTS)
    views = builder.stream(f"{inputs}views", **TEXTS)
    orders = builder.table(f"{inputs}orders", store="orders", **TEXTS)
    customers = builder.table(f"{inputs}customers", store="customers", **TEXTS)
    by_user = clicks.group_by_key(**TEXTS)
    by_user.windowed_by(TimeWindows.of(size=1_000, grace=200)).count(store="windows").suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held")
    ).to_stream(_named).map_values(str).to(f"{outputs}closed", **TEXTS)
    sessions = SessionWindows.of(inactivity_gap=1_500, grace=200)
    by_user.windowed_by(sessions).count(store="sessions").to_stream(_named).map_values(str).to(
        f"{outputs}visits", **TEXTS
    )
    within = JoinWindows.of(before=100, after=100, grace=500)
    views.left_join(
        clicks, _both, within, store="met", other_value_serde=Serdes.string, **TEXTS
    ).to(f"{outputs}met", **TEXTS)
    orders.left_join(
        customers, _customer, _both, name="bought", store="bought", **TEXTS
    ).to_stream().to(f"{outputs}bought", **TEXTS)
    _wait_and_share(builder, clicks, views, inputs, outputs)


def _wait_and_share(
    builder: StreamsBuilder, clicks: Any, views: Any, inputs: str, outputs: str
) -> None:
    prices = builder.table(f"{inputs}prices", store="prices", history_retention=2_000, **TEXTS)
    views.join(prices, _both, Joined(name="priced", grace=700, **TEXTS)).to(
        f"{outputs}priced", **TEXTS
    )
    windows = TimeWindows.of(size=1_000, grace=200)
    clicks.group_by_key(**TEXTS).cogroup(_appended).cogroup(
        views.group_by_key(**TEXTS), _appended
    ).windowed_by(windows).aggregate(str, store="shared", retention=1_000_000, **TEXTS).to_stream(
        _named
    ).to(f"{outputs}shared", **TEXTS)
    last = Stores.persistent_timestamped_key_value_store("changed")
    kept = Stores.timestamped_key_value_store_builder(last, Serdes.string, Serdes.string)
    clicks.process(Changes, kept).to(f"{outputs}changed", **TEXTS)
    last = Stores.persistent_timestamped_key_value_store_with_headers("headed")
    kept = Stores.timestamped_key_value_store_with_headers_builder(
        last, Serdes.string, Serdes.string
    )
    clicks.process(Headed, kept).to(f"{outputs}headed", **TEXTS)


class Changes(Processor[str, str, str, str]):
    """Forwards what a key had, and what it has now."""

    def init(self, context: Any) -> None:
        """Find the store."""
        super().init(context)
        self._store = context.get_state_store("changed")

    def process(self, record: Record[str, str]) -> None:
        """Keep the value in place of the one before."""
        before = self._store.get(record.key)
        self._store.put(record.key, record.value, record.timestamp)
        self.context.forward(record.with_value(f"{before and before.value}>{record.value}"))


class Headed(Processor[str, str, str, str]):
    """Forwards the value that a key had, with the headers of its record."""

    def process(self, record: Record[str, str]) -> None:
        """Keep value and headers in place of those before."""
        store = self.context.get_state_store("headed")
        before = store.get(record.key)
        store.put(record.key, record.value, record.timestamp, record.headers)
        if before is not None:
            shown = [f"{name}={(value or b'').decode()}" for name, value in before.headers or ()]
            self.context.forward(record.with_value(f"{before.value} {shown}"))


def _named(windowed: Windowed[str], _value: Any) -> str:
    return f"{windowed.key}@{windowed.window.start_ms}"


def _appended(_key: str, value: str, before: str) -> str:
    return before + value


def _both(one: str, other: str | None) -> str:
    return f"{one}+{other}"


def _customer(order: str) -> str:
    return order.split("/", maxsplit=1)[0]


class Story:
    """Records in two parts, and applications that read them."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.topics, self.name = topics, name
        self._random = Random(7)
        self._now = self._begun = today_ms()
        self._sent = 0
        self._producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
        for topic in INPUTS:
            topics.create(f"{name}-{topic}")

    @property
    def stores(self) -> dict[str, StoreSpec]:
        return dict(build_topology(partial(build_on, inputs="", outputs="")).stores)

    def send(self, records: int) -> None:
        """Send more records, no two of one time; some are late. Later on, few orders change."""
        orders = 7 if self._now == self._begun else 2
        choose = self._random.choice
        for number in range(records):
            topic, key = choose(INPUTS), choose(KEYS)
            self._sent += 1
            value: str | None = f"{topic[0]}{self._sent}"
            if topic == "orders":
                key, value = (
                    f"order-{number % orders}",
                    choose((None, f"{choose(KEYS)}/{self._sent}")),
                )
            self._now += self._random.randint(10, 120)
            late = choose((0, 0, 0, 150, 400)) if topic in {"clicks", "views"} else 0
            count = len(INPUTS)
            timestamp = (self._now - late) // count * count + INPUTS.index(topic)
            self._producer.produce(
                f"{self.name}-{topic}",
                value,
                key,
                0,
                timestamp=timestamp,
                headers=[("sent", str(self._sent).encode())],
            )
        assert self._producer.flush(60) == 0

    def told(self, engine: str) -> tuple[str, dict[str, Any], Any]:
        """Application id, configuration and topology of one engine's application."""
        app = f"{self.name}-{engine}"
        config = {
            "application.id": app,
            "bootstrap.servers": self.topics.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
            "default.key.serde": "string",
            "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
        }
        build = partial(build_on, inputs=f"{self.name}-", outputs=f"{app}-out-")
        return app, config, build

    def make_outputs(self, engine: str) -> None:
        for topic in OUTPUTS:
            self.topics.create(f"{self.name}-{engine}-out-{topic}")

    def backfill(self, engine: str, cluster: Any) -> None:
        _, config, build = self.told(engine)
        settings = settings_of(
            topology=cloudpickle.dumps(build), config=config, outputs=Outputs.ALL
        )
        Backfill(settings, cluster, Listener()).run()

    def go_on(self, engine: str, directory: Path) -> None:
        app, config, build = self.told(engine)
        internal = [f"{app}-{topic}" for topic in build_topology(build).repartition_topics]
        names = [*(f"{self.name}-{topic}" for topic in INPUTS), *internal]
        with KafkaStreams(build, {**config, "state.dir": str(directory / engine)}):
            wait_for(
                partial(is_all_read, self.topics, app, names),
                what="all topics to be read",
                timeout_s=PATIENCE_S,
                every_s=0.2,
            )

    def left(self, engine: str) -> Left:
        app = f"{self.name}-{engine}"
        self.topics.wait_settled(app)
        servers, prefix = self.topics.bootstrap_servers, f"{app}-out-"
        return left_on_kafka(servers, app, self.stores, OUTPUTS, prefix)

    def forget_open(self, engine: str) -> None:
        """Plant a fault of each kind: what is open in a store gets lost."""
        app, left, stores = f"{self.name}-{engine}", self.left(engine), self.stores
        for store in map(self.named, OPEN):
            for (name, key), (value, _) in left.changelogs.items():
                if name == store and value is not None:
                    topic = f"{app}-{stores[name].name}-changelog"
                    self._producer.produce(topic, None, bytes.fromhex(key), 0)
        assert self._producer.flush(60) == 0

    def named(self, what: str) -> str:
        """Return the name of the store of one sort, or that is called so."""
        sorts: dict[str, Callable[[StoreSpec], bool]] = {
            "held": lambda spec: spec.kind.is_buffer,
            "waiting": is_shared_by_sides,
            "subscribed": lambda spec: spec.kind == StoreKind.SUBSCRIPTIONS,
            "late": lambda spec: spec.kind.holds_records,
        }
        if what not in sorts:
            return what
        (name,) = (name for name, spec in self.stores.items() if sorts[what](spec))
        return name


@pytest.fixture
def story(topics: Topics, unique_name: str) -> Story:
    return Story(topics, unique_name)


def differences(story: Story, left: Left, wanted: Left) -> set[str]:
    """Return the topics and stores that are not as wanted."""
    subscribed = story.named("subscribed")
    orders = {topic: Order.LAST if topic == "bought" else Order.BY_TASK for topic in OUTPUTS}
    found = set()
    for topic in OUTPUTS:
        ours, theirs = Left(), Left()
        ours.outputs[topic], theirs.outputs[topic] = left.outputs[topic], wanted.outputs[topic]
        assert theirs.outputs[topic], topic
        try:
            check_outputs(ours, Expected((theirs,), orders=orders))
        except AssertionError:
            found.add(topic)
    for store in story.stores:
        ours, theirs = (of_store(it, story.stores[store]) for it in (left, wanted))
        eventual = frozenset({subscribed, "bought"})
        try:
            check_changelogs(ours, Expected((theirs,), eventual=eventual))
        except AssertionError as error:
            logging.getLogger(__name__).warning("%s: %s", store, str(error)[:2000])
            found.add(store)
    return found


def of_store(left: Left, spec: StoreSpec) -> Left:
    """Return what is left of one store; those of one time and key are numbered from 0.

    Where their numbers go on after a restart is not determined.
    """
    found: dict[tuple[str, str], Any] = {}
    seen: Counter[str] = Counter()
    for (name, key), entry in sorted(left.changelogs.items()):
        if name == spec.name:
            is_numbered = spec.retain_duplicates or spec.kind.holds_records
            window = without_number(key) if is_numbered else key
            found[name, f"{window}-{seen[window]}"] = entry
            seen[window] += 1
    return Left(changelogs=found, places=dict.fromkeys(found, 0))


def check_open(story: Story, left: Left) -> None:
    """See that the cut lies in the midst of each."""
    for what in OPEN:
        store = story.named(what)
        assert any(name == store for name, _ in left.stores), what


@pytest.mark.spark
@pytest.mark.sampled
def test_workers_go_on_exactly_in_the_midst_of_windows_and_joins(
    story: Story, spark: SparkCluster, tmp_path: Path
) -> None:
    for engine in ("workers", "both"):
        story.make_outputs(engine)
    story.send(150)
    story.backfill("both", spark)
    check_open(story, story.left("both"))

    story.send(150)
    story.go_on("both", tmp_path)
    story.go_on("workers", tmp_path)

    assert differences(story, story.left("both"), story.left("workers")) == set()


@pytest.mark.sampled
def test_whatever_is_lost_at_the_cut_is_seen(story: Story, tmp_path: Path) -> None:
    for engine in ("workers", "both"):
        story.make_outputs(engine)
    story.send(150)
    story.backfill("both", Here())
    story.forget_open("both")

    story.send(150)
    story.go_on("both", tmp_path)
    story.go_on("workers", tmp_path)

    found = differences(story, story.left("both"), story.left("workers"))
    assert found >= {*OUTPUTS, story.named("subscribed")}
