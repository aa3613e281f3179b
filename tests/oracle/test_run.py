"""Random topologies fed with random records: what comes out here and in Java.

``TopologyTestDriver`` commits after each record on both sides. Outputs, repartition topics and what
side effects saw must be equal record for record. A changelog may be shorter than Java's: of the
updates of one key within one commit only the last is written. So each key's records must be Java's
with some left out, and the last must be the same.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.generate import generate
from tests.oracle.run import run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

RECORDS = 25


@pytest.mark.seeded(200)
def test_a_random_topology_does_with_random_records_what_java_does(
    seed: str, oracle: Oracle
) -> None:
    _compare(generate(Random(f"{seed} with records"), records=RECORDS), oracle)


@pytest.mark.seeded(200)
def test_what_waits_in_a_record_cache_comes_out_as_in_java(seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} with fewer commits")
    request = generate(random, records=RECORDS)
    request["config"] = {}
    request["commit_every"] = random.choice((3, 7, RECORDS))
    for step in request["steps"]:
        if (
            step["op"] == "to"
            and step.get("topic", "").startswith("out-")
            and random.random() < 0.7
        ):
            del step["topic"]
            step["extractor"] = "place"

    _compare(request, oracle)


def _compare(request: dict[str, Any], oracle: Oracle) -> None:
    java = oracle.ask(request)
    ours = run(request)

    assert "error" not in java, java["error"]
    assert _by_topic(ours["outputs"]) == _by_topic(java["outputs"])
    assert ours["stores"] == java["stores"]
    assert _repartitioned(ours["produced"]) == _repartitioned(java["produced"])
    assert ours["seen"] == [entry for entry in java["seen"] if len(entry) == 3]
    assert _lines(ours["printed"]) == [entry[1] for entry in java["seen"] if len(entry) == 2]
    _check_changelogs(_changelogs(ours["produced"]), _changelogs(java["produced"]))


def _by_topic(records: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    topics = defaultdict(list)
    for record in records:
        topics[record["topic"]].append(record)
    return dict(topics)


def _repartitioned(records: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return _by_topic(record for record in records if record["topic"].endswith("-repartition"))


def _lines(printed: Iterable[str]) -> list[str]:
    """Nothing is ``None`` here and ``null`` there."""
    return [line.replace(": None, ", ": null, ").replace(", None", ", null") for line in printed]


def _changelogs(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[Any]]:
    keys = defaultdict(list)
    for record in records:
        if record["topic"].endswith("-changelog"):
            entry = (record["value"], record["timestamp"], record["headers"])
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
