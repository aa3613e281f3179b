"""Two topics of one task, a processor with punctuation, and transactions that are not yet over."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import Producer

from headwater import KafkaStreams
from headwater.native import clients
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.backfills import PATIENCE_S, Here, Listener, records
from tests.support.dataframes import Record, natively, translated
from tests.support.mixed import INPUTS, STORES, mixed
from tests.support.thread_rig import LONG
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.spark.cluster import SparkCluster
    from headwater.spark.report import BackfillReport
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_800)]

PARTITIONS = 2
RECORDS = 120


class Inputs:
    """The topics, and applications that read them."""

    def __init__(self, topics: Topics, prefix: str) -> None:
        self.topics = topics
        self.prefix = prefix
        self._rng = random.Random(prefix)
        self._plain = self._producer()
        self._ended, self._open = (self._producer(f"{prefix}-{n}") for n in ("ended", "open"))
        for name in INPUTS:
            topics.create(f"{prefix}-{name}", PARTITIONS)

    def _producer(self, transactional_id: str = "") -> Producer:
        settings = {"bootstrap.servers": self.topics.bootstrap_servers, "log_level": 0}
        if not transactional_id:
            return Producer(settings)
        # The broker is not to end it.
        settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
        producer = Producer(settings)
        producer.init_transactions(60)
        return producer

    def _produce(self, producer: Producer, name: str, partition: int) -> None:
        rng = self._rng
        key = None if rng.random() < 0.1 else rng.choice("abcdef")
        value = None if rng.random() < 0.1 else LONG.pack(rng.randint(-9, 9))
        at = 1_000_000 + rng.randint(0, 400)
        producer.produce(f"{self.prefix}-{name}", value, key, partition, timestamp=at)

    def send(self, count: int, *names: str) -> None:
        """Nulls, ties, and times in no order."""
        for _ in range(count):
            for name in names:
                self._produce(self._plain, name, self._rng.randrange(PARTITIONS))
        assert self._plain.flush(60) == 0

    def begin(self) -> None:
        """Leave a transaction that was given up, behind it one that is open, behind it records."""
        for producer in (self._ended, self._open):
            producer.begin_transaction()
            for _ in range(5):
                self._produce(producer, "left", 0)
                self._produce(producer, "right", 1)
            assert producer.flush(60) == 0
            if producer is self._ended:
                producer.abort_transaction(60)
        self.send(20, "left", "right")

    def end(self) -> None:
        """Commit the transaction that is open."""
        self._open.commit_transaction(60)
        for name in INPUTS:
            self.topics.wait_settled(f"{self.prefix}-{name}")

    def log(self) -> dict[str, list[list[Record]]]:
        """What can be read now, if only what is committed is."""
        found: dict[str, list[list[Record]]] = {}
        for name in INPUTS:
            topic = f"{self.prefix}-{name}"
            partitions = found[topic] = [[] for _ in range(PARTITIONS)]
            for partition, *record in records(self.topics, topic):
                partitions[partition].append(Record(*record))
        return found

    def expected(self) -> dict[Any, Any]:
        """What the native engine makes of that, without Kafka.

        A driver has one stream time for all sub-topologies, so each has a driver of its own.
        """
        topology, translation = translated(mixed(self.prefix, "out"))
        found: dict[Any, Any] = {}
        for names in (INPUTS[:2], INPUTS[2:]):
            own = {f"{self.prefix}-{name}" for name in names}
            log = {
                topic: partitions if topic in own else [[] for _ in partitions]
                for topic, partitions in self.log().items()
            }
            found |= natively(topology, translation, log, PARTITIONS)
        return found

    def config(self, app: str, **options: Any) -> dict[str, Any]:
        return {
            "application.id": app,
            "bootstrap.servers": self.topics.bootstrap_servers,
            "statestore.cache.max.bytes": 0,
            "processing.guarantee": "exactly_once_v2",
            **options,
        }

    def backfill(
        self, app: str, cluster: Any, target: str, outputs: Outputs = Outputs.NONE
    ) -> BackfillReport:
        output = self.topics.create(f"{app}-out", PARTITIONS)
        topology = cloudpickle.dumps(mixed(self.prefix, output))
        settings = BackfillSettings(
            application=ApplicationSettings(topology=topology, config=self.config(app)),
            target=target,
            outputs=outputs,
        )
        return Backfill(settings, cluster, Listener()).run()

    def natively(self, app: str, directory: Path) -> KafkaStreams:
        """An application on workers."""
        config = self.config(app, state_dir=str(directory / app))
        return KafkaStreams(mixed(self.prefix, f"{app}-out"), config)

    def state(self, app: str) -> dict[Any, Any]:
        """The newest changelog record of each key."""
        found = self.topics.admin.list_topics(timeout=30).topics
        return {
            (store, partition, key): (value, at)
            for store in STORES
            if f"{app}-{store}-changelog" in found
            for partition, key, value, at in records(self.topics, f"{app}-{store}-changelog")
        }

    def sent(self, app: str) -> Counter[Any]:
        """What came out, of both tasks."""
        found = records(self.topics, f"{app}-out")
        return Counter((key, value, at) for _, key, value, at in found)

    def offsets(self, app: str) -> dict[Any, Any]:
        """By partition its offset and time."""
        return {
            (name, partition): found
            for name in INPUTS
            for partition, found in self.topics.committed_with_metadata(
                app, f"{self.prefix}-{name}", PARTITIONS
            ).items()
        }


@pytest.fixture
def inputs(topics: Topics, unique_name: str) -> Inputs:
    made = Inputs(topics, unique_name)
    made.send(RECORDS, *INPUTS)
    made.begin()
    return made


@pytest.mark.sampled
def test_workers_read_what_lies_behind_an_open_transaction(
    inputs: Inputs, spark: SparkCluster, unique_name: str, tmp_path: Path
) -> None:
    by_tasks, by_frames, native = (f"{unique_name}-{n}" for n in ("t1", "t2", "native"))
    before = inputs.expected()

    inputs.backfill(by_tasks, Here(), "t1", Outputs.ALL)
    report = inputs.backfill(by_frames, spark, "auto")

    assert report.manifest.frames == (0,)
    assert {("sums", partition, b"last ring") for partition in range(PARTITIONS)} <= before.keys()
    assert inputs.state(by_tasks) == inputs.state(by_frames) == before
    offsets = inputs.offsets(by_tasks)
    assert offsets == inputs.offsets(by_frames)
    ends = inputs.topics.ends(report.manifest.cut)
    assert {(p.topic.rsplit("-", 1)[1], p.partition): end for p, end in ends.items()} == {
        at: offset for at, (offset, _) in offsets.items()
    }

    inputs.end()
    expected = inputs.expected()
    assert expected != before
    inputs.topics.create(f"{native}-out", PARTITIONS)
    apps = (by_tasks, by_frames, native)
    running = [inputs.natively(app, tmp_path) for app in apps]
    try:
        for streams in running:
            streams.start()
        wait_for(
            lambda: all(inputs.state(app) == expected for app in apps),
            what="every record",
            timeout_s=PATIENCE_S,
            every_s=0.5,
        )
    finally:
        for streams in running:
            streams.close()
    # Each sum has been sent on once, by whomever.
    assert inputs.sent(by_tasks) == inputs.sent(native)
    assert sum(inputs.sent(native).values()) > 0


@contextmanager
def reading_what_was_given_up() -> Iterator[None]:
    """Plant it."""
    right = clients.consumer_settings

    def fault(*given: Any, **options: Any) -> dict[str, Any]:
        return {**right(*given, **options), "isolation.level": "read_uncommitted"}

    clients.consumer_settings = fault
    try:
        yield
    finally:
        clients.consumer_settings = right


def test_a_backfill_that_reads_what_was_given_up_is_seen(inputs: Inputs, unique_name: str) -> None:
    with reading_what_was_given_up():
        inputs.backfill(unique_name, Here(), "t1")

    assert inputs.state(unique_name) != inputs.expected()
