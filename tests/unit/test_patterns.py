"""Topics by pattern: what matches, in topologies, plans and the test driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from headwater import OffsetReset, Serdes, StreamsBuilder, Topology
from headwater.errors import PartitionMismatchError, TopologyError
from headwater.ids import TaskId, TopicPartition
from headwater.model.partitions import plan, topics_to_describe
from headwater.model.patterns import matching
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KStream, KTable

TEXTS = {"default.key.serde": "string", "default.value.serde": "string"}


def _counted(builder: StreamsBuilder) -> None:
    stream: KStream[Any, Any] = builder.stream(re.compile("orders-.*"))
    stream.group_by_key().count(store="counts").to_stream().map_values(str).to("out")


def test_the_whole_name_has_to_match_and_topics_of_kafka_never_do() -> None:
    existing = ["orders", "orders-a", "my-orders-a", "__orders-b", "ORDERS-c"]

    assert matching(["^orders-.*"], existing) == {"orders-a"}
    assert matching(["^(?i)orders-.*"], existing) == {"orders-a", "ORDERS-c"}
    assert matching(["^.*"], existing) == set(existing) - {"__orders-b"}
    assert matching(["orders-.*"], existing) == set(), "a name is no pattern"


def test_a_plan_has_the_topics_that_match_and_grows_with_them() -> None:
    builder = StreamsBuilder()
    _counted(builder)
    report = builder.build().report("app")
    assert "^orders-.*" in topics_to_describe(report)

    assert plan(report, {}).tasks == ()
    few = plan(report, {"orders-a": 1, "other": 7})
    more = plan(report, {"orders-a": 1, "orders-b": 2, "app-counts-changelog": 2})

    assert few.inputs == {TaskId(0, 0): (TopicPartition("orders-a", 0),)}
    assert more.inputs == {
        TaskId(0, 0): (TopicPartition("orders-a", 0), TopicPartition("orders-b", 0)),
        TaskId(0, 1): (TopicPartition("orders-b", 1),),
    }


def test_a_pattern_reads_no_topic_of_its_own_application_and_none_that_is_named() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream(re.compile("app-.*"))
    stream.group_by(lambda _key, value: value).count(store="counts")
    report = builder.build().report("app")
    existing = {"app-in": 1, "app-counts-repartition": 1, "app-counts-changelog": 1}

    assert plan(report, existing).inputs[TaskId(0, 0)] == (TopicPartition("app-in", 0),)


def test_without_a_topic_that_matches_there_is_nothing_to_run_or_make() -> None:
    builder = StreamsBuilder()
    _counted(builder)

    found = plan(builder.build().report("app"), {})

    assert (found.tasks, found.internal_topics) == ((), ())


def test_topics_of_a_pattern_are_joined_only_with_as_many_partitions() -> None:
    builder = StreamsBuilder()
    table: KTable[Any, Any] = builder.table("users", store="users")
    builder.stream(re.compile("clicks-.*")).join(table, lambda left, _: left).to("out")
    report = builder.build().report("app")

    assert plan(report, {"users": 2, "clicks-a": 2}).tasks
    with pytest.raises(PartitionMismatchError, match="clicks-b"):
        plan(report, {"users": 2, "clicks-a": 2, "clicks-b": 3})


def test_two_patterns_may_not_match_one_topic() -> None:
    topology = Topology().add_source("a", re.compile("x.*")).add_source("b", re.compile(".*y"))
    report = topology.report("app")

    assert len(plan(report, {"x": 1, "y": 1}).tasks) == 2
    with pytest.raises(TopologyError, match=r"topic xy matches two patterns, '\.\*y' and 'x\.\*'"):
        plan(report, {"xy": 1})


def _beside(topology: Topology) -> None:
    topology.add_source("s", re.compile("a"), "b")


def _of_bytes(topology: Topology) -> None:
    topology.add_source("s", re.compile(b"a"))  # type: ignore[arg-type]


def _named_before(topology: Topology) -> None:
    topology.add_source("s", "ab").add_source("t", re.compile("a."))


def _named_after(topology: Topology) -> None:
    topology.add_source("t", re.compile("a.")).add_source("s", "ab")


@pytest.mark.parametrize("draw", [_beside, _of_bytes, _named_before, _named_after])
def test_what_kafka_refuses_at_once_is_refused_at_once(draw: Callable[[Topology], None]) -> None:
    with pytest.raises(TopologyError, match="pattern"):
        draw(Topology())


def test_streams_of_one_pattern_share_a_source() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*")).to("x")
    builder.stream(re.compile("a.*")).to("y")
    builder.stream(re.compile("a.*", re.IGNORECASE)).to("z")
    topology = builder.build()
    assert [source.name for group in topology.subtopologies for source in group.sources] == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-SOURCE-0000000004",
    ]

    builder.stream(re.compile("a.*"), offset_reset=OffsetReset.LATEST).to("y")
    with pytest.raises(TopologyError, match="have two offset reset policies"):
        builder.build()


@pytest.mark.parametrize("partitions", [None, {}], ids=["one", "as on a broker"])
def test_a_driver_reads_what_matches_and_goes_on_with_its_state(partitions: Any) -> None:
    builder = StreamsBuilder()
    _counted(builder)
    driver = TopologyTestDriver(builder.build(), TEXTS, partitions=partitions)
    counts = driver.create_output_topic("out", Serdes.string, Serdes.string)

    for topic in ("orders-a", "orders-b", "orders-a"):
        driver.create_input_topic(topic).pipe_input("k", "v")

    assert counts.read_values_to_list() == ["1", "2", "3"]
    store = driver.get_key_value_store("counts")
    assert store is not None
    assert store.get("k") == 3
    with pytest.raises(ValueError, match="does not read topic 'other'"):
        driver.create_input_topic("other").pipe_input("k", "v")
    driver.close()


def test_a_record_says_from_which_topic_it_is() -> None:
    builder = StreamsBuilder()
    builder.stream(["named"]).merge(builder.stream(re.compile("orders-."))).to(
        lambda _key, _value, context: f"of-{context.topic}-{context.offset}"
    )
    driver = TopologyTestDriver(builder.build(), TEXTS)

    for topic in ("named", "orders-a", "named", "orders-a"):
        driver.create_input_topic(topic).pipe_input("k", "v")

    assert [record.topic for record in driver.history] == [
        "of-named-0", "of-orders-a-0", "of-named-1", "of-orders-a-1",
    ]  # fmt: skip
