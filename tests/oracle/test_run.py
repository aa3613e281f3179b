"""Random topologies fed with random records: what comes out here and in Java.

``TopologyTestDriver`` commits after each record on both sides. Outputs, repartition topics and what
side effects saw must be equal record for record. So must be how many records were dropped.
A changelog may be shorter than Java's: of the updates of one key within one commit only the last is
written. So each key's records must be Java's with some left out, and the last must be the same.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from headwater.errors import SerializationError
from tests.oracle.differences import (
    OF_STORES,
    forgotten,
    has_pattern,
    logged_as_by_java,
    may_move_a_repartition,
    merges_too_much,
    moves_a_repartition_to_other_values,
    order_decides_what_is_late,
    refused_by_java_alone,
    subscribes_from_no_partition,
    takes_whole_numbers_alike,
    tells_windows_twice,
    without_addresses,
    without_offset,
    written_together,
)
from tests.oracle.generate import generate
from tests.oracle.run import run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

RECORDS = 25
FEWEST = 100
LEFT_OUT_MAX = 0.05
"""Of random requests, what Java cannot do or does otherwise on purpose of ours."""
_MERGED = "merged too much by Java"


@pytest.mark.seeded(14_000, least=200, most=200)
def test_a_random_topology_does_with_random_records_what_java_does(
    seed: str, oracle: Oracle
) -> None:
    compare(generate(Random(f"{seed} with records"), records=RECORDS), oracle)


@pytest.mark.seeded(6_000, least=100, most=100)
def test_what_waits_in_a_record_cache_comes_out_as_in_java(seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} with fewer commits")
    request = generate(random, records=RECORDS)
    request["config"].pop("statestore.cache.max.bytes", None)
    request["commit_every"] = random.choice((3, 7, RECORDS))
    answers_often = has_foreign_keys(request)
    for step in request["steps"]:
        if answers_often and step.get("fn") == "nth":
            # A join by foreign key answers between two flushes as often as it is asked.
            step["fn"] = "with_key"
        if (
            step["op"] == "to"
            and not answers_often  # topics are named by the offset
            and not has_pattern(request)
            and step.get("topic", "").startswith("out-")
            and random.random() < 0.7
        ):
            del step["topic"]
            step["extractor"] = "place"

    compare(request, oracle)


@pytest.mark.seeded(200)
def test_a_cache_for_a_few_entries_evicts_when_javas_does(seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} with little room")
    topic = random.choice(("in", "a-topic-with-a-rather-long-name-of-42-chars"))
    stored = {"store": "st", "key": "string", "value": "string"}
    aggregation, value = random.choice(
        (
            ({"op": "count", "materialized": {**stored, "value": "long"}}, "long"),
            ({"op": "reduce", "fn": "concat", "materialized": stored}, "string"),
            ({"op": "reduce", "fn": "forget_equal", "materialized": stored}, "string"),
            (
                {"op": "aggregate", "init": "empty", "fn": "append", "materialized": stored},
                "string",
            ),
        )
    )
    request = {
        "app_id": "app",
        "key": "string",
        "value": "string",
        "config": {"statestore.cache.max.bytes": str(random.choice((60, 80, 104, 200, 300, 700)))},
        "commit_every": RECORDS,
        "steps": [
            {"id": "stream", "op": "stream", "topics": [topic]},
            {"id": "grouped", "op": "group_by_key", "on": "stream"},
            {"id": "table", "on": "grouped", **aggregation},
            {"id": "changes", "op": "to_stream", "on": "table"},
            {
                "id": "end",
                "op": "to",
                "on": "changes",
                "topic": "out",
                "produced": {"key": "string", "value": value},
            },
        ],
        "inputs": [
            {
                "topic": topic,
                "key": (random.choice("abcdefgh") * random.choice((1, 5))).encode().hex(),
                "value": random.choice(("78", "7979", None)),
                "timestamp": n,
                "headers": [["h", "00" * random.choice((1, 15))]] if random.random() < 0.3 else [],
            }
            for n in range(RECORDS)
        ],
    }

    compare(request, oracle)


def test_a_deleted_key_takes_no_room_in_a_cache_when_it_is_looked_up(oracle: Oracle) -> None:
    """There is room for one entry: ``a`` pushes ``c`` out once it is written, and not before."""
    records = [(key, "x") for key in "abac"] + [("c", "y"), ("a", "x"), ("a", "x")]
    request = {
        "app_id": "app",
        "key": "string",
        "value": "string",
        "config": {"statestore.cache.max.bytes": "100"},
        "commit_every": RECORDS,
        "steps": [
            {"id": "s", "op": "stream", "topics": ["a-topic-whose-name-is-long"]},
            {"id": "g", "op": "group_by_key", "on": "s"},
            {"id": "t", "op": "reduce", "on": "g", "fn": "forget_equal"},
            {"id": "o", "op": "to_stream", "on": "t"},
            {"id": "out", "op": "to", "on": "o", "topic": "out"},
        ],
        "inputs": [
            {
                "topic": "a-topic-whose-name-is-long",
                "key": key.encode().hex(),
                "value": value.encode().hex(),
                "timestamp": at,
            }
            for at, (key, value) in enumerate(records)
        ],
    }

    compare(request, oracle)
    written = [(record["key"], record["timestamp"]) for record in run(request)["outputs"]]
    assert written == [("61", 0), ("62", 1), ("61", 2), ("63", 3), ("63", 4), ("61", 5), ("61", 6)]


def test_what_two_sub_topologies_write_to_one_topic_is_in_no_order_with_caches(
    oracle: Oracle,
) -> None:
    """Java's driver flushes the stores of all as those of one task; a cluster has several."""
    counts = [
        {"id": "s", "op": "stream", "topics": ["in"]},
        {"id": "rekeyed", "op": "group_by", "on": "s", "fn": "value_as_key"},
        {"id": "below", "op": "reduce", "on": "rekeyed", "fn": "concat"},
        {"id": "first", "op": "to_stream", "on": "below"},
        {"id": "to", "op": "to", "on": "first", "topic": "out"},
        {"id": "same", "op": "group_by_key", "on": "s"},
        {"id": "above", "op": "reduce", "on": "same", "fn": "concat"},
        {"id": "second", "op": "to_stream", "on": "above"},
        {"id": "and to", "op": "to", "on": "second", "topic": "out"},
    ]
    request = {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": counts,
        "inputs": [
            {"topic": "in", "key": key, "value": "78", "timestamp": at}
            for at, key in enumerate(("61", "62", "61"))
        ],
        "commit_every": 3,
    }

    java, ours = oracle.ask(request), run(request)

    assert written_together(ours["describe"]) == {"out"}
    keys = [[record["key"] for record in answer["outputs"]] for answer in (java, ours)]
    assert keys == [["78", "62", "61"], ["62", "61", "78"]]
    compare(request, oracle)


