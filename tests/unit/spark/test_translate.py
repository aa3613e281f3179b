"""Which topologies become DataFrames, and the sentence that refuses the others."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Consumed, Processor, Serdes, StoreSpec
from headwater import functions as f
from headwater.config import StreamsConfig
from headwater.dsl.aggregate import count_adder, count_initializer
from headwater.dsl.loading import build_topology
from headwater.errors import TopologyError
from headwater.model.operators.aggregate import StreamAggregate
from headwater.model.operators.stateless import DropNullKey
from headwater.model.stores import StoreKind
from headwater.model.topology import Topology
from headwater.serde.primitives import StringSerde
from headwater.spark.frames.choose import check_all_known, choose
from headwater.spark.frames.plan import Fold, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KStream, StreamsBuilder
    from headwater.spark.frames.plan import Translation

TEXTS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
LONGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.long}


def translated(build: Any, *, wants_outputs: bool = False, **config: str) -> Translation:
    given = {"application.id": "app", **{k.replace("_", "."): v for k, v in config.items()}}

    def drawn(builder: StreamsBuilder) -> None:
        build(builder)

    return choose(build_topology(drawn), StreamsConfig.parse(given), wants_outputs=wants_outputs)


def longs(builder: StreamsBuilder) -> KStream[str, int]:
    return builder.stream("in", **LONGS)


def targets(found: Translation) -> list[str]:
    return [verdict.target.value for verdict in found.subtopologies.values()]


# -- what becomes DataFrames -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reducer", "fold"),
    [
        (f.add, Fold.SUM),
        (f.smallest, Fold.SMALLEST),
        (f.largest, Fold.LARGEST),
        (operator.add, Fold.SUM),
        (min, Fold.SMALLEST),
        (max, Fold.LARGEST),
    ],
)
def test_reduces_with_a_known_algebra(reducer: Any, fold: Fold) -> None:
    def build(builder: StreamsBuilder) -> None:
        longs(builder).group_by_key(**LONGS).reduce(reducer, store="s", **LONGS)

    found = translated(build)

    assert targets(found) == ["t2"]
    assert found.units[0].outputs[0].fold is fold


def test_what_leads_to_a_shuffle_is_columns() -> None:
    def build(builder: StreamsBuilder) -> None:
        kept = longs(builder).filter(f.value > 0).map_values(f.value * 2)
        kept.group_by(f.key[:1], **LONGS).reduce(f.add, store="s", **LONGS)

    found = translated(build)

    assert targets(found) == ["t3", "t2"]
    (unit,) = found.units
    assert unit.subtopologies == (0, 1)
    assert unit.shuffles == {"s-repartition": 1}


def test_a_table_and_several_stores_and_inputs() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.table("t", store="t", **TEXTS).to_stream().to("out", **TEXTS)
        both = builder.stream(["a", "b"], **LONGS).merge(longs(builder))
        grouped = both.group_by_key(**LONGS)
        grouped.count(store="c", key_serde=Serdes.string)
        grouped.reduce(max, store="m", **LONGS)

    found = translated(build)

    assert targets(found) == ["t2", "t2"]
    assert [output.fold for unit in found.units for output in unit.outputs] == [
        Fold.LAST,
        Fold.COUNT,
        Fold.LARGEST,
    ]


def test_only_what_is_read_from_a_task_s_topic_is_a_read() -> None:
    """The word count: words are split by Python, and counted by DataFrames."""
    from examples.word_count.app import build

    found = translated(build)

    assert targets(found) == ["t1", "t2"]
    assert [read.topic for read in found.units[0].reads] == ["counts-store-repartition"]
    with pytest.raises(TopologyError, match=r"sub-topology 0: .*flat_map_values calls a Python"):
        check_all_known(found)


def test_serdes_and_extractor_may_come_from_the_configuration() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in").group_by_key().count(store="c")

    assert targets(translated(build)) == ["t1"]
    known = {"default_key_serde": "string", "default_value_serde": "bytes"}
    assert targets(translated(build, **known)) == ["t2"]
    mark = {"default_timestamp_extractor": "wallclock"}
    assert targets(translated(build, **known, **mark)) == ["t1"]


# -- what does not ---------------------------------------------------------------------------------


class Copy(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Own(StringSerde):
    """A serde of the user's."""


def counted(stream: Any) -> None:
    stream.group_by_key(**LONGS).count(store="c", key_serde=Serdes.string)


def _no_changelog(builder: StreamsBuilder) -> None:
    longs(builder).group_by_key(**LONGS).count(store="c", key_serde=Serdes.string, logging=False)


def _other_serde(builder: StreamsBuilder) -> None:
    longs(builder).group_by_key(**LONGS).count(store="c", value_serde=Serdes.integer)


def _sum_of_texts(builder: StreamsBuilder) -> None:
    builder.stream("in", **TEXTS).group_by_key(**TEXTS).reduce(f.add, store="c", **TEXTS)


