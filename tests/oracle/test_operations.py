"""Java understands every operation of FORMAT.md, with no option and with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STRINGS = {"key": "string", "value": "string"}
LONGS = {"key": "string", "value": "long"}
STORED = {"store": "st", "caching": False, "topic_config": {"a": "b"}, "persistent": False}
KEPT = {**STORED, "retention": 1_000}

SOURCES = [
    {"id": "stream", "op": "stream", "topics": ["in"]},
    {"id": "other", "op": "stream", "topics": ["other"]},
    {"id": "table", "op": "table", "topic": "tab"},
    {"id": "global", "op": "global_table", "topic": "glob"},
    {"id": "grouped_stream", "op": "group_by_key", "on": "stream"},
    {
        "id": "windows",
        "op": "windowed_by",
        "on": "grouped_stream",
        "windows": {"kind": "time", "size": 10, "advance": 5, "grace": 1},
    },
    {
        "id": "sliding",
        "op": "windowed_by",
        "on": "grouped_stream",
        "windows": {"kind": "sliding", "difference": 10, "grace": 1},
    },
    {
        "id": "sessions",
        "op": "windowed_by",
        "on": "grouped_stream",
        "windows": {"kind": "session", "gap": 10, "grace": 1},
        "emit": "close",
    },
    {"id": "grouped_table", "op": "group_by", "on": "table", "fn": "identity_pair"},
]
INPUTS = [
    {"topic": topic, "key": key, "value": value, "timestamp": at}
    for at, key, value in (
        (1_000, "61", "78"),
        (1_000, None, "78"),
        (1_001, "61", None),
        (10, "61", "79"),
    )
    for topic in ("in", "other", "tab", "glob")
]
"""Records without a key or a value, and a late one."""
OPERATIONS: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    (
        {"op": "stream", "topics": ["a", "b"]},
        {"consumed": {"name": "n", "timestamps": "skip", "reset": "latest", **STRINGS}},
        "n",
    ),
    ({"op": "stream", "pattern": "x.*"}, {"consumed": {"timestamps": "wall_clock"}}, None),
    (
        {"op": "table", "topic": "t2"},
        {"consumed": {"name": "n", "timestamps": "use_partition_time"}, "materialized": STORED},
        "n",
    ),
    ({"op": "filter", "on": "stream", "fn": "always"}, {"name": "n"}, "n"),
    ({"op": "filter_not", "on": "stream", "fn": "never"}, {"name": "n"}, "n"),
    ({"op": "map_values", "on": "stream", "fn": "upper"}, {"name": "n"}, "n"),
    ({"op": "map_values", "on": "stream", "fn": "with_key"}, {"name": "n"}, "n"),
    ({"op": "map", "on": "stream", "fn": "swap"}, {"name": "n"}, "n"),
    ({"op": "flat_map", "on": "stream", "fn": "twice"}, {"name": "n"}, "n"),
    ({"op": "flat_map_values", "on": "stream", "fn": "words"}, {"name": "n"}, "n"),
    ({"op": "flat_map_values", "on": "stream", "fn": "key_and_value"}, {"name": "n"}, "n"),
    ({"op": "select_key", "on": "stream", "fn": "value_as_key"}, {"name": "n"}, "n"),
    ({"op": "peek", "on": "stream"}, {"name": "n"}, "n"),
    ({"op": "for_each", "on": "stream"}, {"name": "n"}, "n"),
    ({"op": "print", "on": "stream"}, {"name": "n", "label": "l"}, "n"),
    ({"op": "merge", "on": "stream", "with": "other"}, {"name": "n"}, "n"),
    (
        {"op": "split", "on": "stream", "branches": [{"fn": "always"}]},
        {"name": "n-", "default": {"branched": {"name": "rest"}}},
        "n-rest",
    ),
    (
        {"op": "repartition", "on": "stream"},
        {"repartitioned": {"name": "n", "partitions": 3, **STRINGS}},
        "n-repartition",
    ),
    ({"op": "join", "on": "stream", "with": "table", "fn": "both"}, {"joined": {"name": "n"}}, "n"),
    (
        {"op": "left_join", "on": "stream", "with": "table", "fn": "both_with_key"},
        {"joined": {"name": "n", "other": "string", **STRINGS}},
        "n",
    ),
    (
        {"op": "global_table", "topic": "t2"},
        {"consumed": {"name": "n", **STRINGS}, "materialized": STORED},
        "n-source",
    ),
    (
        {
            "op": "global_store",
            "topic": "t2",
            "fn": "keep",
            "stores": [{"store": "gs", "timestamped": False}],
        },
        {"consumed": {"name": "n", **STRINGS}},
        "gs",
    ),
    *(
        (
            {"op": op, "on": "stream", "with": "global", "selector": "key_text", "fn": fn},
            {"name": "n"},
            "n",
        )
        for op, fn in (("join", "both"), ("left_join", "both_with_key"))
    ),
    *(
        (
            {"op": op, "on": "table", "with": "table", "fn": "both"},
            {"name": "n", "materialized": STORED},
            "n-join-this",
        )
        for op in ("join", "left_join", "outer_join")
    ),
    *(
        (
            {"op": op, "on": "table", "with": "table", "foreign_key": key, "fn": "both"},
            {
                "table_joined": {"name": "n", "partitioner": True, "other_partitioner": True},
                "materialized": STORED,
            },
            "n-subscription-store",
        )
        for op, key in (("join", "upper"), ("left_join", "key_text"))
    ),
    *(
        (
            {
                "op": op,
                "on": "stream",
                "with": "other",
                "fn": fn,
                "windows": {"before": 1, "after": 2, "grace": 3},
            },
            {
                "stream_joined": {
                    "name": "n",
                    "store": "st",
                    "other": "string",
                    "persistent": False,
                    "topic_config": {"a": "b"},
                    **STRINGS,
                }
            },
            "n-merge",
        )
        for op in ("join", "left_join", "outer_join")
        for fn in ("both", "both_with_key")
    ),
    ({"op": "to_table", "on": "stream"}, {"name": "n", "materialized": STORED}, "n"),
    ({"op": "to", "on": "stream", "topic": "out"}, {"produced": {"name": "n", **STRINGS}}, "n"),
    ({"op": "to", "on": "stream", "extractor": "even_odd"}, {"produced": {"name": "n"}}, "n"),
    ({"op": "to", "on": "stream", "extractor": "place"}, {"produced": {"name": "n"}}, "n"),
    ({"op": "process", "on": "stream", "fn": "turn"}, {"name": "n"}, "n"),
    (
        {"op": "process_values", "on": "stream", "fn": "keep"},
        {"name": "n", "brings": True, "stores": [{"store": "st", "persistent": False}]},
        "stores: [st]",
    ),
    ({"op": "filter", "on": "table", "fn": "always"}, {"name": "n", "materialized": STORED}, "n"),
    ({"op": "filter_not", "on": "table", "fn": "never"}, {"materialized": STORED}, "st"),
    ({"op": "map_values", "on": "table", "fn": "length"}, {"materialized": LONGS}, None),
    ({"op": "map_values", "on": "table", "fn": "with_key"}, {"name": "n"}, "n"),
    ({"op": "transform_values", "on": "table", "fn": "nth"}, {"materialized": STORED}, "st"),
    ({"op": "transform_values", "on": "table", "fn": "with_key"}, {"name": "n"}, "n"),
    (
        {"op": "transform_values", "on": "table", "fn": "nth"},
        {"name": "n", "stores": [{"store": "own", "timestamped": False}]},
        "n (stores: [own])",
    ),
    (
        {"op": "suppress", "on": "table", "limit_ms": 5},
        {"name": "n", "buffer": {"records": 3, "bytes": 100, "early": True, "logging": False}},
        "n-store",
    ),
    ({"op": "to_stream", "on": "table"}, {"name": "n", "fn": "value_as_key"}, "n"),
    ({"op": "count", "on": "grouped_stream"}, {"name": "n", "materialized": STORED}, "n"),
    (
        {"op": "reduce", "on": "grouped_stream", "fn": "concat"},
        {"name": "n", "materialized": STORED},
        "n",
    ),
    (
        {"op": "aggregate", "on": "grouped_stream", "init": "empty", "fn": "append"},
        {"name": "n", "materialized": {**STORED, "logging": False}},
        "n",
    ),
    *(
        operation
        for on in ("windows", "sliding", "sessions")
        for operation in (
            ({"op": "count", "on": on}, {"name": "n", "materialized": KEPT}, "n"),
            (
                {"op": "reduce", "on": on, "fn": "concat"},
                {"name": "n", "materialized": KEPT},
                "n",
            ),
            (
                {
                    "op": "aggregate",
                    "on": on,
                    "init": "empty",
                    "fn": "append",
                    **({"merge": "join_text"} if on == "sessions" else {}),
                },
                {"name": "n", "materialized": KEPT},
                "n",
            ),
        )
    ),
    (
        {"op": "windowed_by", "on": "grouped_stream", "windows": {"kind": "unlimited"}},
        {"windows": {"kind": "unlimited", "start": 5}, "emit": "update"},
        None,
    ),
    ({"op": "count", "on": "grouped_table"}, {"name": "n", "materialized": STORED}, "n"),
    (
        {"op": "reduce", "on": "grouped_table", "fn": "last", "subtract": "first"},
        {"name": "n", "materialized": STORED},
        "n",
    ),
    (
        {
            "op": "aggregate",
            "on": "grouped_table",
            "init": "empty",
            "fn": "append",
            "subtract": "remove",
        },
        {"name": "n", "materialized": STORED},
        "n",
    ),
]


def _label(operation: dict[str, Any]) -> str:
    return "-".join(str(operation[key]) for key in ("op", "on", "fn") if key in operation)


@pytest.mark.parametrize(
    ("operation", "options", "shown"), OPERATIONS, ids=[_label(one) for one, _, _ in OPERATIONS]
)
def test_an_operation_is_understood(
    oracle: Oracle, operation: dict[str, Any], options: dict[str, Any], shown: str | None
) -> None:
    for chosen in ({}, options):
        step = {"id": "tested", **operation, **chosen}

        request = {"app_id": "app", **STRINGS, "steps": [*SOURCES, step], "inputs": INPUTS}
        answer = oracle.ask(request)

        assert "error" not in answer, answer["error"]
        assert chosen == {} or shown is None or shown in answer["describe"]
        assert run(request)["dropped"] == answer["dropped"]


def test_a_table_over_a_topic_is_its_own_changelog_when_optimised(oracle: Oracle) -> None:
    steps = [{"id": "t", "op": "table", "topic": "tab", "materialized": {"store": "st"}}]

    plain = oracle.ask({"app_id": "app", "steps": steps})
    optimised = oracle.ask(
        {"app_id": "app", "config": {"topology.optimization": "all"}, "steps": steps}
    )

    assert list(plain["subtopologies"]["0"]["changelog"]) == ["app-st-changelog"]
    assert optimised["subtopologies"]["0"]["changelog"] == {}
    assert optimised["subtopologies"]["0"]["source_changelogs"] == ["tab"]
