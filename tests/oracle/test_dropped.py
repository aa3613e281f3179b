"""How many records the task says it has dropped, here and in Java: a case of each operator.

``compare()`` checks this number for every random topology.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run
from tests.oracle.test_run import compare

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STREAM = {"id": "s", "op": "stream", "topics": ["in"]}
GROUP = {"id": "g", "op": "group_by_key", "on": "s"}
VERSIONED = {
    "id": "t",
    "op": "table",
    "topic": "in",
    "materialized": {"store": "versions", "history_ms": 40},
}
OTHER = {"id": "o", "op": "table", "topic": "other"}
LATE = [("a", "x", 1_000), ("a", "y", 100), ("a", "z", 990), ("b", "x", 100), (None, "x", 1_000)]
"""Three are late (one of them in reach of the first for a session), and one has no key."""


def _counting(**windows: Any) -> list[dict[str, Any]]:
    return [
        STREAM,
        GROUP,
        {"id": "w", "op": "windowed_by", "on": "g", "windows": windows},
        {"id": "c", "op": "count", "on": "w"},
    ]


def _joining(op: str, grace: int, **stream_joined: Any) -> list[dict[str, Any]]:
    return [
        STREAM,
        {"id": "r", "op": "stream", "topics": ["right"]},
        {
            "id": "j",
            "op": op,
            "on": "s",
            "with": "r",
            "fn": "both",
            "windows": {"before": 2, "after": 3, "grace": grace},
            "stream_joined": stream_joined,
        },
    ]


CASES: dict[str, tuple[int, list[dict[str, Any]], list[Any]]] = {
    "tumbling windows": (4, _counting(kind="time", size=10, grace=0), LATE),
    "hopping windows: a record is counted once for each window that has closed": (
        7,
        _counting(kind="time", size=10, advance=5, grace=0),
        LATE,
    ),
    "sliding windows": (4, _counting(kind="sliding", difference=10, grace=0), LATE),
    "sessions: one that reaches to another is not late": (
        3,
        _counting(kind="session", gap=10, grace=0),
        LATE,
    ),
    "a join of streams drops what has no key or value, and nothing that is late": (
        2,
        _joining("join", 0),
        [*LATE, ("a", None, 1_000)],
    ),
    "a left join of streams gives what has a value alone": (
        1,
        _joining("left_join", 0),
        [*LATE, ("a", None, 1_000)],
    ),
    "a join's store in memory counts what is too old for it": (
        4,
        _joining("join", 0, persistent=False),
        LATE,
    ),
    "a join's store in memory counts what has no value, too, the join again": (
        2,
        _joining("join", 0, persistent=False),
        [("a", "x", 1_000), ("a", None, 100)],
    ),
    "a join's store on disk does not": (
        1,
        _joining("join", 0),
        [("a", "x", 1_000), ("a", None, 100)],
    ),
    "sessions that end at once, in memory: not even the newest is kept": (
        2,
        [
            *_counting(kind="session", gap=0, grace=0)[:-1],
            {"id": "c", "op": "count", "on": "w", "materialized": {"persistent": False}},
        ],
        [("a", "x", 1_000), ("a", "y", 1_001)],
    ),
    "a versioned store counts what is older than its history": (
        1,
        [VERSIONED],
        [("a", "x", 1_000), ("a", "y", 990), ("a", "z", 100)],
    ),
    "a join of a versioned table counts what is not the latest": (
        1,
        [VERSIONED, OTHER, {"id": "j", "op": "join", "on": "t", "with": "o", "fn": "both"}],
        [("a", "x", 1_000), ("a", "y", 990)],
    ),
    "a join by a foreign key does so, too": (
        1,
        [
            VERSIONED,
            OTHER,
            {
                "id": "j",
                "op": "join",
                "on": "t",
                "with": "o",
                "foreign_key": "identity",
                "fn": "both",
            },
        ],
        [("a", "x", 1_000), ("a", "y", 990)],
    ),
    "a grouping of a versioned table lets it go and does not count": (
        0,
        [
            VERSIONED,
            {"id": "by", "op": "group_by", "on": "t", "fn": "identity_pair"},
            {"id": "c", "op": "count", "on": "by"},
        ],
        [("a", "x", 1_000), ("a", "y", 990)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_dropped_is_counted_as_in_java(case: str, oracle: Oracle) -> None:
    expected, steps, inputs = CASES[case]
    request = {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": steps,
        "inputs": [record("in", *each) for each in inputs],
    }

    java = oracle.ask(request)

    assert "error" not in java, java["error"]
    assert (java["dropped"], run(request)["dropped"]) == (expected, expected)
    compare(request, oracle)


def test_what_a_pattern_s_topics_drop_is_counted_across_tasks_that_are_opened_anew(
    oracle: Oracle,
) -> None:
    """Java's task goes on; here each begins at 0, as after a restart, and the sum is the same."""
    request = {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": [
            {"id": "s", "op": "stream", "pattern": "pat-.*"},
            GROUP,
            {"id": "c", "op": "count", "on": "g"},
        ],
        "inputs": [record(topic, None, "x", at) for at, topic in enumerate(("pat-a", "pat-b"))],
    }

    assert (oracle.ask(request)["dropped"], run(request)["dropped"]) == (2, 2)
    compare(request, oracle)


def record(topic: str, key: str | None, value: str | None, timestamp: int) -> dict[str, Any]:
    sent = (None if half is None else half.encode().hex() for half in (key, value))
    return dict(zip(("topic", "key", "value", "timestamp"), (topic, *sent, timestamp), strict=True))