def _sum_of_doubles(builder: StreamsBuilder) -> None:
    doubles: Any = {"key_serde": Serdes.string, "value_serde": Serdes.double}
    builder.stream("in", **doubles).group_by_key(**doubles).reduce(f.add, store="c", **doubles)


def _updates_counted(builder: StreamsBuilder) -> None:
    table = longs(builder).group_by_key(**LONGS).count(store="c", key_serde=Serdes.string)
    table.to_stream().group_by(f.value % 2, key_serde=Serdes.long, value_serde=Serdes.long).count(
        store="again"
    )


def _regrouped(builder: StreamsBuilder) -> None:
    table = builder.table("t", store="t", **LONGS)
    table.group_by(lambda key, value: (key, value), **LONGS).count(store="c")


def _table_behind_a_shuffle(builder: StreamsBuilder) -> None:
    longs(builder).select_key(f.key[:1]).to_table(store="t", **LONGS)


def _table_of_several(builder: StreamsBuilder) -> None:
    builder.stream(["a", "b"], **LONGS).to_table(store="t", **LONGS)


def _twice_around(builder: StreamsBuilder) -> None:
    once = longs(builder).repartition(name="once", **LONGS)
    counted(once.repartition(name="twice", **LONGS))


def _lost_overflow(builder: StreamsBuilder) -> None:
    stream = longs(builder)
    counted(stream)
    stream.map_values(f.value * 2).to("out", **LONGS)


def _nowhere(builder: StreamsBuilder) -> None:
    stream = longs(builder)
    counted(stream)
    stream.map_values(f.value * 2)


def _shared(builder: StreamsBuilder) -> None:
    store = StoreSpec(name="mine", key_serde=Serdes.string, value_serde=Serdes.long)
    longs(builder).process(Copy, store)


def _counted_and_looked_at(builder: StreamsBuilder) -> None:
    stream = longs(builder)
    counted(stream)
    stream.process(Copy, "c")


def _of_different_kinds(builder: StreamsBuilder) -> None:
    counted(longs(builder).merge(builder.stream("other", **TEXTS)))


def _half_by_a_shuffle(builder: StreamsBuilder) -> None:
    sent = longs(builder).repartition(name="sent", **LONGS)
    counted(sent.merge(builder.stream("other", **LONGS)))


def _only_for_outputs(builder: StreamsBuilder) -> None:
    stream = longs(builder)
    counted(stream)
    builder.stream("other", **LONGS).merge(stream).to("out", **LONGS)


