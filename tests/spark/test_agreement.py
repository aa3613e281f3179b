"""Native workers, tasks on Spark, DataFrames and Java leave the same of random applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from headwater import KafkaStreams
from headwater.dsl.loading import build_topology
from headwater.ids import TopicPartition
from headwater.model.lifecycle import ClientState
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.agreement import (
    Left,
    check_changelogs,
    check_outputs,
    left_by_java,
    left_on_kafka,
)
from tests.support.applications import Application, draw
from tests.support.backfills import Listener
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from headwater.model.topology import Topology
    from headwater.spark.cluster import SparkCluster
    from tests.java.tool import Oracle
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]

TOPOLOGIES = 10
RECORDS = 15
"""Of each input."""


class Case:
    """One application on Kafka, by several engines under names of their own."""

    def __init__(self, application: Application, topics: Topics, name: str) -> None:
        self._application = application
        self._topics = topics
        self._name = name
        self._inputs = f"{name}-"
        self._made = [self._inputs + topic for topic in application.inputs]
        self._create(self._made)
        self._send()
        self._topology: Topology = build_topology(application.build(self._inputs))

    def _create(self, names: Iterable[str]) -> None:
        created = self._topics.admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for future in created.values():
            future.result(60)

    def _send(self) -> None:
        servers = {"bootstrap.servers": self._topics.bootstrap_servers, "log_level": 0}
        producer = Producer(servers)
        for record in self._application.request["inputs"]:
            producer.produce(
                self._inputs + record["topic"],
                _bytes(record["value"]),
                _bytes(record["key"]),
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

    def _reader(self, app: str) -> Callable[[], bool]:
        """Whether all is read, seen so often that nobody can have sent on meanwhile."""
        internal = {f"{app}-{topic}" for topic in self._topology.repartition_topics}
        read = [TopicPartition(topic, 0) for topic in (*self._made_inputs(), *sorted(internal))]
        seen = 0

        def is_read() -> bool:
            nonlocal seen
            ends = self._topics.ends(read)
            committed = {one: self._topics.committed(app, one.topic)[0] for one in read}
            is_at_end = all(committed[one] == end or not end for one, end in ends.items())
            seen = seen + 1 if is_at_end else 0
            return seen > len(internal)

        return is_read

    def _made_inputs(self) -> list[str]:
        return [self._inputs + topic for topic in self._application.inputs]

    def on_spark(
        self, engine: str, spark: SparkCluster, target: str, outputs: Outputs
    ) -> tuple[Left, set[int]]:
        """Also return the sub-topologies that were computed as DataFrames."""
        app, prefix = self._named(engine)
        settings = BackfillSettings(
            config=self.config(app),
            topology=self._application.pickled(self._inputs, prefix),
            target=target,
            outputs=outputs,
        )
        report = Backfill(settings, spark, Listener()).run()
        return self._left(app, prefix), set(report.manifest.frames)

    def _left(self, app: str, prefix: str) -> Left:
        outputs = self._application.outputs
        stores = {name: name.removeprefix(self._inputs) for name in self._topology.stores}
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
@pytest.mark.seeded(20, least=5)
def test_all_engines_leave_what_java_leaves(
    seed: str,
    oracle: Oracle,
    topics: Topics,
    spark: SparkCluster,
    unique_name: str,
    tmp_path: Path,
) -> None:
    application = draw(f"{seed} by all", topologies=TOPOLOGIES, records=RECORDS)
    java, stores = left_by_java(oracle.ask(application.request))
    assert java.stores == stores
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
