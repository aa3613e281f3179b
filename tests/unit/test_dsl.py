"""What the DSL writes into a topology besides names: operators, serdes, stores, old values."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import (
    Branched,
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Named,
    OffsetReset,
    Processor,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    StoreSpec,
    StreamsBuilder,
    Topology,
)
from headwater.dsl.aggregate import count_adder, count_initializer, count_subtractor
from headwater.errors import ConfigError, TopologyError
from headwater.model.operators.aggregate import StreamAggregate
from headwater.model.operators.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    Peek,
    Print,
    SelectKey,
)
from headwater.model.operators.table import TableSource
from headwater.model.operators.user import UserProcessor
from headwater.model.topology import ProcessorNode, SinkNode, SourceNode


class Forwarding(Processor[Any, Any, Any, Any]):
    """Passes every record on."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def _operator(topology: Topology, name: str) -> Any:
    node = topology.nodes[name]
    assert isinstance(node, ProcessorNode)
    return node.operator


def _typed(builder: StreamsBuilder) -> KStream[str, int]:
    return builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)


def _serdes(topology: Topology, name: str) -> tuple[Any, Any]:
    node = topology.nodes[name]
    assert isinstance(node, SourceNode | SinkNode)
    return node.key_serde, node.value_serde


def test_each_operation_writes_its_operator() -> None:
    builder = StreamsBuilder()
    source = builder.stream("in")

    def function(*_: Any) -> Any:
        return None

    source.filter(function, name="a")
    source.filter_not(function, name="b")
    source.map(function, name="c")
    source.map_values(function, name="d")
    source.map_values(function, with_key=True, name="e")
    source.flat_map(function, name="f")
    source.flat_map_values(function, with_key=True, name="g")
    source.select_key(function, name="h")
    source.peek(function, name="i")
    source.for_each(function, name="j")
    source.print(name="k", mapper=function, path="here")
    source.print(name="l", label="shown")
    source.merge(source, name="m")
    topology = builder.build()

    assert [_operator(topology, name) for name in "abcdefghijklm"] == [
        Filter(predicate=function),
        Filter(predicate=function, negate=True),
        Map(mapper=function),
        MapValues(mapper=function),
        MapValues(mapper=function, with_key=True),
        FlatMap(mapper=function),
        FlatMapValues(mapper=function, with_key=True),
        SelectKey(mapper=function),
        Peek(action=function),
        Peek(action=function, terminal=True),
        Print(label="KSTREAM-SOURCE-0000000000", mapper=function, path="here"),
        Print(label="shown"),
        Merge(),
    ]


def test_a_split_asks_its_predicates_in_order_and_ends_in_its_default() -> None:
    builder = StreamsBuilder()

    def first(_key: Any, _value: Any) -> bool:
        return True

    branches = (
        builder.stream("in")
        .split(Named("fork"))
        .branch(first)
        .branch(first, Branched(name="-tine"))
        .default_branch(name="-rest")
    )
    topology = builder.build()

    assert list(branches) == ["fork1", "fork-tine", "fork-rest"]
    assert _operator(topology, "fork") == Branch(
        predicates=((first, "fork1"), (first, "fork-tine")), default="fork-rest"
    )


def test_a_chain_decides_what_a_branch_gives() -> None:
    builder = StreamsBuilder()

    branches = (
        builder.stream("in")
        .split(name="s")
        .branch(lambda _k, _v: True, chain=lambda branch: branch.peek(print, name="peeked"))
        .branch(lambda _k, _v: True, Branched(chain=lambda branch: branch.for_each(print)))
        .no_default_branch()
    )

    assert {name: stream.origin.name for name, stream in branches.items()} == {"s1": "peeked"}


def test_a_complete_split_takes_no_more_branches() -> None:
    split = StreamsBuilder().stream("in").split()
    split.no_default_branch()

    with pytest.raises(TopologyError, match="complete"):
        split.branch(lambda _k, _v: True)


