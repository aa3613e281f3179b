"""A StateUpdater that follows: copies are kept up, and a promotion reads only the tail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.support.updater import T0, T1, Changelog, Updater, settings_of, stored
from tests.support.waiting import wait_for

from headwater.errors import StoreLockedError
from headwater.native.messages import (
    Cancelled,
    CancelRestore,
    Failed,
    Follow,
    Following,
    Restore,
    Restored,
    RestoreProgress,
    Stop,
    Stopped,
)
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.native.messages import ChildSettings

pytestmark = pytest.mark.kafka


@pytest.fixture
def changelog(bootstrap_servers: str, unique_name: str) -> Changelog:
    return Changelog(bootstrap_servers, unique_name)


@pytest.fixture
def settings(bootstrap_servers: str, unique_name: str, tmp_path: Path) -> ChildSettings:
    return settings_of(bootstrap_servers, unique_name, tmp_path)


@pytest.fixture
def updater(settings: ChildSettings) -> Iterator[Updater]:
    started = Updater(settings)
    yield started
    started.close()


def delete_records(bootstrap_servers: str, changelog: Changelog, *, before: int) -> None:
    """Move the start of the changelog of partition 0, as retention does for windowed stores."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    policy = ConfigEntry(
        "cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ResourceType.TOPIC, changelog.topic, incremental_configs=[policy])
    for altered in admin.incremental_alter_configs([topic]).values():
        altered.result(30)
    gone = TopicPartition(changelog.topic, 0, before)
    for future in admin.delete_records([gone]).values():
        future.result(30)