def test_javas_driver_counts_the_offsets_of_all_topics_of_a_pattern(oracle: Oracle) -> None:
    """They show in what waits for a join with grace; in Kafka, as here, each topic has its own."""
    versions = {"store": "versions", "history_ms": 1_000}
    request = {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": [
            {"id": "t", "op": "table", "topic": "in", "materialized": versions},
            {"id": "s", "op": "stream", "pattern": "pat-.*"},
            {
                "id": "j",
                "op": "join",
                "on": "s",
                "with": "t",
                "fn": "both",
                "joined": {"grace_ms": 300},
            },
        ],
        "inputs": [
            {"topic": topic, "key": "61", "value": "78", "timestamp": at}
            for at, topic in enumerate(("pat-a", "pat-b"))
        ],
    }

    java, ours = oracle.ask(request), run(request)

    waiting = [
        [record["value"] for record in answer["produced"] if record["topic"] in ours["buffers"]]
        for answer in (java, ours)
    ]
    assert waiting[0] != waiting[1]
    assert [int(value[16:32], 16) for value in waiting[0]] == [0, 1]
    assert [int(value[16:32], 16) for value in waiting[1]] == [0, 0]
    compare(request, oracle)


def test_javas_driver_has_another_order_of_records_of_one_time(oracle: Oracle) -> None:
    """With it a join of tables finds a row sooner, so that a versioned store drops it later on.

    The record of "other" is in the queue of the one task that the driver has.
    """
    versions = {"value": "string", "store": "versions", "history_ms": 0}
    request = {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": [
            {"id": "s", "op": "stream", "topics": ["in"]},
            {"id": "o", "op": "table", "topic": "other"},
            {"id": "by", "op": "group_by", "on": "o", "fn": "first_letter_pair"},
            {"id": "n", "op": "reduce", "on": "by", "fn": "last", "subtract": "smallest"},
            {"id": "same", "op": "group_by_key", "on": "s"},
            {"id": "t", "op": "reduce", "on": "same", "fn": "last"},
            {"id": "g", "op": "group_by", "on": "t", "fn": "first_letter_pair"},
            {
                "id": "left",
                "op": "reduce",
                "on": "g",
                "fn": "last",
                "subtract": "smallest",
                "materialized": {"caching": False},
            },
            {"id": "right", "op": "reduce", "on": "g", "fn": "last", "subtract": "smallest"},
            {
                "id": "j",
                "op": "join",
                "on": "left",
                "with": "right",
                "fn": "both",
                "materialized": versions,
            },
        ],
        "inputs": [
            {"topic": "other", "key": "61", "value": "7a", "timestamp": 666},
            {"topic": "in", "key": "61", "value": "61", "timestamp": 810},
            {"topic": "in", "key": "62", "value": "62", "timestamp": 953},
        ],
        "commit_every": 3,
    }

    java, ours = oracle.ask(request), run(request)

    assert (java["dropped"], ours["dropped"]) == (1, 0)
    assert java["stores"] == ours["stores"]
    compare(request, oracle)


