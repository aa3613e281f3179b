"""The order in which sub-topologies are computed, and passes of those that feed each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.subtopologies import topology

from headwater.errors import TopologyError
from headwater.ids import TaskId, TopicPartition
from headwater.model.backfill import BackfillState, Manifest
from headwater.model.topics import ChangelogTopic
from headwater.spark.computation import Computed
from headwater.spark.passes import Pass, next_pass
from headwater.spark.stages import check_passes, circles, reasons, stages
from headwater.spark.work import TaskDone

if TYPE_CHECKING:
    from headwater.model.topics import TopologyReport

TASK = TaskId(0, 0)
MANIFEST = Manifest(
    generation="0123456789ab",
    attempt=1,
    state=BackfillState.PREPARED,
    topology="",
    begun_ms=0,
    outputs="none",
    start={},
    cut={},
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (topology(("A", "B")), [{0}]),
        (topology(("A", "x"), ("x", "B")), [{0}, {1}]),
        (topology(("y", "B"), ("A", "x"), ("x", "y")), [{1}, {2}, {0}]),
        (topology(("A", "x"), ("B", "y"), ("xyC", "D")), [{0, 1}, {2}]),
        # An external topic between two of them is read as it is.
        (topology(("A", "B"), ("B", "C")), [{0, 1}]),
    ],
    ids=["one", "one after the other", "in another order", "joined", "by an external topic"],
)
def test_a_subtopology_is_computed_after_those_that_feed_it(
    given: TopologyReport, expected: list[set[int]]
) -> None:
    assert list(stages(given)) == expected


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        (
            topology(("Ay", "xz"), ("x", "y"), ("z", "B")),
            [{0, 1}, {2}],
            {0: "it and 1 feed each other", 1: "it and 0 feed each other"},
        ),
        (
            topology(("A", "x"), ("xy", "yz"), ("z", "B")),
            [{0}, {1}, {2}],
            {1: "it reads a repartition topic that it writes to itself"},
        ),
        # A ring, which waits for one before it; beside it, what waits for nobody.
        (
            topology(("A", "a"), ("ax", "y"), ("y", "z"), ("z", "xb"), ("b", "B"), ("C", "D")),
            [{0, 5}, {1, 2, 3}, {4}],
            dict.fromkeys((1, 2, 3), "feed each other"),
        ),
        # Two circles, one after the other.
        (
            topology(("by", "x"), ("x", "y"), ("Aa", "ab")),
            [{2}, {0, 1}],
            {0: "it and 1", 1: "it and 0", 2: "itself"},
        ),
    ],
    ids=["two", "one", "ring", "one after the other"],
)
def test_subtopologies_that_feed_each_other_have_their_turn_together(
    given: TopologyReport, expected: list[set[int]], words: dict[int, str]
) -> None:
    assert list(stages(given)) == expected
    assert {number for circle in circles(given) for number in circle} == words.keys()
    found = reasons(given)
    assert found.keys() == words.keys()
    assert all(words[number] in found[number] for number in words)


def test_a_store_in_a_circle_that_has_no_changelog_is_refused_by_name() -> None:
    (circle,) = topology(("Ax", "x")).subtopologies
    given = replace(topology(), subtopologies=(replace(circle, stores=("kept",)),))

    with pytest.raises(TopologyError, match=r"sub-topology 0 .* store kept has no changelog"):
        check_passes(given)
    assert "store kept has no changelog" in reasons(given)[0]

    logged = ChangelogTopic(name="app-kept-changelog", store="kept")
    check_passes(
        replace(given, subtopologies=(replace(circle, stores=("kept",), changelogs=(logged,)),))
    )


def test_a_pass_reads_a_slice_of_the_sources_and_all_that_is_between() -> None:
    source, other, between = (TopicPartition(topic, 0) for topic in ("in", "other", "x"))
    cut = {source: 100, other: 12, between: 70}

    first = next_pass({source: 0, other: 9, between: 5}, cut, {source, other}, 10)
    last = next_pass({source: 95, other: 12, between: 70}, cut, {source, other}, 10)

    assert first == Pass(ends={source: 10, other: 12, between: 70}, more=frozenset({source}))
    assert last == Pass(ends=cut, more=frozenset())


def test_passes_of_a_task_are_counted_together() -> None:
    first = TaskDone(task=TASK, processed=3, dropped=1, dead_letters=1, keys=2, went_on=True)
    second = TaskDone(task=TASK, processed=4, dropped=0, dead_letters=2, keys=5)
    found = Computed(manifest=MANIFEST)

    found.add([first])
    found.add([second])

    assert found.done == {
        TASK: TaskDone(task=TASK, processed=7, dropped=1, dead_letters=3, keys=5, went_on=True)
    }
