"""Native workers, tasks on Spark, DataFrames and Java leave the same of random applications.

Tasks on Spark have them once as a backfill and once continuously.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from headwater import KafkaStreams
from headwater.dsl.loading import build_topology
from headwater.model.lifecycle import ClientState
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support import drawn
from tests.support.agreement import (
    Left,
    check_changelogs,
    check_outputs,
    expected,
    is_all_read,
    left_on_kafka,
)
from tests.support.applications import FORMAT
from tests.support.backfills import Listener
from tests.support.continuous import SparkDriver
from tests.support.random_applications import draw
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from headwater.model.topology import Topology
    from headwater.spark.cluster import SparkCluster
    from tests.java.tool import Oracle
    from tests.support.applications import Application
    from tests.support.thread_rig import Topics

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.slow,
]

TOPOLOGIES = 8
RECORDS = 15
"""Of each input."""
LIMIT = 30
"""Offsets of a micro-batch: less than what waits."""
START_S = 300


class Case:
    """One application on Kafka, by several engines under names of their own."""

    def __init__(self, application: Application, topics: Topics, name: str) -> None:
        self._application = application
        self._topics = topics
        self._name = name
        self._inputs = f"{name}-"
        self._made = [self._inputs + topic for topic in application.spread]
        spread = application.spread
        for count in {one.partitions for one in spread.values()}:
            self._create(
                (self._inputs + topic for topic in spread if spread[topic].partitions == count),
                count,
            )
        self._send()
        self._topology: Topology = build_topology(application.build(self._inputs))

    def _create(self, names: Iterable[str], partitions: int = 1) -> None:
        new = [NewTopic(name, partitions, 1) for name in names]
        created = self._topics.admin.create_topics(new)
        for future in created.values():
            future.result(60)

    def _send(self) -> None:
        servers = {"bootstrap.servers": self._topics.bootstrap_servers, "log_level": 0}
        producer = Producer(servers)
        for partition, record in self._application.records:
            producer.produce(
                self._inputs + record["topic"],
                _bytes(record["value"]),
                _bytes(record["key"]),
                partition,
                timestamp=record["timestamp"],
                headers=[(name, _bytes(value)) for name, value in record.get("headers", ())],
            )
        assert producer.flush(60) == 0

    def config(self, app: str, **options: Any) -> dict[str, Any]:
        return {
            "application.id": app,
            "bootstrap.servers": self._topics.bootstrap_servers,
            **self._application.config,
            **options,
        }

    def _named(self, engine: str) -> tuple[str, str]:
        """Its application id, and how its outputs' names begin; the topics are made."""
        prefix = f"{self._name}-{engine}-"
        outputs = [prefix + topic for topic in self._application.outputs]
        self._create(outputs)
        self._made += outputs
        return f"{self._name}-{engine}-app", prefix

    def natively(self, directory: Path) -> Left:
        app, prefix = self._named("native")
        config = self.config(app, state_dir=str(directory), **{"commit.interval.ms": 200})
        with KafkaStreams(self._application.build(self._inputs, prefix), config) as streams:
            running = lambda: streams.state is ClientState.RUNNING  # noqa: E731
            wait_for(running, what="the application to run", timeout_s=240)
            wait_for(self._reader(app), what="all topics to be read", timeout_s=240, every_s=0.5)
        return self._left(app, prefix)

    def continuously(self, directory: Path) -> Left:
        """As one query of Spark, by the command that people run."""
        app, prefix = self._named("query")
        file = directory / "drawn"
        file.write_bytes(self._application.pickled(self._inputs, prefix))
        spec: dict[str, object] = {
            "applicationId": app,
            "topology": {"module": drawn.TOPOLOGY},
            "config": {name: str(value) for name, value in self._application.config.items()},
            "kafka": {"bootstrapServers": self._topics.bootstrap_servers},
            "spark": {
                "master": "local[2]",
                "triggerInterval": "100ms",
                "maxOffsetsPerTrigger": LIMIT,
                "config": {"spark.driver.memory": "1g"},
            },
        }
        document: dict[str, object] = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "drawn"},
            "spec": spec,
        }
        with SparkDriver(document, directory, **{drawn.VARIABLE: str(file)}) as driver:

            def is_ready() -> bool:
                assert driver.process.poll() is None, driver.log[-4000:]
                is_there = (driver.state_dir / "driver.json").exists()
                return is_there and driver.get("/readyz")[0] == HTTPStatus.OK

            wait_for(is_ready, what="the query to run", timeout_s=START_S, every_s=0.2)
            reader = self._reader(app)
            wait_for(
                lambda: is_ready() and reader(),
                what="all topics to be read",
                timeout_s=START_S,
                every_s=0.5,
            )
            driver.stop()
        return self._left(app, prefix)

    def _reader(self, app: str) -> Callable[[], bool]:
        """Whether all is read: whatever is committed has sent what it sends before."""
        internal = [f"{app}-{topic}" for topic in self._topology.repartition_topics]
        return partial(is_all_read, self._topics, app, [*self._made_inputs(), *internal])

    def _made_inputs(self) -> list[str]:
        return [self._inputs + topic for topic in self._application.inputs]

    def on_spark(
        self, engine: str, spark: SparkCluster, target: str, outputs: Outputs
    ) -> tuple[Left, set[int]]:
        """Also return the sub-topologies that were computed as DataFrames.

        These keep no headers in stores; changelogs are the same with and without.
        """
        formats = {FORMAT: "DEFAULT"} if target == "auto" else {}
        app, prefix = self._named(engine)
        settings = BackfillSettings(
            application=ApplicationSettings(
                config=self.config(app, **formats),
                topology=self._application.pickled(self._inputs, prefix),
            ),
            target=target,
            outputs=outputs,
        )
        report = Backfill(settings, spark, Listener()).run()
        return self._left(app, prefix), set(report.manifest.frames)

    def _left(self, app: str, prefix: str) -> Left:
        outputs = self._application.outputs
        in_java = self._application.stores
        stores = {
            name: in_java[name.removeprefix(self._inputs)]
            for name, spec in self._topology.stores.items()
            if spec.logging
        }
        # What a transaction has written is seen a moment after it is committed.
        self._topics.wait_settled(app)
        self._topics.wait_settled(prefix)
        left = left_on_kafka(self._topics.bootstrap_servers, app, stores, outputs, prefix)
        self._made += [name for name in self._topics.admin.list_topics().topics if app in name]
        return left

    def forget(self) -> None:
        """Delete its topics: a broker with thousands of them is slow."""
        for future in self._topics.admin.delete_topics(self._made).values():
            future.result(60)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.timeout(900)
