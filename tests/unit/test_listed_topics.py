"""Topics that a StreamApp lists are created before anything runs, on whatever Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.model.cluster import Lease, StreamWorker, WorkerSpec, WorkerStatus, make_epoch
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    Duty,
    DutyResult,
    GroupDescribed,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.model.streamapp import StreamApp, TopicSpec, parse
from headwater.model.streamapp_kafka import listed_topics
from headwater.model.topics import SubtopologyReport, TopologyReport
from headwater_operator.actions import WriteWorkerSpec
from headwater_operator.decide import Memory, Observed, ProcessState, WorkerView, decide
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import observe
from headwater_operator.local.records import AppRecord
from headwater_operator.manifests.effective import effective
from headwater_operator.manifests.settings import Installation

if TYPE_CHECKING:
    from pathlib import Path

REPORT = TopologyReport(
    hash="h",
    subtopologies=(SubtopologyReport(id=0, source_topics=("in",), sink_topics=("out",)),),
)


def app(**kafka: object) -> StreamApp:
    topics = [
        {"name": "in", "partitions": 4, "config": {"retention.ms": -1}},
        {"name": "out", "partitions": 2},
    ]
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "app"},
            "spec": {"topology": {"module": "app:build"}, "kafka": {"topics": topics, **kafka}},
        }
    )


class World:
    """One worker that answers every duty from the topics that exist."""

    def __init__(self, streamapp: StreamApp, existing: dict[str, int]) -> None:
        spec = streamapp.spec
        self.app = replace(streamapp, spec=replace(spec, kafka=spec.kafka.settled(None)))
        self.topics = dict(existing)
        self.created: list[CreateTopics] = []
        self.memory = Memory()
        self.warnings: tuple[str, ...] = ()
        self.now_ms = 0
        spec = WorkerSpec(app="app", epoch=make_epoch(1, 1), slots=(0,))
        status = WorkerStatus(incarnation="i", topology=REPORT)
        self.worker = StreamWorker(name="app-w-0", spec=spec, status=status)

    def turn(self) -> None:
        view = WorkerView(
            worker=self.worker,
            process=ProcessState.RUNNING,
            lease=Lease(worker="app-w-0", holder="i", renewals=self.now_ms),
        )
        observed = Observed(app=self.app, generation=1, workers=(view,))
        decision = decide(observed, self.memory, self.now_ms)
        self.memory, self.warnings = decision.memory, decision.warnings
        for action in decision.actions:
            assert isinstance(action, WriteWorkerSpec)
            results = tuple(self.answer(duty) for duty in action.spec.duties)
            status = replace(
                self.worker.status,
                acknowledged_epoch=action.spec.epoch,
                duty_results=results,
            )
            self.worker = replace(self.worker, spec=action.spec, status=status)
        self.now_ms += 1_000

    def answer(self, duty: Duty) -> DutyResult:
        match duty:
            case DescribeTopics():
                known = {name: self.topics[name] for name in duty.topics if name in self.topics}
                return TopicsDescribed(id=duty.id, partitions=known)
            case CreateTopics():
                self.created.append(duty)
                self.topics |= {topic.name: topic.partitions for topic in duty.topics}
                counts = {topic.name: self.topics[topic.name] for topic in duty.topics}
                return TopicsCreated(id=duty.id, partitions=counts)
            case DescribeGroup():
                return GroupDescribed(id=duty.id)
            case _:
                raise AssertionError(duty)


def run(world: World) -> None:
    for _ in range(8):
        world.turn()


def test_missing_listed_topics_are_created_as_listed_before_tasks_are_granted() -> None:
    world = World(app(), {})

    run(world)

    assert [[topic.name for topic in duty.topics] for duty in world.created] == [["in", "out"]]
    assert dict(world.created[0].topics[0].configs) == {"retention.ms": "-1"}
    assert [str(task) for task in world.worker.spec.active] == ["0_0", "0_1", "0_2", "0_3"]


@pytest.mark.parametrize("existing", [{"in": 3, "out": 1}, {"in": 3, "out": 1, "other": 9}])
def test_existing_topics_are_left_as_they_are(existing: dict[str, int]) -> None:
    world = World(app(), existing)

    run(world)

    assert world.created == []
    assert len(world.worker.spec.active) == 3


def test_topics_are_created_on_a_broker_that_the_user_names() -> None:
    world = World(app(bootstrapServers="broker:9092"), {})

    run(world)

    assert [[topic.name for topic in duty.topics] for duty in world.created] == [["in", "out"]]
    assert len(world.worker.spec.active) == 4


def test_a_topic_with_other_partitions_than_listed_is_named_and_runs() -> None:
    world = World(app(bootstrapServers="broker:9092"), {"in": 3, "out": 2})

    run(world)

    [said] = world.warnings
    assert "topic in has 3 partitions, and spec.kafka.topics lists 4" in said
    assert len(world.worker.spec.active) == 3


def test_a_topic_that_is_listed_while_tasks_run_is_created_at_once() -> None:
    first = app()
    world = World(first, {})
    run(world)
    topics = (*first.spec.kafka.topics, TopicSpec(name="more", partitions=5))
    kafka = replace(first.spec.kafka, topics=topics)
    world.app = replace(first, spec=replace(first.spec, kafka=kafka))

    for _ in range(40):
        world.turn()

    assert world.topics["more"] == 5
    assert len(world.worker.spec.active) == 4


def test_a_listed_topic_that_vanishes_under_running_tasks_is_not_made_anew() -> None:
    world = World(app(), {})
    run(world)
    del world.topics["in"]

    for _ in range(40):
        world.turn()

    assert "in" not in world.topics


def test_a_cluster_goes_by_the_listed_topics_whoever_names_the_kafka() -> None:
    installation = Installation(worker_image="i:1", bootstrap_servers="broker:9092")

    ours = effective(app(), installation, None)
    theirs = effective(app(bootstrapServers="other:9092"), installation, None)

    assert ours.spec.kafka.bootstrap_servers == "broker:9092"
    assert theirs.spec.kafka.bootstrap_servers == "other:9092"
    assert [topic.name for topic in listed_topics(ours.spec.kafka)] == ["in", "out"]
    assert listed_topics(theirs.spec.kafka) == listed_topics(ours.spec.kafka)


def test_one_machine_goes_by_the_listed_topics_whoever_names_the_kafka(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path).app("app")

    ours, theirs = (
        observe(directory, AppRecord(app=each), generation=1)
        for each in (app(), app(bootstrapServers="other:9092"))
    )

    assert [topic.name for topic in listed_topics(ours.app.spec.kafka)] == ["in", "out"]
    assert listed_topics(theirs.app.spec.kafka) == listed_topics(ours.app.spec.kafka)
