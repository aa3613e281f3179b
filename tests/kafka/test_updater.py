"""The StateUpdater on a real broker: it restores to the very end, and reads nothing twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.support.updater import T0, T1, Changelog, Updater, settings_of, stored, with_config

from headwater.model import losses, metrics
from headwater.native.messages import (
    Cancelled,
    CancelRestore,
    Failed,
    Follow,
    Restore,
    Restored,
    RestoreProgress,
    Stop,
    Stopped,
    UpdaterStats,
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


def test_a_task_is_restored_and_its_store_closed(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1, "b": 2})
    changelog.write({"a": 3})

    restored = updater.restores(T0)[T0]

    assert restored.records == 3
    assert restored.from_scratch == ("counts: the store has no position",)
    assert stored(settings) == {"a": 3, "b": 2}
    told = updater.wait_for(UpdaterStats).numbers
    thread = next(iter(told.rows(metrics.RESTORE_CALLS)))
    assert thread == (f"{settings.worker}-StateUpdater-{settings.slot}",)
    shares = (metrics.UPDATER_IDLE_RATIO, metrics.UPDATER_RESTORE_RATIO)
    assert 0 < sum(told.value(share, *thread) or 0.0 for share in shares) <= 1.01


def test_a_second_restore_reads_only_the_tail(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({f"key-{n}": n for n in range(1_000)})
    updater.restores(T0)
    changelog.write({"a": 1, "b": 2})

    restored = updater.restores(T0)[T0]

    assert restored.records == 2
    assert restored.from_scratch == ()
    assert len(stored(settings)) == 1_002


def test_a_store_at_the_end_of_its_changelog_reads_nothing(
    changelog: Changelog, updater: Updater
) -> None:
    changelog.write_transaction({"a": 1})
    updater.restores(T0)

    assert updater.restores(T0)[T0].records == 0


@pytest.mark.parametrize("tells", [False, True])
def test_a_store_that_has_all_is_opened_by_whoever_runs_its_task(
    changelog: Changelog, settings: ChildSettings, tells: bool
) -> None:
    changelog.write({"a": 1})
    updater = Updater(replace(settings, tells_restores=tells))
    updater.restores(T0)
    state = StateDirectory(Path(settings.state_dir), settings.application_id)
    current = state.store(T0, "counts").database / "CURRENT"
    before = current.read_text()

    restored = updater.restores(T0)[T0]
    updater.close()

    assert restored == Restored(task=T0, records=0)
    assert (current.read_text() != before) is tells
    assert stored(settings) == {"a": 1}


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_restore_ends_behind_markers_and_aborted_records(
    changelog: Changelog, settings: ChildSettings, updater: Updater, end: str
) -> None:
    changelog.write_transaction({"a": 1})
    changelog.write_transaction({"a": 2, "b": 2}, end=end)

    restored = updater.restores(T0)[T0]

    assert restored.records == (3 if end == "commit" else 1)
    assert stored(settings) == ({"a": 2, "b": 2} if end == "commit" else {"a": 1})
    assert updater.restores(T0)[T0].records == 0


def test_a_restore_waits_for_an_open_transaction_at_the_tail(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1})
    producer = changelog.write_transaction({"a": 2}, end="open")
    updater.send(Restore(task=T0, epoch=1))
    progress = updater.wait_for(RestoreProgress, Restored)
    while isinstance(progress, RestoreProgress) and progress.restored < 1:
        progress = updater.wait_for(RestoreProgress, Restored)
    assert isinstance(progress, RestoreProgress), "it did not wait"
    assert progress.remaining == 1

    producer.commit_transaction(30)

    assert updater.wait_for(Restored).records == 2
    assert stored(settings) == {"a": 2}


def test_deletions_are_applied(
    bootstrap_servers: str, changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1, "b": 2})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(changelog.topic, None, b"a", partition=0)
    producer.flush(30)

    updater.restores(T0)

    assert stored(settings) == {"b": 2}


def test_several_tasks_are_restored_at_once(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1}, partition=0)
    changelog.write({"b": 2}, partition=1)

    restored = updater.restores(T0, T1)

    assert {task: message.records for task, message in restored.items()} == {T0: 1, T1: 1}
    assert stored(settings, T1) == {"b": 2}


def test_an_empty_changelog_is_restored_at_once(changelog: Changelog, updater: Updater) -> None:
    assert updater.restores(T0)[T0] == Restored(task=T0, records=0)


@pytest.mark.parametrize("tells", [False, True])
def test_a_store_that_never_was_is_made_by_whoever_runs_its_task(
    changelog: Changelog, settings: ChildSettings, tells: bool
) -> None:
    changelog.write({"b": 2}, partition=1)
    updater = Updater(replace(settings, tells_restores=tells))

    restored = updater.restores(T0, T1)
    updater.close()

    assert restored[T0] == Restored(task=T0, records=0)
    assert restored[T1].records == 1
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    assert directory.store(T0, "counts").path.exists() is tells
    assert stored(settings, T1) == {"b": 2}


def test_a_task_at_its_end_is_given_back_before_the_next_is_opened(
    changelog: Changelog, settings: ChildSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog.write({"a": 1}, partition=0)
    changelog.write({"b": 2}, partition=1)
    first = Updater(settings)
    first.restores(T0, T1)
    first.close()
    monkeypatch.setenv("HEADWATER_FAILPOINTS", "rocks.opened=stop@2")
    frozen = Updater(replace(settings, tells_restores=True))  # which opens what is whole, too

    frozen.send(Restore(task=T0, epoch=1), Restore(task=T1, epoch=1))
    restored = frozen.wait_for(Restored)
    held = stored(settings)
    frozen.close()

    assert restored == Restored(task=T0, records=0)
    assert held == {"a": 1}


def test_a_changelog_that_was_made_anew_rebuilds_the_store(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"old": 1, "gone": 1})
    updater.restores(T0)
    changelog.recreate()
    changelog.write({"new": 1, "newer": 2, "newest": 3})

    restored = updater.restores(T0)[T0]

    (said,) = restored.from_scratch
    assert said.startswith("counts: the changelog topic was deleted and created again; ")
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    aside = directory.store(T0, "counts").path / "db.set-aside-1"
    assert f"set aside as {aside}" in said
    assert aside.is_dir()
    assert stored(settings) == {"new": 1, "newer": 2, "newest": 3}


def test_the_last_copy_of_a_state_is_left_as_it_is_until_somebody_gives_it_up(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"old": 1, "gone": 1})
    updater.restores(T0)
    changelog.commit()
    changelog.recreate()
    changelog.write({"new": 1})

    for wanted in (Restore(task=T0, epoch=1), Follow(task=T0, epoch=1)):
        updater.send(wanted)
        failed = updater.wait_for(Failed)
        assert (failed.error, failed.task) == ("ChangelogLostError", T0)
        assert "may be the last copy" in failed.message
        assert losses.choices(changelog.topic) in failed.message
        assert stored(settings) == {"old": 1, "gone": 1}

    accepted = Updater(with_config(settings, {losses.OPTION: changelog.topic}))
    (said,) = accepted.restores(T0)[T0].from_scratch
    accepted.close()
    assert "db.set-aside-1: delete it when nobody needs it" in said
    assert stored(settings) == {"new": 1}


def test_a_changelog_deleted_beside_committed_offsets_is_not_just_missing(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"old": 1})
    updater.restores(T0)
    changelog.commit()
    changelog.delete()

    updater.send(Restore(task=T0, epoch=1))

    failed = updater.wait_for(Failed)
    assert (failed.error, failed.task) == ("ChangelogLostError", T0)
    assert losses.choices(changelog.topic) in failed.message
    assert stored(settings) == {"old": 1}


def test_an_empty_changelog_beside_committed_offsets_is_restored_with_a_warning(
    changelog: Changelog, updater: Updater
) -> None:
    changelog.commit()

    (said,) = updater.restores(T0)[T0].from_scratch

    assert "has never held a record although" in said


def test_a_missing_changelog_is_named(settings: ChildSettings, updater: Updater) -> None:
    updater.send(Restore(task=T0, epoch=1))

    failed = updater.wait_for(Failed)

    assert (failed.error, failed.task) == ("MissingTopicError", T0)
    assert f"{settings.application_id}-counts-changelog does not exist" in failed.message


def test_a_store_in_use_fails_its_task_alone(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1}, partition=1)
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    directory.store(T0, "counts").acquire(holder="somebody else")

    updater.send(Restore(task=T0, epoch=1), Restore(task=T1, epoch=1))

    failed, restored = updater.wait_for(Failed), updater.wait_for(Restored)
    assert (failed.error, failed.task) == ("StoreLockedError", T0)
    assert "somebody else" in failed.message
    assert restored.task == T1


def test_a_killed_restore_resumes_where_it_was(
    changelog: Changelog, settings: ChildSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 30_000, 10_000):
        changelog.write({f"key-{n}": n for n in range(start, start + 10_000)})
    monkeypatch.setenv("HEADWATER_FAILPOINTS", "restore.applied=kill@3")
    killed = Updater(settings)
    killed.send(Restore(task=T0, epoch=1))
    assert killed.exit_code() == -9
    killed.close()
    monkeypatch.delenv("HEADWATER_FAILPOINTS")
    resumed = Updater(settings)

    restored = resumed.restores(T0)[T0]
    resumed.close()

    assert 0 < restored.records < 30_000
    assert restored.from_scratch == ()
    assert len(stored(settings)) == 30_000


def test_a_cancelled_restore_leaves_the_store_closed_and_resumable(
    changelog: Changelog, settings: ChildSettings, updater: Updater
) -> None:
    changelog.write({"a": 1})
    changelog.write_transaction({"a": 2}, end="open")
    updater.send(Restore(task=T0, epoch=1))
    updater.send(CancelRestore(task=T0))

    assert updater.wait_for(Cancelled).task == T0
    assert set(stored(settings)) <= {"a"}


def test_a_state_updater_stops_when_told(changelog: Changelog, updater: Updater) -> None:
    changelog.write_transaction({"a": 2}, end="open")
    updater.send(Restore(task=T0, epoch=1), Stop())

    assert updater.wait_for(Stopped) == Stopped()
    assert updater.exit_code() == 0


def test_a_wrong_configuration_is_told_before_anything_else(settings: ChildSettings) -> None:
    wrong = Updater(with_config(settings, {"commit.intervall.ms": 5}))

    failed = wrong.wait_for(Failed)
    wrong.close()

    assert failed.error == "ConfigError"
    assert "commit.interval.ms" in failed.message
    assert settings.application.parsed().exactly_once
