"""Global tables and stores: what a topology says of them, and who may do what with them."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import (
    Consumed,
    DeserializationError,
    GlobalKTable,
    Processor,
    Record,
    Serdes,
    StateError,
    StoreKind,
    StoreSpec,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from headwater.cli.diagram import mermaid
from headwater.cli.svg import svg
from headwater.testing import TopologyTestDriver

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
CONFIG = {"default.key.serde": "string", "default.value.serde": "string"}
KEPT = StoreSpec(name="kept", kind=StoreKind.KEY_VALUE, **STRINGS)


class Keep(Processor[str, str, Any, Any]):
    """Puts upper-case values into the store."""

    def init(self, context: Any) -> None:
        self.store = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value and record.value.upper())


def _by_hand() -> Topology:
    topology = Topology().add_global_store(KEPT, "source", "glob", "keeper", Keep, **STRINGS)
    return topology.add_source("in", "in").add_sink("out", "out", "in")


def test_a_global_sub_topology_has_a_number_and_no_tasks() -> None:
    topology = _by_hand()

    assert [group.id for group in topology.subtopologies] == [1]
    assert [group.id for group in topology.global_subtopologies] == [0]
    report = topology.report("app")
    assert [group.id for group in report.subtopologies] == [1]
    assert report.subtopologies[0].changelogs == ()
    assert topology.describe().startswith(
        "Topologies:\n   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: source (topics: [glob])\n      --> keeper\n"
        "    Processor: keeper (stores: [kept])\n      --> none\n      <-- source\n"
    )


def test_a_processor_keeps_a_global_store_and_others_only_read_it() -> None:
    def ask(record: Record[str, str], context: Any) -> Record[str, str]:
        store = context.get_state_store("kept")
        with pytest.raises(StateError, match=r"kept.* is read-only, so put\(\) is refused"):
            store.put("x", "y")
        assert list(store.all()) == [("a", "ONE")]
        assert store.approximate_num_entries() == 1
        return record.with_value(store.get(record.key))

    topology = Topology().add_global_store(KEPT, "source", "glob", "keeper", Keep, **STRINGS)
    topology.add_source("in", "in", **STRINGS).add_processor("ask", ask, "in")
    topology.add_sink("out", "out", "ask", **STRINGS)
    driver = TopologyTestDriver(topology, CONFIG)
    driver.create_input_topic("glob").pipe_input("a", "one")

    driver.create_input_topic("in").pipe_input("a", "?")

    assert driver.create_output_topic("out").read_key_values_to_list() == [("a", "ONE")]
    assert driver.get_state_store("kept").get("a") == "ONE"
    assert driver.get_key_value_store("kept") is not None
    assert list(driver.get_all_state_stores()) == ["kept"]
    assert {record.topic for record in driver.history} == {"out"}


def test_a_table_of_several_partitions_is_whole_in_every_task() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("glob", **STRINGS)
    stream = builder.stream("in", **STRINGS)
    stream.join(table, lambda _, value: value, lambda value, found: value + found).to("out")
    partitions = {"glob": 3, "in": 2}

    driver = TopologyTestDriver(builder.build(), CONFIG, partitions=partitions)
    for key in "abcdef":
        driver.create_input_topic("glob").pipe_input(key, "!")
    for key in "abcdef":
        driver.create_input_topic("in").pipe_input(key, key)

    found = driver.create_output_topic("out").read_key_values_to_map()
    assert found == {key: f"{key}!" for key in "abcdef"}


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_record_that_cannot_be_read_is_for_the_handler(goes_on: bool) -> None:
    builder = StreamsBuilder()
    builder.global_table("glob", key_serde=Serdes.string, value_serde=Serdes.long, store="all")
    handler = {"deserialization.exception.handler": "log-and-continue"} if goes_on else {}
    driver = TopologyTestDriver(builder.build(), CONFIG | handler)

    if goes_on:
        driver.pipe_raw("glob", b"a", b"short", 1)
        driver.pipe_raw("glob", b"b", bytes(8), 1)
        assert [key for key, _ in driver.get_state_store("all").all()] == ["b"]
        assert "glob-0 offset 0" in driver.warnings[0]
    else:
        with pytest.raises(DeserializationError, match="glob-0 offset 0"):
            driver.pipe_raw("glob", b"a", b"short", 1)


def test_the_name_of_a_global_table_s_store() -> None:
    builder = StreamsBuilder()

    named: GlobalKTable[str, str] = builder.global_table("a", store="named")
    unnamed: GlobalKTable[str, str] = builder.global_table("b")

    assert named.queryable_store_name() == "named"
    assert unnamed.queryable_store_name() is None
    assert list(builder.build().global_stores) == ["named", "b-STATE-STORE-0000000002"]


def test_a_global_store_has_neither_changelog_nor_cache() -> None:
    builder = StreamsBuilder()
    builder.add_global_store(StoreSpec(name="kept"), "glob", Consumed(), Keep)

    spec = builder.build().global_stores["kept"]

    assert not spec.logging
    assert not spec.caching


def test_what_keeps_a_global_store_cannot_schedule() -> None:
    class Ticking(Keep):
        def init(self, context: Any) -> None:
            context.schedule(10, "stream-time", print)

    topology = Topology().add_global_store(KEPT, "source", "glob", "keeper", Ticking, **STRINGS)

    with pytest.raises(TopologyError, match="keeper keeps a global store and cannot schedule"):
        TopologyTestDriver(topology, CONFIG)


def _connected(topology: Topology) -> None:
    topology.add_source("in", "in").add_processor("ask", lambda record: record, "in")
    topology.connect_processor_and_state_stores("ask", "kept")


def _bringing(topology: Topology) -> None:
    class Bringing:
        def __call__(self) -> Keep:
            return Keep()

        def stores(self) -> list[StoreSpec]:
            return [StoreSpec(name="more")]

    spec = StoreSpec(name="other")
    topology.add_global_store(spec, "s", "other", "p", Bringing())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda t: t.add_source("in", "glob"), "Topic 'glob' is already read by 'source'"),
        (lambda t: t.add_state_store(KEPT), "'kept' is the name of a global store"),
        (_connected, "without being connected"),
        (
            lambda t: t.add_global_store(KEPT, "s", "other", "p", Keep),
            "'kept' is the name of a global store",
        ),
        (
            lambda t: t.add_global_store(StoreSpec(name="o"), "s", "other", "s", Keep),
            "'s' need different names",
        ),
        (
            lambda t: t.add_global_store(StoreSpec(name="o"), "s", "other", "keeper", Keep),
            "'keeper' is already added",
        ),
        (
            lambda t: t.add_state_store(StoreSpec(name="o")).add_global_store(
                StoreSpec(name="o"), "s", "other", "p", Keep
            ),
            "already called 'o'",
        ),
        (_bringing, "it has no other stores"),
    ],
)
def test_what_breaks_a_rule_is_refused(wrong: Any, told: str) -> None:
    topology = Topology().add_global_store(KEPT, "source", "glob", "keeper", Keep, **STRINGS)

    with pytest.raises(TopologyError, match=told):
        wrong(topology)


def test_a_global_table_of_another_builder_is_refused() -> None:
    table = StreamsBuilder().global_table("glob", **STRINGS)
    stream = StreamsBuilder().stream("in", **STRINGS)

    with pytest.raises(TopologyError, match="which is of another builder"):
        stream.join(table, lambda key, _: key, lambda value, _: value)


def test_a_picture_shows_who_looks_into_a_global_table() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("glob", store="all")
    builder.stream("in").join(table, lambda key, _: key, lambda value, _: value).to("out")

    drawn = mermaid(builder.build())

    assert 'subgraph g0["Sub-topology 0, global store all"]' in drawn
    assert "  s0_0 -.-> n3\n" in drawn
    assert "global store all" in svg(builder.build())
