"""The passes over drawn calls, each by itself: calls in, calls out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headwater.dsl.calls import (
    Call,
    JoinedTable,
    Processor,
    Repartition,
    RepartitionNames,
    Source,
    Store,
    Table,
)
from headwater.dsl.rewrite import rewrite
from headwater.dsl.rewrite.null_keys import keep_null_keys
from headwater.dsl.rewrite.old_values import send_old_values
from headwater.dsl.rewrite.order import parents_first
from headwater.dsl.rewrite.repartitions import merge_repartitions
from headwater.dsl.rewrite.source_topics import reuse_source_topics
from headwater.dsl.rewrite.sources import merge_sources
from headwater.dsl.writing import write
from headwater.errors import TopologyError
from headwater.model.nodes import SourceNode
from headwater.model.offset_reset import OffsetReset
from headwater.model.operators.aggregate import StreamAggregate, TableRepartitionMap
from headwater.model.operators.join import Join, StreamTableJoin, TableJoin
from headwater.model.operators.stateless import MapValues, Merge, PassThrough, SelectKey
from headwater.model.operators.table import TableFilter, TableMapValues, TableSource, TableToStream
from headwater.model.stores import StoreSpec
from headwater.serde import Serdes
from headwater.topology_settings import Optimization

if TYPE_CHECKING:
    from headwater.dsl.calls import Calls, Part
    from headwater.model.operators.base import Operator, TableOperator


def _calls(*drawn: tuple[Part, tuple[int, ...]]) -> Calls:
    return tuple(Call(id=n, parents=parents, part=part) for n, (part, parents) in enumerate(drawn))


def _source(name: str, *topics: str, **settings: Any) -> Source:
    return Source(node=SourceNode(name=name, topics=topics, **settings))


def _processor(name: str, operator: Operator | None = None) -> Processor:
    return Processor(name=name, operator=operator or PassThrough())


# ---- sources ---------------------------------------------------------------------------------


def test_what_is_below_a_second_source_of_the_topics_is_put_below_the_first() -> None:
    calls = _calls(
        (_source("first", "a", "b"), ()),
        (_source("second", "b", "a"), ()),
        (_processor("x"), (1,)),
    )

    assert merge_sources(calls) == (calls[0], replace(calls[2], parents=(0,)))


def test_a_parent_that_is_replaced_becomes_the_last_unless_it_is_there_already() -> None:
    calls = _calls(
        (_source("first", "a"), ()),
        (_source("second", "a"), ()),
        (_source("other", "b"), ()),
        (_processor("moved"), (1, 2)),
        (_processor("there"), (0, 2, 1)),
    )

    merged = merge_sources(calls)

    assert [call.parents for call in merged[-2:]] == [(2, 0), (0, 2)]


def test_a_table_shares_its_source_with_nobody() -> None:
    table = replace(_source("of table", "a"), of_table=True)
    calls = _calls((table, ()), (_source("of stream", "a"), ()), (table, ()))

    assert merge_sources(calls) == calls


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (_source("second", "a"), "do not read the same topics"),
        (_source("second", "a", "b", "c"), "do not read the same topics"),
        (_source("second", "b", "a", offset_reset=OffsetReset.LATEST), "offset reset"),
    ],
)
def test_sources_that_contradict_each_other_are_refused(second: Source, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        merge_sources(_calls((_source("first", "a", "b"), ()), (second, ())))


# ---- old values ------------------------------------------------------------------------------

TOPIC = (_source("topic", "in"), ())
ASKING = _processor("asking", TableRepartitionMap(mapper=lambda key, value: (key, value)))


def _table(operator: TableOperator, store: str | None) -> Table:
    return Table(
        name="t", operator=operator, store=None if store is None else StoreSpec(name=store)
    )


def _source_table(*, stored: bool) -> Table:
    return _table(TableSource(store="s" if stored else None), "s")


def _mapped(store: str | None = None) -> Table:
    return _table(TableMapValues(mapper=str, store=store), store)


def _filtered(store: str | None = None) -> Table:
    return _table(TableFilter(predicate=lambda _k, _v: True, store=store), store)


def _aggregate() -> Table:
    operator = StreamAggregate(store="s", aggregator=lambda *_: 1, initializer=None)
    return _table(operator, "s")


def _tables(*drawn: tuple[Part, tuple[int, ...]]) -> list[tuple[bool, str | None]]:
    """What of a chain of tables sends old values, and its store, in the order of drawing."""
    return [
        (call.part.operator.send_old, call.part.operator.store)
        for call in send_old_values(_calls(TOPIC, *drawn))
        if isinstance(call.part, Table)
    ]


def test_nobody_who_is_not_asked_sends_old_values_or_is_stored() -> None:
    drawn = (_source_table(stored=False), (0,)), (_mapped(), (1,)), (_filtered(), (2,))

    assert _tables(*drawn, (_processor("p", TableToStream()), (3,))) == [(False, None)] * 3


def test_a_source_table_that_is_asked_is_given_its_store() -> None:
    drawn = (_source_table(stored=False), (0,)), (_mapped(), (1,)), (ASKING, (2,))

    assert _tables(*drawn) == [(True, "s"), (True, None)]


def test_a_stored_table_in_between_answers_for_those_above() -> None:
    drawn = (_source_table(stored=False), (0,)), (_mapped("m"), (1,)), (_filtered(), (2,))

    assert _tables(*drawn, (ASKING, (3,))) == [(False, None), (True, "m"), (True, None)]


def test_an_aggregation_sends_old_values_from_its_store_when_asked() -> None:
    assert _tables((_aggregate(), (0,))) == [(False, "s")]
    assert _tables((_aggregate(), (0,)), (ASKING, (1,))) == [(True, "s")]


def test_a_filter_has_old_values_wherever_a_store_is_there() -> None:
    for table in (_source_table(stored=True), _aggregate()):
        drawn = (table, (0,)), (_mapped(), (1,)), (_filtered(), (2,))

        assert _tables(*drawn) == [(True, "s"), (True, None), (True, None)]


def test_a_filter_with_a_store_does_not_send_from_it_unless_it_is_asked() -> None:
    drawn = (_source_table(stored=False), (0,)), (_filtered("f"), (1,))

    assert _tables(*drawn) == [(False, None), (False, "f")]
    assert _tables(*drawn, (ASKING, (2,))) == [(False, None), (True, "f")]


def test_a_filter_finds_the_stores_that_were_there_when_it_was_drawn() -> None:
    table = (_source_table(stored=False), (0,))

    assert _tables(table, (_filtered(), (1,)), (ASKING, (1,))) == [(True, "s"), (False, None)]
    assert _tables(table, (ASKING, (1,)), (_filtered(), (1,))) == [(True, "s"), (True, None)]


def test_a_store_that_lies_in_reserve_is_not_written() -> None:
    calls = _calls(TOPIC, (_source_table(stored=False), (0,)))

    assert write(rewrite(calls)).stores == {}
    asked = (*calls, Call(id=2, parents=(1,), part=ASKING))
    assert list(write(rewrite(asked)).stores) == ["s"]


# ---- order -----------------------------------------------------------------------------------


def test_calls_are_written_in_the_order_of_drawing() -> None:
    calls = _calls(
        (_source("a", "a"), ()),
        (_source("b", "b"), ()),
        (_processor("c"), (1,)),
        (_processor("d"), (0,)),
        (Store(spec=StoreSpec(name="s")), ()),
    )

    assert parents_first(calls) == calls


def test_a_call_that_was_drawn_again_takes_what_is_below_it_along() -> None:
    names = RepartitionNames(topic="t", sink="x", source="y")
    shared = Repartition(names=names, key_serde=None, value_serde=None)
    source, again, first, second, third = _calls(
        (_source("a", "a"), ()),
        (shared, (0,)),
        (_processor("first"), (1,)),
        (_processor("second"), (0,)),
        (_processor("third"), (1,)),
    )

    ordered = parents_first((source, first, second, again, third))

    assert ordered == (source, second, again, first, third)


def test_a_call_waits_for_all_of_its_parents() -> None:
    source, late, both = _calls(
        (_source("a", "a"), ()), (_processor("late"), (0,)), (_processor("both"), (0, 1))
    )

    assert parents_first((source, both, late)) == (source, late, both)


# ---- what joins ask for ----------------------------------------------------------------------


def _reserve(name: str) -> Table:
    return Table(name=name, operator=TableSource(), store=StoreSpec(name=f"{name}-store"))


def _lookup(*, left: bool) -> Processor:
    return _processor("join", StreamTableJoin(table="t", joiner=max, left=left))


@pytest.mark.parametrize("left", [True, False])
def test_a_left_join_keeps_null_keys_in_every_repartition_above(*, left: bool) -> None:
    names = RepartitionNames(topic="r-repartition", filter="f", sink="k", source="r")
    part = Repartition(names=names, key_serde=None, value_serde=None)
    calls = _calls(
        (_source("s", "s"), ()), (part, (0,)), (part, (1,)), (_processor("x"), (2,)),
        (_lookup(left=left), (3,)), (part, (4,)),
    )  # fmt: skip

    kept = [
        call.part.keeps_null_keys
        for call in keep_null_keys(calls)
        if isinstance(call.part, Repartition)
    ]

    assert kept == [left, left, False]


def test_a_source_table_that_is_looked_up_through_others_is_stored_and_sends_no_old_values() -> (
    None
):
    mapped = Table(name="m", operator=TableMapValues(mapper=str))
    calls = _calls(
        (_source("s", "s"), ()), (_reserve("t"), (0,)), (mapped, (1,)), (_lookup(left=False), (0,))
    )
    calls = (*calls[:-1], replace(calls[-1], reads=(2,)))

    decided = send_old_values(calls)

    assert _as_table(decided[1]).operator == TableSource(store="t-store")
    assert decided[2] == calls[2]


@pytest.mark.parametrize(
    ("kind", "sending"),
    [(Join.INNER, [False, False]), (Join.LEFT, [True, False]), (Join.OUTER, [True, True])],
)
def test_a_join_asks_for_old_values_where_a_side_may_be_missing(
    kind: Join, sending: list[bool]
) -> None:
    joined = JoinedTable(
        name="j", this_name="j-this", other_name="j-other",
        operator=TableJoin(kind=kind, left="t", right="u", joiner=max),
    )  # fmt: skip
    drawn = _calls((_reserve("t"), ()), (_reserve("u"), ()), (joined, (0, 1)))
    calls = (*drawn[:-1], replace(drawn[-1], reads=(0, 1)))

    tables = [_as_table(call).operator for call in send_old_values(calls)]

    assert [table.send_old for table in tables] == [*sending, False]
    assert [table.store for table in tables] == ["t-store", "u-store", None]


def test_a_joined_table_that_is_asked_for_old_values_asks_both_tables() -> None:
    joined = JoinedTable(
        name="j", this_name="j-this", other_name="j-other",
        operator=TableJoin(kind=Join.INNER, left="t", right="u", joiner=max),
    )  # fmt: skip
    asking = _processor("group", TableRepartitionMap(mapper=lambda k, v: (k, v)))
    calls = _calls((_reserve("t"), ()), (_reserve("u"), ()), (joined, (0, 1)), (asking, (2,)))

    tables = [_as_table(call).operator for call in send_old_values(calls)[:-1]]

    assert [table.send_old for table in tables] == [True, True, True]


def _as_table(call: Call) -> Table:
    assert isinstance(call.part, Table)
    return call.part


# ---- optimizations ---------------------------------------------------------------------------


def _repartition(name: str, **settings: Any) -> Repartition:
    names = RepartitionNames(topic=f"{name}-repartition", filter="f", sink="s", source=name)
    serdes: dict[str, Any] = {"key_serde": None, "value_serde": None}
    return Repartition(names=names, **serdes | {"mergeable": True} | settings)


def _key_changer(name: str) -> Processor:
    return _processor(name, SelectKey(mapper=lambda key, _: key))


def _value_changer(name: str) -> Processor:
    return _processor(name, MapValues(mapper=lambda value: value))


def _shape(calls: Calls) -> dict[str, list[str]]:
    """Names with those of their parents."""
    names = {call.id: call.part.name for call in calls}
    return {names[call.id]: [names[parent] for parent in call.parents] for call in calls}


def test_repartitions_below_a_change_of_the_key_become_one_with_the_first_name() -> None:
    calls = _calls(
        (_source("in", "in"), ()),
        (_key_changer("key"), (0,)),
        (_processor("kept"), (1,)),
        (_repartition("first", value_serde=Serdes.string), (2,)),
        (_processor("a"), (3,)),
        (_repartition("second", key_serde=Serdes.long, value_serde=Serdes.long), (1,)),
        (_processor("b"), (5,)),
    )

    merged = merge_repartitions(calls)

    assert list(_shape(merged).items()) == [
        ("in", []),
        ("key", ["in"]),
        ("first-repartition-source", ["key"]),
        ("kept", ["first-repartition-source"]),
        ("a", ["kept"]),
        ("b", ["first-repartition-source"]),
    ]
    part = merged[2].part
    assert isinstance(part, Repartition)
    assert (part.key_serde, part.value_serde) == (Serdes.long, Serdes.string)
    assert part.names.topic == "first-repartition"


def test_two_repartitions_below_one_filter_are_merged() -> None:
    calls = _calls(
        (_key_changer("key"), ()),
        (_processor("kept"), (0,)),
        (_repartition("first"), (1,)),
        (_processor("a"), (2,)),
        (_repartition("second"), (1,)),
        (_processor("b"), (4,)),
    )

    shape = _shape(merge_repartitions(calls))

    assert shape["kept"] == ["first-repartition-source"]
    assert shape["a"] == shape["b"] == ["kept"]


def test_a_merge_of_streams_is_where_all_that_is_below_it_is_repartitioned() -> None:
    calls = _calls(
        (_source("other", "other"), ()),
        (_key_changer("key"), ()),
        (_processor("merge", Merge()), (1, 0)),
        (_repartition("first"), (2,)),
        (_processor("a"), (3,)),
    )

    shape = _shape(merge_repartitions(calls))

    assert shape["merge"] == ["key", "other"]
    assert shape["first-repartition-source"] == ["merge"]
    assert shape["a"] == ["first-repartition-source"]


def test_a_repartition_does_not_move_past_where_another_stream_comes_in() -> None:
    calls = _calls(
        (_source("other", "other"), ()),
        (_key_changer("key"), ()),
        (_processor("merge", Merge()), (1, 0)),
        (_repartition("of both"), (2,)),
        (_processor("a"), (3,)),
        (_repartition("of one"), (1,)),
        (_processor("b"), (5,)),
    )

    shape = _shape(merge_repartitions(calls))

    assert shape["of both"] == ["merge"]
    assert shape["merge"] == ["key", "other"]
    assert shape["b"] == ["of one-repartition-source"]


@pytest.mark.parametrize(
    "between", [_value_changer("between"), _repartition("between", mergeable=False)]
)
def test_a_repartition_stays_below_what_changes_values_or_is_asked_for(between: Part) -> None:
    calls = _calls(
        (_key_changer("key"), ()),
        (between, (0,)),
        (_repartition("stays"), (1,)),
        (_processor("a"), (2,)),
    )

    assert merge_repartitions(calls) == calls


def test_what_is_copartitioned_with_a_merged_repartition_is_so_with_the_one_in_its_place() -> None:
    join = StreamTableJoin(table="t", joiner=lambda left, _: left)
    calls = (
        *_calls(
            (_key_changer("key"), ()),
            (_repartition("first"), (0,)),
            (_processor("a"), (1,)),
            (_repartition("second"), (0,)),
            (_source_table(stored=True), ()),
        ),
        Call(
            id=5,
            parents=(3,),
            part=Processor(name="join", operator=join),
            reads=(4,),
            copartitioned=(3, 4),
        ),
    )

    merged = {call.part.name: call for call in merge_repartitions(calls)}

    assert merged["join"].copartitioned == (merged["first-repartition-source"].id, 4)


def test_only_a_table_directly_below_its_topic_has_that_for_a_changelog() -> None:
    store = StoreSpec(name="st", topic_config={"a": "b"})
    table = Table(name="t", operator=TableSource(store="st"), store=store)
    source = replace(_source("in", "topic"), of_table=True)
    calls = _calls((source, ()), (table, (0,)), (_source("plain", "other"), ()), (table, (2,)))

    rewritten = reuse_source_topics(calls)

    parts = [call.part for call in rewritten if isinstance(call.part, Table)]
    assert [part.store for part in parts] == [
        replace(store, logging=False, topic_config={}, source_topic="topic"),
        store,
    ]


def test_an_optimisation_is_made_if_it_is_asked_for() -> None:
    calls = _calls((_key_changer("key"), ()), (_processor("x"), (0,)), (_repartition("r"), (1,)))

    assert [call.part.name for call in rewrite(calls)] == ["key", "x", "r"]
    optimized = rewrite(calls, {Optimization.MERGE_REPARTITION_TOPICS})
    assert [call.part.name for call in optimized] == ["key", "r-repartition-source", "x"]
