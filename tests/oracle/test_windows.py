"""Windows of every kind do here what they do in Java: results, stores and what is written."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import refused_by_java_alone, tells_windows_twice
from tests.oracle.run import run
from tests.oracle.test_run import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

RECORDS = 40
WINDOWS: dict[str, list[dict[str, Any]]] = {
    "tumbling": [
        {"kind": "time", "size": 20, "grace": 10},
        {"kind": "time", "size": 60_000, "grace": 10_000},
    ],
    "hopping": [{"kind": "time", "size": 20, "advance": 5, "grace": 7}],
    "unlimited": [{"kind": "unlimited"}, {"kind": "unlimited", "start": 30}],
    "session": [
        {"kind": "session", "gap": 10, "grace": 5},
        {"kind": "session", "gap": 30, "grace": 20},
        {"kind": "session", "gap": 0, "grace": 0},
    ],
    "sliding": [
        {"kind": "sliding", "difference": 15, "grace": 10},
        {"kind": "sliding", "difference": 30, "grace": 0},
    ],
}
AGGREGATIONS: list[dict[str, Any]] = [
    {"op": "count"},
    {"op": "reduce", "fn": "concat"},
    {"op": "reduce", "fn": "forget_equal"},
    {"op": "aggregate", "init": "empty", "fn": "with_key_text"},
    {"op": "aggregate", "init": "nothing", "fn": "append"},
]


@pytest.mark.seeded(60)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_are_those_of_java(kind: str, seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} {kind}")
    emit = random.choice((None, None, "close", "update"))
    request = drawn(random, kind, None if kind == "unlimited" and emit == "close" else emit)
    request["config"] = {"statestore.cache.max.bytes": random.choice(("0", "100000"))}
    if random.random() < 0.3:
        add_a_header(request)

    compare(request, oracle)


@pytest.mark.seeded(60)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_that_wait_in_a_record_cache_come_out_as_in_java(
    kind: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} waiting")
    request = drawn(random, kind, None)
    keep_in_sliding_windows(request["steps"])
    # Of these a look-up keeps an entry in Java's cache, so others are pushed out there.
    sizes = ("100000",) if kind in ("session", "sliding") else ("300", "400", "100000")
    request["config"] = {"statestore.cache.max.bytes": random.choice(sizes)}
    request["commit_every"] = random.choice((3, 5, 11))

    compare(request, oracle)


@pytest.mark.seeded(60)
@pytest.mark.parametrize("kind", [kind for kind in WINDOWS if kind != "unlimited"])
@pytest.mark.parametrize("every", [0, 4])
def test_what_waits_until_windows_close_comes_out_as_in_java(
    kind: str, every: int, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} {every} closing")
    request = drawn(random, kind, random.choice((None, "close", "update")))
    steps = request["steps"]
    place = next(n for n, step in enumerate(steps) if step["id"] == "changes")
    # What waits has the serdes of the table alone.
    stored = steps[place - 1].setdefault("materialized", {})
    stored["key"] = "string"
    if steps[place - 1]["op"] != "count":
        stored["value"] = "string"
    buffer = random.choice(({}, {}, {"logging": False}))
    name = random.choice(({}, {"name": "closed"}))
    suppress = {"id": "final", "op": "suppress", "on": "table", "buffer": buffer, **name}
    steps[place]["on"] = "final"
    steps.insert(place, suppress)
    request["config"] = {"statestore.cache.max.bytes": random.choice(("0", "100000"))}
    if every:
        keep_in_sliding_windows(steps)
        request["commit_every"] = every

    compare(request, oracle)


@pytest.mark.parametrize("persistent", [True, False])
def test_sessions_that_end_at_once_are_let_go_in_the_order_of_javas_store(
    persistent: bool, oracle: Oracle
) -> None:
    """On disk the one that began first comes first; in memory the one whose key comes first."""
    request = {**drawn(Random("ending at once"), "session", "close"), "config": {}}
    windows, table = request["steps"][2:4]
    windows["windows"] = {"kind": "session", "gap": 10, "grace": 5}
    table["materialized"] = {"persistent": persistent, "retention": 1_000_000}
    request["inputs"] = [
        {"topic": "in", "key": key, "value": "78", "timestamp": at}
        for key, at in (("62", 27), ("62", 33), ("6162", 33), ("62", 58))
    ]

    compare(request, oracle)
    seen = [key for _, key, _ in run(request)["seen"]]
    first, second = "[b@27/33]", "[ab@33/33]"
    assert seen == ([first, second] if persistent else [second, first])


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    "windows",
    [{"kind": "time", "size": 20, "grace": 10}, {"kind": "session", "gap": 10, "grace": 5}],
    ids=["windows", "sessions"],
)
def test_what_is_deleted_while_it_waits_makes_nothing_expire(
    windows: dict[str, Any], persistent: bool, oracle: Oracle
) -> None:
    """Its time is never seen below the record cache, so what lies there is read on."""
    request = {**drawn(Random("no trace"), "tumbling", None), "config": {}, "commit_every": 9}
    request["steps"][2]["windows"] = windows
    request["steps"][3] = {
        "id": "table",
        "on": "windows",
        "op": "reduce",
        "fn": "forget_equal",
        "materialized": {"store": "kept", "retention": 30, "persistent": persistent},
    }
    request["steps"][-1]["produced"]["value"] = "string"
    early, late = (
        {"topic": "in", "key": key, "value": "78", "timestamp": at}
        for key, at in (("61", 5), ("62", 100))
    )

    for inputs, kept in (([early, late], ["62"]), ([early, late, late], ["61"])):
        request["inputs"] = inputs
        compare(request, oracle)
        assert [key[:2] for key, _, _ in run(request)["stores"]["kept"]] == kept


def test_java_tells_windows_twice_of_a_key_that_is_another_one_with_a_zero_behind_it(
    oracle: Oracle,
) -> None:
    """Only in memory below a record cache, whose order is another one."""
    request = {**drawn(Random("told twice"), "tumbling", "close"), "config": {}}
    windows, table = request["steps"][2:4]
    windows["windows"] = {"kind": "time", "size": 20, "grace": 10}
    table["materialized"] = {"persistent": False}
    request["inputs"] = [
        {"topic": "in", "key": key, "value": "78", "timestamp": at}
        for key, at in (("61", 41), ("6100", 42), ("61", 130))
    ]

    java, ours = oracle.ask(request), run(request)

    assert tells_windows_twice(request)
    keys = [[seen[1][:3].encode() for seen in answer["seen"]] for answer in (java, ours)]
    assert keys[0] == [b"[a\0", b"[a@", b"[a\0"]
    assert keys[1] == [b"[a@", b"[a\0"]
    table["materialized"] = {"persistent": True}
    assert not tells_windows_twice(request)
    compare(request, oracle)


def test_a_sliding_window_may_be_deleted_while_it_waits_here_alone(oracle: Oracle) -> None:
    """Backwards, Java's record cache tells the window without the value that is wanted."""
    request = {**drawn(Random("deleted"), "sliding", None), "config": {}, "commit_every": 3}
    windows, table = request["steps"][2:4]
    windows["windows"] = {"kind": "sliding", "difference": 15, "grace": 10}
    request["steps"][3] = {
        **{name: table[name] for name in ("id", "on")},
        "op": "reduce",
        "fn": "forget_equal",
        "materialized": {"retention": 1_000_000},
    }
    request["steps"][-1]["produced"]["value"] = "string"
    request["inputs"] = [
        {"topic": "in", "key": "61", "value": value, "timestamp": at}
        for value, at in (("79", 27), ("79", 34), ("79", 30), ("79", 32), ("78", 31))
    ]

    java, ours = oracle.ask(request), run(request)

    assert refused_by_java_alone(java), java.get("error")
    assert ours["stores"]