def test_a_count_is_a_long_whatever_the_stream_holds() -> None:
    builder = StreamsBuilder()

    _typed(builder).group_by_key().count(store="counts", topic_config={"a": "b"}, caching=False)
    topology = builder.build()

    store = topology.stores["counts"]
    assert (store.key_serde, store.value_serde) == (Serdes.string, Serdes.long)
    assert (store.caching, store.logging, store.persistent) == (False, True, True)
    assert store.topic_config == {"a": "b"}
    assert _operator(topology, "KSTREAM-AGGREGATE-0000000001") == StreamAggregate(
        store="counts", aggregator=count_adder, initializer=count_initializer
    )


def test_reducers_are_called_with_aggregate_and_value() -> None:
    builder = StreamsBuilder()

    _typed(builder).group_by_key().reduce(lambda aggregate, value: aggregate - value, store="s")
    operator = _operator(builder.build(), "KSTREAM-REDUCE-0000000001")

    assert operator.initializer is None
    assert operator.aggregator("key", 3, 10) == 7


def test_table_aggregations_know_how_to_take_away() -> None:
    builder = StreamsBuilder()
    group = builder.table("in").group_by(lambda key, value: (value, key))

    group.count(name="counting")
    group.reduce(lambda a, b: a + b, lambda a, b: a - b, name="reducing")
    topology = builder.build()

    counting = _operator(topology, "counting")
    reducing = _operator(topology, "reducing")
    assert (counting.adder, counting.subtractor) == (count_adder, count_subtractor)
    assert counting.adder(None, None, counting.initializer()) == 1
    assert counting.subtractor(None, None, 1) == 0
    assert reducing.initializer is None
    assert (reducing.adder("k", 2, 5), reducing.subtractor("k", 2, 5)) == (7, 3)


def test_serdes_are_inherited_until_the_type_may_change() -> None:
    builder = StreamsBuilder()
    stream = _typed(builder)

    stream.filter(lambda _k, _v: True).peek(print).to("a", name="kept")
    stream.map_values(str).to("b", name="value-lost")
    stream.select_key(lambda _k, v: v).to("c", name="key-lost")
    stream.map(lambda k, v: (v, k)).to("d", name="both-lost")
    stream.merge(stream).to("e", name="merged")
    stream.map_values(str).to("f", name="given", value_serde=Serdes.string)
    stream.repartition(name="x").to("g", name="through")
    topology = builder.build()

    text, number = Serdes.string, Serdes.long
    assert _serdes(topology, "kept") == (text, number)
    assert _serdes(topology, "value-lost") == (text, None)
    assert _serdes(topology, "key-lost") == (None, number)
    assert _serdes(topology, "both-lost") == (None, None)
    assert _serdes(topology, "merged") == (None, None)
    assert _serdes(topology, "given") == (text, text)
    assert _serdes(topology, "through") == (text, number)
    assert _serdes(topology, "x-repartition-sink") == (text, number)
    assert _serdes(topology, "x-repartition-source") == (text, number)


def test_an_options_object_says_all_and_a_keyword_changes_one_setting() -> None:
    builder = StreamsBuilder()
    stream = _typed(builder)

    stream.group_by(lambda _k, v: v, key_serde=Serdes.long).count(store="by-keyword")
    stream.group_by(lambda _k, v: v, Grouped(key_serde=Serdes.long)).count(store="by-object")
    stream.group_by(lambda _k, v: v, Grouped(key_serde=Serdes.long), value_serde=Serdes.long).count(
        store="by-both"
    )
    topology = builder.build()

    number = Serdes.long
    assert _serdes(topology, "by-keyword-repartition-sink") == (number, number)
    assert _serdes(topology, "by-object-repartition-sink") == (number, None)
    assert _serdes(topology, "by-both-repartition-sink") == (number, number)


def test_the_store_of_to_table_inherits_serdes_only_without_a_materialized() -> None:
    builder = StreamsBuilder()
    stream = _typed(builder)

    stream.to_table(store="by-keyword")
    stream.to_table(Materialized(store="by-object"))
    topology = builder.build()

    assert topology.stores["by-keyword"].key_serde is Serdes.string
    assert topology.stores["by-object"].key_serde is None