def test_most_random_topologies_can_be_compared(oracle: Oracle) -> None:
    """Of those that this session has asked, or of a hundred if there were fewer."""
    for number in range(oracle.outcomes["asked"], FEWEST):
        compare(generate(Random(f"compared {number}"), records=RECORDS), oracle)

    asked = oracle.outcomes["asked"]
    left_out = {name: n for name, n in oracle.outcomes.items() if name != "asked"}
    assert sum(left_out.values()) <= asked * LEFT_OUT_MAX, (asked, left_out)


def compare(request: dict[str, Any], oracle: Oracle, **here: Any) -> None:
    """Compare what comes out of both; ``here`` is configuration that Java is not given."""
    oracle.outcomes["asked"] += 1
    java = oracle.ask(request)
    request = {**request, "config": {**request.get("config", {}), **here}} if here else request
    if refused_by_java_alone(java):
        oracle.outcomes["refused by Java alone"] += 1
        with suppress(SerializationError) if may_move_a_repartition(request) else nullcontext():
            run(request)
        return
    if moves_a_repartition_to_other_values(request, java):
        if takes_whole_numbers_alike(java):
            with suppress(SerializationError):
                run(request)
        else:
            with pytest.raises(SerializationError):
                run(request)
        return
    ours = run(request)
    assert "error" not in java, java["error"]
    reason = _left_out(request, java, ours["describe"])
    if reason != _MERGED:
        assert without_addresses(ours["describe"]) == without_addresses(java["describe"])
    if reason:
        oracle.outcomes[reason] += 1
        return
    is_late = bool(request.get("commit_every"))
    mixed = written_together(ours["describe"]) if is_late else set()
    assert ours["stores"] == java["stores"]
    if ours["dropped"] != java["dropped"] and order_decides_what_is_late(request):
        oracle.outcomes["dropped by the order of records of one time"] += 1
        return
    assert ours["dropped"] == java["dropped"]
    if not (is_late or has_pattern(request)):
        lines = logged_as_by_java(ours["logged"]), [line for _, line in java["logged"]]
        assert _lines_of_nodes(lines[0]) == _lines_of_nodes(lines[1])
    lost = forgotten(java)
    assert _versions(ours, request, but=lost) == _versions(java, request, but=lost)
    buffers = ours["buffers"] if has_pattern(request) else ()
    if is_late and has_foreign_keys(request):
        # What is asked twice between two flushes is answered, and goes on, twice.
        _check_last(ours, java, mixed, buffers)
        return
    assert _put_out(ours["outputs"], mixed) == _put_out(java["outputs"], mixed)
    assert ours["seen"] == [entry for entry in java["seen"] if len(entry) == 3]
    assert _lines(ours["printed"]) == [entry[1] for entry in java["seen"] if len(entry) == 2]
    sent = [_repartitioned(answer["produced"]) for answer in (ours, java)]
    assert sent[0] == sent[1]
    if is_late and has_pattern(request):
        # The tasks are opened anew for a topic that a pattern finds, and commit before that.
        _check_last(ours, java, mixed, buffers)
        return
    written, expected = (
        _changelogs(answer["produced"], buffers, is_late=is_late) for answer in (ours, java)
    )
    if is_late:
        # A record waits for its partner, or finds it, as sub-topologies flush their record caches.
        written = {
            key: entries
            for key, entries in written.items()
            if key in expected or any(entry[0] is not None for entry in entries)
        }
    _check_changelogs(written, expected)