def test_a_followed_store_stays_open_and_gets_what_is_written_later(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write_transaction({"a": 1, "b": 2})
    updater.follows(T0)
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    with pytest.raises(StoreLockedError, match="StateUpdater 0 of w-0"):
        directory.store(T0, "counts").acquire(holder="a test")

    changelog.write_transaction({"a": 3})
    updater.is_at_the_end(T0, applied=3)
    undecided = changelog.write_transaction({"a": 4}, end="open")
    # Only what it has seen can it go behind.
    wait_for(lambda: updater.wait_for(Following).lags[T0] == 1, what="the open transaction")
    undecided.abort_transaction(30)

    updater.is_at_the_end(T0, applied=3)
    updater.send(CancelRestore(task=T0))
    assert updater.wait_for(Cancelled).task == T0
    assert stored(settings) == {"a": 3, "b": 2}
    (found,) = directory.stored()
    assert found.position is not None
    assert found.position.offset == 7  # Behind the marker of the transaction that was aborted.


def test_the_lag_of_a_follower_counts_what_is_not_committed_yet(
    changelog: Changelog, updater: Updater
) -> None:
    changelog.write({"a": 1})
    updater.follows(T0)
    producer = changelog.write_transaction({"a": 2, "b": 2, "c": 2}, end="open")

    def lag() -> int | None:
        told: Following = updater.wait_for(Following)
        return told.lags[T0]

    wait_for(lambda: lag() == 3, what="the lag")
    producer.commit_transaction(30)

    updater.is_at_the_end(T0, applied=4)


def test_a_promotion_reads_only_the_tail_up_to_the_uncommitted_end(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({f"key-{n}": n for n in range(1_000)})
    updater.follows(T0)
    producer = changelog.write_transaction({"a": 1, "b": 2}, end="open")
    updater.send(Restore(task=T0, epoch=2))
    wait_for(lambda: updater.wait_for(RestoreProgress).remaining == 2, what="the restore to begin")
    assert not [message for message in updater.said if isinstance(message, Restored)]

    producer.commit_transaction(30)

    assert updater.wait_for(Restored) == Restored(task=T0, records=2)
    assert len(stored(settings)) == 1_002


def test_a_promotion_of_a_copy_at_the_end_reads_nothing(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write_transaction({"a": 1})
    updater.follows(T0)

    assert updater.restores(T0)[T0] == Restored(task=T0, records=0)
    assert stored(settings) == {"a": 1}


def test_a_task_is_followed_again_after_it_was_restored(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1, "b": 1})
    updater.restores(T0)
    changelog.write({"a": 2})

    updater.follows(T0)

    assert updater.is_at_the_end(T0).applied == 1
    updater.send(Stop())
    assert updater.wait_for(Stopped) == Stopped()
    assert updater.exit_code() == 0
    assert stored(settings) == {"a": 2, "b": 1}


def test_followed_tasks_wait_while_another_is_restored(
    changelog: Changelog, updater: Updater
) -> None:
    changelog.write({"a": 1}, partition=0)
    updater.follows(T0)
    producer = changelog.write_transaction({"b": 1}, partition=1, end="open")
    updater.send(Restore(task=T1, epoch=1))
    updater.wait_for(RestoreProgress)

    changelog.write({"a": 2}, partition=0)
    producer.commit_transaction(30)

    updater.is_at_the_end(T0, applied=2)
    kinds = [
        (type(message), getattr(message, "applied", 0))
        for message in updater.said
        if isinstance(message, Restored | Following)
    ]
    assert kinds == [(Restored, 0), (Following, 2)]


def test_a_killed_follower_goes_on_from_what_it_had_written(
    changelog: Changelog, settings: ChildSettings
) -> None:
    changelog.write({f"key-{n}": n for n in range(10_000)})
    killed = Updater(settings)
    killed.follows(T0)
    # What it takes in from here on it may have written or not.
    changelog.write({f"key-{n}": n for n in range(5_000, 15_000)})
    changelog.write({f"key-{n}": n + 1 for n in range(15_000)})
    killed.is_at_the_end(T0, applied=35_000)
    killed.close()
    resumed = Updater(settings)

    resumed.follows(T0)

    assert resumed.is_at_the_end(T0).applied <= 25_000
    assert resumed.restores(T0)[T0].records == 0
    resumed.close()
    assert stored(settings) == {f"key-{n}": n + 1 for n in range(15_000)}


@pytest.mark.parametrize("command", [Restore, CancelRestore, Stop])
def test_what_a_follower_has_taken_in_is_in_the_store_that_it_closes(
    bootstrap_servers: str,
    changelog: Changelog,
    settings: ChildSettings,
    updater: Updater,
    command: type[Restore | CancelRestore | Stop],
) -> None:
    changelog.write({"a": 1, "gone": 1})
    updater.follows(T0)
    for number in range(2, 5):
        changelog.write({"a": number, "b": number})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(changelog.topic, None, b"gone", partition=0)
    producer.flush(30)
    updater.is_at_the_end(T0, applied=9)

    if command is Stop:
        updater.send(Stop())
        assert updater.wait_for(Stopped) == Stopped()
    elif command is Restore:
        assert updater.restores(T0)[T0] == Restored(task=T0, records=0)
    else:
        updater.send(CancelRestore(task=T0))
        assert updater.wait_for(Cancelled).task == T0

    assert stored(settings) == {"a": 4, "b": 4}
    (found,) = StateDirectory(Path(settings.state_dir), settings.application_id).stored()
    assert found.position is not None
    assert found.position.offset == 9


def test_a_changelog_cut_off_in_front_of_a_follower_rebuilds_that_store_only(
    bootstrap_servers: str, changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"old": 1}, partition=0)
    changelog.write({"kept": 1}, partition=1)
    updater.follows(T0, T1)
    # It cannot read on while another task is restored.
    producer = changelog.write_transaction({"kept": 2}, partition=1, end="open")
    updater.send(Restore(task=T1, epoch=1))
    updater.wait_for(RestoreProgress)
    changelog.write({"missed": 1, "missed-too": 1}, partition=0)
    delete_records(bootstrap_servers, changelog, before=3)
    changelog.write({"new": 1}, partition=0)

    producer.commit_transaction(30)

    assert updater.wait_for(Restored) == Restored(task=T1, records=1)
    updater.is_at_the_end(T0, applied=3)
    assert updater.restores(T0)[T0].records == 0
    assert stored(settings, T0) == {"new": 1}
    assert stored(settings, T1) == {"kept": 2}


@pytest.mark.sampled
def test_a_changelog_made_anew_under_a_follower_rebuilds_its_store(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"old": 1, "gone": 1})
    updater.follows(T0)

    changelog.recreate()
    changelog.write({"new": 1, "newer": 2, "newest": 3})

    def followed_again() -> bool:
        told = updater.wait_for(Following, Failed)
        if isinstance(told, Failed):
            # For a moment the topic was not there; main tries again.
            assert (told.error, told.following) == ("MissingTopicError", True)
            updater.send(Follow(task=T0, epoch=1))
            return False
        # What stands behind the old position may have been read before anything was noticed.
        return bool(told.applied >= 5 and told.lags == {T0: 0})

    wait_for(followed_again, what="the new changelog")
    assert updater.restores(T0)[T0].records == 0
    assert stored(settings) == {"new": 1, "newer": 2, "newest": 3}