def test_the_store_of_a_filtered_table_inherits_no_serde_but_the_table_does() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=Serdes.string, value_serde=Serdes.long)

    table.filter(lambda _k, _v: True, store="some").to_stream().to("out", name="sink")
    topology = builder.build()

    assert topology.stores["some"].value_serde is None
    assert _serdes(topology, "sink") == (Serdes.string, Serdes.long)


def test_serdes_of_a_table_serve_topic_and_store() -> None:
    builder = StreamsBuilder()

    builder.table("a", store="a-store", key_serde=Serdes.string, value_serde=Serdes.long)
    builder.table("b", Consumed(name="b", key_serde=Serdes.string), Materialized(store="b-store"))
    builder.table("c", materialized=Materialized(store="c-store", value_serde=Serdes.long))
    # Java writes the serdes of Consumed over those of Materialized, those that are null, too.
    builder.table(
        "d",
        Consumed(name="d", key_serde=Serdes.string),
        Materialized(store="d-store", key_serde=Serdes.long, value_serde=Serdes.long),
    )
    topology = builder.build({"topology.optimization": "none"})
    assert topology.stores["d-store"].key_serde is Serdes.string
    assert topology.stores["d-store"].value_serde is None
    assert _serdes(topology, "d-source") == (Serdes.string, None)

    assert topology.stores["a-store"].value_serde is Serdes.long
    assert topology.stores["b-store"].key_serde is Serdes.string
    assert _serdes(topology, "KSTREAM-SOURCE-0000000004") == (None, Serdes.long)


@pytest.mark.parametrize(
    "wanted", ["everything", "all, none", "all,merge.repartition.topics", "", "merge"]
)
def test_an_optimisation_that_is_not_there_is_refused(wanted: str) -> None:
    with pytest.raises(ConfigError, match=r"topology\.optimization.*none"):
        StreamsBuilder().build({"topology.optimization": wanted})


def test_options_of_reading_and_writing_reach_their_nodes() -> None:
    builder = StreamsBuilder()

    def extract(*_: Any) -> int:
        return 7

    def spread(*_: Any) -> int:
        return 0

    stream = builder.stream(
        ["a", "b", "a"],
        Consumed(name="s", timestamp_extractor=extract, offset_reset=OffsetReset.LATEST),
    )
    stream.to("out", Produced(name="sink", partitioner=spread))
    stream.repartition(Repartitioned(name="r", partitions=3, partitioner=spread))
    topology = builder.build()

    assert topology.nodes["s"] == SourceNode(
        name="s",
        topics=("a", "b"),
        timestamp_extractor=extract,
        offset_reset=OffsetReset.LATEST,
    )
    sinks = [topology.nodes[name] for name in ("sink", "r-repartition-sink")]
    assert all(isinstance(sink, SinkNode) and sink.partitioner is spread for sink in sinks)
    assert topology.repartition_topics == {"r-repartition": 3}


def test_old_values_are_sent_only_by_tables_that_must() -> None:
    builder = StreamsBuilder()
    quiet = builder.table("quiet").filter(lambda _k, _v: True, name="quiet-filter")
    quiet.to_stream()
    asked = builder.table("asked", name="asked").map_values(str, name="asked-map")
    asked.group_by(lambda k, v: (v, k)).count()
    topology = builder.build()

    assert _operator(topology, "KTABLE-SOURCE-0000000002") == TableSource(store=None)
    assert not _operator(topology, "quiet-filter").send_old
    assert _operator(topology, "asked-map").send_old
    source = _operator(topology, "asked")
    assert source == TableSource(store=source.store, send_old=True)
    assert source.store in topology.stores
    assert topology.nodes["asked"].stores == (source.store,)  # type: ignore[union-attr]


def test_a_stored_table_in_between_answers_for_those_above() -> None:
    builder = StreamsBuilder()
    stored = builder.table("in", name="in").map_values(str, store="stored", name="mapped")
    stored.filter(lambda _k, _v: True, name="filtered").group_by(lambda k, v: (v, k)).count()
    topology = builder.build()

    assert not _operator(topology, "in").send_old
    assert _operator(topology, "mapped").send_old
    assert _operator(topology, "filtered").send_old


