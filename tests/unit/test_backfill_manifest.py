"""What a backfill writes about itself is read as it was written."""

from __future__ import annotations

import json

import pytest
from tests.support.manifests import manifest

from headwater.ids import TopicPartition
from headwater.model.backfill import BackfillState, decode


@pytest.mark.parametrize("state", BackfillState)
def test_a_manifest_is_read_as_it_was_written(state: BackfillState) -> None:
    written = manifest(
        state,
        tasks=("0_0", "1_11"),
        topic_ids={"app-counts-changelog": "id"},
        ends={TopicPartition("app-counts-changelog", 11): 7},
        cut={TopicPartition("a", 0): 1, TopicPartition("a", 10): 2, TopicPartition("b-1", 0): 3},
    )

    assert decode(written.encode(), "topic") == written


@pytest.mark.parametrize(
    ("since", "until"), [("beginning", None), ("earliest", 1_700_000_000_000), (1_000, 2_000)]
)
def test_the_times_that_a_backfill_was_begun_with_are_kept(
    since: str | int, until: int | None
) -> None:
    written = manifest(BackfillState.PREPARED, since=since, until=until)

    assert decode(written.encode(), "topic") == written


def test_a_manifest_of_a_version_that_kept_no_times_is_read() -> None:
    fields = json.loads(manifest(BackfillState.PREPARED).encode())
    del fields["since"], fields["until"]

    found = decode(json.dumps(fields).encode(), "topic")

    assert found == manifest(BackfillState.PREPARED)
    assert (found.since, found.until) == (None, None)


def test_only_prepared_and_written_are_unfinished() -> None:
    unfinished = {state for state in BackfillState if manifest(state).is_unfinished}

    assert unfinished == {BackfillState.PREPARED, BackfillState.WRITTEN}