@pytest.mark.seeded(20)
def test_all_engines_leave_what_java_leaves(
    seed: str,
    oracle: Oracle,
    topics: Topics,
    spark: SparkCluster,
    unique_name: str,
    tmp_path: Path,
) -> None:
    application = draw(f"{seed} by all", topologies=TOPOLOGIES, records=RECORDS)
    java = expected(application, oracle.ask)
    case = Case(application, topics, unique_name)

    native = case.natively(tmp_path)
    by_tasks, _ = case.on_spark("t1", spark, "t1", Outputs.ALL)
    by_frames, computed = case.on_spark("t2", spark, "auto", Outputs.NONE)

    for left in (native, by_tasks):
        check_changelogs(left, java)
        check_outputs(left, java)
    check_changelogs(by_frames, java)
    assert by_frames.outputs == {}
    assert computed == application.for_dataframes()
    case.forget()


@pytest.mark.timeout(900)
@pytest.mark.seeded(8)
def test_what_runs_continuously_leaves_what_java_leaves(
    seed: str, oracle: Oracle, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    """Of fewer topologies: each of its tasks costs time in every micro-batch."""
    application = draw(
        f"{seed} continuously", topologies=TOPOLOGIES // 3, records=RECORDS, has_frames=False
    )
    java = expected(application, oracle.ask)
    case = Case(application, topics, unique_name)

    left = case.continuously(tmp_path)

    check_changelogs(left, java)
    check_outputs(left, java)
    case.forget()
