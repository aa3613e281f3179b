"""A backfill leaves on Kafka what workers would have left, and they go on from there.

The tasks run in this process; ``test_on_spark`` runs them on Spark.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import NewPartitions

from headwater import Serdes
from headwater.errors import (
    BackfillError,
    ConfigError,
    EngineError,
    FencedError,
    GroupInUseError,
)
from headwater.kafka.engine import EngineWriter
from headwater.kafka.manifest import ManifestGate
from headwater.model.backfill import BackfillState
from headwater.model.lifecycle import Engine
from headwater.native.application import ApplicationSettings
from headwater.service.decide.ownership import OWNER_TIMEOUT_MS
from headwater.service.duties import Duties
from headwater.service.owner import owner_topic
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.cluster import SparkCluster, outcome
from headwater.spark.outputs import Outputs
from headwater.spark.turns.messages import TakenOverError
from headwater.spark.work import run_task
from tests.support.backfills import PARTITIONS, STORE, TOPOLOGY, Here, Listener
from tests.support.clients import Clients
from tests.support.membership import member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.model.backfill import Manifest
    from tests.support.backfills import WordCount
    from tests.support.thread_rig import Topics

# Longer than all the waiting in one of them, on a machine that is busy.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3_600)]

LINES = ["the quick brown fox", "jumps over the lazy dog", "", "the end"] * 25
MORE = ["the fox again", "no dog"] * 10


@pytest.mark.sampled
def test_workers_go_on_where_the_backfill_has_ended(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    native, built = f"{unique_name}-native", f"{unique_name}-built"
    word_count.send(LINES)
    word_count.go_on(native, tmp_path / "native")
    by_workers = word_count.outputs()

    report = word_count.backfill(built).run()

    assert report.records == len(LINES)
    assert report.manifest.state is BackfillState.COMMITTED
    # What is on Kafka is the same: bytes, timestamps, partitions, offsets, partition times.
    assert word_count.changelog(built) == word_count.changelog(native)
    source = f"{word_count.prefix}-in"
    assert word_count.offsets(built, source) == word_count.offsets(native, source)
    times = [
        {number: metadata for number, (_, metadata) in word_count.offsets(app, topic).items()}
        for app in (native, built)
        for topic in [f"{app}-{STORE}-repartition"]
    ]
    assert times[0] == times[1]
    # Outputs were not asked for.
    assert word_count.outputs() == by_workers

    word_count.send(MORE)
    word_count.go_on(native, tmp_path / "native")
    word_count.go_on(built, tmp_path / "built")

    assert word_count.changelog(built) == word_count.changelog(native)


def test_a_topic_that_is_written_to_meanwhile_is_cut(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    before = word_count.sent.copy()

    class Late(Here):
        """More lines come between the cut and the tasks."""

        def run(self, works):  # type: ignore[no-untyped-def]
            if not self.works:
                word_count.send(MORE)
            return super().run(works)

    report = word_count.backfill(unique_name, Late()).run()

    assert report.records == len(LINES)
    assert word_count.counts(unique_name) == before
    word_count.go_on(unique_name, tmp_path)


def test_outputs_are_written_once_if_they_are_wanted(
    word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)

    word_count.backfill(unique_name, outputs=Outputs.ALL).run()

    assert word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }


@pytest.mark.sampled
def test_a_backfill_of_an_application_that_has_run_begins_from_nothing(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    word_count.go_on(unique_name, tmp_path)
    backfill = word_count.backfill(unique_name)
    planned = backfill.plan()
    assert planned.made_anew == (
        f"{unique_name}-{STORE}-changelog",
        f"{unique_name}-{STORE}-repartition",
    )

    backfill.run()

    assert word_count.counts(unique_name) == word_count.sent
    word_count.send(MORE)
    # The stores on disk are of the old topics, and are recognised as stale.
    word_count.go_on(unique_name, tmp_path)


def test_what_workers_write_before_the_driver_has_tidied_up_stays(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    between = f"{unique_name}-{STORE}-repartition"

    class Slow(Backfill):
        """Workers go on as soon as the backfill is committed."""

        def _tidy(self, *committed: Any) -> None:
            assert len(topics.read(between)) == word_count.sent.total()
            for partition in range(PARTITIONS):
                topics.send(between, [("fox", "fox")], partition)
            super()._tidy(*committed)

    told = BackfillSettings(
        application=ApplicationSettings(topology=TOPOLOGY, config=word_count.config(unique_name)),
    )
    Slow(told, Here(), Listener()).run()

    assert topics.read(between) == [("fox", b"fox")] * PARTITIONS


# -- killed ----------------------------------------------------------------------------------------


@pytest.mark.sampled
def test_a_backfill_that_is_killed_at_every_step_is_exact(
    word_count: WordCount, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word_count.send(LINES)
    stores = tmp_path / "stores"
    stores.mkdir()
    monkeypatch.setenv("TMPDIR", str(stores))
    for failpoint in (
        "backfill.prepared=kill",
        "backfill.cleaned=kill",
        "backfill.task_initialized=kill",
        "commit.acknowledged=kill@2",  # everything is sent, the transaction is open
        "commit.offsets_committed=kill@2",  # the transaction is committed
        "backfill.stage_computed=kill",
        "commit.acknowledged=kill@3",
        "backfill.written=kill",
        "backfill.offsets_added=kill",
    ):
        ended = word_count.drive(unique_name, failpoint, Outputs.ALL)
        assert ended.returncode == -9, (failpoint, ended.stdout, ended.stderr)

    ended = word_count.drive(unique_name, outputs=Outputs.ALL)

    assert ended.returncode == 0, ended.stderr
    assert "this run: 0 records, 0 tasks" in ended.stdout
    assert "what was done before in 4 tasks" in ended.stdout
    assert "(this was attempt 10)" in ended.stdout
    # The stores of each were removed by the next whose tasks ran.
    assert list(stores.glob("headwater-backfill-*")) == []
    assert word_count.counts(unique_name) == word_count.sent
    assert word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }
    word_count.send(MORE)
    word_count.go_on(unique_name, tmp_path)


def test_a_task_of_an_earlier_driver_writes_nothing(
    word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)

    class Interrupted(Here):
        def run(self, works):  # type: ignore[no-untyped-def]
            self.works += works
            raise KeyboardInterrupt

    earlier = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        word_count.backfill(unique_name, earlier).run()
    later = Here()
    word_count.backfill(unique_name, later).run()
    counts = word_count.changelog(unique_name)

    for work in earlier.works:
        with pytest.raises(FencedError, match="another driver"):
            run_task(work)

    assert word_count.changelog(unique_name) == counts
    assert {work.attempt for work in later.works} == {2}


# -- counted ---------------------------------------------------------------------------------------


def test_a_report_says_of_how_many_tasks_it_counts_only_a_part(
    word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)
    unfinished(word_count, unique_name)

    class Again(Here):
        """The copy before, which is gone, has come half of the way."""

        def run(self, works):  # type: ignore[no-untyped-def]
            first = works[0]
            run_task(replace(first, cut={p: end // 2 for p, end in first.cut.items()}))
            return super().run(works)

    resumed = word_count.backfill(unique_name).run()
    whole = word_count.backfill(f"{unique_name}-whole").run()
    begun_twice = word_count.backfill(f"{unique_name}-twice", Again()).run()

    assert {done.task.subtopology for done in resumed.tasks} == {1}
    assert [found.earlier for found in (resumed, whole, begun_twice)] == [2, 0, 2]
    assert "not counted: what was done before in 2 tasks" in "\n".join(resumed.lines())
    assert "not counted" not in "\n".join(whole.lines())
    processed = [sum(done.processed for done in r.tasks) for r in (whole, begun_twice)]
    assert 0 < processed[1] < processed[0]
    assert begun_twice.keys == whole.keys


def test_what_an_aborted_transaction_has_done_is_counted_once(
    topics: Topics, unique_name: str
) -> None:
    source = topics.create(f"{unique_name}-in", max_message_bytes="10000000")
    sink = topics.create(f"{unique_name}-out", max_message_bytes="1000")
    letters = topics.create(f"{unique_name}-dead")
    values: list[Any] = [b"\xff\xfe", "x", "x" * 5_000, "y"]
    topics.send(source, [("k", value) for value in values], 0)

    def build(builder: StreamsBuilder) -> None:
        serdes = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        builder.stream(source, **serdes).to(sink, **serdes)

    config = {
        "application.id": unique_name,
        "bootstrap.servers": topics.bootstrap_servers,
        "deserialization.exception.handler": "log-and-continue",
        "production.exception.handler": "tests.support.handlers:drop_undeliverable",
        "errors.dead.letter.queue.topic.name": letters,
    }
    told = BackfillSettings(
        application=ApplicationSettings(config=config, topology=cloudpickle.dumps(build)),
        outputs=Outputs.ALL,
    )

    report = Backfill(told, Here(), Listener()).run()

    assert [value for _, value in topics.read(sink)] == [b"x", b"y"]
    assert [value for _, value in topics.read(letters)] == [values[0]]
    assert (report.dead_letters, [done.processed for done in report.tasks]) == (1, [4])


def test_a_task_that_is_fenced_is_final_only_if_another_driver_has_come(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    source = topics.create(unique_name)
    topics.send(source, [("k", "v")])
    flag, config = tmp_path / "flag", Clients(topics.bootstrap_servers, unique_name).config

    def build(builder: StreamsBuilder) -> None:
        def fenced_by_a_copy(_key: str, _value: str) -> bool:
            if flag.exists():
                flag.unlink()
                Duties(config, client_id="copy").fence([f"{unique_name}-spark-0_0"])
            return True

        builder.stream(source, key_serde=Serdes.string, value_serde=Serdes.string).filter(
            fenced_by_a_copy
        ).group_by_key(key_serde=Serdes.string, value_serde=Serdes.string).count(store="counts")

    class Twice(Here):
        """Spark runs the task again when it is fenced, as when it has lost an executor."""

        def run(self, works):  # type: ignore[no-untyped-def]
            self.works += works
            flag.touch()
            with pytest.raises(FencedError) as fenced:
                outcome(works[0])
            assert not isinstance(fenced.value, TakenOverError)
            return [outcome(work) for work in works]

    told = BackfillSettings(
        application=ApplicationSettings(
            config={"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers},
            topology=cloudpickle.dumps(build),
        ),
    )
    cluster = Twice()
    assert Backfill(told, cluster, Listener()).run().keys == 1

    assert isinstance(outcome(cluster.works[0]), TakenOverError)


# -- refused ---------------------------------------------------------------------------------------


def test_a_group_with_members_is_refused(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    with (
        member(topics.bootstrap_servers, unique_name, f"{unique_name}-in", "somebody"),
        pytest.raises(GroupInUseError, match="somebody"),
    ):
        word_count.backfill(unique_name).run()

    assert word_count.changelog(unique_name) == {}


def test_a_worker_that_slept_through_the_beginning_of_a_backfill_commits_nothing(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    frozen_id = f"{unique_name}-word-count-w-0-0"
    frozen = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "transactional.id": frozen_id}
    )
    frozen.init_transactions(30)

    word_count.backfill(unique_name, worker_ids=(frozen_id,)).run()

    frozen.begin_transaction()
    frozen.produce(f"{unique_name}-out", b"late", b"late")
    with pytest.raises(KafkaException):
        frozen.commit_transaction(30)
    assert "late" not in word_count.outputs()


def test_what_spark_runs_is_refused(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    clients = Clients(topics.bootstrap_servers, unique_name)
    writer = EngineWriter(clients.access)
    writer.take_over(Engine.SPARK)
    backfill = word_count.backfill(unique_name)

    for said in ("is being taken over for Spark", "Spark has had it since"):
        for attempt in (backfill.plan, backfill.run):
            with pytest.raises(EngineError, match=said):
                attempt()
        writer.confirm()

    assert word_count.changelog(unique_name) == {}
    writer.take_over(Engine.NATIVE)
    writer.confirm()
    backfill.run()
    assert word_count.counts(unique_name) == word_count.sent


def test_what_spark_takes_over_while_a_backfill_begins_is_left_to_it(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    clients = Clients(topics.bootstrap_servers, unique_name)

    class Overtaken(Backfill):
        """Somebody takes over when all has been looked at, and nothing is written."""

        def _new_manifest(self) -> Manifest:
            writer = EngineWriter(clients.access)
            writer.take_over(Engine.SPARK)
            writer.confirm()
            writer.close()
            return super()._new_manifest()

    told = BackfillSettings(
        application=ApplicationSettings(topology=TOPOLOGY, config=word_count.config(unique_name)),
    )
    with pytest.raises(EngineError, match="Spark has had it since"):
        Overtaken(told, Here(), Listener()).run()

    gate = ManifestGate(clients.access)
    left = gate.read()
    assert left is not None
    assert not left.is_unfinished
    assert gate.check_backfill().holder is Engine.SPARK
    assert word_count.changelog(unique_name) == {}


def test_a_spark_that_does_not_start_has_cost_nothing(
    word_count: WordCount, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    word_count.go_on(unique_name, tmp_path)
    changelog = word_count.changelog(unique_name)
    offsets = word_count.offsets(unique_name, f"{unique_name}-in")
    told = BackfillSettings(
        application=ApplicationSettings(topology=TOPOLOGY, config=word_count.config(unique_name)),
    )

    with pytest.raises(ConfigError, match=r"spark\.kubernetes\.container\.image is missing"):
        Backfill(told, SparkCluster("k8s://https://127.0.0.1:9", {}), Listener()).run()

    assert word_count.changelog(unique_name) == changelog
    assert word_count.offsets(unique_name, f"{unique_name}-in") == offsets
    word_count.send(MORE)
    word_count.go_on(unique_name, tmp_path)


def test_what_retention_has_deleted_is_not_passed_over(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    delete_records(topics, f"{unique_name}-in", 1, before=10)

    with pytest.raises(BackfillError, match=r"in-1 begins at 10.*--from earliest"):
        word_count.backfill(unique_name).run()

    report = word_count.backfill(unique_name, since="earliest").run()
    assert report.records == len(LINES) - 10


def test_records_deleted_while_the_backfill_runs_end_it(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)

    class Slow(Here):
        """Retention comes between the cut and the tasks."""

        def run(self, works):  # type: ignore[no-untyped-def]
            delete_records(topics, f"{unique_name}-in", 1, before=10)
            return super().run(works)

    with pytest.raises(BackfillError, match=r"in-1: .*were deleted.*--abort"):
        word_count.backfill(unique_name, Slow()).run()


def delete_records(topics: Topics, topic: str, partition: int, *, before: int) -> None:
    gone = ClientPartition(topic, partition, before)
    for future in topics.admin.delete_records([gone]).values():
        future.result(60)


def test_only_what_lies_between_two_times_is_read(
    word_count: WordCount, unique_name: str, topics: Topics
) -> None:
    hour_ms = 3_600_000
    source = f"{unique_name}-in"
    for hour, word in enumerate(["early", "wanted", "late"], start=1):
        for partition in range(PARTITIONS):
            topics.send(source, [("k", word)] * 5, partition, timestamp_ms=hour * hour_ms)

    report = word_count.backfill(unique_name, since=2 * hour_ms, until=3 * hour_ms).run()

    assert word_count.counts(unique_name) == {"wanted": 10}
    assert {offset for offset, _ in word_count.offsets(unique_name, source).values()} == {10}
    assert report.records == 10


def add_partition(topics: Topics, topic: str) -> None:
    topics.admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result(60)
    wait_for(
        lambda: len(topics.admin.list_topics(topic).topics[topic].partitions) > PARTITIONS,
        what="the partition",
        timeout_s=300,
    )


def test_a_partition_added_while_the_backfill_runs_ends_it(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)

    class Grows(Here):
        """A partition comes between the cut and the tasks."""

        def run(self, works):  # type: ignore[no-untyped-def]
            if not self.works:
                add_partition(topics, f"{unique_name}-in")
            return super().run(works)

    with pytest.raises(BackfillError, match=r"in has 3 partitions, and had 2 when.*--abort"):
        word_count.backfill(unique_name, Grows()).run()

    # Nobody goes on from what it has loaded.
    assert set(topics.committed(unique_name, f"{unique_name}-in").values()) == {OFFSET_INVALID}
    assert word_count.backfill(unique_name).abort()


def unfinished(word_count: WordCount, app: str) -> None:
    """Leave a backfill whose state is loaded in part."""
    ended = word_count.drive(app, "backfill.stage_computed=kill")
    assert ended.returncode == -9, ended.stderr


def test_an_unfinished_backfill_is_gone_on_with_only_if_nothing_has_changed(
    word_count: WordCount, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    unfinished(word_count, unique_name)
    assert "would go on (Prepared)" in word_count.backfill(unique_name).plan().lines()[0]
    with pytest.raises(BackfillError, match=r"begun with --outputs none.*--abort"):
        word_count.backfill(unique_name, outputs=Outputs.ALL).run()
    source = f"{unique_name}-in"
    other = {"topology": "tests.support.topologies:counts"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_TEST_TOPIC", source)
        with pytest.raises(BackfillError, match=r"topology is another one.*--abort"):
            word_count.backfill(unique_name, **other).run()
    add_partition(topics, source)

    with pytest.raises(BackfillError, match=r"other partitions.*--abort"):
        word_count.backfill(unique_name).run()

    assert word_count.backfill(unique_name).abort()
    assert not word_count.backfill(unique_name).abort()
    # As after a reset: workers begin with the first record.
    word_count.go_on(unique_name, tmp_path)


def test_an_unfinished_backfill_is_gone_on_with_from_where_to_where_it_was_begun(
    word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)

    class Interrupted(Here):
        def run(self, works):  # type: ignore[no-untyped-def]
            raise KeyboardInterrupt

    until = 1_000_000 + len(LINES) * 10
    begun = {"since": "earliest", "until": until}
    with pytest.raises(KeyboardInterrupt):
        word_count.backfill(unique_name, Interrupted(), **begun).run()
    word_count.send(MORE)

    for other, said in (
        ({"since": 1_000}, r"with --from earliest, and .* --from 1970-01-01T00:00:01Z.*--abort"),
        ({"until": 2_000}, r"with --to 1970-01-01T00:16:41Z, and .* --to 1970-01-01T00:00:02Z"),
    ):
        backfill = word_count.backfill(unique_name, **other)
        for attempt in (backfill.plan, backfill.run):
            with pytest.raises(BackfillError, match=said):
                attempt()

    assert word_count.backfill(unique_name, **begun).plan().goes_on
    report = word_count.backfill(unique_name).run()
    assert report.records == len(LINES)
    assert (report.manifest.since, report.manifest.until) == ("earliest", until)


def test_topics_that_are_not_the_backfills_own_are_refused(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    unfinished(word_count, unique_name)
    topics.delete(f"{unique_name}-{STORE}-changelog")

    backfill = word_count.backfill(unique_name)
    for attempt in (backfill.plan, backfill.run):
        with pytest.raises(BackfillError, match=r"changelog is not the one.*--abort"):
            attempt()


def test_a_changelog_that_somebody_makes_anew_meanwhile_is_not_taken_for_loaded(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    changelog = f"{unique_name}-{STORE}-changelog"

    class MadeAnew(Here):
        """It is, when all tasks have ended."""

        def run(self, works):  # type: ignore[no-untyped-def]
            done = super().run(works)
            if any(work.task.subtopology == 1 for work in works):
                topics.delete(changelog)
                topics.create(changelog, PARTITIONS, cleanup_policy="compact")
            return done

    with pytest.raises(BackfillError, match=rf"{changelog} is not the one.*--abort"):
        word_count.backfill(unique_name, MadeAnew()).run()

    # Nobody goes on from nothing.
    assert set(topics.committed(unique_name, f"{unique_name}-in").values()) == {OFFSET_INVALID}


def test_a_backfill_can_be_given_up_whatever_has_become_of_its_topics_and_topology(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    unfinished(word_count, unique_name)
    topics.delete(f"{unique_name}-in")

    def build(builder: StreamsBuilder) -> None:
        serdes = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        lines = builder.stream(f"{unique_name}-in", **serdes)
        again = lines.repartition(name="again", **serdes)
        again.to(f"{unique_name}-again-repartition", **serdes)
        again.group_by_key(**serdes).count(store=STORE, logging=False)

    other = word_count.backfill(unique_name, topology=cloudpickle.dumps(build))
    assert other.abort()

    assert not word_count.backfill(unique_name).abort()


@pytest.mark.sampled
def test_offsets_that_somebody_has_committed_meanwhile_are_not_overwritten(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    unfinished(word_count, unique_name)
    stranger = Consumer({"bootstrap.servers": topics.bootstrap_servers, "group.id": unique_name})
    stranger.commit(offsets=[ClientPartition(f"{unique_name}-in", 0, 3)], asynchronous=False)
    stranger.close()

    with pytest.raises(BackfillError, match=r"somebody has committed.*--abort"):
        word_count.backfill(unique_name).run()

    assert word_count.offsets(unique_name, f"{unique_name}-in")[0][0] == 3


class Late(Backfill):
    """Something happens as it is about to say Committed."""

    def __init__(self, word_count: WordCount, app: str, happens: Callable[[], Any]) -> None:
        told = BackfillSettings(
            application=ApplicationSettings(topology=TOPOLOGY, config=word_count.config(app)),
        )
        super().__init__(told, Here(), Listener())
        self._happens = happens

    def _commit(self, writer: Any, manifest: Manifest) -> Any:
        return super()._commit(LateWriter(writer, self._happens), manifest)


@dataclass
class LateWriter:
    """Writes after something has happened."""

    writer: Any
    happens: Callable[[], Any]

    def write(self, manifest: Manifest, **told: Any) -> Any:
        self.happens()
        return self.writer.write(manifest, **told)


def test_a_driver_that_was_frozen_before_it_commits_changes_no_offset(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    """Meanwhile another one has finished, and workers have gone on."""
    word_count.send(LINES)
    source = f"{unique_name}-in"
    found: list[dict[int, tuple[int, str]]] = []

    def others() -> None:
        word_count.backfill(unique_name).run()
        word_count.send(MORE)
        word_count.go_on(unique_name, tmp_path)
        found.append(word_count.offsets(unique_name, source))

    with pytest.raises(FencedError):
        Late(word_count, unique_name, others).run()

    assert found == [word_count.offsets(unique_name, source)]
    assert all(offset > len(LINES) // PARTITIONS for offset, _ in found[0].values())


@pytest.mark.parametrize("step", ["delete_group", "delete_topics"])
def test_a_driver_that_was_frozen_before_it_cleans_deletes_nothing(
    word_count: WordCount, topics: Topics, unique_name: str, step: str
) -> None:
    word_count.send(LINES)
    word_count.backfill(unique_name).run()
    frozen = word_count.backfill(unique_name)
    looks = ["delete_group", "delete_topics"].index(step)

    class Thawed(ManifestGate):
        """Another driver comes before the look that comes before the step."""

        def check_driver(self, generation: str, attempt: int) -> None:
            nonlocal looks
            if looks == 0:
                word_count.backfill(unique_name).run()
            looks -= 1
            super().check_driver(generation, attempt)

    clients = Clients(topics.bootstrap_servers, unique_name)
    frozen._gate = Thawed(clients.access)
    with pytest.raises(FencedError, match="this one changes nothing more"):
        frozen.run()

    assert word_count.counts(unique_name) == word_count.sent
    per_partition = {
        offset for offset, _ in word_count.offsets(unique_name, f"{unique_name}-in").values()
    }
    assert per_partition == {len(LINES) // PARTITIONS}


def test_a_member_that_joins_at_the_end_gets_no_offsets(
    word_count: WordCount, topics: Topics, unique_name: str
) -> None:
    word_count.send(LINES)
    source = f"{unique_name}-in"
    with ExitStack() as joined:
        java = member(topics.bootstrap_servers, unique_name, source, "java")
        with pytest.raises(GroupInUseError, match="has members"):
            Late(word_count, unique_name, lambda: joined.enter_context(java)).run()

    offsets = {offset for offset, _ in word_count.offsets(unique_name, source).values()}
    assert offsets == {OFFSET_INVALID}
    report = word_count.backfill(unique_name).run()
    assert report.manifest.attempt == 2
    assert word_count.counts(unique_name) == word_count.sent


def leave_silent_owner(topics: Topics, app: str, transactional_id: str) -> Producer:
    """An embedded instance that has not been heard of for too long; returns its producer."""
    settings = {"bootstrap.servers": topics.bootstrap_servers, "log_level": 0}
    topic = topics.create(owner_topic(app))
    said = Producer(settings)
    last = {"kind": "own", "claim": 0, "transactionalIds": [transactional_id]}
    said.produce(topic, json.dumps(last), "silent", timestamp=1)
    said.produce(topic, None, "another", timestamp=OWNER_TIMEOUT_MS + 2)
    assert said.flush(60) == 0
    silent = Producer({**settings, "transactional.id": transactional_id})
    silent.init_transactions(30)
    return silent


def test_a_dry_run_changes_nothing(word_count: WordCount, topics: Topics, unique_name: str) -> None:
    word_count.send(LINES)
    source, changelog = f"{unique_name}-in", f"{unique_name}-{STORE}-changelog"
    topics.send(topics.create(changelog, PARTITIONS), [("fox", "as it was")])
    stranger = Consumer({"bootstrap.servers": topics.bootstrap_servers, "group.id": unique_name})
    stranger.commit(offsets=[ClientPartition(source, 0, 3)], asynchronous=False)
    stranger.close()
    silent = leave_silent_owner(topics, unique_name, f"{unique_name}-silent-0")
    silent.begin_transaction()
    silent.produce(f"{unique_name}-out", b"late", b"late")

    def there() -> dict[str, Any]:
        listed = topics.admin.list_topics(timeout=30).topics
        held = {topic: topics.read(topic) for topic in listed if unique_name in topic}
        return {**held, "offsets": topics.committed(unique_name, source, PARTITIONS)}

    before = there()

    plan = word_count.backfill(unique_name).plan()

    assert [list(map(str, stage)) for stage in plan.stages] == [["0_0", "0_1"], ["1_0", "1_1"]]
    assert sum(plan.manifest.cut.values()) == len(LINES)
    assert plan.made_anew == (changelog,)
    assert there() == before
    # Whoever was silent may have been asleep; only a backfill that begins shuts it out.
    silent.commit_transaction(30)


def test_a_dry_run_refuses_what_a_backfill_refuses(topics: Topics, unique_name: str) -> None:
    source = topics.create(unique_name)

    def build(builder: StreamsBuilder) -> None:
        serdes = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        builder.stream(source, **serdes).to(source, **serdes)

    told = BackfillSettings(
        application=ApplicationSettings(
            config={"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers},
            topology=cloudpickle.dumps(build),
        ),
        outputs=Outputs.ALL,
    )
    backfill = Backfill(told, Here(), Listener())

    for attempt in (backfill.plan, backfill.run):
        with pytest.raises(ConfigError, match=r"--outputs all: .* which it writes to as well"):
            attempt()
