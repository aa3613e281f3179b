"""Stores with headers (KIP-1271): the same rows, changelogs and answers as in Java.

``dsl.store.format`` is drawn by every random comparison, too (``generate.py``).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run
from tests.oracle.test_run import compare
from tests.oracle.test_windows import drawn

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

KINDS: dict[str, dict[str, Any]] = {
    "values": {},
    "windows": {"kind": "windows", "size": 10, "retention_ms": 60_000},
    "sessions": {"kind": "sessions", "retention_ms": 60_000},
    "few entries": {"lru": 2},
}
HEADERS: tuple[list[list[str | None]], ...] = (
    [],
    [["h", "00ff"]],
    [["none", None], ["h", ""], ["h", "01"]],
    [["a name that is long enough for two bytes of its length" * 2, "07" * 70]],
    [["\u00fc\u20ac", "c3"]],
)


def _records(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "topic": "in",
            "key": random.choice("abc").encode().hex(),
            "value": None if random.random() < 0.25 else random.choice(("78", "", "7a7a")),
            "timestamp": 1_000 + random.randint(0, 12),
            "headers": random.choice(HEADERS),
        }
        for _ in range(25)
    ]


@pytest.mark.seeded(24)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_processor_keeps_with_headers_is_what_java_keeps(
    kind: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} with headers")
    store = {
        "store": "held",
        "headers": True,
        "persistent": random.random() < 0.7,
        "caching": random.random() < 0.5,
        **KINDS[kind],
    }
    request: dict[str, Any] = {
        "app_id": "app",
        "key": "string",
        "value": "string",
        "headers": True,
        "config": {"statestore.cache.max.bytes": random.choice(("0", "400", "100000"))},
        "steps": [
            {"id": "s", "op": "stream", "topics": ["in"]},
            {"id": "more", "op": "process", "on": "s", "fn": "with_header"},
            {"id": "p", "op": "process", "on": "more", "fn": "hold", "stores": [store]},
            {"id": "out", "op": "to", "on": "p", "topic": "out"},
        ],
        "inputs": _records(random),
    }
    if random.random() < 0.5:
        request["commit_every"] = random.choice((3, 7, 25))
    # In memory a store of a user's own gets the same rows.
    request["own"] = "lru" not in store and random.random() < 0.3

    compare(request, oracle)


@pytest.mark.seeded(24)
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
@pytest.mark.parametrize("emit", [None, "close"])
def test_windows_in_the_format_headers(
    emit: str | None, kind: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} {emit} with headers")
    request = drawn(random, kind, emit)
    request["config"] = {
        "dsl.store.format": "HEADERS",
        "statestore.cache.max.bytes": random.choice(("0", "100000")),
    }
    for number, record in enumerate(request["inputs"]):
        if "topic" in record:
            record["headers"] = [["n", bytes((number,)).hex()]]
    request["headers"] = True

    compare(request, oracle)


@pytest.mark.parametrize(
    ("materialized", "keeps"),
    [
        ({"store": "counts"}, True),
        ({"store": "counts", "persistent": False}, False),
        ({"store": "counts", "lru": 3}, False),
        ({"store": "counts", "history_ms": 60_000}, False),
    ],
    ids=["on disk", "in memory", "few entries", "versioned"],
)
def test_a_deletion_tells_which_stores_of_the_dsl_keep_headers(
    materialized: dict[str, Any], keeps: bool, oracle: Oracle
) -> None:
    request: dict[str, Any] = {
        "app_id": "app",
        "key": "string",
        "value": "string",
        "config": {"dsl.store.format": "headers", "statestore.cache.max.bytes": "0"},
        "steps": [{"id": "t", "op": "table", "topic": "in", "materialized": materialized}],
        "inputs": [
            {"topic": "in", "key": "61", "value": value, "timestamp": 5, "headers": [["h", "00"]]}
            for value in ("78", None)
        ],
    }

    java, ours = oracle.ask(request), run(request)

    assert ours["produced"] == java["produced"]
    put, deleted = ours["produced"]
    assert put["headers"] == []
    assert deleted["headers"] == ([["h", "00"]] if keeps else [])
