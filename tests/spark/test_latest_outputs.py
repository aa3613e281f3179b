"""A backfill with ``--outputs latest`` writes the last record of each key, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.errors import BackfillError
from headwater.spark.latest import outputs_topic
from headwater.spark.outputs import Outputs
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backfills import WordCount

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(3_600)]

LINES = ["the quick brown fox", "jumps over the lazy dog", "", "the end"] * 25


def last_counts(word_count: WordCount) -> dict[str, list[int]]:
    return {word: [times] for word, times in word_count.sent.items()}


@pytest.mark.sampled
def test_a_backfill_that_is_killed_again_and_again_writes_each_last_record_once(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    # They leave in several transactions.
    options = {"consumer.max.poll.records": 1}
    for failpoint in (
        "commit.acknowledged=kill@2",  # outputs wait in an open transaction
        "backfill.latest_acknowledged=kill",  # the last are sent, the transaction is open
        "backfill.latest_committed=kill@2",  # the first task has written some or all
        "backfill.latest_written=kill",
        "backfill.written=kill",
    ):
        ended = word_count.drive(unique_name, failpoint, Outputs.LATEST, **options)
        assert ended.returncode == -9, (failpoint, ended.stdout, ended.stderr)

    ended = word_count.drive(unique_name, outputs=Outputs.LATEST, **options)

    assert ended.returncode == 0, ended.stderr
    assert word_count.outputs() == last_counts(word_count)
    assert word_count.counts(unique_name) == word_count.sent
    waiting = outputs_topic(unique_name)
    wait_for(
        lambda: waiting not in word_count.topics.admin.list_topics(timeout=30).topics,
        what=f"the end of {waiting}",
    )
    word_count.go_on(unique_name, tmp_path)


def test_what_waits_is_thrown_away_with_the_backfill(
    word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)
    ended = word_count.drive(unique_name, "backfill.latest_committed=kill", Outputs.LATEST)
    assert ended.returncode == -9, ended.stderr
    with pytest.raises(BackfillError, match="begun with --outputs latest"):
        word_count.backfill(unique_name, outputs=Outputs.ALL).run()

    assert word_count.backfill(unique_name, outputs=Outputs.LATEST).abort()

    def is_gone() -> bool:
        left = word_count.topics.admin.list_topics(timeout=30).topics
        return not any(topic.startswith(f"{unique_name}-backfill-outputs") for topic in left)

    # The broker shows a topic for a moment after it has deleted it.
    wait_for(is_gone, what="the end of what waits")
