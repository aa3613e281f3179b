"""Topics by pattern, and how far back topics are read, by a backfill and continuously on Spark."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

from headwater import AutoOffsetReset, KafkaStreams, Serdes
from headwater.errors import BackfillError
from headwater.spark.backfill import Backfill
from tests.support import drawn
from tests.support.backfills import PATIENCE_S, Here, Listener, settings_of
from tests.support.continuous import START_S, SparkDriver
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.spark.work import TaskDone, TaskWork
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_800)]

KEYS = "abcdefgh"
HOUR_MS = 3_600_000
TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}


def build_on(builder: StreamsBuilder, name: str) -> None:
    """Count what comes from any topic of orders, and pass on what comes from others."""
    orders = builder.stream(re.compile(f"{name}-orders-.*"), **TEXTS)
    orders.group_by_key(**TEXTS).count(store="counts", key_serde=Serdes.string)
    notes: Any = builder.stream(re.compile(f"{name}-notes-.*"), **TEXTS)
    notes.group_by_key(**TEXTS).count(store="notes", key_serde=Serdes.string)


def recent(builder: StreamsBuilder, name: str) -> None:
    """Count what is not older than an hour, of one topic by the application's own policy."""
    policy = AutoOffsetReset.by_duration(timedelta(hours=1))
    orders = builder.stream(re.compile(f"{name}-orders-.*"), offset_reset=policy, **TEXTS)
    orders.group_by_key(**TEXTS).count(store="counts", key_serde=Serdes.string)
    notes = builder.stream(f"{name}-notes", **TEXTS)
    notes.group_by_key(**TEXTS).count(store="notes", key_serde=Serdes.string)


def config_of(topics: Topics, app: str, **options: Any) -> dict[str, Any]:
    return {
        "application.id": app,
        "bootstrap.servers": topics.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
        "metadata.max.age.ms": 1_000,
        "auto.offset.reset": "earliest",
        **options,
    }


def send(topics: Topics, topic: str, *, age_ms: int = 0) -> None:
    """Send one record of each key."""
    now_ms = time.time_ns() // 1_000_000
    topics.send(topic, [(key, "x") for key in KEYS], timestamp_ms=now_ms - age_ms)


def counted(topics: Topics, app: str, store: str = "counts") -> Counter[str]:
    topic = f"{app}-{store}-changelog"
    if topic not in topics.admin.list_topics(timeout=30).topics:
        return Counter()
    return Counter(topics.counts(topic))


def of_each(count: int) -> Counter[str]:
    return Counter(dict.fromkeys(KEYS, count))


class Meanwhile(Here):
    """Before the first task runs, something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self._happens = happens

    def run(self, works: Sequence[TaskWork]) -> list[TaskDone]:
        if not self.works:
            self._happens()
        return super().run(works)


def test_a_backfill_reads_what_matches_when_it_begins(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    name = unique_name
    for topic in ("orders-a", "orders-b"):
        send(topics, topics.create(f"{name}-{topic}", 2))

    def another_comes() -> None:
        send(topics, topics.create(f"{name}-orders-c", 2))
        raise BackfillError("the driver is interrupted")

    build = partial(build_on, name=name)
    settings = settings_of(
        topology=cloudpickle.dumps(build), config=config_of(topics, name), target="auto"
    )
    with pytest.raises(BackfillError, match="interrupted"):
        Backfill(settings, Meanwhile(another_comes), Listener()).run()
    report = Backfill(settings, Here(), Listener()).run()

    assert {p.topic for p in report.manifest.cut} == {f"{name}-orders-a", f"{name}-orders-b"}
    assert counted(topics, name) == of_each(2)
    with KafkaStreams(build, config_of(topics, name, **{"state.dir": str(tmp_path)})):
        wait_for(
            lambda: counted(topics, name) == of_each(3),
            what="workers to read the topic that came",
            timeout_s=PATIENCE_S,
        )


@pytest.mark.parametrize(("since", "orders", "notes"), [(None, 1, 1), ("beginning", 2, 2)])
def test_a_backfill_looks_back_as_far_as_the_reset_says(
    topics: Topics, unique_name: str, since: str | None, orders: int, notes: int
) -> None:
    name = unique_name
    for topic in ("orders-a", "notes"):
        topics.create(f"{name}-{topic}", 2)
        for hours in (2, 0):
            send(topics, f"{name}-{topic}", age_ms=hours * HOUR_MS)

    build = cloudpickle.dumps(partial(recent, name=name))
    config = config_of(topics, name, **{"auto.offset.reset": "by_duration:PT1H"})
    Backfill(settings_of(topology=build, config=config, since=since), Here(), Listener()).run()

    assert counted(topics, name) == of_each(orders)
    assert counted(topics, name, "notes") == of_each(notes)


class Running(SparkDriver):
    """``headwater spark`` of a topology that is in a file."""

    def __init__(
        self, topics: Topics, app: str, build: Callable[[StreamsBuilder], None], directory: Path
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "drawn"
        file.write_bytes(cloudpickle.dumps(build))
        spec: dict[str, object] = {
            "applicationId": app,
            "topology": {"module": drawn.TOPOLOGY},
            "config": {"auto.offset.reset": "by_duration:PT1H"},
            "kafka": {"bootstrapServers": topics.bootstrap_servers},
            "spark": {
                "master": "local[2]",
                "triggerInterval": "100ms",
                "config": {"spark.driver.memory": "1g"},
            },
        }
        document: dict[str, object] = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "matching"},
            "spec": spec,
        }
        super().__init__(document, directory, **{drawn.VARIABLE: str(file)})

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        def found() -> object:
            assert self.process.poll() is None, self.log[-4000:]
            return condition()

        wait_for(found, what=what, timeout_s=START_S, every_s=0.2)

    def is_ready(self) -> bool:
        is_there = (self.state_dir / "driver.json").exists()
        return is_there and self.get("/readyz")[0] == HTTPStatus.OK


@pytest.mark.spark
@pytest.mark.sampled
def test_topics_that_come_are_read_while_spark_runs(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    """One for a task that runs, and one for tasks that there were not."""
    name = unique_name
    send(topics, topics.create(f"{name}-orders-a", 2), age_ms=2 * HOUR_MS)
    send(topics, f"{name}-orders-a")

    with Running(topics, name, partial(build_on, name=name), tmp_path) as driver:
        # By duration: of what is there, the last hour.
        driver.wait_for(lambda: counted(topics, name) == of_each(1), "the first topic")
        driver.wait_for(driver.is_ready, "the driver to be ready")
        topics.create(f"{name}-orders-b", 2)
        topics.create(f"{name}-notes-a", 1)
        for topic in ("orders-b", "notes-a"):
            send(topics, f"{name}-{topic}", age_ms=2 * HOUR_MS)
            send(topics, f"{name}-{topic}")
        driver.wait_for(lambda: counted(topics, name) == of_each(2), "a topic that came")
        driver.wait_for(
            lambda: counted(topics, name, "notes") == of_each(1), "what no task has read"
        )
        send(topics, f"{name}-orders-a")
        driver.wait_for(lambda: counted(topics, name) == of_each(3), "the first topic again")
        assert driver.is_ready()
        driver.stop()
