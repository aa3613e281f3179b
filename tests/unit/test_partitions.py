"""Partition counts, tasks and internal topics by Kafka Streams' rules."""

from __future__ import annotations

import pytest

from headwater.errors import MissingTopicError, PartitionMismatchError
from headwater.ids import TaskId, TopicPartition
from headwater.model.partitions import (
    changelog_configs,
    internal_topic_names,
    plan,
    topics_to_describe,
)
from headwater.model.topics import (
    ChangelogKind,
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)

WORDS = "app-counts-store-repartition"
COUNTS = "app-counts-store-changelog"

WORD_COUNT = TopologyReport(
    hash="h",
    subtopologies=(
        SubtopologyReport(id=0, source_topics=("lines",), sink_topics=(WORDS,)),
        SubtopologyReport(
            id=1,
            repartition_sources=(RepartitionTopic(name=WORDS),),
            sink_topics=("out",),
            changelogs=(ChangelogTopic(name=COUNTS, store="counts-store"),),
            stores=("counts-store",),
        ),
    ),
)


def report(*subtopologies: SubtopologyReport, groups: tuple[tuple[str, ...], ...] = ()):
    return TopologyReport(hash="h", subtopologies=subtopologies, copartition_groups=groups)


def repartition(name: str, partitions: int | None = None) -> RepartitionTopic:
    return RepartitionTopic(name=name, partitions=partitions)


def counts_of(plan_) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in plan_.internal_topics}


def test_word_count_gets_a_task_per_partition_of_each_subtopology():
    found = plan(WORD_COUNT, {"lines": 2})

    assert found.tasks == (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1))
    assert found.inputs[TaskId(1, 1)] == (TopicPartition(WORDS, 1),)
    assert found.changelogs == {
        TaskId(1, 0): (TopicPartition(COUNTS, 0),),
        TaskId(1, 1): (TopicPartition(COUNTS, 1),),
    }
    assert found.stateful == {TaskId(1, 0), TaskId(1, 1)}
    assert found.stateless == {TaskId(0, 0), TaskId(0, 1)}
    assert counts_of(found) == {COUNTS: 2, WORDS: 2}


def test_a_standby_can_be_kept_only_of_what_lies_on_disk():
    found = plan(
        report(
            SubtopologyReport(
                id=0,
                source_topics=("lines",),
                changelogs=(
                    ChangelogTopic(name="disk", store="d"),
                    ChangelogTopic(name="memory", store="m", persistent=False),
                ),
            ),
            SubtopologyReport(
                id=1,
                source_topics=("lines",),
                changelogs=(ChangelogTopic(name="memory-1", store="m1", persistent=False),),
            ),
            SubtopologyReport(id=2, source_topics=("lines",)),
        ),
        {"lines": 1},
    )

    assert found.stateful == {TaskId(0, 0), TaskId(1, 0)}
    assert found.can_stand_by == {TaskId(0, 0)}
    assert found.on_disk == {TaskId(0, 0): (TopicPartition("disk", 0),)}


def test_every_topic_is_asked_for():
    assert topics_to_describe(WORD_COUNT) == (COUNTS, WORDS, "lines")
    assert internal_topic_names(WORD_COUNT) == (COUNTS, WORDS)


def test_internal_topics_have_kafka_streams_settings():
    found = {topic.name: topic for topic in plan(WORD_COUNT, {"lines": 1}).internal_topics}

    assert found[WORDS].configs == {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    assert found[COUNTS].configs == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        (
            ChangelogTopic(name="c", store="s", kind=ChangelogKind.WINDOWED, retention_ms=5),
            {"cleanup.policy": "compact,delete", "retention.ms": "86400005"},
        ),
        (
            ChangelogTopic(
                name="c", store="s", kind=ChangelogKind.WINDOWED, retention_ms=(1 << 63) - 1
            ),
            {"cleanup.policy": "compact,delete", "retention.ms": str((1 << 63) - 1)},
        ),
        (
            ChangelogTopic(name="c", store="s", kind=ChangelogKind.VERSIONED, retention_ms=7),
            {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400007"},
        ),
        (
            ChangelogTopic(name="c", store="s", configs={"segment.bytes": "1"}),
            {"cleanup.policy": "compact", "segment.bytes": "1"},
        ),
    ],
    ids=["windowed", "windowed for ever", "versioned", "own settings win"],
)
def test_a_changelogs_settings_depend_on_its_store(changelog, expected):
    configs = changelog_configs(changelog, {"segment.bytes": "2"})

    assert configs == {"message.timestamp.type": "CreateTime", "segment.bytes": "2", **expected}


def test_repartition_counts_are_inferred_through_a_chain():
    found = plan(
        report(
            SubtopologyReport(id=2, repartition_sources=(repartition("b"),)),
            SubtopologyReport(id=1, repartition_sources=(repartition("a"),), sink_topics=("b",)),
            SubtopologyReport(id=0, source_topics=("x", "y"), sink_topics=("a",)),
        ),
        {"x": 3, "y": 5},
    )

    assert counts_of(found) == {"a": 5, "b": 5}


def test_an_enforced_count_is_kept():
    found = plan(
        report(
            SubtopologyReport(id=0, source_topics=("x",), sink_topics=("a",)),
            SubtopologyReport(id=1, repartition_sources=(repartition("a", 7),)),
        ),
        {"x": 3},
    )

    assert counts_of(found) == {"a": 7}
    assert len(found.tasks) == 3 + 7