@pytest.mark.sampled
def test_a_follower_with_nothing_to_read_stays_as_young_as_its_changelog_is_complete(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1})
    updater.follows(T0)
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)

    def complete_at_ms() -> int:
        (found,) = directory.stored()
        assert found.position is not None
        return found.position.committed_at_ms

    before = complete_at_ms()

    wait_for(lambda: complete_at_ms() > before, what="another look")
    assert updater.is_at_the_end(T0).applied == 1


def test_a_full_disk_ends_no_follower_for_good(
    changelog: Changelog, settings: ChildSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog.write({"a": 1, "b": 2})
    monkeypatch.setenv("HEADWATER_FAILPOINTS", "rocks.write=disk_full")
    updater = Updater(settings)
    updater.send(Follow(task=T0, epoch=1))

    failed = updater.wait_for(Failed)

    assert (failed.error, failed.task, failed.following) == ("DiskFullError", T0, True)
    assert "free space" in failed.message
    updater.close()
    monkeypatch.delenv("HEADWATER_FAILPOINTS")
    after = Updater(settings)
    after.follows(T0)
    after.close()
    assert stored(settings) == {"a": 1, "b": 2}


def test_a_damaged_store_is_built_anew_and_the_others_go_on(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1}, partition=0)
    changelog.write({"b": 1}, partition=1)
    updater.restores(T0, T1)
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    (directory.store(T0, "counts").database / "CURRENT").write_bytes(b"\xde\xad")

    updater.follows(T0, T1)

    assert updater.is_at_the_end(T0, T1).applied == 1
    updater.restores(T0, T1)
    assert (stored(settings, T0), stored(settings, T1)) == ({"a": 1}, {"b": 1})


@pytest.mark.parametrize("command", [Follow, Restore])
def test_damage_that_shows_in_the_midst_is_named_and_the_next_one_builds_the_store_anew(
    changelog: Changelog,
    settings: ChildSettings,
    monkeypatch: pytest.MonkeyPatch,
    command: type[Follow | Restore],
) -> None:
    changelog.write({"a": 1, "b": 2})
    monkeypatch.setenv("HEADWATER_FAILPOINTS", "rocks.write=damage")
    updater = Updater(settings)
    updater.send(command(task=T0, epoch=1))

    failed = updater.wait_for(Failed)

    assert (failed.error, failed.task) == ("StoreCorruptedError", T0)
    assert "must be rebuilt from its changelog" in failed.message
    updater.send(Restore(task=T0, epoch=2))
    restored = updater.wait_for(Restored)
    assert restored.from_scratch == ("counts: the database is damaged",)
    assert restored.records == 2
    updater.close()
    assert stored(settings) == {"a": 1, "b": 2}


def test_a_missing_changelog_fails_its_follower_by_name(
    settings: ChildSettings, updater: Updater
) -> None:
    updater.send(Follow(task=T0, epoch=1))

    failed = updater.wait_for(Failed)

    assert (failed.error, failed.task, failed.following) == ("MissingTopicError", T0, True)
    assert f"{settings.application_id}-counts-changelog does not exist" in failed.message
