"""What is logged of each record that is dropped, here and in Java: the same text.

Ours begins with the task and the node or store. ``compare()`` checks lines of random topologies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import logged_as_by_java
from tests.oracle.run import run
from tests.oracle.test_dropped import CASES as DROPPED
from tests.oracle.test_dropped import GROUP, OTHER, STREAM, record

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

BARE = [(None, "x", 1), ("a", None, 2), (None, None, 3)]
TABLE = {"id": "t", "op": "table", "topic": "in"}
GLOBAL = {"id": "t", "op": "global_table", "topic": "glob"}
VERSIONED = {**OTHER, "materialized": {"store": "versions", "history_ms": 40}}
READ = "topic=[in] partition=[0] offset=[{}]".format


def _joining(op: str, **more: Any) -> dict[str, Any]:
    return {"id": "j", "op": op, "on": "s", "with": "t", "fn": "both", **more}


def _held(**store: Any) -> list[dict[str, Any]]:
    """A processor with a store, in which nothing is as old as the last of ``OLD``."""
    stores = [{"store": "held", **store}]
    return [STREAM, {"id": "p", "op": "process", "on": "s", "fn": "hold", "stores": stores}]


OLD = [("a", "x", 10_000_000), ("a", "y", 10)]
WINDOWS = {"kind": "windows", "size": 10, "retention_ms": 100}
SESSIONS = {"kind": "sessions", "retention_ms": 100}
CASES: dict[str, tuple[list[dict[str, Any]], list[Any], list[str]]] = {
    "an aggregation of a stream": (
        [STREAM, GROUP, {"id": "c", "op": "count", "on": "g"}],
        BARE,
        [f"Skipping record due to null key or value. {READ(at)}" for at in range(3)],
    ),
    "a reduction of a stream": (
        [STREAM, GROUP, {"id": "c", "op": "reduce", "on": "g", "fn": "last"}],
        BARE,
        [f"Skipping record due to null key or value. {READ(at)}" for at in range(3)],
    ),
    "a table": (
        [{**TABLE, "materialized": {"store": "kept"}}],
        BARE,
        [f"Skipping record due to null key. {READ(at)}" for at in (0, 2)],
    ),
    "a join of a stream with a table": (
        [STREAM, {**OTHER, "id": "t"}, _joining("join")],
        BARE,
        [f"Skipping record due to null join key or value. {READ(at)}" for at in range(3)],
    ),
    "a left join of a stream with a table": (
        [STREAM, {**OTHER, "id": "t"}, _joining("left_join")],
        BARE,
        [f"Skipping record due to null join key or value. {READ(at)}" for at in (1, 2)],
    ),
    "a join with grace": (
        [
            STREAM,
            {**VERSIONED, "id": "t"},
            _joining("join", joined={"grace_ms": 10, "key": "string"}),
        ],
        BARE,
        [f"Skipping record due to null join key or value. {READ(at)}" for at in range(3)],
    ),
    "a join with a global table": (
        [STREAM, GLOBAL, _joining("join", selector="key_text")],
        BARE,
        [f"Skipping record due to null join key or value. {READ(at)}" for at in range(3)],
    ),
    "a left join with a global table": (
        [STREAM, GLOBAL, _joining("left_join", selector="key_text")],
        BARE,
        [f"Skipping record due to null join key or value. {READ(at)}" for at in (1, 2)],
    ),
    "a join by a foreign key": (
        [
            TABLE,
            OTHER,
            {
                "id": "j",
                "op": "join",
                "on": "t",
                "with": "o",
                "foreign_key": "null_if_even_length",
                "fn": "both",
            },
        ],
        [("a", "xy", 1)],
        [f"Skipping record due to null foreign key. {READ(0)}"],
    ),
    "windows of a store on disk": (
        _held(**WINDOWS),
        OLD,
        ["Skipping record for expired segment."],
    ),
    "windows of a store in memory": (
        _held(**WINDOWS, persistent=False),
        OLD,
        ["Skipping record for expired segment."],
    ),
    "sessions of a store on disk": (
        _held(**SESSIONS),
        OLD,
        ["Skipping record for expired segment."],
    ),
    "sessions of a store in memory": (
        _held(**SESSIONS, persistent=False),
        OLD,
        ["Skipping record for expired segment."],
    ),
    "what a punctuation forwards": (
        [
            STREAM,
            {"id": "p", "op": "process_values", "on": "s", "fn": "stream_ticks"},
            {"id": "m", "op": "map_values", "on": "p", "fn": "null_if_even_length"},
            {"id": "g", "op": "group_by_key", "on": "m"},
            {"id": "c", "op": "count", "on": "g"},
        ],
        [("a", "x", 41)],
        ["Skipping record due to null key or value. topic=[null] partition=[-1] offset=[-1]"],
    ),
    "a suppression lets every value pass": (
        [
            {**TABLE, "materialized": {"store": "kept"}},
            {"id": "u", "op": "suppress", "on": "t", "limit_ms": 0, "buffer": {}},
        ],
        [("a", "x", 1), ("a", None, 2)],
        [],
    ),
}


SILENT_IN_JAVA = {"windows of a store on disk", "sessions of a store on disk"}
"""Java counts these and logs nothing; here they have a line, on purpose."""


def _request(steps: list[dict[str, Any]], inputs: list[Any]) -> dict[str, Any]:
    return {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": steps,
        "inputs": [record("in", *each) for each in inputs],
    }


def _logged(request: dict[str, Any], oracle: Oracle) -> tuple[list[str], list[str]]:
    """What was logged in Java, and what was logged here as Java has it, both sorted.

    A join of streams in Java looks at its record before its store does.
    """
    java = oracle.ask(request)
    assert "error" not in java, java["error"]
    return (
        sorted(line for _, line in java["logged"]),
        sorted(logged_as_by_java(run(request)["logged"])),
    )


@pytest.mark.parametrize("case", CASES)
def test_the_line_of_a_dropped_record_is_that_of_java(case: str, oracle: Oracle) -> None:
    steps, inputs, expected = CASES[case]

    java, ours = _logged(_request(steps, inputs), oracle)

    assert java == ([] if case in SILENT_IN_JAVA else expected)
    assert ours == expected


@pytest.mark.parametrize("case", DROPPED)
def test_whatever_is_counted_as_dropped_is_logged_as_by_java(case: str, oracle: Oracle) -> None:
    count, steps, inputs = DROPPED[case]

    java, ours = _logged(_request(steps, inputs), oracle)

    assert ours == java
    assert len(ours) == count


def test_the_line_of_a_record_that_cannot_be_decoded_also_has_the_exception(
    oracle: Oracle,
) -> None:
    """In Java the handler logs that, with the stack trace."""
    handler = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
    steps = [STREAM, GROUP, {"id": "c", "op": "count", "on": "g"}]
    request = _request(steps, [("a", "too short", 1)])
    request["config"]["deserialization.exception.handler"] = handler
    request["value"] = "long"

    [java], [ours] = _logged(request, oracle)

    assert java == f"Skipping record due to deserialization error. {READ(0)}"
    assert ours.startswith(f"{java}: the value cannot be decoded: ")