def test_a_repartition_topic_takes_the_count_of_what_it_is_joined_with():
    found = plan(
        report(
            SubtopologyReport(id=0, source_topics=("x",), sink_topics=("a",)),
            SubtopologyReport(id=1, source_topics=("t",), repartition_sources=(repartition("a"),)),
            groups=(("a", "t"),),
        ),
        {"x": 3, "t": 8},
    )

    assert counts_of(found) == {"a": 8}


def test_joined_repartition_topics_take_the_larger_count():
    found = plan(
        report(
            SubtopologyReport(id=0, source_topics=("x",), sink_topics=("a",)),
            SubtopologyReport(id=1, source_topics=("y",), sink_topics=("b",)),
            SubtopologyReport(id=2, repartition_sources=(repartition("a"), repartition("b"))),
            groups=(("a", "b"),),
        ),
        {"x": 3, "y": 4},
    )

    assert counts_of(found) == {"a": 4, "b": 4}


def test_an_enforced_count_wins_over_an_inferred_one_in_a_join():
    found = plan(
        report(
            SubtopologyReport(id=0, source_topics=("x",), sink_topics=("a",)),
            SubtopologyReport(id=2, repartition_sources=(repartition("a"), repartition("b", 2))),
            groups=(("a", "b"),),
        ),
        {"x": 3},
    )

    assert counts_of(found) == {"a": 2, "b": 2}


def test_groups_that_share_a_topic_are_one_group():
    found = plan(
        report(
            SubtopologyReport(id=0, source_topics=("x",), sink_topics=("a", "b")),
            SubtopologyReport(
                id=1, source_topics=("t",), repartition_sources=(repartition("a"), repartition("b"))
            ),
            groups=(("a", "b"), ("b", "t")),
        ),
        {"x": 3, "t": 6},
    )

    assert counts_of(found) == {"a": 6, "b": 6}


def test_sources_that_are_not_copartitioned_give_ragged_tasks():
    found = plan(report(SubtopologyReport(id=0, source_topics=("x", "y"))), {"x": 1, "y": 2})

    assert found.inputs == {
        TaskId(0, 0): (TopicPartition("x", 0), TopicPartition("y", 0)),
        TaskId(0, 1): (TopicPartition("y", 1),),
    }


def test_a_source_topic_that_serves_as_changelog_is_not_created():
    found = plan(
        report(
            SubtopologyReport(
                id=0,
                source_topics=("t",),
                changelogs=(ChangelogTopic(name="t", store="s", is_source=True),),
            )
        ),
        {"t": 2},
    )

    assert found.internal_topics == ()
    assert found.stateful == found.can_stand_by == frozenset()


def test_only_topics_that_do_not_exist_are_missing():
    found = plan(WORD_COUNT, {"lines": 2, COUNTS: 2})

    assert [topic.name for topic in found.missing_topics({"lines": 2, COUNTS: 2})] == [WORDS]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ({}, "source topic 'lines' does not exist; create it, or correct the name"),
        (
            {"lines": 2, COUNTS: 3},
            f"{COUNTS} has 3 partitions, but the topology needs 2.*Give {WORDS} 3 partitions",
        ),
        (
            {"lines": 2, WORDS: 1},
            f"{WORDS} has 1 partition, .* needs 2, as many as lines has. Kafka cannot take",
        ),
    ],
    ids=["missing source", "other changelog", "other repartition topic"],
)
def test_topics_that_do_not_fit_are_named(partitions, message):
    with pytest.raises((MissingTopicError, PartitionMismatchError), match=message):
        plan(WORD_COUNT, partitions)


def test_all_missing_topics_are_named_at_once():
    with pytest.raises(MissingTopicError, match="source topics 'x', 'y' do not exist; create them"):
        plan(report(SubtopologyReport(id=0, source_topics=("y", "x"))), {})


def test_external_topics_that_are_joined_must_have_equal_counts():
    with pytest.raises(PartitionMismatchError, match=r"'x' has 3 and 'y' has 4; call repartition"):
        plan(
            report(SubtopologyReport(id=0, source_topics=("x", "y")), groups=(("x", "y"),)),
            {"x": 3, "y": 4},
        )


def test_an_enforced_count_must_equal_that_of_the_topic_it_is_joined_with():
    with pytest.raises(PartitionMismatchError, match=r"'a' has 5 and 't' has 4; give the same"):
        plan(
            report(
                SubtopologyReport(
                    id=1, source_topics=("t",), repartition_sources=(repartition("a", 5),)
                ),
                groups=(("a", "t"),),
            ),
            {"t": 4},
        )


def test_two_enforced_counts_in_a_join_must_be_equal():
    with pytest.raises(PartitionMismatchError, match="'a' has 5 and 'b' has 4"):
        plan(
            report(
                SubtopologyReport(
                    id=1, repartition_sources=(repartition("a", 5), repartition("b", 4))
                ),
                groups=(("a", "b"),),
            ),
            {},
        )


def test_a_repartition_topic_nobody_writes_to_cannot_be_sized():
    with pytest.raises(MissingTopicError, match=r"cannot tell how many partitions .* 'a' need"):
        plan(report(SubtopologyReport(id=1, repartition_sources=(repartition("a"),))), {})