def _lines_of_nodes(logged: Iterable[str]) -> list[str]:
    """What nodes log of records that they drop, sorted; Java's stores on disk say nothing."""
    return sorted(line for line in logged if line != OF_STORES)


def _left_out(request: dict[str, Any], java: dict[str, Any], ours: str) -> str:
    """Return why no results are compared; empty if they are.

    Args:
        request: what was asked.
        java: its answer.
        ours: our description.
    """
    if merges_too_much(request, java, ours):
        return _MERGED
    if subscribes_from_no_partition(java):
        return "subscribed from no partition in Java"
    return "windows told twice by Java" if tells_windows_twice(request) else ""


def _versions(
    answer: dict[str, Any], request: dict[str, Any], *, but: Collection[tuple[str, str]]
) -> dict[str, list[Any]]:
    """What versioned stores hold, ``but`` of some keys of some changelogs."""
    changelog = f"{request['app_id']}-{{}}-changelog".format
    return {
        store: [row for row in rows if (changelog(store), row[0]) not in but]
        for store, rows in answer["versions"].items()
    }


def _check_last(
    ours: dict[str, Any], java: dict[str, Any], mixed: Collection[str], buffers: Collection[str]
) -> None:
    """Check what was written last of each key to each topic, changelogs among them, and seen last.

    A key that was deleted need not be mentioned. What ``buffers`` hold is checked without offsets.
    """
    last_seen, expected_seen = (
        {tuple(entry[:2]): entry[2] for entry in answer["seen"] if len(entry) == 3}
        for answer in (ours, java)
    )
    assert last_seen == expected_seen
    last, expected = (
        {
            (record["topic"], record["key"]): (
                without_offset(record["value"])
                if record["value"] is not None and record["topic"] in buffers
                else record["value"]
            )
            for record in answer["produced"]
            if record["topic"] not in mixed
        }
        for answer in (ours, java)
    )
    for key in last.keys() | expected.keys():
        assert last.get(key) == expected.get(key), key


def _by_topic(records: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    topics = defaultdict(list)
    for record in records:
        topics[record["topic"]].append(record)
    return dict(topics)


def _put_out(
    records: Iterable[dict[str, Any]], mixed: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """What went to topics of users; below a pattern Java does not know that others are internal.

    What went to ``mixed`` topics is in no order.
    """
    found = _by_topic(record for record in records if not record["topic"].startswith("app-"))
    return {
        topic: sorted(sent, key=repr) if topic in mixed else sent for topic, sent in found.items()
    }


def _repartitioned(records: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What went through internal topics, those of joins by foreign key among them."""
    suffixes = ("-repartition", "-topic")
    return _by_topic(record for record in records if record["topic"].endswith(suffixes))


def has_foreign_keys(request: dict[str, Any]) -> bool:
    """Whether there is a join by a foreign key."""
    return any("foreign_key" in step for step in request["steps"])


def _lines(printed: Iterable[str]) -> list[str]:
    """Nothing is ``None`` here and ``null`` there."""
    return [line.replace(": None, ", ": null, ").replace(", None", ", null") for line in printed]


def _changelogs(
    records: Iterable[dict[str, Any]], buffers: Collection[str], *, is_late: bool
) -> dict[tuple[str, str], list[Any]]:
    """What was written of each key; of ``buffers`` without offsets.

    Where commits are late, a deletion may have the time of a later one, so it goes without.
    """
    keys = defaultdict(list)
    for record in records:
        if record["topic"].endswith("-changelog"):
            value = record["value"]
            if value is not None and record["topic"] in buffers:
                value = without_offset(value)
            # A record of a buffer has no time of its own: null for Java, 0 for our client.
            timestamp = None if is_late and value is None else record["timestamp"] or 0
            entry = (value, timestamp, record["headers"])
            keys[record["topic"], record["key"]].append(entry)
    return dict(keys)


def _check_changelogs(
    ours: dict[tuple[str, str], list[Any]], java: dict[tuple[str, str], list[Any]]
) -> None:
    assert ours.keys() <= java.keys()
    for key, expected in java.items():
        written = ours.get(key, [])
        following = iter(expected)
        assert all(entry in following for entry in written), (key, written, expected)
        last = written[-1] if written else (None,)
        # A key that came and went within one commit need not be mentioned.
        assert last == expected[-1] or last[0] is expected[-1][0] is None, (key, written, expected)
