"""Joins where Java loses sight of a topic or a table; what we do stands in unit/test_joins.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import (
    merges_too_much,
    refused_by_java_alone,
    subscribes_from_no_partition,
)
from tests.oracle.run import run
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STREAM = {"id": "s", "op": "stream", "topics": ["in"]}
TABLE = {"id": "t", "op": "table", "topic": "tab"}
REKEYED = {"id": "k", "op": "select_key", "on": "s", "fn": "value_as_key"}
FORGOTTEN: dict[str, list[dict[str, Any]]] = {
    "a source that is shared": [
        STREAM,
        {**STREAM, "id": "again"},
        TABLE,
        {"id": "j", "op": "join", "on": "again", "with": "t", "fn": "both"},
    ],
    "a repartition that is used again": [
        STREAM,
        REKEYED,
        {"id": "u", "op": "table", "topic": "first"},
        {"id": "i", "op": "join", "on": "k", "with": "u", "fn": "both"},
        TABLE,
        {"id": "j", "op": "join", "on": "k", "with": "t", "fn": "both"},
    ],
}


def _asked(steps: list[dict[str, Any]]) -> dict[str, Any]:
    both = {"key": "string", "value": "string"}
    return {"app_id": "app", "config": {}, "inputs": [], **both, "steps": steps}


@pytest.mark.parametrize("case", FORGOTTEN)
def test_java_does_not_copartition_what_we_do(case: str, oracle: Oracle) -> None:
    request = _asked(FORGOTTEN[case])

    java = oracle.ask(request)
    groups = Drawing(request).topology().report("app").copartition_groups

    assert ["tab"] in java["copartitioned"]
    assert len(groups) == 1
    assert {"tab"} < {*groups[0]}


def test_java_writes_a_join_before_its_table_when_a_group_is_used_again(oracle: Oracle) -> None:
    request = _asked(
        [
            STREAM,
            {
                "id": "g",
                "op": "group_by",
                "on": "s",
                "fn": "value_as_key",
                "grouped": {"name": "g"},
            },
            {"id": "t", "op": "count", "on": "g", "materialized": {"store": "first"}},
            {"id": "j", "op": "join", "on": "s", "with": "t", "fn": "both"},
            {"id": "u", "op": "count", "on": "g"},
        ]
    )

    assert refused_by_java_alone(oracle.ask(request))
    assert "first" in Drawing(request).topology().stores


def test_a_row_that_comes_and_goes_within_a_record_cache_stays_joined(oracle: Oracle) -> None:
    """Between two flushes an order finds the customer; that he is gone again is told to nobody."""
    order = {"store": "orders", "caching": False}
    request = _asked(
        [
            {"id": "o", "op": "table", "topic": "orders", "materialized": order},
            {"id": "c", "op": "table", "topic": "customers"},
            {
                "id": "j",
                "op": "left_join",
                "on": "o",
                "with": "c",
                "foreign_key": "first_letter",
                "fn": "both",
                "materialized": {"store": "joined"},
            },
        ]
    )
    request["commit_every"] = 3
    records = (("customers", "65", "657665"), ("orders", "6f", "6531"), ("customers", "65", None))
    request["inputs"] = [
        {"topic": topic, "key": key, "value": value, "timestamp": at}
        for at, (topic, key, value) in enumerate(records)
    ]

    java, ours = oracle.ask(request), run(request)

    assert java["stores"]["joined"] == ours["stores"]["joined"] == [["6f", b"e1+eve".hex(), 1]]
    assert ours["dropped"] == java["dropped"]
    request["commit_every"] = 0
    assert oracle.ask(request)["stores"] == run(request)["stores"]
    assert run(request)["stores"]["joined"] == [["6f", b"e1+null".hex(), 2]]


def test_an_empty_value_of_the_right_table_is_none_to_a_join_by_foreign_key(oracle: Oracle) -> None:
    """The bytes of a response end where the value begins, whether there is one or not."""
    join = {"op": "left_join", "foreign_key": "first_letter", "fn": "both"}
    request = _asked(
        [
            {"id": "o", "op": "table", "topic": "orders"},
            {"id": "c", "op": "table", "topic": "customers"},
            {"id": "j", **join, "on": "o", "with": "c", "materialized": {"store": "joined"}},
        ]
    )
    request["inputs"] = [
        {"topic": "customers", "key": "65", "value": "", "timestamp": 1},
        {"topic": "orders", "key": "6f", "value": "6531", "timestamp": 2},
    ]

    java, ours = oracle.ask(request), run(request)

    assert java["stores"]["joined"] == ours["stores"]["joined"] == [["6f", b"e1+null".hex(), 2]]
    assert ours["dropped"] == java["dropped"]


def test_java_sends_answers_to_what_a_punctuation_forwards_to_no_partition(oracle: Oracle) -> None:
    """What a punctuation forwards is of no partition, and the other table answers to -1."""
    request = _asked(
        [
            STREAM,
            {"id": "p", "op": "process_values", "on": "s", "fn": "wall_ticks"},
            {"id": "o", "op": "to_table", "on": "p"},
            {"id": "c", "op": "table", "topic": "customers"},
            {
                "id": "j",
                "op": "left_join",
                "on": "o",
                "with": "c",
                "foreign_key": "first_letter",
                "fn": "both",
                "materialized": {"store": "joined"},
            },
        ]
    )
    record = {"topic": "in", "key": "6f", "value": "6531", "timestamp": 1}
    request["inputs"] = [record, {"advance_ms": 10}]

    java, ours = oracle.ask(request), run(request)

    assert refused_by_java_alone(java)
    assert java["error"]["at"] == "run"
    assert java["error"]["cause"].startswith("Invalid partition: -1")
    ((key, value, timestamp),) = ours["stores"]["joined"]
    assert (key, bytes.fromhex(value), timestamp) == ("6f", b"10 --1--1 1+null", 10)


def test_java_notes_no_partition_of_a_punctuation_where_a_partitioner_answers(
    oracle: Oracle,
) -> None:
    """So the answer finds its way; the partition is in Java's store and changelog."""
    request = _asked(
        [
            STREAM,
            {"id": "p", "op": "process_values", "on": "s", "fn": "wall_ticks"},
            {"id": "o", "op": "to_table", "on": "p"},
            {"id": "c", "op": "table", "topic": "customers"},
            {
                "id": "j",
                "op": "join",
                "on": "o",
                "with": "c",
                "foreign_key": "first_letter",
                "fn": "both",
                "table_joined": {"partitioner": True},
            },
        ]
    )
    record = {"topic": "in", "key": "6f", "value": "6531", "timestamp": 1}
    request["inputs"] = [record, {"advance_ms": 10}]

    java, ours = oracle.ask(request), run(request)

    assert subscribes_from_no_partition(java)
    assert not subscribes_from_no_partition(ours)
    assert ours["dropped"] == java["dropped"]
    (store,) = (name for name in ours["stores"] if "SUBSCRIPTION" in name)
    assert [row[1][-8:] for row in java["stores"][store]] == ["ffffffff"]
    assert [row[1][-8:] for row in ours["stores"][store]] == ["00000000"]


