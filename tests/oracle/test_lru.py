"""Tables that keep the entries used last: look-ups count, so those that Java makes are made."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run
from tests.oracle.test_run import compare
from tests.oracle.test_stores import asked

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STREAM = {"id": "s", "op": "stream", "topics": ["in"]}
GROUPED = {"id": "g", "op": "group_by_key", "on": "s"}
ABOVE = {"id": "a", "op": "table", "topic": "in"}
OTHER = {"id": "b", "op": "table", "topic": "other"}
TABLES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "source": ([], {"op": "table", "topic": "in"}),
    "stream": ([STREAM], {"op": "to_table", "on": "s"}),
    "aggregate": (
        [STREAM, GROUPED],
        {"op": "aggregate", "on": "g", "init": "empty", "fn": "append"},
    ),
    "reduce": ([STREAM, GROUPED], {"op": "reduce", "on": "g", "fn": "concat"}),
    "filter": ([ABOVE], {"op": "filter", "on": "a", "fn": "even_length"}),
    "map_values": ([ABOVE], {"op": "map_values", "on": "a", "fn": "upper"}),
    "join": ([ABOVE, OTHER], {"op": "outer_join", "on": "a", "with": "b", "fn": "both"}),
}
"""By name: what is above the table, and the table, whose store keeps a few entries."""
READERS: dict[str, list[dict[str, Any]]] = {
    "nobody": [],
    "its changes": [
        {"id": "o", "op": "to_stream", "on": "t"},
        {"id": "out", "op": "to", "on": "o", "topic": "out"},
    ],
    "a count, which asks for old values": [
        {"id": "by", "op": "group_by", "on": "t", "fn": "swap"},
        {"id": "c", "op": "count", "on": "by"},
        {"id": "o", "op": "to_stream", "on": "c"},
        {"id": "out", "op": "to", "on": "o", "topic": "out", "produced": {"value": "long"}},
    ],
    "a join, which looks entries up": [
        {"id": "other", "op": "stream", "topics": ["orders"]},
        {"id": "j", "op": "left_join", "on": "other", "with": "t", "fn": "both"},
        {"id": "out", "op": "to", "on": "j", "topic": "out"},
    ],
    "a join of tables": [
        {"id": "orders", "op": "table", "topic": "orders"},
        {"id": "j", "op": "left_join", "on": "orders", "with": "t", "fn": "both"},
        {"id": "o", "op": "to_stream", "on": "j"},
        {"id": "out", "op": "to", "on": "o", "topic": "out"},
    ],
}


@pytest.mark.seeded(40)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_keeps_what_was_used_last(
    table: str, reader: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {table} {reader} of few entries")
    kept: dict[str, Any] = {"store": "kept", "lru": random.choice((1, 2, 4))}
    kept |= {"key": "string", "value": "string"}
    if random.random() < 0.3:
        kept["caching"] = False
    above, what = TABLES[table]
    steps = [*above, {"id": "t", **what, "materialized": kept}, *READERS[reader]]
    request = asked(random, steps)
    if above[-1:] in ([ABOVE], [OTHER]) or "join" in reader:
        # Which entries an overfull record cache lets go of is not Java's below tables and look-ups.
        request["config"] = {"statestore.cache.max.bytes": random.choice(("0", "100000"))}
    topics = [step["topic"] for step in steps if step["op"] == "table"]
    topics += [topic for step in steps for topic in step.get("topics", ())]
    for record in request["inputs"]:
        record["topic"] = random.choice(topics)

    compare(request, oracle)


def test_a_table_reads_the_old_value_which_is_thereby_used(oracle: Oracle) -> None:
    """A write to ``d`` looks ``d`` up, so ``c``, which is new, pushes ``a`` out of the map."""
    kept = {"store": "kept", "lru": 4}
    steps = [
        {"id": "t", "op": "table", "topic": "in", "materialized": kept},
        *READERS["a count, which asks for old values"],
    ]
    both = {"key": "string", "value": "string"}
    config = {"statestore.cache.max.bytes": "400"}
    records = [("d", "zz"), ("a", "y"), ("m", "zz"), ("a", "y"), ("m", "x"), ("m", "x")]
    records += [("abc", "zz"), ("c", "zz"), ("d", "zz")]
    request = {"app_id": "app", **both, "config": config, "steps": steps, "commit_every": 7}
    request["inputs"] = [
        {"topic": "in", "key": key.encode().hex(), "value": value.encode().hex(), "timestamp": at}
        for at, (key, value) in enumerate(records)
    ]

    compare(request, oracle)
    (count,) = (store for name, store in run(request)["stores"].items() if name != "kept")
    assert [(key, int(value, 16)) for key, value, _ in count][-1] == ("7a7a", 3)
