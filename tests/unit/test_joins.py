"""Joins of streams with tables and of two tables, run by the test driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater import Joined, Serdes, StreamsBuilder
from headwater.errors import PartitionMismatchError, ProcessingError, TopologyError
from headwater.model.metrics import DROPPED_RECORDS
from headwater.model.partitions import plan
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KStream, KTable

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
UNCACHED = {"statestore.cache.max.bytes": "0"}


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def stream(builder: StreamsBuilder, topic: str = "s") -> KStream[str, str]:
    return builder.stream(topic, **STRINGS)


def table(builder: StreamsBuilder, topic: str = "t", **options: Any) -> KTable[str, str]:
    return builder.table(topic, **STRINGS, **options)


def driven(builder: StreamsBuilder, **config: Any) -> TopologyTestDriver:
    return TopologyTestDriver(builder.build(), {"application.id": "app", **UNCACHED, **config})


def pipe(driver: TopologyTestDriver, *records: tuple[str, str | None, str | None, int]) -> None:
    for topic, key, value, at in records:
        inputs = driver.create_input_topic(topic, Serdes.string, Serdes.string)
        inputs.pipe_input(key, value, at)


def results(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, Any, int]]:
    outputs = driver.create_output_topic(topic, Serdes.string, Serdes.string)
    return [(found.key, found.value, found.timestamp) for found in outputs.read_records_to_list()]


# ---- a stream and a table --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("join", [("a", "late+new", 3)]),
        ("left_join", [("a", "early+None", 9), ("a", "late+new", 3), (None, "keyless+None", 4)]),
    ],
)
def test_a_record_meets_what_the_table_holds_when_it_is_processed(
    method: str, expected: list[Any]
) -> None:
    builder = StreamsBuilder()
    joined: Any = getattr(stream(builder), method)(table(builder), both)
    joined.to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("s", "a", "early", 9), ("t", "a", "old", 7), ("t", "a", "new", 5))
        pipe(driver, ("s", "a", "late", 3), ("s", None, "keyless", 4), ("s", "a", None, 5))

        assert results(driver) == expected
        dropped = 2 if method == "join" else 1
        assert driver.task.statistics().total(DROPPED_RECORDS) == dropped
        assert len(driver.warnings) == dropped
        assert driver.warnings[-1] == (
            f"task 0_0, node KSTREAM-{method.upper().replace('_', '')}-0000000004: "
            "Skipping record due to null join key or value. topic=[s] partition=[0] offset=[3]"
        )


def test_the_joiner_is_given_the_key_if_it_is_asked_to() -> None:
    builder = StreamsBuilder()
    settings: Joined[str, str, str] = Joined(name="meet")
    stream(builder).join(
        table(builder), lambda key, left, right: f"{key}:{left}+{right}", settings, with_key=True
    ).to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("t", "a", "1", 0), ("s", "a", "2", 0))

        assert results(driver) == [("a", "a:2+1", 0)]


def rekeyed(builder: StreamsBuilder) -> KStream[Any, str]:
    """A stream under its values' first letters; an empty value has none."""
    return stream(builder).select_key(lambda _key, value: value[:1] or None)


@pytest.mark.parametrize(
    ("method", "expected"),
    [("join", [("b", "bee+B", 2)]), ("left_join", [("b", "bee+B", 2), (None, "+None", 3)])],
)
def test_a_stream_with_other_keys_goes_through_a_topic_without_those_that_nobody_joins(
    method: str, expected: list[Any]
) -> None:
    builder = StreamsBuilder()
    joined: Any = getattr(rekeyed(builder), method)(
        table(builder), both, name="meet", key_serde=Serdes.string
    )
    joined.to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("t", "b", "B", 1), ("s", "x", "bee", 2), ("s", "x", "", 3))

        assert results(driver) == expected
        sent = [one.key for one in driver.history if one.topic == "app-meet-repartition"]
        assert sent == ([b"b"] if method == "join" else [b"b", None])
        assert driver.task.statistics().total(DROPPED_RECORDS) == 0


