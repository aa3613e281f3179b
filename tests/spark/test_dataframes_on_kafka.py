"""A backfill by DataFrames leaves on Kafka what tasks leave, and workers go on from there."""

from __future__ import annotations

import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from psutil import NoSuchProcess

from headwater import KafkaStreams
from headwater.errors import BackfillError, EnvironmentProblemError, FencedError, TopologyError
from headwater.ids import TopicPartition as Partition
from headwater.service.duties import Duties
from headwater.spark.backfill import Backfill
from headwater.spark.cluster import SparkCluster
from headwater.spark.frames.computing import frames_of
from headwater.spark.frames.kinds import Kind
from headwater.spark.frames.load import load_rows
from headwater.spark.frames.plan import Read
from headwater.spark.frames.rows import PartitionWork, read_rows
from headwater.spark.outputs import Outputs
from headwater.spark.progress import Computing
from headwater.spark.turns.messages import TakenOverError
from headwater.wire.offset_metadata import decode
from tests.chaos.kills import Trap
from tests.support.backfills import PATIENCE_S, Here, Listener, records, run_module, settings_of
from tests.support.clients import Clients
from tests.support.counting import PREFIX_VARIABLE
from tests.support.dataframes import Record, natively, translated
from tests.support.thread_rig import LONG, Topics
from tests.support.totals import STORES, build, build_on
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.spark.frames.computing import UnitDone, UnitWork

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_800)]

TOPOLOGY = "tests.support.totals:build"
PARTITIONS = 2
RECORDS = 200


