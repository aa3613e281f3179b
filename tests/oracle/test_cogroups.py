"""Streams that share one aggregate, within windows or not, do here what they do in Java."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.test_run import compare
from tests.oracle.test_windows import WINDOWS, records

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

KINDS = ("no windows", *WINDOWS)


@pytest.mark.seeded(40)
@pytest.mark.parametrize("kind", KINDS)
def test_cogroups_are_those_of_java(kind: str, seed: str, oracle: Oracle) -> None:
    compare(drawn(Random(f"{seed} {kind} together"), kind), oracle)


@pytest.mark.seeded(40)
@pytest.mark.parametrize("kind", KINDS)
def test_cogroups_that_wait_in_a_record_cache_come_out_as_in_java(
    kind: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} together, waiting")
    request = drawn(random, kind)
    request["config"] = {}
    request["commit_every"] = random.choice((3, 5, 11))

    compare(request, oracle)


def drawn(random: Random, kind: str) -> dict[str, Any]:
    """A cogroup of up to three streams, within windows or not, and records for it."""
    topics = ("in", "other", "third")[: random.choice((1, 2, 2, 3))]
    steps: list[dict[str, Any]] = []
    for number, topic in enumerate(topics):
        steps.append({"id": topic, "op": "stream", "topics": [topic]})
        grouped: dict[str, Any] = {"id": f"g{number}", "op": "group_by_key", "on": topic}
        if random.random() < 0.3:
            grouped |= {"op": "group_by", "fn": "value_as_key", "grouped": {"name": f"by-{topic}"}}
        steps.append(grouped)
        fn = random.choice(("append", "with_key_text"))
        on = {"on": "g0"} if number == 0 else {"on": f"c{number - 1}", "with": f"g{number}"}
        steps.append({"id": f"c{number}", "op": "cogroup", **on, "fn": fn})
    last = f"c{len(topics) - 1}"
    if kind in WINDOWS:
        windows = random.choice(WINDOWS[kind])
        steps.append({"id": "w", "op": "windowed_by", "on": last, "windows": windows})
        last = "w"
    table: dict[str, Any] = {"id": "table", "op": "aggregate", "on": last, "init": "empty"}
    if kind == "session":
        table["merge"] = "join_with_key"
    # The streams of a cogroup have a time each. In Java one that is behind finds a window empty
    # which another one's time has put beyond the retention.
    if random.random() < 0.7 or kind not in ("no windows", "unlimited"):
        retention = {} if kind in ("no windows", "unlimited") else {"retention": 1_000_000}
        table["materialized"] = {"persistent": random.random() < 0.5, **retention}
    if random.random() < 0.3:
        table["name"] = "together"
    steps += [
        table,
        {"id": "changes", "op": "to_stream", "on": "table", "fn": "key_text"},
        {"id": "out", "op": "to", "on": "changes", "topic": "out"},
    ]
    if kind == "no windows" and random.random() < 0.5:
        steps.append({"id": "by", "op": "group_by", "on": "table", "fn": "first_letter_pair"})
        steps.append({"id": "lengths", "op": "count", "on": "by"})
    return {
        "app_id": "app",
        "key": "string",
        "value": "string",
        "config": {"statestore.cache.max.bytes": random.choice(("0", "100000"))},
        "steps": steps,
        "inputs": records(random, topics),
    }
