"""Topologies as Java sees them: names, nodes, sub-topologies, internal topics, refusals."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from headwater.errors import TopologyError
from headwater.model.partitions import plan
from tests.golden.test_describe import CASES, DIRECTORY, load_request
from tests.oracle.differences import (
    check_copartitioned,
    has_pattern,
    merges_too_much,
    refused_by_java_alone,
    without_addresses,
)
from tests.oracle.generate import generate
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topics import TopologyReport
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java


@pytest.mark.seeded(200)
def test_a_random_topology_has_java_s_description_and_topics(seed: str, oracle: Oracle) -> None:
    request = generate(Random(seed))

    topology = Drawing(request).topology()
    answer = oracle.ask(request)

    if refused_by_java_alone(answer):
        return
    assert "error" not in answer, answer["error"]
    if merges_too_much(request, answer, topology.describe()):
        return
    assert without_addresses(topology.describe()) == without_addresses(answer["describe"])
    report = topology.report("app")
    if has_pattern(request):
        return  # what reads by pattern Java leaves out until topics are known
    assert _topics(report) == answer["subtopologies"]
    check_copartitioned(request, report.copartition_groups, answer["copartitioned"])


def _topics(report: TopologyReport) -> dict[str, Any]:
    external = {topic for group in report.subtopologies for topic in group.source_topics}
    planned = plan(report, dict.fromkeys(external, 1)).internal_topics
    configs = {topic.name: dict(topic.configs) for topic in planned}

    def shown(partitions: Mapping[str, int | None]) -> dict[str, Any]:
        return {
            name: {"partitions": count, "config": configs[name]}
            for name, count in partitions.items()
        }

    return {
        str(group.id): {
            "sources": sorted(
                [*group.source_topics, *(topic.name for topic in group.repartition_sources)]
            ),
            "sinks": sorted(group.sink_topics),
            "repartition": shown(
                {topic.name: topic.partitions for topic in group.repartition_sources}
            ),
            "changelog": shown(
                {topic.name: None for topic in group.changelogs if not topic.is_source}
            ),
            "source_changelogs": sorted(
                topic.name for topic in group.changelogs if topic.is_source
            ),
        }
        for group in report.subtopologies
    }


def test_each_join_of_a_stream_with_a_new_key_has_its_topics_together(oracle: Oracle) -> None:
    """Java forgets those of a join that finds the repartition of an earlier one."""
    windows = {"before": 5, "after": 5, "grace": 0}
    joined = {"fn": "total_length", "windows": windows, "stream_joined": {}}
    steps = [
        _stream("a", "in"),
        {"id": "b", "op": "process", "on": "a", "fn": "place"},
        {"id": "first", "op": "join", "on": "b", "with": "b", **joined},
        {"id": "second", "op": "join", "on": "a", "with": "b", **joined},
    ]
    request = {"app_id": "app", "config": {}, "inputs": [], "steps": steps}
    repartition = "app-KSTREAM-PROCESSOR-0000000001-repartition"

    answer = oracle.ask(request)

    assert sorted(answer["copartitioned"]) == [[repartition], ["in"]]
    assert Drawing(request).topology().report("app").copartition_groups == ((repartition, "in"),)


@pytest.mark.seeded(100)
def test_generated_names_are_refused_where_java_refuses_them(seed: str, oracle: Oracle) -> None:
    request = generate(Random(f"{seed} without names"))
    request["config"]["ensure.explicit.internal.resource.naming"] = "true"

    answer = oracle.ask(request)
    try:
        Drawing(request).topology()
        refused = ""
    except TopologyError as error:
        refused = str(error)

    if refused_by_java_alone(answer):
        return
    # Java names the topic of a join that has none of its own: an earlier one of the stream serves.
    request["config"] = {}
    there = Drawing(request).topology().repartition_topics
    java = {
        name
        for name in _unnamed(answer.get("error", {}).get("message", ""))
        if name in there or not name.endswith("-repartition")
    }
    assert _unnamed(refused) == java


def _unnamed(message: str) -> set[str]:
    internal = r"[\w.-]+-(?:changelog|repartition)\b"
    return set(re.findall(rf"{internal}|[\w.-]+STATE-STORE-\d{{10}}(?!-)", message))


@pytest.mark.parametrize("case", CASES)
def test_the_recorded_description_is_what_java_says(case: str, oracle: Oracle) -> None:
    answer = oracle.ask(load_request(case))

    assert answer["describe"] == (DIRECTORY / f"{case}.txt").read_text()


def _stream(step: str, *topics: str, **consumed: Any) -> dict[str, Any]:
    return {"id": step, "op": "stream", "topics": list(topics), "consumed": consumed}


REFUSED: dict[str, list[dict[str, Any]]] = {
    "two nodes of one name": [
        _stream("a", "in"),
        {"id": "b", "op": "peek", "on": "a", "name": "twice"},
        {"id": "c", "op": "peek", "on": "b", "name": "twice"},
    ],
    "two stores of one name": [
        _stream("a", "in"),
        {"id": "g", "op": "group_by_key", "on": "a"},
        {"id": "b", "op": "count", "on": "g", "materialized": {"store": "same"}},
        {"id": "c", "op": "count", "on": "g", "materialized": {"store": "same"}},
    ],
    "overlapping sets of topics": [
        _stream("a", "one", "two"),
        _stream("b", "one"),
    ],
    "two reset policies for one topic": [
        _stream("a", "in", reset="earliest"),
        _stream("b", "in", reset="latest"),
    ],
    "a pattern that matches a topic": [
        _stream("a", "in"),
        {"id": "b", "op": "stream", "pattern": "i.*"},
    ],
    "a topic that matches a pattern": [
        {"id": "b", "op": "stream", "pattern": "i.*"},
        _stream("a", "in"),
    ],
    "a stream and a table of one topic": [
        _stream("a", "in"),
        {"id": "b", "op": "table", "topic": "in"},
    ],
    "two tables of one topic": [
        {"id": "a", "op": "table", "topic": "in"},
        {"id": "b", "op": "table", "topic": "in"},
    ],
    "two groups of one name": [
        _stream("a", "in"),
        {"id": "g", "op": "group_by", "on": "a", "fn": "value_as_key", "grouped": {"name": "same"}},
        {"id": "b", "op": "count", "on": "g"},
        {"id": "h", "op": "group_by", "on": "a", "fn": "value_as_key", "grouped": {"name": "same"}},
        {"id": "c", "op": "count", "on": "h"},
    ],
    "a name with a space": [
        _stream("a", "in"),
        {"id": "b", "op": "peek", "on": "a", "name": "not a name"},
    ],
    "a store name with a slash": [
        _stream("a", "in"),
        {"id": "g", "op": "group_by_key", "on": "a"},
        {"id": "b", "op": "count", "on": "g", "materialized": {"store": "a/b"}},
    ],
    "an empty name": [
        _stream("a", "in"),
        {"id": "b", "op": "peek", "on": "a", "name": ""},
    ],
    "a repartition over no partitions": [
        _stream("a", "in"),
        {"id": "b", "op": "repartition", "on": "a", "repartitioned": {"partitions": 0}},
    ],
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_java_refuses_to_build_we_refuse(case: str, oracle: Oracle) -> None:
    request = {"app_id": "app", "config": {}, "inputs": [], "steps": REFUSED[case]}

    answer = oracle.ask(request)

    assert answer["error"]["at"] == "build", answer
    with pytest.raises(TopologyError):
        Drawing(request).topology()