def test_java_lets_a_join_above_a_merge_go_around_the_repartition(oracle: Oracle) -> None:
    """Records of the joined stream keep the partition that they had before their key changed."""
    windows = {"before": 32, "after": 32, "grace": 5}
    request = _asked(
        [
            STREAM,
            REKEYED,
            {"id": "t", "op": "global_table", "topic": "tab"},
            {
                "id": "g",
                "op": "join",
                "on": "k",
                "with": "t",
                "selector": "key_text",
                "fn": "both",
                "name": "around",
            },
            {"id": "m", "op": "merge", "on": "k", "with": "g"},
            {"id": "p", "op": "peek", "on": "k"},
            {
                "id": "j",
                "op": "outer_join",
                "on": "m",
                "with": "p",
                "fn": "both",
                "windows": windows,
            },
        ]
    )
    request["config"] = {"topology.optimization": "all"}

    java, ours = oracle.ask(request)["describe"], run(request)["describe"]

    assert merges_too_much(request, {"describe": java}, ours)
    before, behind = "KSTREAM-KEY-SELECT", "repartition-source"
    above = [
        description.split("Processor: around ")[1].split("<-- ")[1].splitlines()[0]
        for description in (java, ours)
    ]
    assert above[0].startswith(before)
    assert above[1].endswith(behind)