@pytest.mark.parametrize("cache", ["0", "100000"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_headers_that_a_processor_adds_go_with_what_a_window_forwards(
    kind: str, cache: str, oracle: Oracle
) -> None:
    request = drawn(Random("headers"), kind, None)
    request["config"] = {"statestore.cache.max.bytes": cache}
    request["steps"][3].pop("materialized", None)
    request["inputs"] = [
        {"topic": "in", "key": "61", "value": "78", "timestamp": at} for at in (7, 9, 40)
    ]
    add_a_header(request)

    compare(request, oracle)
    outputs = run(request)["outputs"]
    has_headers = kind != "session" or cache != "0"
    added = [["more", "01"]]
    assert {str(record["headers"]) for record in outputs} == {str(added if has_headers else [])}


def add_a_header(request: dict[str, Any]) -> None:
    """Have a processor above the windows add one to each record."""
    steps = request["steps"]
    steps.insert(1, {"id": "more", "op": "process_values", "on": "in", "fn": "with_header"})
    steps[2]["on"] = "more"


def keep_in_sliding_windows(steps: list[dict[str, Any]]) -> None:
    """Delete no sliding window that waits in a record cache: Java throws at the next record."""
    kinds = {step["windows"]["kind"] for step in steps if step["op"] == "windowed_by"}
    for step in steps:
        if "sliding" in kinds and step.get("fn") == "forget_equal":
            step["fn"] = "concat"


def drawn(random: Random, kind: str, emit: str | None) -> dict[str, Any]:
    """An aggregation within windows, and records of three keys, some of them late."""
    aggregation = dict(random.choice(AGGREGATIONS))
    if kind == "session" and aggregation["op"] == "aggregate":
        aggregation["merge"] = random.choice(("join_with_key", "join_text"))
    stored: dict[str, Any] = {}
    if random.random() < 0.2:
        stored["caching"] = False
    elif kind in ("session", "sliding"):
        # Java reads what has expired as long as its record cache has it; nothing does here.
        stored["retention"] = 1_000_000
    if random.random() < 0.6:
        stored["persistent"] = random.random() < 0.5
    value = "long" if aggregation["op"] == "count" else "string"
    steps = [
        {"id": "in", "op": "stream", "topics": ["in"]},
        {
            "id": "grouped",
            "op": "group_by_key",
            "on": "in",
            "grouped": {"key": "string", "value": "string"},
        },
        {
            "id": "windows",
            "op": "windowed_by",
            "on": "grouped",
            "windows": random.choice(WINDOWS[kind]),
            **({"emit": emit} if emit else {}),
        },
        {
            "id": "table",
            "on": "windows",
            **aggregation,
            **({"materialized": stored} if stored else {}),
        },
        {"id": "changes", "op": "to_stream", "on": "table"},
        {"id": "seen", "op": "peek", "on": "changes"},
        {"id": "out", "op": "to", "on": "changes", "topic": "out", "produced": {"value": value}},
    ]
    both = {"key": "string", "value": "string"}
    return {"app_id": "app", **both, "steps": steps, "inputs": records(random)}


def records(random: Random, topics: Sequence[str] = ("in",)) -> list[dict[str, Any]]:
    """Records of three keys, some of them late, and now and then the wall clock's advance."""
    span = random.choice((10, 40, 40, 40_000))
    time = 0
    made: list[dict[str, Any]] = []
    for _ in range(RECORDS):
        time = max(0, time + random.randint(-span // 2, span))
        made.append(
            {
                "topic": random.choice(topics),
                "key": random.choice((None, *["61", "62", "6162"] * 5)),
                "value": random.choice((None, "78", "79", "7a7a")),
                "timestamp": time,
                "headers": [["h", random.choice(("00", "01"))]] if random.random() < 0.4 else [],
            }
        )
        if random.random() < 0.2:
            made.append({"advance_ms": random.choice((10, 600, 1_500))})
    return made