def test_joins_without_a_name_share_a_repartition_topic_and_others_do_not() -> None:
    builder = StreamsBuilder()
    keyed, other = rekeyed(builder), table(builder)
    for name in (None, None, "third"):
        keyed.join(other, both, name=name, key_serde=Serdes.string)

    topics = [*builder.build().repartition_topics]

    assert topics == ["KSTREAM-KEY-SELECT-0000000001-repartition", "third-repartition"]


# ---- two tables ------------------------------------------------------------------------------

UPDATES = [
    ("t", "a", "1", 5),
    ("u", "a", "2", 3),
    ("t", "a", None, 4),
    ("u", "a", None, 1),
    ("u", "a", None, 2),
    ("u", "a", "4", 7),
    ("t", "a", "5", 6),
]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("join", [("1+2", 5), (None, 4), ("5+4", 7)]),
        ("left_join", [("1+None", 5), ("1+2", 5), (None, 4), ("5+4", 7)]),
        (
            "outer_join",
            [
                ("1+None", 5), ("1+2", 5), ("None+2", 4), (None, 1), ("None+4", 7), ("5+4", 7),
            ],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stored", [{}, {"store": "made", "value_serde": Serdes.string}])
def test_an_update_of_either_table_gives_a_result_at_the_later_time(
    method: str, expected: list[Any], stored: dict[str, Any]
) -> None:
    builder = StreamsBuilder()
    left, right = table(builder, "t"), table(builder, "u")
    getattr(left, method)(right, both, **stored).to_stream().to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, *UPDATES)

        assert [(value, at) for _, value, at in results(driver)] == expected
        if stored:
            assert driver.get_state_store("made").get("a") == ("5+4", 7)


def test_a_deletion_beside_a_partner_is_passed_on_even_if_there_was_no_result() -> None:
    builder = StreamsBuilder()
    table(builder, "t").join(table(builder, "u"), both).to_stream().to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("u", "a", "2", 3), ("t", "a", None, 9))

        assert results(driver) == [("a", None, 9)]


def test_a_table_is_joined_with_itself() -> None:
    builder = StreamsBuilder()
    mine = table(builder)
    mine.outer_join(mine, both).to_stream().to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("t", "a", "1", 3), ("t", "a", None, 4))

        assert [row[1] for row in results(driver)] == ["1+1", "1+1", None, None]


def test_a_joined_table_says_what_it_held_before_to_who_takes_it_away() -> None:
    builder = StreamsBuilder()
    joined = table(builder, "t").left_join(table(builder, "u"), both)
    counts = joined.group_by(lambda key, value: (value, key), **STRINGS).count()
    counts.to_stream().map_values(str).to("out", **STRINGS)

    with driven(builder) as driver:
        pipe(driver, ("t", "a", "1", 1), ("u", "a", "2", 2), ("t", "a", None, 3))

        assert [row[:2] for row in results(driver)] == [
            ("1+None", "1"), ("1+None", "0"), ("1+2", "1"), ("1+2", "0"),
        ]  # fmt: skip


# ---- looking up a table without a store ------------------------------------------------------


def _mapped(shout: KTable[str, str]) -> KTable[str, str]:
    return shout.filter_not(lambda _key, value: value == "no").map_values(str.upper)


def _joined(one: KTable[str, str]) -> KTable[str, str]:
    return one.left_join(one.map_values(lambda value: value * 2), both)


@pytest.mark.parametrize(
    ("make", "found"),
    [(_mapped, {"yes": "YES", "no": None}), (_joined, {"yes": "yes+yesyes", "no": "no+nono"})],
)
def test_a_table_without_a_store_is_found_through_the_one_above(
    make: Callable[[KTable[str, str]], KTable[str, str]], found: dict[str, str | None]
) -> None:
    builder = StreamsBuilder()
    above = table(builder)
    stream(builder).left_join(make(above), both).to("out", **STRINGS)
    topology = builder.build()

    assert [*topology.stores] == ["t-STATE-STORE-0000000000"]
    with driven(builder) as driver:
        for value, expected in found.items():
            pipe(driver, ("t", "k", value, 1), ("s", "k", "x", 2))

            assert results(driver) == [("k", f"x+{expected}", 2)]