def test_several_records_that_wait_for_a_partner_as_one_are_let_go_when_java_does(
    oracle: Oracle,
) -> None:
    """Java looks at each of them, and keeps in mind the time of the one at which it stops."""
    windows = {"before": 30, "after": 20, "grace": 5}
    joined = {"key": "string", "value": "string", "other": "string"}
    join = {"op": "outer_join", "with": "r", "fn": "both", "windows": windows}
    request = _asked(
        [
            {"id": "l", "op": "stream", "topics": ["left"]},
            {"id": "r", "op": "stream", "topics": ["right"]},
            {"id": "j", "on": "l", **join, "stream_joined": joined},
            {"id": "out", "op": "to", "on": "j", "topic": "out"},
        ]
    )
    records = [("right", "62", 178), ("left", "61", 178), ("left", "61", 179), ("left", "61", 179)]
    records += [("left", "61", 180), ("left", "63", 204), ("left", "63", 205)]
    request["inputs"] = [
        {"topic": topic, "key": key, "value": "78", "timestamp": at} for topic, key, at in records
    ]

    java, ours = oracle.ask(request), run(request)

    assert ours["outputs"] == java["outputs"]
    assert ours["dropped"] == java["dropped"]
    assert [record["timestamp"] for record in ours["outputs"]] == [178, 179, 179]


def test_rows_in_memory_stay_when_a_pattern_finds_another_topic(oracle: Oracle) -> None:
    """They have the numbers of duplicates, which go on when the driver opens the task anew."""
    joined = {"key": "string", "value": "string", "other": "string", "persistent": False}
    join = {"op": "left_join", "with": "r", "fn": "both", "stream_joined": joined}
    windows = {"before": 6, "after": 17, "grace": 1_000}
    request = _asked(
        [
            {"id": "l", "op": "stream", "pattern": "pat-.*"},
            {"id": "r", "op": "stream", "topics": ["right"]},
            {"id": "j", "on": "l", **join, "windows": windows},
            {"id": "out", "op": "to", "on": "j", "topic": "out"},
        ]
    )
    records = [("pat-a", "first"), ("pat-a", "second"), ("pat-b", "third"), ("right", "last")]
    request["inputs"] = [
        {"topic": topic, "key": "61", "value": value.encode().hex(), "timestamp": 5}
        for topic, value in records
    ]

    java, ours = oracle.ask(request), run(request)

    assert ours["stores"] == java["stores"]
    assert ours["outputs"] == java["outputs"]
    assert ours["dropped"] == java["dropped"]
    assert len(ours["outputs"]) == 3


def test_a_late_record_within_the_grace_is_given_alone_and_then_with_its_partner(
    oracle: Oracle,
) -> None:
    """Its window has passed when it is read, so it does not wait: what is read first decides."""
    windows = {"before": 100, "after": 100, "grace": 2_500}
    joined = {"key": "string", "value": "string", "other": "string"}
    join = {"op": "left_join", "with": "r", "fn": "both", "windows": windows}
    request = _asked(
        [
            {"id": "l", "op": "stream", "topics": ["left"]},
            {"id": "r", "op": "stream", "topics": ["right"]},
            {"id": "j", "on": "l", **join, "stream_joined": joined},
            {"id": "out", "op": "to", "on": "j", "topic": "out"},
        ]
    )
    records = [("right", "62", 1_500), ("left", "61", 1_000), ("right", "61", 1_050)]
    request["inputs"] = [
        {"topic": topic, "key": key, "value": "78", "timestamp": at} for topic, key, at in records
    ]

    java, ours = oracle.ask(request), run(request)

    assert ours["outputs"] == java["outputs"]
    assert ours["dropped"] == java["dropped"]
    said = [bytes.fromhex(record["value"]).decode() for record in ours["outputs"]]
    assert said == ["x+null", "x+x"]
