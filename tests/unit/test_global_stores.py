"""Global tables and stores: what a topology says of them, and who may do what with them."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import (
    Consumed,
    DeserializationError,
    GlobalKTable,
    MissingTopicError,
    ProcessingError,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    StateError,
    StoreKind,
    StoreSpec,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from headwater.config import StreamsConfig
from headwater.drawing.graph import drawing_of
from headwater.drawing.mermaid import mermaid
from headwater.drawing.svg import svg
from headwater.ids import TopicPartition
from headwater.kafka.topics import TopicDescription
from headwater.native.global_reader import check_topics
from headwater.native.global_stores import GlobalStores
from headwater.testing import TopologyTestDriver
from headwater.testing.clock import ManualClock

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
        assert "topic=[glob] partition=[0] offset=[0]" in driver.warnings[0]
    else:
        with pytest.raises(DeserializationError, match="glob-0 offset 0"):
            driver.pipe_raw("glob", b"a", b"short", 1)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_processor_that_raises_is_for_the_handler_only_if_the_option_says_so(
    is_asked: bool,
) -> None:
    class Picky(Keep):
        def process(self, record: Record[str, str]) -> None:
            if record.value == "bad":
                raise ValueError("too bad")
            super().process(record)

    topology = Topology().add_global_store(KEPT, "source", "glob", "keeper", Picky, **STRINGS)
    config = CONFIG | {
        "processing.exception.handler": "log-and-continue",
        "processing.exception.handler.global.enabled": is_asked,
        "errors.dead.letter.queue.topic.name": "letters",
    }
    driver = TopologyTestDriver(topology, config)
    glob = driver.create_input_topic("glob")

    if is_asked:
        glob.pipe_input("a", "bad")
        glob.pipe_input("b", "good")
        assert list(driver.get_state_store("kept").all()) == [("b", "GOOD")]
        assert any("a dead letter for topic letters is not sent" in it for it in driver.warnings)
        assert any("node keeper, topic glob, partition 0, offset 0" in it for it in driver.warnings)
    else:
        with pytest.raises(
            ProcessingError, match=r"global store kept, node keeper.*handler.global.enabled to true"
        ):
            glob.pipe_input("a", "bad")


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
            context.schedule(10, PunctuationType.STREAM_TIME, print)

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

    drawn = mermaid(drawing_of(builder.build()))

    assert 'subgraph g0["Sub-topology 0, global store all"]' in drawn
    assert "  s0_0 -.-> n3\n" in drawn
    assert "global store all" in svg(drawing_of(builder.build()))


def _filled(value_serde: Any, records: list[Any], **config: Any) -> tuple[GlobalStores, list[str]]:
    """A table in memory, filled with records that nobody reads yet."""
    builder = StreamsBuilder()
    builder.global_table("glob", key_serde=Serdes.string, value_serde=value_serde, store="all")
    warned: list[str] = []
    stores = GlobalStores(
        builder.build(config).global_subtopologies,
        StreamsConfig.parse({"application.id": "app", "bootstrap.servers": "none:1", **config}),
        {"glob": 1},
        ManualClock(0),
        warned.append,
    )
    stores.update(TopicPartition("glob", 0), records, filling=True)
    return stores, warned


def test_a_table_that_is_filled_has_the_records_with_their_times() -> None:
    records = [
        (0, 7, b"a", b"one", None),
        (1, 8, b"b", b"two", None),
        (2, 9, b"b", None, None),
        (3, 3, b"a", b"three", None),
    ]

    stores, warned = _filled(Serdes.string, records)

    assert list(stores.stores["all"].store.range(None, None)) == [("a", "three", 3)]
    assert not warned
    stores.update(TopicPartition("glob", 0), [(4, 10, b"a", b"four", None)])
    assert stores.stores["all"].store.get("a") == ("four", 10)


def test_a_table_that_is_filled_keeps_the_headers_of_records_until_they_change() -> None:
    """As in Java, where a restore takes the headers over, and the table's node puts none."""
    headers = [("h", b"\x01")]
    records = [(0, 7, b"a", b"one", headers), (1, 8, b"b", b"two", None)]

    stores, _ = _filled(Serdes.string, records, **{"dsl.store.format": "HEADERS"})

    reading = stores.stores["all"].store.with_headers()
    assert list(reading.range(None, None)) == [("a", ("one", headers), 7), ("b", ("two", None), 8)]
    stores.update(TopicPartition("glob", 0), [(2, 9, b"a", b"three", headers)])
    assert reading.get("a") == (("three", None), 9)


def test_what_cannot_be_copied_into_a_table_is_looked_at_one_by_one() -> None:
    records = [
        (0, 7, b"a", bytes(8), None),
        (1, 8, None, bytes(8), None),
        (2, 9, b"b", b"short", None),
        (3, 9, b"c", bytes(8), None),
    ]
    going_on = {"deserialization.exception.handler": "log-and-continue"}

    stores, warned = _filled(Serdes.long, records, **going_on)

    assert [key for key, _, _ in stores.stores["all"].store.range(None, None)] == ["a", "c"]
    no_key, not_decoded = warned
    assert no_key == (
        "global store all, node KTABLE-SOURCE-0000000001: "
        "Skipping record due to null key. topic=[glob] partition=[0] offset=[1]"
    )
    assert not_decoded.startswith(
        "global store all: Skipping record due to deserialization error. "
        "topic=[glob] partition=[0] offset=[2]: the value cannot be decoded: "
    )
    with pytest.raises(DeserializationError, match="glob-0 offset 2"):
        _filled(Serdes.long, records)


def test_a_topic_that_is_missing_or_has_no_partitions_is_named_with_the_next_step() -> None:
    good = TopicDescription(partitions=2, topic_id="a")
    check_topics(["places"], {"places": good})

    with pytest.raises(MissingTopicError, match=r"topic names does not exist.*; create it"):
        check_topics(["places", "names"], {"places": good})
    empty = TopicDescription(partitions=0, topic_id="b")
    with pytest.raises(MissingTopicError, match=r"topic names has no partitions.*create it again"):
        check_topics(["places", "names"], {"places": good, "names": empty})