def test_a_table_with_a_store_is_found_there_and_nothing_above_is_stored() -> None:
    builder = StreamsBuilder()
    kept = table(builder).map_values(str.upper, store="kept", **STRINGS)
    stream(builder).join(kept, both).to("out", **STRINGS)

    assert [*builder.build().stores] == ["kept"]
    with driven(builder) as driver:
        pipe(driver, ("t", "k", "b", 1), ("s", "k", "x", 2))

        assert results(driver) == [("k", "x+B", 2)]


@pytest.mark.parametrize("joins_first", [True, False])
def test_a_filter_has_old_values_only_from_a_store_that_was_there_before(
    *, joins_first: bool
) -> None:
    """As in Java, where a join makes the table that it reads stored when it is drawn."""
    builder = StreamsBuilder()
    source = table(builder)

    def join() -> None:
        stream(builder).join(source, both).to("out", **STRINGS)

    if joins_first:
        join()
    source.filter(lambda _key, value: value == "yes").to_stream().to("kept", **STRINGS)
    if not joins_first:
        join()

    with driven(builder) as driver:
        pipe(driver, ("t", "k", "no", 1))

        assert len(results(driver, "kept")) == (0 if joins_first else 1)


# ---- what is refused, and where errors arise -------------------------------------------------


def fails(*_values: Any) -> str:
    raise ValueError("a bad joiner")


@pytest.mark.parametrize("of_table", [True, False])
def test_what_the_joiner_raises_is_decided_at_the_node_of_the_join(*, of_table: bool) -> None:
    builder = StreamsBuilder()
    if of_table:
        table(builder, "s").join(table(builder), fails, name="meet")
    else:
        stream(builder).join(table(builder), fails, name="meet")

    node = "meet-join-this" if of_table else "meet"
    with (
        driven(builder) as driver,
        pytest.raises(ProcessingError, match=f"node {node}, topic s, partition 0, offset 0"),
    ):
        pipe(driver, ("t", "a", "1", 0), ("s", "a", "2", 0))


def test_what_is_joined_is_of_one_builder() -> None:
    mine, theirs = StreamsBuilder(), StreamsBuilder()

    with pytest.raises(TopologyError, match="another builder: build both with one StreamsBuilder"):
        stream(mine).join(table(theirs), both)
    with pytest.raises(TopologyError, match="Cannot outer join 'KTABLE-SOURCE-0000000003' with"):
        table(mine).outer_join(table(theirs), both)


def test_topics_that_are_joined_need_equal_partition_counts() -> None:
    builder = StreamsBuilder()
    stream(builder).join(table(builder), both)
    report = builder.build().report("app")

    with pytest.raises(PartitionMismatchError) as raised:
        plan(report, {"s": 2, "t": 3})

    assert "'s' has 2 and 't' has 3; call repartition()" in str(raised.value)


def test_a_repartition_topic_takes_the_count_of_what_it_is_joined_with() -> None:
    builder = StreamsBuilder()
    stream(builder).repartition(name="by-key").left_join(table(builder), both)

    found = plan(builder.build().report("app"), {"s": 2, "t": 3})

    counts = {topic.name: topic.partitions for topic in found.internal_topics}
    assert counts["app-by-key-repartition"] == 3


# ---- where Java loses sight ------------------------------------------------------------------


def test_a_source_that_is_shared_is_copartitioned_all_the_same() -> None:
    builder = StreamsBuilder()
    stream(builder)
    stream(builder).join(table(builder), both)

    assert [sorted(group) for group in builder.build().copartition_groups] == [["s", "t"]]


def test_a_repartition_that_is_used_again_is_copartitioned_all_the_same() -> None:
    builder = StreamsBuilder()
    keyed = rekeyed(builder)
    for topic in ("t", "u"):
        keyed.join(table(builder, topic), both, key_serde=Serdes.string)

    (group,) = builder.build().copartition_groups

    assert sorted(group) == ["KSTREAM-KEY-SELECT-0000000001-repartition", "t", "u"]


def test_a_table_comes_before_a_join_that_reads_it_wherever_its_repartition_was_drawn() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder).group_by(lambda _key, value: value, name="by-value", **STRINGS)
    counted = grouped.count(store="first")
    stream(builder, "other").join(counted, both)
    grouped.count(store="second")

    assert "first" in builder.build().stores
