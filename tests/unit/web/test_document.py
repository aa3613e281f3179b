"""A snapshot as JSON values, and what changes between two."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.made_up import DESCRIPTION, snapshot

from headwater.ids import TaskId
from headwater.model.appstatus import AutoscalingStatus
from headwater.model.cluster import Role
from headwater.model.streamapp_autoscaling import AutoscalingMode
from headwater_operator.overview.snapshot import CopyRow, TaskRow
from headwater_operator.web.document import change, document_of, merged, rounded
from headwater_operator.web.drawing import read_description

_LEAF = st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.lists(st.integers()))
_DOCUMENT = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(
        _LEAF,
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(_DOCUMENT, _DOCUMENT)
def test_a_change_turns_the_one_document_into_the_other(
    before: dict[str, object], after: dict[str, object]
) -> None:
    assert merged(before, change(before, after)) == after


@given(_DOCUMENT)
def test_of_nothing_changed_nothing_is_sent(document: dict[str, object]) -> None:
    assert change(document, document) == {}


def test_a_task_that_moves_is_sent_alone() -> None:
    before = snapshot(tasks=100)
    first, *others = before.tasks
    moved = replace(first, worker="orders-w-9", state="RESTORING", restored=30, remaining=70)

    found = change(document_of(before), document_of(replace(before, tasks=(moved, *others))))

    assert found["tasks"] == {
        "0_0": {"worker": "orders-w-9", "state": "RESTORING", "restored": 30, "remaining": 70}
    }
    assert set(found) == {"app", "tasks"}
    assert found["app"] == {"running": 99}


def test_what_is_not_known_is_left_out_and_copies_say_how_far_they_are() -> None:
    copy = CopyRow(worker="w", role=Role.WARMUP, behind=7, why="it moves there")
    row = TaskRow(task=TaskId(0, 0), state="RUNNING", worker="v", copies=(copy,))

    document = document_of(replace(snapshot(), tasks=(row,)))

    assert document["tasks"]["0_0"] == {
        "state": "RUNNING",
        "worker": "v",
        "rate": 0,
        "copies": {"w": {"role": "Warmup", "behind": 7, "why": "it moves there"}},
    }
    assert "null" not in json.dumps(document)


def test_autoscaling_says_how_many_workers_and_why() -> None:
    told = AutoscalingStatus(
        mode=AutoscalingMode.AUTO,
        desired=3,
        min_replicas=1,
        max_replicas=6,
        reason="3 workers are needed for what comes in and what waits",
    )

    found = document_of(replace(snapshot(), autoscaling=told))["app"]["scaling"]

    assert found == {
        "mode": "Auto",
        "desired": 3,
        "least": 1,
        "most": 6,
        "reason": "3 workers are needed for what comes in and what waits",
    }
    assert "scaling" not in document_of(snapshot())["app"]


def test_a_silent_worker_says_when_it_was_heard_last() -> None:
    one, other = snapshot().workers
    shown = replace(snapshot(), workers=(replace(one, is_silent=True), other))

    found = document_of(shown, {one.name: 7, other.name: 9})["workers"]

    assert found[one.name]["heard"] == 7
    assert "heard" not in found[other.name]


def test_rates_are_rounded_to_two_digits() -> None:
    assert [rounded(value) for value in (0, 0.123, 9.96, 123.4, 98_765.0)] == [
        0,
        0.12,
        10,
        120,
        99_000,
    ]


def test_a_rate_that_is_not_finite_is_not_known() -> None:
    assert [rounded(value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3


def test_a_description_is_read_as_a_graph() -> None:
    drawing = read_description(DESCRIPTION)

    counting = drawing.nodes["KSTREAM-AGGREGATE-0000000002"]
    assert (counting.group, counting.stores) == (1, ("counts",))
    assert counting.children == ("KTABLE-TOSTREAM-0000000006",)
    assert drawing.nodes["KSTREAM-SINK-0000000004"].topics == ("counts-repartition",)
    assert drawing.to_dict()["nodes"][0] == {
        "name": "KSTREAM-SOURCE-0000000000",
        "kind": "source",
        "group": 0,
        "topics": ["in"],
        "children": ["KSTREAM-KEY-SELECT-0000000001"],
    }


def test_patterns_extractors_and_global_stores_are_read_too() -> None:
    drawing = read_description(
        "Topologies:\n   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: a (topics: [x, y])\n      --> b\n"
        "    Processor: b (stores: [s, t])\n      --> none\n      <-- a\n"
        "  Sub-topology: 1\n    Source: c (topics: logs-[0-9]+)\n      --> d, e\n"
        "    Sink: d (extractor class: by_day)\n      <-- c\n"
    )

    assert drawing.global_groups == {0}
    assert drawing.nodes["a"].topics == ("x", "y")
    assert drawing.nodes["b"].children == ()
    assert drawing.nodes["b"].stores == ("s", "t")
    assert drawing.nodes["c"].topics == ("logs-[0-9]+",)
    assert drawing.nodes["c"].children == ("d", "e")
    assert drawing.nodes["d"].topics == ("by_day",)