def test_changes_travel_in_the_change_layout() -> None:
    builder = StreamsBuilder()

    builder.table("in").group_by(lambda k, v: (v, k), name="g").count(name="c")
    topology = builder.build()

    sink, source = topology.nodes["c-sink"], topology.nodes["c-source"]
    assert isinstance(sink, SinkNode)
    assert isinstance(source, SourceNode)
    assert sink.changes
    assert source.changes


def test_a_processor_is_connected_to_the_stores_it_names_or_brings() -> None:
    builder = StreamsBuilder()
    brought = StoreSpec(name="brought")

    builder.add_state_store(StoreSpec(name="named"))
    stream = builder.stream("in").process(Forwarding, "named", brought, name="mine")
    stream.group_by_key().count(store="counts")
    topology = builder.build()

    node = topology.nodes["mine"]
    assert isinstance(node, ProcessorNode)
    assert set(node.stores) == {"named", "brought"}
    assert node.operator == UserProcessor(supplier=Forwarding)
    assert "counts-repartition" in topology.repartition_topics


def test_a_processor_needs_its_store_to_be_added_before() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(Forwarding, "late")
    builder.add_state_store(StoreSpec(name="late"))

    with pytest.raises(TopologyError, match="'late' is not added yet"):
        builder.build()


def test_a_supplier_must_make_a_new_processor_at_each_call() -> None:
    one = Forwarding()

    with pytest.raises(TopologyError, match="same instance"):
        StreamsBuilder().stream("in").process(lambda: one)


def test_a_builder_can_be_built_again_after_more_is_drawn() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    builder.stream("in").peek(print)
    first = builder.build()

    stream.to("out")
    second = builder.build()

    assert [*first.nodes, "KSTREAM-SINK-0000000003"] == list(second.nodes)
    assert builder.build().describe() == second.describe()


def test_what_is_drawn_after_a_build_below_a_source_that_shares_another_is_built() -> None:
    builder = StreamsBuilder()
    builder.stream("in")
    again = builder.stream("in")
    builder.build()

    again.to("out", name="late")

    assert builder.build().nodes["late"].parents == ("KSTREAM-SOURCE-0000000000",)  # type: ignore[union-attr]


def test_the_store_of_a_table_can_be_asked_for_if_it_was_given_a_name() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    table = builder.table("t")

    assert table.queryable_store_name() is None
    assert builder.table("u", store="kept").queryable_store_name() == "kept"
    assert table.map_values(str).queryable_store_name() is None
    assert table.filter(lambda *_: True, store="even").queryable_store_name() == "even"
    assert stream.group_by_key().count().queryable_store_name() is None
    assert stream.group_by_key().count(store="counts").queryable_store_name() == "counts"
    assert table.join(table, max, store="joined").queryable_store_name() == "joined"


def test_a_table_takes_a_materialized_in_second_place_as_in_java() -> None:
    builder, by_keyword = StreamsBuilder(), StreamsBuilder()
    builder.table("in", Materialized(store="kept"))
    by_keyword.table("in", materialized=Materialized(store="kept"))

    assert str(builder.build().describe()) == str(by_keyword.build().describe())
    assert "kept" in builder.build().stores


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda b: b.stream([]), "at least one topic"),
        (lambda b: b.stream("in", nme="x"), "no such setting"),
        (lambda b: b.stream("in").group_by_key(partitions=3), "no such setting"),
        (lambda b: b.stream("in", Produced()), "Produced.* stands where Consumed is wanted"),
        (lambda b: b.stream("in").to("out", Materialized()), "where Produced is wanted"),
        (lambda b: b.table("in", Materialized(), Materialized()), "two Materialized"),
        (lambda b: b.stream("in").merge(StreamsBuilder().stream("x")), "another builder"),
        (lambda b: b.stream("in").to("bad topic"), "may only hold"),
        (lambda b: b.stream("in").filter(print, name="a/b"), "may only hold"),
        (lambda b: b.stream("in").group_by_key(name=".."), "cannot be called"),
        (lambda b: b.stream("in").repartition(partitions=0), "at least one partition"),
        (lambda b: Materialized(store="no spaces"), "may only hold"),
        (lambda b: Named(""), "not empty"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_made(draw: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        draw(StreamsBuilder())
