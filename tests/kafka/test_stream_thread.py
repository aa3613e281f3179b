"""What one StreamThread process promises, on a real broker; the test plays the main process."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_INVALID
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes, StreamsBuilder
from headwater.ids import TaskId
from headwater.model import metrics
from headwater.native.messages import (
    AddTasks,
    Failed,
    Go,
    Initialized,
    Released,
    ShareCache,
    TaskRunning,
)
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.native.messages import Stats
    from headwater.ports import Position

pytestmark = pytest.mark.kafka

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
# Where the way of the one is the way of the other, but for what others show.
EXACTLY_ONCE_IN_SHORT = pytest.mark.parametrize(
    "guarantee", [pytest.param("at_least_once", marks=pytest.mark.soak), "exactly_once_v2"]
)
LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 50
WORDS = Counter(word for line in LINES for word in line.split())
FIRST = TaskId(0, 0)
SECOND = TaskId(0, 1)


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def word_count(app: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(f"{app}-lines", key_serde=Serdes.string, value_serde=Serdes.string)
            .flat_map_values(lambda line: line.split())
            .group_by(lambda _, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts")
            .to_stream()
            .to(f"{app}-counts", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


def count_by_key(app: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string)
            .group_by_key()
            .count(store="counts")
            .to_stream()
            .to(f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


def copy(app: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string)
            .map_values(str.upper)
            .to(f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.string)
        )

    return build


@pytest.fixture
def counting(topics: Topics, unique_name: str, tmp_path: Path) -> Iterator[ThreadRig]:
    """A keyed count over one partition, exactly once."""
    topics.create(f"{unique_name}-in", 2)
    topics.create(f"{unique_name}-out", 2)
    topics.create(f"{unique_name}-counts-changelog", 2, cleanup_policy="compact")
    with ThreadRig(
        topics,
        unique_name,
        count_by_key(unique_name),
        tmp_path,
        processing_guarantee="exactly_once_v2",
    ) as rig:
        yield rig


def stored(rig: ThreadRig, task: TaskId = FIRST) -> tuple[dict[str, int], Position]:
    """What the store of a thread that has ended holds on disk."""
    from headwater.state import RocksBackend

    directory = StateDirectory(rig.state_dir, rig.application_id).store(task, "counts")
    backend = RocksBackend(directory.database)
    found = {key.decode(): int.from_bytes(row[8:]) for key, row in backend.range(None, None)}
    position = backend.position()
    backend.close()
    assert position is not None
    return found, position


def _buffered(stats: Stats) -> int:
    return stats.numbers.total(metrics.ACTIVE_BUFFER_COUNT)


def restarted_if_ended(rig: ThreadRig, task: TaskId) -> bool:
    """Do what the worker's main process does when an outage has ended a thread."""
    failures = [message for message in rig.pump() if isinstance(message, Failed)]
    if failures:
        assert {failure.error for failure in failures} <= {"KafkaUnavailableError", "FencedError"}
        assert rig.wait_end()
        rig.start(task)
    return True


# -- the whole way -------------------------------------------------------------------------------


