"""Each operator of the DSL does to keys, values, nulls and timestamps what Kafka Streams' does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Serdes, StreamsBuilder
from headwater.errors import ProcessingError
from headwater.model.metrics import DROPPED_RECORDS
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from headwater import KStream

Row = tuple[Any, Any, int]

STRINGS: list[Row] = [("a", "x", 1), (None, "y", 2), ("b", None, 3), ("a", "zz", 0)]


def run(
    draw: Callable[[StreamsBuilder], object],
    rows: Iterable[Row],
    *,
    value_serde: Any = Serdes.string,
    cache: int = 0,
    topic: str = "out",
) -> list[Row]:
    """Pipe rows into topic ``in``; return key, value and timestamp of what comes out."""
    builder = StreamsBuilder()
    draw(builder)
    config = {
        "default_key_serde": "string",
        "default_value_serde": "string",
        "statestore_cache_max_bytes": cache,
    }
    with TopologyTestDriver(builder.build(), config) as driver:
        lines = driver.create_input_topic("in")
        out = driver.create_output_topic(topic, Serdes.string, value_serde)
        for key, value, timestamp in rows:
            lines.pipe_input(key, value, timestamp)
        return [(r.key, r.value, r.timestamp) for r in out.read_records_to_list()]


STATELESS: list[Any] = [
    pytest.param(
        lambda s: s.filter(lambda k, v: v != "x"),
        [(None, "y", 2), ("b", None, 3), ("a", "zz", 0)], id="filter",
    ),
    pytest.param(lambda s: s.filter_not(lambda k, v: v != "x"), [("a", "x", 1)], id="filter_not"),
    pytest.param(
        lambda s: s.map(lambda k, v: (v, k)),
        [("x", "a", 1), ("y", None, 2), (None, "b", 3), ("zz", "a", 0)], id="map",
    ),
    pytest.param(
        lambda s: s.map_values(lambda v: v and v.upper()),
        [("a", "X", 1), (None, "Y", 2), ("b", None, 3), ("a", "ZZ", 0)], id="map_values",
    ),
    pytest.param(
        lambda s: s.map_values(lambda k, v: f"{k}{v}", with_key=True),
        [("a", "ax", 1), (None, "Noney", 2), ("b", "bNone", 3), ("a", "azz", 0)],
        id="map_values with key",
    ),
    pytest.param(
        lambda s: s.flat_map(lambda k, v: [(v, k)] * len(v or "")),
        [("x", "a", 1), ("y", None, 2), ("zz", "a", 0), ("zz", "a", 0)], id="flat_map",
    ),
    pytest.param(
        lambda s: s.flat_map_values(lambda v: (each for each in v or "")),
        [("a", "x", 1), (None, "y", 2), ("a", "z", 0), ("a", "z", 0)],
        id="flat_map_values of a generator",
    ),
    pytest.param(
        lambda s: s.flat_map_values(lambda k, v: [k] if v else [], with_key=True),
        [("a", "a", 1), (None, None, 2), ("a", "a", 0)], id="flat_map_values with key",
    ),
    pytest.param(
        lambda s: s.select_key(lambda k, v: v),
        [("x", "x", 1), ("y", "y", 2), (None, None, 3), ("zz", "zz", 0)], id="select_key",
    ),
    pytest.param(lambda s: s.merge(s.filter(lambda k, v: v == "zz")),
                 [*STRINGS, ("a", "zz", 0)], id="merge"),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "expected"), STATELESS)
def test_a_stateless_operator(draw: Callable[[KStream], KStream], expected: list[Row]) -> None:
    assert run(lambda builder: draw(builder.stream("in")).to("out"), STRINGS) == expected


def test_peek_sees_and_forwards_and_for_each_ends() -> None:
    seen: list[Any] = []

    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in").peek(lambda k, v: seen.append((k, v)))
        stream.for_each(lambda k, v: seen.append(v))
        stream.to("out")

    out = run(draw, [("a", "x", 1)])

    assert seen == [("a", "x"), "x"]
    assert out == [("a", "x", 1)]


def test_split_takes_the_first_branch_that_holds_and_drops_the_rest() -> None:
    def draw(builder: StreamsBuilder) -> None:
        branches = builder.stream("in").split(name="b-")
        branches.branch(lambda k, v: v == "x", name="x").branch(lambda k, v: k == "a", name="a")
        chosen = branches.no_default_branch()
        chosen["b-a"].merge(chosen["b-x"].map_values(str.upper)).to("out")

    assert run(draw, STRINGS) == [("a", "X", 1), ("a", "zz", 0)]


def test_print_writes_lines_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    run(lambda builder: builder.stream("in").print(label="in", path=str(path)), STRINGS[:2])

    assert path.read_text() == "[in]: a, x\n[in]: None, y\n"


def counted(builder: StreamsBuilder) -> None:
    table = builder.stream("in").group_by_key().count(store="counts")
    table.to_stream().to("out", value_serde=Serdes.long)


@pytest.mark.parametrize("cache", [0, 10_000_000], ids=["no cache", "cache"])
def test_count_drops_nulls_and_never_goes_back_in_time(cache: int) -> None:
    out = run(counted, [*STRINGS, ("a", "q", 5)], value_serde=Serdes.long, cache=cache)

    assert out == [("a", 1, 1), ("a", 2, 1), ("a", 3, 5)]


def test_a_null_key_or_value_of_an_aggregation_is_counted_as_dropped() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, None, "x"), raw(1, "a", None), raw(2, "a", "x"))

    rig.process()

    assert rig.task.statistics().total(DROPPED_RECORDS) == 2


def test_reduce_starts_with_the_first_value() -> None:
    def draw(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in").group_by_key()
        grouped.reduce(lambda old, new: old + new).to_stream().to("out")

    rows = [("a", "x", 5), ("a", "y", 3), ("b", "z", 1)]
    assert run(draw, rows) == [("a", "x", 5), ("a", "xy", 5), ("b", "z", 1)]


def test_an_aggregate_of_null_deletes_and_starts_anew() -> None:
    def draw(builder: StreamsBuilder) -> None:
        def step(_: str, value: str, old: str) -> str | None:
            return None if value == "stop" else old + value

        grouped = builder.stream("in").group_by_key()
        grouped.aggregate(lambda: "", step, value_serde=Serdes.string).to_stream().to("out")

    rows = [("a", "x", 1), ("a", "stop", 2), ("a", "y", 3)]
    assert run(draw, rows) == [("a", "x", 1), ("a", None, 2), ("a", "y", 3)]


TABLES: list[Any] = [
    pytest.param(lambda t: t, STRINGS[:1] + STRINGS[2:], id="a table drops null keys only"),
    pytest.param(
        lambda t: t.filter(lambda k, v: v == "x"),
        [("a", "x", 1), ("b", None, 3), ("a", None, 0)], id="filter gives tombstones",
    ),
    pytest.param(
        lambda t: t.filter_not(lambda k, v: v == "x"),
        [("a", None, 1), ("b", None, 3), ("a", "zz", 0)], id="filter_not gives tombstones",
    ),
    pytest.param(
        lambda t: t.map_values(str.upper),
        [("a", "X", 1), ("b", None, 3), ("a", "ZZ", 0)], id="map_values keeps tombstones",
    ),
    pytest.param(
        lambda t: t.map_values(lambda k, v: k + v, with_key=True),
        [("a", "ax", 1), ("b", None, 3), ("a", "azz", 0)], id="map_values with key",
    ),
    pytest.param(
        lambda t: t.filter(lambda k, v: v == "x", store="kept"),
        [("a", "x", 1), ("b", None, 3), ("a", None, 0)], id="filter with a store",
    ),
    pytest.param(
        lambda t: t.map_values(str.upper, store="mapped", value_serde=Serdes.string),
        [("a", "X", 1), ("b", None, 3), ("a", "ZZ", 0)], id="map_values with a store",
    ),
]  # fmt: skip


@pytest.mark.parametrize("source", ["table", "stream"])
@pytest.mark.parametrize(("draw", "expected"), TABLES)
def test_a_table_operator(draw: Callable[[Any], Any], expected: list[Row], source: str) -> None:
    def draw_all(builder: StreamsBuilder) -> None:
        table = builder.table("in") if source == "table" else builder.stream("in").to_table()
        draw(table).to_stream().to("out")

    assert run(draw_all, STRINGS) == expected


def regrouped(builder: StreamsBuilder) -> None:
    """Count by first letter the table of keys and words."""
    table = builder.table("in")
    grouped = table.group_by(
        lambda key, value: (value[0] if value else None, key),
        key_serde=Serdes.string,
        value_serde=Serdes.string,
    )
    grouped.count(store="letters").to_stream().to("out", value_serde=Serdes.long)


def test_a_table_that_is_regrouped_subtracts_then_adds() -> None:
    rows = [("a", "apple", 1), ("b", "ant", 2), ("a", "bee", 3), ("b", "axe", 4), ("a", None, 5)]

    out = run(regrouped, rows, value_serde=Serdes.long)

    assert out == [
        ("a", 1, 1),
        ("a", 2, 2),
        ("a", 1, 3),
        ("b", 1, 3),
        # The same new key: one change, no step in between.
        ("a", 1, 4),
        ("b", 0, 5),
    ]


def test_a_side_without_a_new_key_is_left_out() -> None:
    rows = [("a", "", 1), ("a", "x", 2), ("a", "", 3)]

    assert run(regrouped, rows, value_serde=Serdes.long) == [("x", 1, 2), ("x", 0, 3)]


def test_reduce_of_a_grouped_table_subtracts_then_adds() -> None:
    def draw(builder: StreamsBuilder) -> None:
        table = builder.table("in", value_serde=Serdes.string)
        grouped = table.group_by(lambda k, v: (v[0], v), value_serde=Serdes.string)
        reduced = grouped.reduce(lambda a, b: f"{a}+{b}", lambda a, b: f"{a}-{b}")
        reduced.to_stream().to("out")

    rows = [("a", "x1", 1), ("b", "x2", 2), ("a", "x3", 3), ("b", None, 4)]
    assert run(draw, rows) == [
        ("x", "x1", 1),
        ("x", "x1+x2", 2),
        ("x", "x1+x2-x1+x3", 3),
        ("x", "x1+x2-x1+x3-x2", 4),
    ]


def test_a_grouped_tables_record_without_a_key_is_an_error() -> None:
    rig = TaskRig(regrouped, subtopology=1)
    rig.add(rig.task.partitions[0].topic, raw(0, None, b"x\x01"))

    with pytest.raises(ProcessingError, match="has no key"):
        rig.process()


def test_repartitioning_drops_null_keys_without_counting_them() -> None:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").repartition(name="again").to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, None, "x"), raw(1, "a", "y"))

    rig.process()

    assert [key for key, _, _ in rig.sent("again-repartition")] == [b"a"]
    assert rig.task.statistics().total(DROPPED_RECORDS) == 0


def test_a_cached_aggregate_forwards_the_last_value_at_the_commit() -> None:
    rig = TaskRig(counted, statestore_cache_max_bytes=1_000_000)
    rig.add("in", raw(0, "a", "x"), raw(1, "b", "x"), raw(2, "a", "x"))
    rig.process()

    assert rig.sent() == []
    rig.commit()

    assert {key: value and value[-1] for key, value, _ in rig.sent()} == {b"a": 2, b"b": 1}
    assert len(rig.sent("app-counts-changelog")) == 2


@pytest.mark.parametrize(
    ("partitioner", "partitions"),
    [
        (lambda topic, key, value, count: count - 1, [3]),
        (lambda topic, key, value, count: None, [None]),
        (lambda topic, key, value, count: [0, 2], [0, 2]),
        (lambda topic, key, value, count: [], []),
    ],
    ids=["one", "the default", "several", "none"],
)
def test_a_partitioner_chooses(partitioner: Any, partitions: list[int | None]) -> None:
    rig = TaskRig(lambda builder: builder.stream("in").to("out", partitioner=partitioner))
    rig.add("in", raw(0, "a", "x"))

    rig.process()

    assert [record.partition for record in rig.collector.of_topic("out")] == partitions
    assert rig.task.statistics().total(DROPPED_RECORDS) == (not partitions)


def test_a_partition_that_does_not_exist_is_an_error() -> None:
    rig = TaskRig(lambda builder: builder.stream("in").to("out", partitioner=lambda *_: 4))
    rig.add("in", raw(0, "a", "x"))

    with pytest.raises(ProcessingError, match="chose partition 4 of topic out, which has 4"):
        rig.process()


def test_a_topic_may_be_chosen_per_record() -> None:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").to(lambda key, value, context: f"out-{key}-{context.offset}")

    rig = TaskRig(draw)
    rig.add("in", raw(3, "a", "x"), raw(4, "b", "y"))

    rig.process()

    assert [record.topic for record in rig.collector.records] == ["out-a-3", "out-b-4"]


def test_headers_travel_with_the_record() -> None:
    rig = TaskRig(lambda builder: builder.stream("in").map_values(str.upper).to("out"))
    rig.add("in", (0, 5, b"a", b"x", [("trace", b"1")]))

    rig.process()

    assert rig.collector.records[0].headers == [("trace", b"1")]
