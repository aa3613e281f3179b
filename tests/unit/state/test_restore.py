"""A restore continues what it can, wipes what it cannot, and says how complete the store is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater import failpoints
from headwater.errors import ChangelogLostError, StoreLockedError
from headwater.ids import TaskId, TopicPartition
from headwater.model.topology import StoreKind, StoreSpec
from headwater.native.restoration import Changelog
from headwater.ports import Position
from headwater.state import (
    ChangelogFacts,
    RocksBackend,
    StateDirectory,
    StoreRestorer,
    open_backend,
)
from headwater.state.position import Discard, Rebuild, RebuildReason, Usable
from headwater.state.restore import BATCH_ENTRIES_MAX, is_up_to_date, set_aside

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.ports import RawRecord
    from headwater.state.directory import StoreDirectory
    from headwater.state.restore import Consent

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
PLAIN = StoreSpec(name="counts", kind=StoreKind.KEY_VALUE)
TIMESTAMPED = StoreSpec(name="counts")
MEMORY = StoreSpec(name="counts", persistent=False)


def facts(**changes: Any) -> ChangelogFacts:
    known: dict[str, Any] = {
        "topic_id": "id-1",
        "log_start": 0,
        "log_end": 1_000_000,
        "delete_retention_ms": 24 * HOUR_MS,
    }
    return ChangelogFacts(**(known | changes))


def record(offset: int, key: bytes | None, value: bytes | None, timestamp: int = 1) -> RawRecord:
    return (offset, timestamp, key, value, None)


@pytest.fixture
def directory(tmp_path: Path) -> StoreDirectory:
    return StateDirectory(tmp_path, "app").store(TaskId(0, 0), "counts")


def restorer(
    directory: StoreDirectory,
    spec: StoreSpec = PLAIN,
    now_ms: int = START_MS,
    consent: Consent = set_aside,
    **changes: Any,
) -> StoreRestorer:
    return StoreRestorer(
        spec, directory, facts(**changes), now_ms=now_ms, holder="StateUpdater", consent=consent
    )


def contents(directory: StoreDirectory) -> tuple[list[tuple[bytes, bytes]], Position | None]:
    backend = open_backend(PLAIN, directory, holder="test")
    found = list(backend.range(None, None)), backend.position()
    backend.close()
    return found


def test_records_are_applied_in_order_with_tombstones_and_without_null_keys(
    directory: StoreDirectory,
) -> None:
    restoring = restorer(directory, log_start=3)
    assert restoring.offset == 3

    restoring.apply([record(3, b"a", b"1"), record(4, b"b", b"1"), record(5, None, b"x")], 6)
    restoring.apply([record(6, b"a", b"2"), record(8, b"b", None)], 10, complete_at_ms=START_MS + 5)
    restoring.close()

    assert contents(directory) == ([(b"a", b"2")], Position("id-1", 10, START_MS + 5))
    assert restoring.applied == 5


def test_a_store_with_timestamps_gets_them_from_the_records(directory: StoreDirectory) -> None:
    restoring = restorer(directory, TIMESTAMPED)

    restoring.apply([record(0, b"a", b"1", 258), record(1, b"b", None, 258)], 2)
    restoring.close()

    assert contents(directory)[0] == [(b"a", b"\0\0\0\0\0\0\1\2" + b"1")]


def test_a_restore_goes_on_where_it_stopped(directory: StoreDirectory) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.close()

    second = restorer(directory, now_ms=START_MS + HOUR_MS)

    assert second.verdict == Usable(1)
    second.apply([record(1, b"b", b"1")], 2)
    second.close()
    assert contents(directory)[0] == [(b"a", b"1"), (b"b", b"1")]


@pytest.mark.parametrize(
    ("now_ms", "changes", "reason"),
    [
        (START_MS, {"topic_id": "id-2"}, RebuildReason.OTHER_TOPIC),
        (START_MS, {"log_start": 2}, RebuildReason.BELOW_LOG_START),
        (START_MS, {"log_end": 0}, RebuildReason.ABOVE_LOG_END),
        (START_MS + 24 * HOUR_MS, {}, RebuildReason.TOO_OLD),
    ],
    ids=["another topic", "below the start", "above the end", "too old"],
)
def test_a_stale_store_is_wiped(
    directory: StoreDirectory, now_ms: int, changes: dict[str, Any], reason: RebuildReason
) -> None:
    first = restorer(directory)
    first.apply([record(0, b"deleted-since", b"1")], 1)
    first.close()

    second = restorer(directory, now_ms=now_ms, **changes)

    assert second.verdict == Rebuild(reason, changes.get("log_start", 0))
    second.apply([record(7, b"a", b"2")], 8)
    second.close()
    topic = changes.get("topic_id", "id-1")
    assert contents(directory) == ([(b"a", b"2")], Position(topic, 8, now_ms))


def refuse(reason: RebuildReason) -> Discard:
    raise ChangelogLostError(reason.value)


LOST = [
    ("another topic", {"topic_id": "id-2"}, RebuildReason.OTHER_TOPIC),
    ("another topic, empty", {"topic_id": "id-2", "log_end": 0}, RebuildReason.OTHER_TOPIC),
    ("below the start", {"log_start": 2}, RebuildReason.BELOW_LOG_START),
    ("above the end", {"log_end": 0}, RebuildReason.ABOVE_LOG_END),
]


@pytest.mark.parametrize(("_", "changes", "reason"), LOST, ids=[case[0] for case in LOST])
def test_what_may_be_the_last_copy_is_replaced_by_somebodys_word_alone(
    directory: StoreDirectory, _: str, changes: dict[str, Any], reason: RebuildReason
) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.close()

    for _again in range(2):
        with pytest.raises(ChangelogLostError, match=reason.value):
            restorer(directory, consent=refuse, **changes)
        assert contents(directory) == ([(b"a", b"1")], Position("id-1", 1, START_MS))

    asked: list[RebuildReason] = []

    def accept(why: RebuildReason) -> Discard:
        asked.append(why)
        return Discard.SET_ASIDE

    second = restorer(directory, consent=accept, **changes)
    assert (second.verdict, asked) == (Rebuild(reason, changes.get("log_start", 0)), [reason])
    assert second.is_replaced
    assert second.kept == directory.path / "db.set-aside-1"
    second.close()
    assert contents(directory)[0] == []
    kept = RocksBackend(second.kept)
    assert list(kept.range(None, None)) == [(b"a", b"1")]
    kept.close()


def test_what_expires_by_the_topics_policy_is_rebuilt_without_a_word(
    directory: StoreDirectory,
) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.close()

    second = restorer(directory, consent=refuse, log_start=2, is_expiring=True)

    assert second.verdict == Rebuild(RebuildReason.BELOW_LOG_START, 2)
    assert second.kept is None
    second.close()


def test_a_store_that_holds_nothing_is_replaced_without_a_word(directory: StoreDirectory) -> None:
    first = restorer(directory)
    first.apply([], 1)
    first.close()

    second = restorer(directory, consent=refuse, topic_id="id-2", log_end=0)

    assert (second.is_replaced, second.kept) == (False, None)
    second.close()


def test_a_damaged_store_of_an_empty_changelog_is_replaced_by_somebodys_word_alone(
    directory: StoreDirectory,
) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.close()
    (directory.database / "CURRENT").write_text("MANIFEST-999999\n")

    for _ in range(2):
        with pytest.raises(ChangelogLostError):
            restorer(directory, consent=refuse, topic_id="id-2", log_end=0)

    assert list(directory.database.glob("*.log"))


def test_data_without_a_position_is_not_believed(directory: StoreDirectory) -> None:
    backend = open_backend(PLAIN, directory, holder="test")
    backend.write([(b"k", b"v")], None)
    backend.close()

    restoring = restorer(directory)
    restoring.close()

    assert restoring.verdict == Rebuild(RebuildReason.NO_POSITION, 0)
    assert contents(directory)[0] == []


def test_a_damaged_store_is_wiped(directory: StoreDirectory) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.close()
    (directory.database / "CURRENT").write_text("MANIFEST-999999\n")

    second = restorer(directory)

    assert second.verdict == Rebuild(RebuildReason.DAMAGED, 0)
    second.close()
    assert contents(directory)[0] == []


def test_an_unfinished_restore_ages_from_its_start_and_a_finished_one_from_its_end(
    directory: StoreDirectory,
) -> None:
    slow = restorer(directory)
    slow.apply([record(0, b"a", b"1")], 1)
    slow.close()
    resumed = restorer(directory, now_ms=START_MS + 22 * HOUR_MS)
    assert resumed.verdict == Usable(1)
    resumed.apply([record(1, b"b", b"1")], 2)
    resumed.close()
    late = restorer(directory, now_ms=START_MS + 24 * HOUR_MS)
    assert late.verdict == Rebuild(RebuildReason.TOO_OLD, 0)

    late.apply([], 5, complete_at_ms=START_MS + 24 * HOUR_MS)
    late.close()

    done = restorer(directory, now_ms=START_MS + 46 * HOUR_MS)
    assert done.verdict == Usable(5)
    done.close()


def test_large_batches_are_written_in_slices_that_each_carry_their_position(
    directory: StoreDirectory,
) -> None:
    count = 2 * BATCH_ENTRIES_MAX + 10
    records = [record(2 * n, b"%06d" % n, b"v") for n in range(count)]
    failpoints.arm("restore.applied=error@2")
    restoring = restorer(directory)

    with pytest.raises(failpoints.FailpointError):
        restoring.apply(records, 2 * count)
    failpoints.disarm()
    restoring.close()

    data, position = contents(directory)
    assert len(data) == 2 * BATCH_ENTRIES_MAX
    assert position == Position("id-1", 2 * (2 * BATCH_ENTRIES_MAX - 1) + 1, START_MS)


def test_many_changes_that_are_written_together_are_written_in_parts_that_can_be_repeated(
    directory: StoreDirectory,
) -> None:
    count = 2 * BATCH_ENTRIES_MAX + 10
    rows = [(b"%06d" % n, 1, b"v") for n in range(count)]
    following = restorer(directory)
    following.apply([], 4)
    failpoints.arm("rocks.written=error@2")

    with pytest.raises(failpoints.FailpointError):
        following.write(following.entries_of(rows), 70_000, records=80_000)
    failpoints.disarm()
    following.close()

    data, position = contents(directory)
    assert len(data) == 2 * BATCH_ENTRIES_MAX
    assert position == Position("id-1", 4, START_MS)
    again = restorer(directory)
    assert again.verdict == Usable(4)
    again.write(again.entries_of(rows), 70_000, records=80_000)
    assert (again.offset, again.applied) == (70_000, 80_000)
    again.close()
    data, position = contents(directory)
    assert len(data) == count
    assert position == Position("id-1", 70_000, START_MS)


def test_what_waits_for_a_condemned_store_is_forgotten_without_a_word(
    directory: StoreDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    partition = TopicPartition("app-counts-changelog", 0)
    changelog = Changelog(partition, restorer(directory), 20, START_MS, 20)
    changelog.move(10)

    changelog.condemn()
    changelog.close()

    assert caplog.text == ""
    again = restorer(directory)
    assert again.verdict == Rebuild(RebuildReason.DAMAGED, 0)
    again.close()


def test_an_empty_poll_moves_the_position_over_control_records(directory: StoreDirectory) -> None:
    restoring = restorer(directory)

    restoring.apply([], 4)
    restoring.close()

    assert contents(directory)[1] == Position("id-1", 4, START_MS)


def test_a_store_in_memory_is_restored_and_handed_on() -> None:
    restoring = StoreRestorer(MEMORY, None, facts(), now_ms=START_MS, holder="me")

    restoring.apply([record(0, b"a", b"1", 1)], 1)
    backend = restoring.take()

    assert restoring.verdict == Rebuild(RebuildReason.NO_POSITION, 0)
    assert backend.get(b"a") == b"\0" * 7 + b"\1" + b"1"
    assert backend.position() == Position("id-1", 1, START_MS)


def test_a_store_that_is_open_all_the_time_is_judged_as_one_that_is_opened(
    directory: StoreDirectory,
) -> None:
    following = restorer(directory)
    following.apply([record(0, b"a", b"1")], 1, complete_at_ms=START_MS)

    def verdict(now_ms: int = START_MS, **changes: Any) -> object:
        return following.judge(facts(**changes), now_ms)

    assert verdict() == Usable(1)
    assert verdict(topic_id="id-2") == Rebuild(RebuildReason.OTHER_TOPIC, 0)
    assert verdict(log_start=2) == Rebuild(RebuildReason.BELOW_LOG_START, 2)
    assert verdict(log_end=0) == Rebuild(RebuildReason.ABOVE_LOG_END, 0)
    assert verdict(START_MS + 23 * HOUR_MS) == Usable(1)
    assert verdict(START_MS + 23 * HOUR_MS + 1) == Rebuild(RebuildReason.TOO_OLD, 0)
    following.apply([], 1, complete_at_ms=START_MS + 20 * HOUR_MS)
    assert verdict(START_MS + 24 * HOUR_MS) == Usable(1)
    following.close()


def test_a_condemned_store_is_built_anew_as_a_damaged_one(directory: StoreDirectory) -> None:
    first = restorer(directory)
    first.apply([record(0, b"a", b"1")], 1)
    first.condemn()

    second = restorer(directory)

    assert second.verdict == Rebuild(RebuildReason.DAMAGED, 0)
    assert second.approximate_num_entries() == 0
    second.close()
    third = restorer(directory)
    assert third.verdict == Rebuild(RebuildReason.NO_POSITION, 0)
    third.close()


def test_a_store_that_settles_can_be_closed_and_goes_on(directory: StoreDirectory) -> None:
    first = restorer(directory)
    records = [record(n, b"key-%d" % n, b"1") for n in range(30_000)]
    first.apply(records, 30_000)
    first.settle()
    first.settle()
    first.close()

    assert restorer(directory).verdict == Usable(30_000)
    assert list(directory.database.glob("*.sst"))


def databases(directory: StoreDirectory) -> list[str]:
    """The files that an opening to write replaces."""
    return sorted(path.name for path in directory.database.glob("[CMO]*-*"))


@pytest.mark.parametrize(
    ("later_ms", "changes", "is_whole"),
    [
        (0, {}, True),
        (12 * HOUR_MS - 1, {}, True),
        (12 * HOUR_MS, {}, False),
        (0, {"log_end": 3}, False),
        (0, {"log_end": 1}, False),
        (0, {"topic_id": "id-2"}, False),
        (-2 * HOUR_MS, {}, False),
    ],
    ids=["at the end", "half as old", "older", "behind", "ahead", "another topic", "of tomorrow"],
)
def test_a_look_says_whether_a_store_has_its_whole_changelog_and_changes_nothing(
    directory: StoreDirectory, later_ms: int, changes: dict[str, Any], is_whole: bool
) -> None:
    restoring = restorer(directory)
    restoring.apply([record(0, b"a", b"1")], 2, complete_at_ms=START_MS)
    restoring.close()
    before = databases(directory)

    found = is_up_to_date(
        directory, facts(**({"log_end": 2} | changes)), now_ms=START_MS + later_ms, holder="me"
    )

    assert found is is_whole
    assert databases(directory) == before
    assert contents(directory) == ([(b"a", b"1")], Position("id-1", 2, START_MS))


def test_a_store_that_cannot_be_continued_as_it_is_does_not_have_its_whole_changelog(
    directory: StoreDirectory,
) -> None:
    here = facts(log_end=0)
    assert not is_up_to_date(directory, here, now_ms=START_MS, holder="me")
    assert not directory.path.exists()

    restoring = restorer(directory)
    assert not restoring.offset
    with pytest.raises(StoreLockedError, match="StateUpdater"):
        is_up_to_date(
            StateDirectory(directory.path.parents[3], "app").store(TaskId(0, 0), "counts"),
            here,
            now_ms=START_MS,
            holder="me",
        )
    restoring.close()
    assert not is_up_to_date(directory, here, now_ms=START_MS, holder="me")  # without a position

    restoring = restorer(directory)
    restoring.apply([record(0, b"a", b"1")], 2)
    restoring.condemn()
    assert not is_up_to_date(directory, facts(log_end=2), now_ms=START_MS, holder="me")
