"""Which changelogs are lost: what was read before, near or far above, tells."""

from __future__ import annotations

import pytest

from headwater.ids import TopicPartition
from headwater.model import losses
from headwater.model.topics import (
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)

BY_WORD = RepartitionTopic(name="app-by-word-repartition")
REPORT = TopologyReport(
    hash="1",
    subtopologies=(
        SubtopologyReport(
            id=0,
            source_topics=("lines", "more"),
            sink_topics=(BY_WORD.name, "out"),
            changelogs=(ChangelogTopic(name="app-seen-changelog", store="seen"),),
        ),
        SubtopologyReport(
            id=1,
            source_topics=("names",),
            repartition_sources=(BY_WORD,),
            sink_topics=(BY_WORD.name,),
            changelogs=(ChangelogTopic(name="app-counts-changelog", store="counts"),),
        ),
        SubtopologyReport(
            id=2,
            source_topics=("out",),
            changelogs=(ChangelogTopic(name="app-apart-changelog", store="apart"),),
        ),
    ),
)
FIRST, SECOND = TopicPartition("lines", 0), TopicPartition("lines", 1)


def test_a_state_is_made_of_all_topics_above_it_also_behind_repartition_topics() -> None:
    assert losses.topics_above(REPORT) == {
        "app-seen-changelog": ("lines", "more"),
        "app-counts-changelog": (BY_WORD.name, "lines", "more", "names"),
        "app-apart-changelog": ("out",),
    }
    assert losses.topics_read(REPORT)["app-counts-changelog"] == (BY_WORD.name, "names")


@pytest.mark.parametrize(
    ("committed", "first", "read"),
    [
        ({}, {}, None),
        ({FIRST: (0, "AgAAAA==")}, {FIRST: 0}, None),
        ({FIRST: (0, "AgAAAA=="), SECOND: (3, "AgAAAA==")}, {}, (SECOND, 3)),
        ({FIRST: (7, "")}, {FIRST: 7}, None),
        ({FIRST: (7, "AgAAAA==")}, {FIRST: 7}, (FIRST, 7)),
        ({FIRST: (8, "")}, {FIRST: 7}, (FIRST, 8)),
    ],
    ids=[
        "new, or reset by us",
        "started, nothing read",
        "read",
        "reset by a tool",
        "read, and deleted since",
        "set by a tool to elsewhere",
    ],
)
def test_what_was_read_is_told_from_what_a_reset_leaves(
    committed: dict[TopicPartition, tuple[int, str]],
    first: dict[TopicPartition, int],
    read: tuple[TopicPartition, int] | None,
) -> None:
    assert losses.read_up_to(committed, first) == read


def test_every_message_about_a_lost_changelog_gives_the_same_choices() -> None:
    topic = "app-counts-changelog"
    said = [
        losses.missing(topic, FIRST, 3),
        losses.younger(TopicPartition(topic, 0), "store counts of task 1_0", "it is another one"),
        losses.deleted(topic, is_there_again=False),
        losses.deleted(topic, is_there_again=True),
    ]

    assert all(text.endswith(losses.choices(topic)) for text in said)
    assert "allow.lost.changelogs=app-counts-changelog" in losses.choices(topic)