class Totals:
    """The topics of one test, and what applications leave on them."""

    def __init__(self, topics: Topics, prefix: str, seed: str) -> None:
        self.topics = topics
        self.prefix = prefix
        self._rng = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
        for name in ("in", "names", "out"):
            topics.create(f"{prefix}-{name}", PARTITIONS)

    def send(self, count: int) -> None:
        """Nulls, tombstones, ties, and times in no order."""
        rng = self._rng
        for _ in range(count):
            key = None if rng.random() < 0.05 else f"{rng.choice('abc')}{rng.randint(0, 9)}"
            number = None if rng.random() < 0.1 else LONG.pack(rng.randint(-50, 50))
            name = None if rng.random() < 0.3 else f"n{rng.randint(0, 9)}"
            at = 1_000_000 + rng.randint(0, 300)
            for topic, value in (("in", number), ("names", name)):
                self._producer.produce(
                    f"{self.prefix}-{topic}", value, key, rng.randrange(PARTITIONS), timestamp=at
                )
        assert self._producer.flush(60) == 0

    def send_raw(self, value: bytes) -> None:
        self._producer.produce(f"{self.prefix}-in", value, "a1", 0, timestamp=1_000_000)
        assert self._producer.flush(60) == 0

    def purge(self, topic: str) -> None:
        """Delete the first records of a partition, as retention does."""
        gone = TopicPartition(topic, 1, 10)
        for future in self.topics.admin.delete_records([gone]).values():
            future.result(60)

    def config(self, app: str, **options: Any) -> dict[str, Any]:
        return {
            "application.id": app,
            "bootstrap.servers": self.topics.bootstrap_servers,
            "statestore.cache.max.bytes": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def backfill(self, app: str, cluster: Any, listener: Any = None, **options: Any) -> Backfill:
        topology = build_on(self.prefix)
        given = {"topology": topology, "config": self.config(app), "target": "auto", **options}
        return Backfill(settings_of(**given), cluster, listener or Listener())

    def state(self, app: str) -> dict[Any, Any]:
        """The newest changelog record of each key."""
        return {
            (store, partition, key): (value, at)
            for store in STORES
            for partition, key, value, at in records(self.topics, f"{app}-{store}-changelog")
        }

    def expected(self) -> dict[Any, Any]:
        """What the native engine makes of the topics, without Kafka."""
        log: dict[str, list[list[Record]]] = {}
        for name in ("in", "names"):
            topic = f"{self.prefix}-{name}"
            partitions = log[topic] = [[] for _ in range(PARTITIONS)]
            for partition, key, value, at in records(self.topics, topic):
                partitions[partition].append(Record(key, value, at))
        topology, translation = translated(build)
        return dict(natively(topology, translation, log, PARTITIONS))

    def offsets(self, app: str) -> dict[Any, Any]:
        """By source partition its offset; of every partition its time."""
        found: dict[Any, Any] = {}
        for topic in (f"{self.prefix}-in", f"{self.prefix}-names", f"{app}-by-letter-repartition"):
            committed = self.topics.committed_with_metadata(app, topic, PARTITIONS)
            for partition, (offset, metadata) in committed.items():
                name = topic.removeprefix(app).removeprefix(self.prefix)
                time = decode(metadata).partition_time
                is_own = topic.endswith("-repartition")
                found[name, partition] = time if is_own else (offset, time)
        return found


@pytest.fixture
def totals(topics: Topics, unique_name: str, monkeypatch: pytest.MonkeyPatch) -> Totals:
    monkeypatch.setenv(PREFIX_VARIABLE, unique_name)
    made = Totals(topics, unique_name, unique_name)
    made.send(RECORDS)
    return made


def test_dataframes_leave_what_tasks_leave(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    by_tasks, by_frames = f"{unique_name}-t1", f"{unique_name}-t2"
    expected = totals.backfill(by_tasks, Here(), target="t1").run()

    listener = Listener()
    report = totals.backfill(by_frames, spark, listener, target="t2").run()

    # Nothing is committed while they are computed, so it is shown how far readers and Spark are.
    computed = [seen for seen in listener.seen if isinstance(seen, Computing)]
    assert computed[-1].stages > 0
    assert (computed[-1].done, computed[-1].total) == (0, 0)
    reading = computed[-1].reading
    assert reading is not None
    assert reading.done == reading.total > 0
    assert report.manifest.frames == (0, 1, 2)
    assert totals.state(by_frames) == totals.state(by_tasks) == totals.expected()
    assert totals.offsets(by_frames) == totals.offsets(by_tasks)
    assert (report.dropped, report.keys) == (expected.dropped, expected.keys)
    # A task with nothing to read does not run.
    assert {t.task: t.processed for t in report.tasks if t.processed} == {
        t.task: t.processed for t in expected.tasks
    }


class Busy(SparkCluster):
    """Records come between the cut and the reading, and while the state is loaded.

    Args:
        totals: the topics.
        too_far: planted: what has come meanwhile is read, too.
    """

    def __init__(self, totals: Totals, *, too_far: bool = False) -> None:
        super().__init__("local[2]", {})
        self._totals = totals
        self._too_far = too_far

    def compute(self, work: UnitWork, tell: Any) -> UnitDone:
        self._totals.send(30)
        if self._too_far:
            ends = self._totals.topics.ends([one.partition for one in work.partitions])
            moved = tuple(replace(one, cut=ends[one.partition]) for one in work.partitions)
            work = replace(work, partitions=moved)
        done = super().compute(work, tell)
        self._totals.send(30)
        return done


@pytest.mark.sampled
def test_workers_go_on_with_what_was_written_while_dataframes_were_computed(
    totals: Totals, spark: SparkCluster, unique_name: str, tmp_path: Path
) -> None:
    native = f"{unique_name}-native"
    before = totals.expected()

    report = totals.backfill(unique_name, Busy(totals), target="t2").run()

    assert report.manifest.frames == (0, 1, 2)
    assert report.records == 2 * RECORDS
    assert totals.state(unique_name) == before
    expected = totals.expected()
    assert expected != before
    for app in (native, unique_name):
        guarantee = {"processing_guarantee": "exactly_once_v2"}
        config = totals.config(app, state_dir=str(tmp_path / app), **guarantee)
        with KafkaStreams(TOPOLOGY, config):
            wait_for(
                lambda app=app: totals.state(app) == expected,  # type: ignore[misc]
                what="every record",
                timeout_s=PATIENCE_S,
            )
    assert totals.offsets(unique_name) == totals.offsets(native)


def test_dataframes_that_read_beyond_the_cut_are_seen(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    before = totals.expected()

    totals.backfill(unique_name, Busy(totals, too_far=True)).run()

    # Workers would count once more what has come meanwhile.
    assert totals.state(unique_name) != before


LONG_VALUE = 900_000


def test_a_reader_holds_some_megabytes_of_long_values_and_no_more(
    topics: Topics, unique_name: str
) -> None:
    topic, count = topics.create(f"{unique_name}-in"), 100
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"x" * LONG_VALUE, f"{number}", timestamp=1_000_000)
        producer.poll(0)
    assert producer.flush(60) == 0
    work = PartitionWork(
        read=Read(topic=topic, subtopology=0, key=Kind.STRING, value=Kind.BYTES),
        number=0,
        partition=Partition(topic, 0),
        start=0,
        cut=count,
        config={"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers},
        group=f"{unique_name}-reading",
    )

    batches = list(read_rows([work], Gathered(), [pa.RecordBatch.from_pydict({"id": [0]})]))

    assert batches[-1].column("m").to_pylist() == [count]
    assert sum(sum(batch.column("m").to_pylist()) for batch in batches[:-1]) == count
    # What is held at once, and what one poll brings, which the client bounds by 32 MB.
    assert max(batch.nbytes for batch in batches) < 55 * LONG_VALUE


class Gathered:
    """Nothing is deleted."""

    value: frozenset[Partition] = frozenset()

    def add(self, term: frozenset[Partition]) -> None:
        raise AssertionError(term)


def test_a_record_that_cannot_be_decoded_is_left_to_tasks(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    expected = totals.expected()
    totals.send_raw(b"no number")
    listener = Listener()
    config = totals.config(unique_name, deserialization_exception_handler="log-and-continue")

    report = totals.backfill(unique_name, spark, listener, config=config).run()

    assert report.manifest.frames == (2,)
    assert any("0, 1: by their tasks after all: a record cannot" in s for s in listener.steps)
    assert totals.state(unique_name) == expected
    offsets = totals.offsets(unique_name)
    assert sum(offsets["-in", partition][0] for partition in range(PARTITIONS)) == RECORDS + 1


def test_records_deleted_while_dataframes_read_end_the_backfill_with_what_to_do(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    totals.send(50)
    asked = []

    class Purged(SparkCluster):
        """Retention comes between the cut and the reading."""

        def compute(self, work: UnitWork, tell: Any) -> UnitDone:
            asked.append(work)
            totals.purge(f"{totals.prefix}-in")
            return super().compute(work, tell)

    with pytest.raises(BackfillError, match=r"in-1: .*were deleted.*--abort"):
        totals.backfill(unique_name, Purged("local[2]", {})).run()

    assert asked


def test_records_deleted_before_they_are_read_once_more_end_the_backfill(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    loaded: list[dict[Any, Any]] = []

    class Lost(SparkCluster):
        """What was computed is lost, as with its executor, once retention has come."""

        def compute(self, work: UnitWork, tell: Any) -> UnitDone:
            session = self.session()
            frames = frames_of(session, work)
            assert not any(row["bad"] for row in frames.told())
            totals.purge(work.partitions[0].partition.topic)
            frames.load(work.load)
            loaded.append(totals.state(unique_name))
            session.catalog.clearCache()
            frames.load(work.load)
            raise AssertionError("state is loaded that lacks records")

    expected = totals.expected()
    with pytest.raises(BackfillError, match=r"-1: .*were deleted.*--abort"):
        totals.backfill(unique_name, Lost("local[2]", {})).run()

    # What was read before they were deleted is whole.
    [state] = loaded
    assert state
    assert state.items() <= expected.items()


def command(totals: Totals, app: str, directory: Path) -> tuple[str, ...]:
    """The command that people run."""
    file = directory / "streamapp.yaml"
    file.write_text(
        f"""
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {{name: totals}}
spec:
  applicationId: {app}
  topology: {{module: "{TOPOLOGY}"}}
  replicas: 1
  config: {{statestore.cache.max.bytes: "0"}}
  kafka: {{bootstrapServers: "{totals.topics.bootstrap_servers}"}}
"""
    )
    return ("headwater.cli.main", "backfill", "-f", str(file), "--master", "local[2]")


@pytest.mark.sampled
def test_a_loading_task_and_then_the_driver_are_killed(
    totals: Totals, spark: SparkCluster, unique_name: str, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    backfill = command(totals, unique_name, tmp_path)

    ended = run_module(
        *backfill,
        failpoints=f"commit.acknowledged=kill!{killed};backfill.stage_computed=kill",
        timeout_s=600,
    )

    assert ended.returncode == -9, ended.stderr
    assert killed.exists(), "no Python worker was killed"
    with pytest.raises(BackfillError, match="0, 1, 2 were begun as DataFrames"):
        totals.backfill(unique_name, spark, target="t1").run()
    again = totals.backfill(unique_name, spark).run()
    assert again.manifest.attempt == 2
    assert totals.state(unique_name) == totals.expected()


@pytest.mark.sampled
def test_a_spark_that_is_killed_is_told_in_one_line_and_the_next_one_finishes(
    totals: Totals, unique_name: str, tmp_path: Path
) -> None:
    trap = Trap("commit.acknowledged", tmp_path / "trap")
    backfill = command(totals, unique_name, tmp_path)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_module, *backfill, failpoints=trap.armed, timeout_s=600)
        caught = trap.caught(timeout_s=600)
        try:
            [java] = [one for one in caught.parents() if one.name() == "java"]
            java.kill()
            ended = running.result()
        finally:
            with suppress(NoSuchProcess):
                caught.kill()

    assert ended.returncode == EnvironmentProblemError.exit_code, ended.stderr
    assert "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("error: Spark has ended, or does not answer"), ended.stderr
    assert "run the backfill again" in last
    again = run_module(*backfill, timeout_s=600)
    assert again.returncode == 0, again.stderr
    assert totals.state(unique_name) == totals.expected()


class Interrupted(Here):
    """The driver ends where it would begin to compute."""

    units: list[Any]

    def compute(self, work: Any, tell: Any) -> Any:
        self.units = [work]
        raise KeyboardInterrupt


def test_a_loading_task_that_is_fenced_is_final_only_if_another_driver_has_come(
    totals: Totals, unique_name: str
) -> None:
    driver = Interrupted()

    def begin() -> None:
        with pytest.raises(KeyboardInterrupt):
            totals.backfill(unique_name, driver).run()

    def fence() -> None:
        config = Clients(totals.topics.bootstrap_servers, unique_name).config
        Duties(config, client_id="copy").fence([f"{unique_name}-spark-{load.tasks[0]}"])

    def rows(meanwhile: Callable[[], None] = lambda: None) -> Iterator[Any]:
        row = {"task": [0], "out": [0], "key": [b"a"], "value": [None], "t": [0]}
        yield pa.RecordBatch.from_pydict(row)
        meanwhile()
        yield pa.RecordBatch.from_pydict(row)

    def overtake() -> None:
        begin()
        fence()

    begin()
    load = driver.units[0].load

    # A copy has come, and Spark decides between the two.
    with pytest.raises(FencedError) as fenced:
        list(load_rows(load, rows(fence)))
    assert not isinstance(fenced.value, TakenOverError)
    [again] = load_rows(load, rows())
    [overtaken] = load_rows(load, rows(overtake))

    results = [pickle.loads(batch.column(0)[0].as_py()) for batch in (again, overtaken)]
    assert results[0] == 2
    assert isinstance(results[1], TakenOverError)


class LateCopy(SparkCluster):
    """A second copy of a loading task begins when the first has ended.

    It falls asleep between two of its transactions. What it writes is told apart from the first's.
    """

    def __init__(self, totals: Totals, app: str) -> None:
        super().__init__("local[2]", {})
        self._state = partial(totals.state, app)
        self.is_over = threading.Event()
        self._has_begun = threading.Event()
        self.copy = threading.Thread(target=self._load, daemon=True)
        self.said: list[Any] = []
        self._load_work: Any = None

    def compute(self, work: UnitWork, tell: Any) -> UnitDone:
        done = super().compute(work, tell)
        if self._load_work is None:
            self._load_work = work.load
            self.copy.start()
            assert self._has_begun.wait(PATIENCE_S)
        return done

    def _rows(self) -> Iterator[Any]:
        row = {"task": [0], "out": [0], "key": [b"late"], "value": [LONG.pack(1)], "t": [0]}
        while not any(key == b"late" for _, _, key in self._state()):
            yield pa.RecordBatch.from_pydict(row)
        self._has_begun.set()
        self.is_over.wait(PATIENCE_S)
        yield pa.RecordBatch.from_pydict({**row, "value": [LONG.pack(2)]})

    def _load(self) -> None:
        for batch in load_rows(self._load_work, self._rows()):
            self.said += map(pickle.loads, batch.column(0).to_pylist())


def test_a_copy_of_a_loading_task_that_slept_through_the_end_writes_nothing(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    """Workers may have written by then what is newer."""
    assert spark.session()
    late = LateCopy(totals, unique_name)
    totals.backfill(unique_name, late).run()
    before = totals.state(unique_name)

    late.is_over.set()
    late.copy.join(PATIENCE_S)

    assert [type(said) for said in late.said] == [TakenOverError]
    assert totals.state(unique_name) == before


def test_dataframes_of_an_earlier_driver_load_nothing(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    earlier = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        totals.backfill(unique_name, earlier).run()
    totals.backfill(unique_name, spark).run()
    before = totals.state(unique_name)

    with pytest.raises(FencedError, match="another driver"):
        spark.compute(earlier.units[0], Listener().progress)

    assert totals.state(unique_name) == before


def test_outputs_that_are_asked_for_are_made_by_tasks(
    totals: Totals, spark: SparkCluster, unique_name: str
) -> None:
    report = totals.backfill(unique_name, spark, outputs=Outputs.ALL).run()

    # The sums go out, so what leads to them is computed record by record.
    assert report.manifest.frames == (2,)
    assert len(records(totals.topics, f"{totals.prefix}-out")) > 0


def test_what_dataframes_cannot_do_is_named(totals: Totals, unique_name: str) -> None:
    with pytest.raises(TopologyError, match=r"sub-topology 1.*outputs are asked for"):
        totals.backfill(unique_name, Here(), target="t2", outputs=Outputs.ALL).plan()