@EXACTLY_ONCE_IN_SHORT
def test_words_are_counted_through_the_repartition_topic(
    topics: Topics, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    topics.create(f"{unique_name}-lines", 2)
    topics.create(f"{unique_name}-counts", 2)
    topics.create(f"{unique_name}-counts-repartition", 2)
    topics.create(f"{unique_name}-counts-changelog", 2, cleanup_policy="compact")
    topics.send(f"{unique_name}-lines", [(str(n), line) for n, line in enumerate(LINES)])
    tasks = [TaskId(sub, partition) for sub in (0, 1) for partition in (0, 1)]

    with ThreadRig(
        topics,
        unique_name,
        word_count(unique_name),
        tmp_path,
        processing_guarantee=guarantee,
        repartition_purge_interval_ms=200,
    ) as rig:
        rig.start(*tasks)
        rig.wait_processed(len(LINES) + sum(WORDS.values()))
        wait_for(lambda: topics.counts(f"{unique_name}-counts") == WORDS, what="all counts")
        wait_for(
            lambda: topics.read(f"{unique_name}-counts-repartition") == [],
            what="the purge of the repartition topic",
        )
        rig.stop()

    assert topics.counts(f"{unique_name}-counts-changelog") == WORDS
    in_stores = Counter[str]()
    for task in (TaskId(1, 0), TaskId(1, 1)):
        in_stores.update(stored(rig, task)[0])
    assert in_stores == WORDS


@EXACTLY_ONCE_IN_SHORT
def test_a_restart_goes_on_where_the_stop_left_off(
    topics: Topics, counting: ThreadRig, unique_name: str, guarantee: str
) -> None:
    counting.config["processing.guarantee"] = guarantee
    counting.start(FIRST)
    topics.send(f"{unique_name}-in", [("a", "1"), ("b", "1"), ("a", "2")], partition=0)
    counting.wait_processed(3)
    counting.stop()
    topics.send(f"{unique_name}-in", [("a", "3")], partition=0)

    counting.start(FIRST)
    counting.wait_processed(1)
    counting.stop()

    assert topics.counts(f"{unique_name}-out") == {"a": 3, "b": 1}
    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 4
    assert stored(counting)[0] == {"a": 3, "b": 1}


def test_a_kill_in_mid_transaction_neither_loses_nor_doubles(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.config["commit.interval.ms"] = 100
    records = [(f"k{n % 10}", "v") for n in range(2_000)]
    counting.start(FIRST)
    topics.send(f"{unique_name}-in", records, partition=0)
    counting.wait_processed(1)
    counting.config["commit.interval.ms"] = 100_000
    counting.kill()

    counting.start(FIRST)
    topics.send(f"{unique_name}-in", records, partition=0)
    counting.wait_stats(
        "an open transaction", lambda stats: stats.numbers.total(metrics.TRANSACTION_OPEN)
    )
    counting.kill()
    counting.config["commit.interval.ms"] = 100

    counting.start(FIRST)
    expected = {f"k{n}": 400 for n in range(10)}
    wait_for(lambda: topics.counts(f"{unique_name}-out") == expected, what="exact counts")
    counting.stop()
    assert topics.counts(f"{unique_name}-counts-changelog") == expected
    assert stored(counting)[0] == expected
    # Outputs of the killed transaction lie in the log, aborted: nobody sees them.
    assert topics.counts(f"{unique_name}-out") == expected


# Each step once and each guarantee twice; a soak has every pair.
@pytest.mark.parametrize(
    ("place", "guarantee"),
    [
        ("commit.flushed", "at_least_once"),
        ("commit.acknowledged", "exactly_once_v2"),
        ("commit.offsets_committed", "exactly_once_v2"),
        ("commit.store_written", "at_least_once"),
        pytest.param("commit.flushed", "exactly_once_v2", marks=pytest.mark.soak),
        pytest.param("commit.acknowledged", "at_least_once", marks=pytest.mark.soak),
        pytest.param("commit.offsets_committed", "at_least_once", marks=pytest.mark.soak),
        pytest.param("commit.store_written", "exactly_once_v2", marks=pytest.mark.soak),
    ],
)
def test_a_crash_between_two_steps_of_a_commit_leaves_store_and_changelog_consistent(
    topics: Topics, counting: ThreadRig, unique_name: str, place: str, guarantee: str
) -> None:
    counting.config["processing.guarantee"] = guarantee
    topics.send(f"{unique_name}-in", [(f"a{n % 7}", "v") for n in range(70)], partition=0)
    topics.send(f"{unique_name}-in", [(f"b{n % 7}", "v") for n in range(70)], partition=1)

    # The first hits belong to the commit of the starting offsets.
    at_hit = 4 if place == "commit.store_written" else 2
    counting.start(FIRST, SECOND, failpoints=f"{place}=kill@{at_hit}")
    assert counting.wait_end() == -9
    counting.start(FIRST, SECOND)
    # Outputs may be those of the first process; what its stores hold is not there without a commit.
    for end in ("out", "counts-changelog"):
        wait_for(
            lambda end=end: sum(topics.counts(f"{unique_name}-{end}").values()) >= 140,
            what=f"all records counted in {end}",
        )
    counting.stop()

    changelog = topics.counts(f"{unique_name}-counts-changelog")
    in_stores: Counter[str] = Counter()
    for task in (FIRST, SECOND):
        in_stores.update(stored(counting, task)[0])
    assert in_stores == changelog == topics.counts(f"{unique_name}-out")
    if guarantee == "exactly_once_v2":
        assert sum(in_stores.values()) == 140
    else:
        assert sum(in_stores.values()) >= 140


# -- commands ------------------------------------------------------------------------------------


def test_nothing_begins_before_go(topics: Topics, counting: ThreadRig, unique_name: str) -> None:
    topics.send(f"{unique_name}-in", [("a", "1")], partition=0)
    counting.start_initialising()
    counting.wait_for(Initialized)
    counting.child.send(AddTasks(tasks=(FIRST,), epoch=1))

    for _ in range(2):
        counting.wait_stats("a report", lambda _: True)
    assert not [m for m in counting.messages if isinstance(m, TaskRunning)]
    assert topics.read(f"{unique_name}-out") == []

    counting.child.send(Go(epoch=1))
    counting.wait_for(TaskRunning, task=FIRST)
    counting.wait_processed(1)


def test_a_smaller_share_of_the_cache_commits_and_then_lets_updates_out_sooner(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    keys = [f"key-{number}" for number in range(300)]
    for topic in ("in", "out", "counts-changelog"):
        topics.create(f"{unique_name}-{topic}")
    with ThreadRig(
        topics,
        unique_name,
        count_by_key(unique_name),
        tmp_path,
        commit_interval_ms=10_000_000,
        statestore_cache_max_bytes=1_000_000,
    ) as rig:
        rig.start(FIRST)
        topics.send(f"{unique_name}-in", [(key, "x") for key in keys])
        rig.wait_processed(300)

        rig.child.send(ShareCache(threads=1_000))
        once = dict.fromkeys(keys, 1)
        wait_for(lambda: topics.counts(f"{unique_name}-out") == once, what="the commit")

        topics.send(f"{unique_name}-in", [(key, "x") for key in keys])
        wait_for(
            # Nothing commits now: only a full cache lets an update out.
            lambda: 2 in topics.counts(f"{unique_name}-out").values(),
            what="what the cache has no room for",
        )
        rig.wait_processed(600)
        rig.stop()
        assert topics.counts(f"{unique_name}-out") == dict.fromkeys(keys, 2)


def test_tasks_that_are_opened_together_begin_each_where_it_belongs(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    source = f"{unique_name}-in"
    topics.send(source, [("a", "1"), ("a", "2"), ("b", "1")], partition=0)
    counting.start(FIRST)
    counting.wait_processed(3)
    counting.stop()
    topics.send(source, [("a", "3")], partition=0)
    topics.send(source, [("c", "1"), ("c", "2")], partition=1)

    counting.start(FIRST, SECOND)
    counting.wait_processed(3)
    counting.stop()

    assert topics.counts(f"{unique_name}-out") == {"a": 3, "b": 1, "c": 2}
    assert topics.committed(unique_name, source, 2) == {0: 4, 1: 2}
    assert stored(counting)[0] == {"a": 3, "b": 1}
    assert stored(counting, SECOND)[0] == {"c": 2}


def test_the_directories_of_all_stores_are_made_before_the_first_store_is(
    counting: ThreadRig,
) -> None:
    counting.start(failpoints="rocks.opened=kill")
    counting.child.send(Go(epoch=1))
    counting.child.send(AddTasks(tasks=(FIRST, SECOND), epoch=1))

    assert counting.wait_end() == -9

    state = StateDirectory(counting.state_dir, counting.application_id)
    stores = [state.store(task, "counts") for task in (FIRST, SECOND)]
    assert [(store.path / "format").exists() for store in stores] == [True, True]
    assert [store.database.exists() for store in stores] == [True, False]


def test_a_revoked_task_is_committed_and_another_thread_takes_it_over(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.config["commit.interval.ms"] = 100_000
    counting.config["producer.transaction.timeout.ms"] = 300_000
    topics.send(f"{unique_name}-in", [("a", "1"), ("a", "2")], partition=0)
    topics.send(f"{unique_name}-in", [("b", "1")], partition=1)
    counting.start(FIRST, SECOND)
    counting.wait_processed(3)

    released = counting.revoke(FIRST)

    assert released == {FIRST: {f"{unique_name}-in-0": 2}}
    assert topics.committed(unique_name, f"{unique_name}-in", 2) == {0: 2, 1: 1}
    with ThreadRig(
        topics,
        unique_name,
        count_by_key(unique_name),
        counting.state_dir,
        processing_guarantee="exactly_once_v2",
    ) as other:
        other.start(FIRST, slot=1)
        topics.send(f"{unique_name}-in", [("a", "3")], partition=0)
        other.wait_processed(1)
        other.stop()
    assert counting.revoke(TaskId(0, 7)) == {TaskId(0, 7): {}}
    counting.stop()
    assert topics.counts(f"{unique_name}-out") == {"a": 3, "b": 1}


def test_every_offset_is_committed_at_the_start(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.config["commit.interval.ms"] = 100_000

    counting.start(FIRST, SECOND)

    wait_for(
        lambda: topics.committed(unique_name, f"{unique_name}-in", 2) == {0: 0, 1: 0},
        what="offsets of tasks without records",
    )


@EXACTLY_ONCE_IN_SHORT
@pytest.mark.sampled
def test_every_offset_is_committed_again_and_again_before_the_broker_forgets_it(
    topics: Topics, counting: ThreadRig, unique_name: str, guarantee: str
) -> None:
    counting.config["processing.guarantee"] = guarantee
    counting.full_commit_interval_s = 12.0
    topics.send(f"{unique_name}-in", [("a", "1"), ("a", "2")], partition=0, timestamp_ms=77)
    counting.start(FIRST, SECOND)
    counting.wait_processed(2)

    def committed() -> dict[int, tuple[int, str]]:
        return topics.committed_with_metadata(unique_name, f"{unique_name}-in", 2)

    wait_for(lambda: committed()[0][0] == 2, what="the commit of what was read")
    before = committed()
    assert before[1][0] == 0
    for _ in range(2):
        # What becomes of a group without members whose offsets nobody renews.
        topics.admin.delete_consumer_groups([unique_name])[unique_name].result(30)
        assert committed() == {0: (OFFSET_INVALID, ""), 1: (OFFSET_INVALID, "")}

        wait_for(lambda: committed() == before, what="offsets and partition times of both tasks")

    counting.stop()
    assert topics.counts(f"{unique_name}-out") == {"a": 2}


def test_a_thread_frozen_past_its_lease_ends_without_committing(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    from headwater.native.messages import LeaseRenewed

    counting.config["processing.guarantee"] = "at_least_once"
    counting.config["commit.interval.ms"] = 100_000
    counting.start(FIRST)
    wait_for(
        lambda: topics.committed(unique_name, f"{unique_name}-in")[0] == 0, what="the first commit"
    )
    topics.send(f"{unique_name}-in", [("a", "1")], partition=0)
    counting.wait_processed(1)

    counting.child.send(LeaseRenewed(until_boot_ms=1))

    assert counting.wait_end() == 72
    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 0


def test_a_fenced_thread_reports_it_and_ends(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.start(FIRST)
    counting.wait_stats("the first commit", lambda stats: stats.numbers.total(metrics.COMMIT) > 0)
    with ThreadRig(
        topics,
        unique_name,
        count_by_key(unique_name),
        counting.state_dir,
        processing_guarantee="exactly_once_v2",
    ) as successor:
        successor.start()
        topics.send(f"{unique_name}-in", [("a", "1")], partition=0)

        failure = counting.wait_for(Failed)

        assert failure.fenced
        assert failure.error == "FencedError"
        assert counting.wait_end() == 5
        assert topics.read(f"{unique_name}-out") == []


# -- flow ----------------------------------------------------------------------------------------


def test_a_partition_with_a_full_buffer_is_paused_and_nothing_is_lost(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    topics.create(f"{unique_name}-in", 1)
    topics.create(f"{unique_name}-out", 1)
    topics.create(f"{unique_name}-other", 1)

    def merged(builder: StreamsBuilder) -> None:
        string = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        left = builder.stream(f"{unique_name}-in", **string)
        right = builder.stream(f"{unique_name}-other", **string)
        left.merge(right).to(f"{unique_name}-out", **string)

    topics.send(f"{unique_name}-in", [("k", str(n)) for n in range(5_000)])
    with ThreadRig(
        topics,
        unique_name,
        merged,
        tmp_path,
        buffered_records_per_partition=100,
        max_task_idle_ms=3_600_000,
        **{"consumer.max.poll.records": 50},
    ) as rig:
        # The other partition is empty: nothing may be processed before it gets a record.
        rig.start(FIRST)
        waiting = rig.wait_stats("a full buffer", lambda stats: _buffered(stats) > 100)
        assert waiting.numbers.total(metrics.THREAD_PROCESS) == 0
        again = rig.wait_stats("a report", lambda _: True)
        assert _buffered(again) == _buffered(waiting) < 300

        topics.send(f"{unique_name}-other", [("k", "last")])
        rig.wait_processed(5_000)
        rig.stop()

    values = [value.decode() for _, value in topics.read(f"{unique_name}-out")]
    assert values[:5_000] == [str(n) for n in range(5_000)]


def test_a_store_in_memory_is_rebuilt_from_its_changelog(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    for topic in ("in", "out", "counts-changelog"):
        topics.create(f"{unique_name}-{topic}", 1)

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(f"{unique_name}-in", key_serde=Serdes.string, value_serde=Serdes.string)
            .group_by_key()
            .count(store="counts", persistent=False)
            .to_stream()
            .to(f"{unique_name}-out", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    topics.send(f"{unique_name}-in", [("a", "1"), ("a", "2")], partition=0)
    with ThreadRig(
        topics, unique_name, build, tmp_path, processing_guarantee="exactly_once_v2"
    ) as rig:
        rig.start(FIRST)
        rig.wait_processed(2)
        rig.stop()
        topics.send(f"{unique_name}-in", [("a", "3")], partition=0)
        rig.start(FIRST)
        rig.wait_processed(1)
        rig.stop()

    assert topics.counts(f"{unique_name}-out") == {"a": 3}
    assert list(tmp_path.glob("*")) == []


def test_under_at_least_once_changes_reach_the_changelog_long_before_the_commit(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.config |= {"processing.guarantee": "at_least_once", "commit.interval.ms": 600_000}
    counting.start(FIRST)
    topics.send(f"{unique_name}-in", [("a", "1"), ("a", "2")], partition=0)

    wait_for(
        lambda: topics.counts(f"{unique_name}-counts-changelog") == {"a": 2},
        what="the flush of the changelog",
    )

    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 0


@EXACTLY_ONCE_IN_SHORT
def test_more_that_is_uncommitted_than_memory_may_hold_is_committed_early(
    topics: Topics, counting: ThreadRig, unique_name: str, guarantee: str
) -> None:
    counting.config |= {
        "processing.guarantee": guarantee,
        "commit.interval.ms": 600_000,
        "max.uncommitted.bytes": 10_000,
    }
    counting.start(FIRST)
    topics.send(f"{unique_name}-in", [(f"key-{n}", "v") for n in range(2_000)], partition=0)

    wait_for(
        lambda: topics.committed(unique_name, f"{unique_name}-in")[0] > 1_000,
        what="commits before their time",
    )


# -- bad input and bad surroundings --------------------------------------------------------------


@GUARANTEES
def test_a_dead_letter_is_committed_with_what_was_read(
    topics: Topics, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    dead = topics.create(f"{unique_name}-dead")
    topics.create(f"{unique_name}-in")
    topics.create(f"{unique_name}-out")
    topics.send(f"{unique_name}-in", [("a", "x" * 8), ("b", "no long"), ("c", "y" * 8)])

    def build(builder: StreamsBuilder) -> None:
        read = builder.stream(f"{unique_name}-in", key_serde=Serdes.string, value_serde=Serdes.long)
        read.to(f"{unique_name}-out")

    with ThreadRig(
        topics,
        unique_name,
        build,
        tmp_path,
        processing_guarantee=guarantee,
        commit_interval_ms=600_000,
        producer_transaction_timeout_ms=300_000,
        deserialization_exception_handler="log-and-continue",
        errors_dead_letter_queue_topic_name=dead,
    ) as rig:
        rig.start(FIRST)
        wait_for(
            lambda: topics.read(dead, isolation="read_uncommitted") == [("b", b"no long")],
            what="the dead letter",
        )
        before = topics.read(dead)
        rig.stop()

    assert before == ([] if guarantee == "exactly_once_v2" else [("b", b"no long")])
    assert topics.read(dead) == [("b", b"no long")]
    assert [key for key, _ in topics.read(f"{unique_name}-out")] == ["a", "c"]
    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 3


@pytest.mark.parametrize(
    ("topic", "again"),
    [
        ("in", False),
        ("counts-changelog", True),
        pytest.param("in", True, marks=pytest.mark.soak),
        pytest.param("counts-changelog", False, marks=pytest.mark.soak),
    ],
)
def test_a_topic_deleted_in_mid_run_is_named(
    topics: Topics, counting: ThreadRig, unique_name: str, topic: str, again: bool
) -> None:
    name = f"{unique_name}-{topic}"
    counting.start(FIRST)
    counting.wait_stats("the first commit", lambda stats: stats.numbers.total(metrics.COMMIT) > 0)

    topics.delete(name)
    if again:
        wait_for(
            lambda: name not in topics.admin.list_topics(timeout=30).topics, what="the deletion"
        )
        topics.create(name, 2)

    failure = counting.wait_for(Failed)
    is_changelog = topic == "counts-changelog"
    assert failure.error == ("ChangelogLostError" if is_changelog else "MissingTopicError")
    assert f"topic {name} was deleted" in failure.message
    assert ("allow.lost.changelogs" in failure.message) is is_changelog
    assert counting.wait_end() == 3


def test_a_missing_source_topic_is_named(topics: Topics, unique_name: str, tmp_path: Path) -> None:
    with ThreadRig(topics, unique_name, copy(unique_name), tmp_path) as rig:
        rig.start()
        rig.child.send(Go(epoch=1))
        rig.child.send(AddTasks(tasks=(FIRST,), epoch=1))

        failure = rig.wait_for(Failed)

        assert failure.error == "MissingTopicError"
        assert f"{unique_name}-in" in failure.message


def test_no_committed_offset_beside_a_filled_changelog_stops_with_the_choices(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    topics.send(f"{unique_name}-in", [("a", "1")], partition=0)
    counting.start(FIRST)
    counting.wait_processed(1)
    counting.stop()
    # What is not there yet cannot be deleted.
    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 1
    topics.admin.delete_consumer_groups([unique_name])[unique_name].result(30)

    counting.start()
    counting.child.send(Go(epoch=1))
    counting.child.send(AddTasks(tasks=(FIRST,), epoch=1))

    failure = counting.wait_for(Failed)
    assert failure.error == "OffsetsExpiredError"
    for named in (f"{unique_name}-in-0", f"{unique_name}-counts-changelog-0", "headwater reset"):
        assert named in failure.message
    assert topics.counts(f"{unique_name}-out") == {"a": 1}


def test_records_deleted_before_they_were_read_are_passed_over_with_a_warning(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    topics.send(f"{unique_name}-in", [("a", "1")], partition=0)
    counting.start(FIRST)
    counting.wait_processed(1)
    counting.stop()
    topics.send(f"{unique_name}-in", [("a", "2"), ("a", "3")], partition=0)
    from confluent_kafka import TopicPartition as ClientPartition

    purge = ClientPartition(f"{unique_name}-in", 0, 2)
    for future in topics.admin.delete_records([purge]).values():
        future.result(30)

    counting.start(FIRST)
    counting.wait_processed(1)
    counting.stop()

    assert topics.counts(f"{unique_name}-out") == {"a": 2}
    assert topics.committed(unique_name, f"{unique_name}-in")[0] == 3


def test_no_broker_at_the_start_is_an_error_in_bounded_time(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    topics.bootstrap_servers = "127.0.0.1:1"
    with ThreadRig(
        topics, unique_name, copy(unique_name), tmp_path, request_timeout_ms=1_000
    ) as rig:
        rig.start_initialising()

        failure = rig.wait_for(Failed)

        assert failure.error == "KafkaUnavailableError"
        assert "127.0.0.1:1" in failure.message
        assert rig.wait_end() == 3


@EXACTLY_ONCE_IN_SHORT
@pytest.mark.sampled
def test_a_restart_of_the_broker_in_mid_run_loses_nothing(
    unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    from headwater.local.broker import KafkaBroker

    with KafkaBroker(tmp_path / "kafka") as broker:
        topics = Topics(broker.bootstrap_servers)
        topics.create(f"{unique_name}-in", 1)
        topics.create(f"{unique_name}-out", 1)
        topics.create(f"{unique_name}-counts-changelog", 1, cleanup_policy="compact")
        topics.send(f"{unique_name}-in", [("a", "1")] * 10)
        with ThreadRig(
            topics,
            unique_name,
            count_by_key(unique_name),
            tmp_path / "state",
            processing_guarantee=guarantee,
        ) as rig:
            rig.start(FIRST)
            rig.wait_processed(10)
            broker.restart()
            topics.send(f"{unique_name}-in", [("a", "1")] * 10)
            # Where the outage leaves open what became of a transaction, the process ends, and its
            # successor goes on from what is committed.
            wait_for(
                lambda: (
                    restarted_if_ended(rig, FIRST)
                    and topics.counts(f"{unique_name}-out").get("a", 0) >= 20
                ),
                what="all records counted",
                timeout_s=240,
            )
            rig.stop()
            found = topics.counts(f"{unique_name}-out")
        assert stored(rig)[0] == found
        if guarantee == "exactly_once_v2":
            assert found == {"a": 20}


def test_released_is_said_before_the_next_owner_may_begin(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.start(FIRST, SECOND)
    counting.child.send(Go(epoch=1))

    offsets = counting.revoke(FIRST, SECOND)

    assert set(offsets) == {FIRST, SECOND}
    assert not [m for m in counting.messages if isinstance(m, Released)]
