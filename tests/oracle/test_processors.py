"""Processors, their stores, their punctuations and their wrapper do what they do in Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import refused_by_java_alone
from tests.oracle.run import run

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STRINGS = {"key": "string", "value": "string"}


def hexed(said: str | None) -> str | None:
    return None if said is None else said.encode().hex()


def piped(timestamp: int, key: str | None, value: str | None, topic: str = "in") -> dict[str, Any]:
    return {
        "topic": topic,
        "key": hexed(key),
        "value": hexed(value),
        "timestamp": timestamp,
        "headers": [["h", "00"]],
    }


INPUTS: list[dict[str, Any]] = [
    piped(5, "k", "v"),
    piped(3, "k", None),
    {"advance_ms": 9},
    piped(30, None, "w"),
    {"advance_ms": 40},
    piped(31, "l", "w x"),
    piped(77, "k", "y"),
    {"advance_ms": 1},
    {"advance_ms": 10},
]


def request(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    config = {"statestore.cache.max.bytes": "0"}
    given = {"app_id": "app", **STRINGS, "config": config, "inputs": INPUTS}
    return {**given, "steps": list(steps), **more}


def assert_as_in_java(oracle: Oracle, asked: dict[str, Any]) -> None:
    expected, found = oracle.ask(asked), run(asked)

    assert "error" not in expected, expected["error"]
    assert found["describe"] == expected["describe"]
    assert found["outputs"] == expected["outputs"]
    assert found["dropped"] == expected["dropped"]
    assert found["wrapped"] == expected["wrapped"]
    assert found["records"] == expected["records"]
    for name, rows in expected["stores"].items():
        # Java keeps no timestamp where ours is that of the record.
        stamped = [
            [k, v, kept if t is not None else None]
            for (k, v, t), (*_, kept) in zip(rows, found["stores"][name], strict=True)
        ]
        assert stamped == rows


SOURCE = {"id": "s", "op": "stream", "topics": ["in"]}
OUT = {"id": "out", "op": "to", "on": "p", "topic": "out"}


@pytest.mark.parametrize("op", ["process", "process_values"])
@pytest.mark.parametrize(
    "fn",
    [
        "again",
        "turn",
        "with_header",
        "place",
        "stream_ticks",
        "wall_ticks",
        "anchored_stream_ticks",
        "anchored_wall_ticks",
    ],
)
def test_a_processor_does_what_it_does_in_java(oracle: Oracle, op: str, fn: str) -> None:
    step = {"id": "p", "op": op, "on": "s", "fn": fn}
    below = [
        {"id": "g", "op": "group_by_key", "on": "p", "grouped": STRINGS},
        {"id": "c", "op": "count", "on": "g"},
        {"id": "ts", "op": "to_stream", "on": "c"},
        {"id": "n", "op": "to", "on": "ts", "topic": "counts", "produced": {"value": "long"}},
    ]

    assert_as_in_java(oracle, request(SOURCE, step, OUT, *below))
    assert_as_in_java(oracle, request(SOURCE, {**step, "name": "mine"}, OUT, wrapped=True))


STORES = [
    {"store": "a"},
    {"store": "b", "timestamped": False},
    {"store": "c", "persistent": False, "caching": True},
    {"store": "d", "persistent": False, "timestamped": False, "logging": False},
]


@pytest.mark.parametrize("op", ["process", "process_values"])
@pytest.mark.parametrize("brings", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_stores_are_connected_and_kept_as_in_java(
    oracle: Oracle, op: str, brings: bool, wrapped: bool
) -> None:
    step = {"id": "p", "op": op, "on": "s", "fn": "keep", "stores": STORES, "brings": brings}

    assert_as_in_java(oracle, request(SOURCE, step, OUT, wrapped=wrapped))


def test_a_wrapper_sees_the_processors_of_the_dsl_as_in_java(oracle: Oracle) -> None:
    steps: list[dict[str, Any]] = [
        SOURCE,
        {"id": "f", "op": "filter", "on": "s", "fn": "value_not_null"},
        {"id": "m", "op": "map_values", "on": "f", "fn": "upper"},
        {"id": "w", "op": "flat_map_values", "on": "m", "fn": "words"},
        {"id": "map", "op": "map", "on": "w", "fn": "identity_pair"},
        {"id": "twice", "op": "flat_map", "on": "map", "fn": "twice"},
        {"id": "key", "op": "select_key", "on": "twice", "fn": "same_key"},
        {"id": "peek", "op": "peek", "on": "key"},
        {"id": "each", "op": "for_each", "on": "peek"},
        {"id": "print", "op": "print", "on": "peek"},
        {"id": "both", "op": "merge", "on": "peek", "with": "f"},
        {
            "id": "split",
            "op": "split",
            "on": "both",
            "branches": [{"fn": "even_length"}],
            "default": {},
        },
        {
            "id": "p",
            "op": "process",
            "on": "split/default",
            "fn": "keep",
            "stores": [{"store": "kept"}],
        },
        {"id": "again", "op": "process_values", "on": "p", "fn": "again"},
        {"id": "rp", "op": "repartition", "on": "again"},
        {"id": "g", "op": "group_by_key", "on": "rp"},
        {"id": "c", "op": "count", "on": "g"},
        {"id": "g2", "op": "group_by", "on": "again", "fn": "value_as_key"},
        {"id": "r", "op": "reduce", "on": "g2", "fn": "concat"},
        {
            "id": "ag",
            "op": "aggregate",
            "on": "g2",
            "fn": "append",
            "init": "empty",
            "materialized": {"store": "appended", **STRINGS},
        },
        {"id": "tf", "op": "filter", "on": "r", "fn": "even_length"},
        {"id": "tm", "op": "map_values", "on": "tf", "fn": "upper"},
        {"id": "tg", "op": "group_by", "on": "tm", "fn": "swap", "grouped": STRINGS},
        {"id": "tc", "op": "count", "on": "tg"},
        {"id": "ts", "op": "to_stream", "on": "tc"},
        {"id": "n", "op": "to", "on": "ts", "topic": "counts", "produced": {"value": "long"}},
        {"id": "tt", "op": "to_table", "on": "again", "materialized": {"store": "t", **STRINGS}},
        {"id": "tts", "op": "to_stream", "on": "tt"},
        {"id": "o", "op": "to", "on": "tts", "topic": "out"},
    ]
    cached = {
        "config": {"statestore.cache.max.bytes": "100000"},
        "commit_every": 3,
        "inputs": [record for record in INPUTS if "topic" in record],
    }

    assert_as_in_java(oracle, request(*steps, wrapped=True))
    assert_as_in_java(oracle, request(*steps, wrapped=True, **cached))


def test_java_cannot_log_what_a_punctuation_forwards_to_a_suppression(oracle: Oracle) -> None:
    """It has no topic, which the changelog of what waits names."""
    asked = request(
        {"id": "s", "op": "stream", "topics": ["in"]},
        {"id": "p", "op": "process_values", "on": "s", "fn": "stream_ticks"},
        {"id": "t", "op": "to_table", "on": "p"},
        {"id": "x", "op": "suppress", "on": "t", "limit_ms": 1_000, "buffer": {}},
        inputs=[piped(1_041, "k", "v")],
    )

    java, ours = oracle.ask(asked), run(asked)

    assert refused_by_java_alone(java)
    waiting = [record for record in ours["produced"] if record["topic"] in ours["buffers"]]
    assert [record["key"] for record in waiting] == [hexed("k")]


@pytest.mark.parametrize("fn", ["stream_ticks", "wall_ticks", "anchored_stream_ticks"])
def test_punctuations_that_are_due_at_once_are_called_in_javas_order(
    fn: str, oracle: Oracle
) -> None:
    """Java's ``PriorityQueue`` has an order of equal ones that changes as they move on."""
    steps: list[dict[str, Any]] = [{"id": "0", "op": "stream", "topics": ["in"]}]
    for number in range(1, 6):
        steps.append({"id": str(number), "op": "process_values", "on": "0", "fn": fn})
        out = f"out-{number}"
        steps.append({"id": out, "op": "to", "on": str(number), "topic": out})
    inputs = [piped(at, "k", "v") for at in (41, 46, 58, 59, 90)]
    moved = [each for record in inputs for each in (record, {"advance_ms": 7})]
    asked = request(*steps, inputs=moved)

    java, ours = oracle.ask(asked), run(asked)

    assert ours["outputs"] == java["outputs"]
    assert ours["dropped"] == java["dropped"]