REFUSED: dict[str, tuple[Any, str]] = {
    "a lambda": (
        lambda b: counted(longs(b).filter(lambda _key, value: value > 0)),
        "filter calls a Python function",
    ),
    "map": (lambda b: counted(longs(b).map(lambda k, v: (k, v))), "map calls a Python function"),
    "a lambda as key": (
        lambda b: longs(b).group_by(lambda k, _: k, **LONGS).count(store="c"),
        "selection of a key calls a Python function",
    ),
    "reduce": (
        lambda b: longs(b).group_by_key(**LONGS).reduce(lambda a, v: a + v, store="c", **LONGS),
        "reduce calls a Python function, which may depend on the order",
    ),
    "aggregate": (
        lambda b: longs(b).group_by_key(**LONGS).aggregate(int, lambda k, v, a: a + v, store="c"),
        "aggregate calls a Python function",
    ),
    "process": (lambda b: counted(longs(b).process(Copy)), "a processor is Python code"),
    "peek": (lambda b: counted(longs(b).peek(print)), "effects that nobody sees"),
    "json": (
        lambda b: counted(b.stream("in", key_serde=Serdes.string, value_serde=Serdes.json)),
        "JsonSerde can decode a value shows only when Python decodes it",
    ),
    "a serde of one's own": (
        lambda b: counted(b.stream("in", key_serde=Own(), value_serde=Serdes.long)),
        "Own can decode a key",
    ),
    "double keys": (
        lambda b: counted(b.stream("in", key_serde=Serdes.double, value_serde=Serdes.long)),
        "equal numbers with a fraction",
    ),
    "an extractor": (
        lambda b: counted(b.stream("in", Consumed(timestamp_extractor=lambda r, t: t), **LONGS)),
        "a timestamp extractor of its own",
    ),
    "sums of texts": (_sum_of_texts, "unless they are of whole numbers"),
    "sums of doubles": (_sum_of_doubles, "unless they are of whole numbers"),
    "no changelog": (_no_changelog, "has no changelog"),
    "a narrower serde": (_other_serde, "IntegerSerde, may not take a long"),
    "updates of a table": (_updates_counted, "how many updates of a table"),
    "a table grouped anew": (_regrouped, "takes back what it has added"),
    "a table behind a shuffle": (_table_behind_a_shuffle, "-repartition by a shuffle"),
    "a table of two topics": (_table_of_several, "which value is the last one"),
    "two shuffles": (_twice_around, "cannot take once-repartition by a shuffle"),
    "a partitioner": (
        lambda b: longs(b).to("out", partitioner=lambda *_: 0, **LONGS),
        "a partitioner of its own",
    ),
    "a topic of each record": (
        lambda b: longs(b).to(lambda k, v, c: "out", **LONGS),
        "names the topic of each record",
    ),
    "no state": (lambda b: longs(b).to("out", **LONGS), "keeps no state"),
    "an overflow that nobody sees": (_lost_overflow, "may not fit in 64 bits, and nobody looks"),
    "a topic that only goes out": (_only_for_outputs, "nothing of topic other comes to any state"),
    "one at the end of a branch": (_nowhere, "may not fit in 64 bits, and nobody looks"),
    "a store that somebody else looks at": (_counted_and_looked_at, "shares the store c"),
    "two kinds of records": (_of_different_kinds, "merges records of different kinds"),
    "half of it by a shuffle": (_half_by_a_shuffle, "cannot take sent-repartition by a shuffle"),
    "a store of a processor": (_shared, "Python code uses its store"),
    "operands that do not fit": (
        lambda b: counted(longs(b).filter(f.value > "a")),
        "does not fit operands of the kinds long, string",
    ),
    "no predicate": (lambda b: counted(longs(b).filter(f.value + 1)), "neither true nor false"),
    "the key without with_key": (
        lambda b: counted(longs(b).map_values(f.key)),
        "map_values with_key=True",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_provably_equal_is_left_to_tasks(name: str) -> None:
    build, words = REFUSED[name]

    found = translated(build)

    refused = [v.reason for v in found.subtopologies.values() if v.target is Target.T1]
    assert any(words in reason for reason in refused), found.subtopologies
    assert all(reason for reason in refused)
    assert {v.target for v in found.nodes.values()} <= set(Target)


def _without_timestamps() -> Topology:
    """A count as the DSL draws it, but for the kind of its store."""
    count = StreamAggregate(store="c", aggregator=count_adder, initializer=count_initializer)
    store = StoreSpec(name="c", kind=StoreKind.KEY_VALUE, key_serde=Serdes.string)
    topology = Topology().add_source("in", "in", **LONGS)
    return topology.add_operator("count", count, ["in"]).add_state_store(store, "count")


def _two_senders() -> Topology:
    topology = Topology().add_repartition_topic("sent").add_source("in", "in", **LONGS)
    topology.add_operator("with-key", DropNullKey(), ["in"])
    for sink in ("first", "second"):
        topology.add_sink(sink, "sent", "with-key", **LONGS)
    return topology.add_source("back", "sent", **LONGS)


@dataclass(frozen=True)
class Newer:
    """An operator of which the list has never heard."""


def _unheard_of() -> Topology:
    topology = Topology().add_source("in", "in", **LONGS)
    return topology.add_operator("newer", Newer(), ["in"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "node", "words"),
    [
        (_without_timestamps, "count", "store c keeps no timestamps"),
        (_two_senders, "second", "is the second one that sends to its repartition topic"),
        (_unheard_of, "newer", "is not on the list of what is computed as DataFrames"),
    ],
    ids=["no timestamps", "two senders", "an unknown operator"],
)
def test_what_the_dsl_does_not_draw_is_left_to_tasks(
    build: Callable[[], Topology], node: str, words: str
) -> None:
    found = choose(build(), StreamsConfig.parse({"application.id": "app"}))

    assert words in found.nodes[node].reason
    assert found.subtopologies[0].target is Target.T1
    assert words in found.subtopologies[0].reason


def test_a_shuffle_is_one_only_if_its_reader_is_dataframes_too() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = longs(builder)
        counted(stream)
        behind = stream.group_by(f.key[:1], **LONGS)
        behind.reduce(lambda a, v: a + v, store="s", **LONGS)

    found = translated(build)

    assert targets(found) == ["t1", "t1"]
    assert "sub-topology 1 cannot take s-repartition by a shuffle" in found.subtopologies[0].reason


def test_what_cannot_come_by_a_shuffle_is_read_from_the_topic() -> None:
    assert targets(translated(_table_behind_a_shuffle)) == ["t1", "t2"]
    found = translated(_twice_around)
    assert targets(found) == ["t1", "t3", "t2"]
    assert found.units[0].shuffles == {"twice-repartition": 2}


def test_outputs_that_are_wanted_are_made_by_tasks() -> None:
    def build(builder: StreamsBuilder) -> None:
        table = longs(builder).group_by_key(**LONGS).count(store="c", key_serde=Serdes.string)
        table.to_stream().to("out", **LONGS)
        builder.table("t", store="t", **TEXTS)

    assert targets(translated(build)) == ["t2", "t2"]
    assert targets(translated(build, wants_outputs=True)) == ["t1", "t2"]
