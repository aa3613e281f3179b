"""Interactive queries find here what they find in Java, in every kind of store."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

KEYS = ["", "a", "aa", "b", "ba", "c"]
RECORDS = 60
HISTORY = 100_000
SHORT = 60
"""A history that most versions have left; Java has no versioned store in memory."""
SOURCE = {"id": "s", "op": "stream", "topics": ["in"]}
GROUPED = {"id": "g", "op": "group_by_key", "on": "s"}


def steps_of(kind: str, *, persistent: bool) -> list[dict[str, Any]]:
    """What keeps the store ``kept``."""
    kept = {"store": "kept", "persistent": persistent}
    windowed = {"id": "w", "op": "windowed_by", "on": "g"}
    count = {"id": "c", "op": "count", "on": "w", "materialized": kept}
    match kind:
        case "table":
            table = {"id": "t", "op": "table", "topic": "in", "materialized": kept}
            return [table]
        case "count":
            return [SOURCE, GROUPED, {**count, "on": "g"}]
        case "windows":
            windows = {"kind": "time", "size": 20, "advance": 10, "grace": 30}
            return [SOURCE, GROUPED, {**windowed, "windows": windows}, count]
        case "sessions":
            windows = {"kind": "session", "gap": 10, "grace": 30}
            return [SOURCE, GROUPED, {**windowed, "windows": windows}, count]
        case "versions":
            versioned = {"store": "kept", "history_ms": HISTORY if persistent else SHORT}
            return [{"id": "t", "op": "table", "topic": "in", "materialized": versioned}]
    raise AssertionError(kind)


def queries_of(random: Random) -> list[dict[str, Any]]:
    """Questions of every kind; a store does not know most of them."""
    found: list[dict[str, Any]] = []
    for _ in range(4):
        key, low, high = (random.choice(KEYS) for _ in range(3))
        first = random.randrange(0, 200)
        times = {"from": first, "to": first + random.randrange(0, 120)}
        descending = random.random() < 0.5
        bounds = {
            name: bound for name, bound in (("low", low), ("high", high)) if random.random() < 0.7
        }
        found += [
            {"query": "key", "key": key},
            {"query": "timestamped_key", "key": key},
            {"query": "range", **bounds, "descending": descending},
            {"query": "timestamped_range", **bounds, "descending": descending},
            {"query": "window_key", "key": key, **times},
            {"query": "window_range", **times},
            {"query": "sessions", "key": key},
            {"query": "version", "key": key},
            {"query": "version", "key": key, "as_of": times["to"]},
            {"query": "versions", "key": key, "descending": descending},
            {"query": "versions", "key": key, **times, "descending": descending},
        ]
    for key in KEYS:  # some of these are found in any store
        found += [{"query": query, "key": key} for query in ("key", "sessions", "version")]
    found.append({"query": "window_range", "from": 0, "to": 10_000})
    return [{"store": "kept", **query} for query in found]


@pytest.mark.seeded(30)
@pytest.mark.parametrize("persistent", [True, False], ids=["on disk", "in memory"])
@pytest.mark.parametrize("kind", ["table", "count", "windows", "sessions", "versions"])
def test_queries_find_what_they_find_in_java(
    kind: str, persistent: bool, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} {persistent}")
    time, inputs, used = 0, [], set()
    for number in range(RECORDS):
        time += random.randrange(0, 8)
        value = None if random.random() < 0.15 and kind in {"table", "versions"} else f"v{number}"
        key, timestamp = random.choice(KEYS), max(0, time - random.choice((0, 0, 0, 15)))
        while kind == "versions" and (key, timestamp) in used:
            timestamp += 1  # Java loses a version that is deleted at its own time
        used.add((key, timestamp))
        inputs.append(
            {
                "topic": "in",
                "key": key.encode().hex(),
                "value": None if value is None else value.encode().hex(),
                "timestamp": timestamp,
            }
        )
    request = {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": steps_of(kind, persistent=persistent),
        "inputs": inputs,
        "queries": queries_of(random),
    }

    java, ours = oracle.ask(request), run(request)

    assert "error" not in java, java["error"]
    for query, mine, wanted in zip(
        request["queries"], ours["answers"], java["answers"], strict=True
    ):
        if "raises" in wanted:  # Java's versioned stores: a reason is more use than an exception
            assert mine == {"failure": "UNKNOWN_QUERY_TYPE"}, query
        elif kind == "versions" and query["query"] == "versions" and not persistent:
            # What has left the history is gone here, and in Java when its segment expires.
            assert set(mine["found"]) <= set(wanted["found"]), query
        else:
            assert mine == wanted, query
    assert any(answer.get("found", ["null"]) not in (["null"], []) for answer in ours["answers"])
