"""Tables and streams whose keys lie within windows: where Java puts them, what Java cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import refused_by_java_alone
from tests.oracle.run import run
from tests.oracle.test_run import compare

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STRINGS = {"key": "string", "value": "string"}
WINDOWED = {"key": "windows 10 of string", "value": "string"}
GROUPED = [
    {"id": "in", "op": "stream", "topics": ["in"]},
    {"id": "g", "op": "group_by_key", "on": "in", "grouped": STRINGS},
]
WINDOWS = {"kind": "time", "size": 10}
AGGREGATED = [
    *GROUPED,
    {"id": "w", "op": "windowed_by", "on": "g", "windows": WINDOWS},
    {"id": "t", "op": "reduce", "on": "w", "fn": "concat", "materialized": STRINGS},
    {"id": "s", "op": "to_stream", "on": "t"},
]
FOREIGN = {
    "id": "j",
    "op": "join",
    "on": "t",
    "with": "t",
    "foreign_key": "same_key",
    "fn": "both",
    "table_joined": {"name": "same"},
}
THROUGH = {**WINDOWED, "name": "through"}
GROUPED_AGAIN = {
    "id": "by",
    "op": "group_by",
    "on": "t",
    "fn": "identity_pair",
    "grouped": {**WINDOWED, "name": "by"},
}


def _request(steps: list[dict[str, Any]]) -> dict[str, Any]:
    records = [(key, time) for time in (1, 5, 12, 27) for key in ("61", "62")]
    return {
        "app_id": "app",
        "config": {},
        **STRINGS,
        "steps": steps,
        "inputs": [
            {"topic": "in", "key": key, "value": "78", "timestamp": time} for key, time in records
        ],
    }


def _to(on: str, **where: Any) -> dict[str, Any]:
    return {"id": f"to {on} {where}", "op": "to", "on": on, **where}


@pytest.mark.parametrize(
    ("steps", "topics", "partition"),
    [
        ([_to("s", topic="out")], ["out"], 0),
        ([_to("s", extractor="even_odd")], ["out-odd", "out-even"], 0),
        ([FOREIGN], ["app-same-subscription-registration-topic"], 0),
        (
            [{"id": "r", "op": "repartition", "on": "s", "repartitioned": THROUGH}],
            ["app-through-repartition"],
            None,
        ),
        ([GROUPED_AGAIN, {"id": "c", "op": "count", "on": "by"}], ["app-by-repartition"], None),
    ],
    ids=["a topic", "a function", "a subscription", "a repartition", "a group of a table"],
)
def test_some_sinks_put_a_key_of_a_window_where_the_key_alone_lies(
    steps: list[dict[str, Any]], topics: list[str], partition: int | None, oracle: Oracle
) -> None:
    """Others leave the choice to the producer, by the whole key."""
    request = _request([*AGGREGATED, *steps])

    compare(request, oracle)
    sent = [record for record in run(request)["produced"] if record["topic"] in topics]
    assert sent
    assert {record["partition"] for record in sent} == {partition}


@pytest.mark.parametrize("kind", ["windows", "sessions"])
def test_the_table_of_a_windowed_cogroup_can_be_looked_up_here_alone(
    kind: str, oracle: Oracle
) -> None:
    windows = WINDOWS if kind == "windows" else {"kind": "session", "gap": 3}
    merge = {} if kind == "windows" else {"merge": "join_text"}
    request = _request(
        [
            *GROUPED,
            {"id": "c", "op": "cogroup", "on": "g", "fn": "append"},
            {"id": "w", "op": "windowed_by", "on": "c", "windows": windows},
            {"id": "t", "op": "aggregate", "on": "w", "init": "empty", **merge},
            {"id": "j", "op": "join", "on": "t", "with": "t", "fn": "both"},
            {"id": "text", "op": "to_stream", "on": "j", "fn": "key_text"},
            _to("text", topic="out"),
        ]
    )

    java, ours = oracle.ask(request), run(request)

    assert "KTable source state store must implement" in java["error"]["cause"]
    assert bytes.fromhex(ours["outputs"][-1]["value"]) == b"x+x"


def test_a_row_that_was_joined_with_windows_by_a_foreign_key_can_be_deleted_here_alone(
    oracle: Oracle,
) -> None:
    """Java asks the serializer of windowed keys for the bytes of no key."""
    left = {**FOREIGN, "op": "left_join", "on": "odd"}
    request = _request(
        [
            *AGGREGATED,
            {"id": "odd", "op": "map_values", "on": "t", "fn": "null_if_even_length"},
            left,
            {"id": "text", "op": "to_stream", "on": "j", "fn": "key_text"},
            _to("text", topic="out"),
        ]
    )

    java, ours = oracle.ask(request), run(request)

    assert refused_by_java_alone(java), java.get("error")
    assert {record["value"] for record in ours["outputs"]} == {b"x+x".hex(), None}
