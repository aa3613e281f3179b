"""Versioned stores, here and in Java: what puts return, what is found as of a time, changelogs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from headwater import TopologyError
from tests.oracle.differences import forgotten, without_addresses
from tests.oracle.run import run
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

BUFFER = "-Buffer-changelog"
STREAM = {"id": "s", "op": "stream", "topics": ["in"]}


def _hex(text: str | None) -> str | None:
    return None if text is None else text.encode().hex()


def _request(
    steps: list[dict[str, Any]], inputs: list[tuple[str, str | None, str | None, int]], **more: Any
) -> dict[str, Any]:
    return {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": steps,
        "inputs": [
            {"topic": topic, "key": _hex(key), "value": _hex(value), "timestamp": timestamp}
            for topic, key, value, timestamp in inputs
        ],
        **more,
    }


def _agree(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    java, ours = oracle.ask(request), run(request)

    assert "error" not in java, java["error"]
    assert without_addresses(ours["describe"]) == without_addresses(java["describe"])
    for part in ("outputs", "stores", "versions", "dropped"):
        assert ours[part] == java[part], part
    buffers, wanted = _buffered(ours), _buffered(java)
    assert buffers.keys() == wanted.keys()
    for key, sent in buffers.items():
        # What is kept and let go within one commit need not be mentioned.
        assert sent[-1] == wanted[key][-1]
        assert all(value in wanted[key] for value in sent)
    assert _by_topic(ours) == _by_topic(java)
    return java


def _buffered(answer: dict[str, Any]) -> dict[str, list[Any]]:
    """What was sent to the changelogs of buffers, by key; Java gives it no time."""
    found: dict[str, list[Any]] = {}
    for record in answer["produced"]:
        if record["topic"].endswith(BUFFER):
            found.setdefault(record["key"], []).append((record["value"], record["headers"]))
    return found


def _by_topic(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What was sent, each topic's in order."""
    sent = (record for record in answer["produced"] if not record["topic"].endswith(BUFFER))
    return sorted(sent, key=lambda record: str(record["topic"]))


@pytest.mark.seeded(60)
@pytest.mark.parametrize("own", [False, True])
def test_a_processor_finds_in_a_versioned_store_what_java_finds(
    seed: str, oracle: Oracle, *, own: bool
) -> None:
    """On a disk, and in a store of a user's own."""
    random = Random(f"{seed} versions")
    history = random.choice((0, 20, 60, 1000, 70_000))
    scale = random.choice((1, 10)) if history < 1000 else history // 60
    steps = [
        STREAM,
        {
            "id": "p",
            "op": "process",
            "on": "s",
            "fn": "versions",
            "stores": [{"store": "v", "history_ms": history}],
        },
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]
    now, inputs = random.randint(0, 50), []
    for _ in range(60):
        now = max(0, now + random.randint(-15, 20) * scale)
        value = random.choice((None, "", "x", "y", "z"))
        # What is deleted at its own time is told differently: see below.
        time = now * 2 + (value in {None, ""})
        inputs.append(("in", random.choice("aab"), value, time))

    java = _agree(oracle, _request(steps, inputs, own=own))

    changelog = java["subtopologies"]["0"]["changelog"]["app-v-changelog"]
    assert changelog["config"]["min.compaction.lag.ms"] == str(history + 86_400_000)


def test_what_is_deleted_at_its_own_time_stays_deleted_here_only(oracle: Oracle) -> None:
    """Java keeps no trace of such a deletion if nothing precedes it, so an older put is newest."""
    steps = [
        STREAM,
        {
            "id": "p",
            "op": "process",
            "on": "s",
            "fn": "versions",
            "stores": [{"store": "v", "history_ms": 60}],
        },
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]
    request = _request(steps, [("in", "a", v, t) for v, t in (("x", 18), ("", 18), ("y", 9))])

    java, ours = oracle.ask(request), run(request)

    last = [bytes.fromhex(answer["outputs"][-1]["value"]).decode() for answer in (java, ours)]
    assert last[0].startswith("-1 y@9 y@9 y@9 ")
    assert last[1].startswith("18 null null y@9 ")
    assert forgotten(java) == forgotten(ours) == {("app-v-changelog", b"a".hex())}


TABLE = {"id": "t", "op": "table", "topic": "tab", "materialized": {"store": "v", "history_ms": 50}}
UPDATES = [
    ("tab", "a", "x", 20),
    ("tab", "a", "yy", 10),
    ("tab", "a", "zzz", 30),
    ("tab", "a", None, 40),
    ("tab", "a", "q", 35),
    ("tab", "a", "r", 100),
    ("tab", "a", "too old", 49),
]


def _counted(on: str) -> list[dict[str, Any]]:
    return [
        {
            "id": "g",
            "op": "group_by",
            "on": on,
            "fn": "length_pair",
            "grouped": {"key": "long"},
        },
        {"id": "c", "op": "count", "on": "g"},
        {"id": "all", "op": "to_stream", "on": on},
        {"id": "out", "op": "to", "on": "all", "topic": "out"},
    ]


@pytest.mark.parametrize("op", ["map_values", "transform_values", "filter"])
@pytest.mark.parametrize("stored", [None, {"store": "own"}, {"store": "own", "history_ms": 30}])
def test_what_is_made_of_a_versioned_table_knows_the_past(
    op: str, stored: dict[str, Any] | None, oracle: Oracle
) -> None:
    fn = {"filter": "value_not_null"}.get(op, "with_key")
    made = {"id": "m", "op": op, "on": "t", "fn": fn}
    options = {} if stored is None else {"materialized": stored}
    steps = [TABLE, {**made, **options}, *_counted("m")]

    _agree(oracle, _request(steps, UPDATES))


@pytest.mark.parametrize("op", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("stored", [None, {"store": "own"}, {"store": "own", "history_ms": 15}])
def test_updates_of_the_past_are_not_joined(
    op: str, stored: dict[str, Any] | None, oracle: Oracle
) -> None:
    other = {"store": "w", "history_ms": 1000}
    options = {} if stored is None else {"materialized": stored}
    steps = [
        TABLE,
        {"id": "u", "op": "table", "topic": "other", "materialized": other},
        {"id": "j", "op": op, "on": "t", "with": "u", "fn": "both", **options},
        {"id": "all", "op": "to_stream", "on": "j"},
        {"id": "out", "op": "to", "on": "all", "topic": "out"},
    ]
    others = [("other", "a", value, time) for value, time in (("1", 22), ("0", 5), ("2", 45))]

    _agree(oracle, _request(steps, [others[0], *UPDATES[:3], *others[1:], *UPDATES[3:]]))


@pytest.mark.parametrize("op", ["join", "left_join"])
@pytest.mark.parametrize("made", [None, "map_values", "transform_values", "filter"])
def test_a_stream_is_joined_with_what_was_valid_at_its_time(
    op: str, made: str | None, oracle: Oracle
) -> None:
    fn = {"filter": "value_not_null"}.get(made or "", "with_key")
    table = "t" if made is None else "m"
    steps = [
        STREAM,
        TABLE,
        *([] if made is None else [{"id": "m", "op": made, "on": "t", "fn": fn}]),
        {"id": "j", "op": op, "on": "s", "with": table, "fn": "both"},
        {"id": "out", "op": "to", "on": "j", "topic": "out"},
    ]
    asked = [("in", "a", f"{time}", time) for time in range(5, 60, 5)]

    _agree(oracle, _request(steps, [*UPDATES[:5], *asked, *UPDATES[5:], *asked]))


def test_settings_without_a_name_make_java_forget_the_versions(oracle: Oracle) -> None:
    unnamed = {"key": "string", "value": "string"}
    made = {"id": "m", "op": "map_values", "on": "t", "fn": "identity", "materialized": unnamed}
    request = _request([TABLE, made, *_counted("m")], UPDATES[:2])

    java, ours = oracle.ask(request), run(request)

    assert [len(counts) for counts in java["stores"].values()] == [2]
    assert [len(counts) for counts in ours["stores"].values()] == [1]


def test_a_versioned_table_cannot_be_suppressed(oracle: Oracle) -> None:
    steps = [
        TABLE,
        {"id": "m", "op": "map_values", "on": "t", "fn": "upper"},
        {"id": "x", "op": "suppress", "on": "m", "limit_ms": 5, "buffer": {"early": True}},
    ]
    request = _request(steps, [])

    assert oracle.ask(request)["error"]["at"] == "build"
    with pytest.raises(TopologyError, match="the table is versioned"):
        Drawing(request).topology()


def _with_grace(op: str, grace: int) -> list[dict[str, Any]]:
    table = {**TABLE, "materialized": {"store": "v", "history_ms": 200}}
    joined = {"grace_ms": grace, "name": "waiting"}
    join = {"id": "j", "op": op, "on": "s", "with": "t", "fn": "both", "joined": joined}
    return [STREAM, table, join, {"id": "out", "op": "to", "on": "j", "extractor": "place"}]


@pytest.mark.seeded(60)
def test_records_wait_for_late_updates_as_in_java(seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} grace")
    now, inputs = random.randint(0, 50), []
    for _ in range(50):
        now = max(0, now + random.randint(-15, 20))
        topic = random.choice(("in", "tab"))
        value = random.choice((None, "x", "y", "z"))
        inputs.append((topic, random.choice("aabc"), value, now * 2 + (value is None)))
    op = random.choice(("join", "left_join"))
    request = _request(_with_grace(op, random.choice((0, 10, 60, 200))), inputs)
    for record in request["inputs"][::3]:
        record["headers"] = [["h", "00"]]

    _agree(oracle, request)


@pytest.mark.parametrize("table", [TABLE, {**TABLE, "materialized": {"store": "v"}}])
def test_a_grace_wants_a_table_that_knows_the_past_for_so_long(
    table: dict[str, Any], oracle: Oracle
) -> None:
    steps = _with_grace("join", 51)
    request = _request([steps[0], table, *steps[2:]], [])

    assert oracle.ask(request)["error"]["at"] == "build"
    with pytest.raises(TopologyError, match="give it a history_retention at least as long"):
        Drawing(request).topology()
