"""What is measured on Spark, each a function: a keyed count in its several forms, on one input.

``native`` are two StreamThreads that replay the input. ``t1`` is a backfill whose tasks are
StreamTasks in Spark's Python workers, ``t2`` one that is computed as DataFrames: both as long as a
warm Spark has the work, as native replay counts from its first record; ``whole`` is with all that
the backfill does around. ``sql`` is the count as one writes it in Spark, with its Kafka connector,
whose result goes nowhere; ``per key`` is Spark's ``transformWithStateInPandas``, at the rate by
which a query with more records takes longer, so that its start is not in it. All with Kafka are
exactly-once, with a commit every 2 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from headwater import Serdes
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.cluster import SparkCluster, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater import StreamsBuilder
    from headwater.spark.frames.computing import UnitDone, UnitWork
    from headwater.spark.progress import Shown
    from headwater.spark.work import TaskDone, TaskWork

ROOT: Final = Path(__file__).parents[1]
MASTER: Final = "local[2]"
COMMIT_MS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A loaded topic.

    Attributes:
        topic: its name.
        records: in it.
        keys: how many different ones it has.
    """

    topic: str
    records: int
    keys: int


@dataclass(kw_only=True)
class Bench:
    """What the systems run on.

    Attributes:
        servers: address of the broker.
        large: the input.
        small: a tenth of it.
        streamed: what runs continuously reads this.
        short: for what is slow.
        shorter: a tenth of it.
        settings: of Spark.
        whole: of each backfill by its target, records a second with gate, topics, manifest and
            offsets.
    """

    servers: str
    large: Source
    small: Source
    streamed: Source
    short: Source
    shorter: Source
    settings: Mapping[str, str] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)


def native(bench: Bench, source: Source) -> float:
    """Two StreamThreads of the native engine replay a topic."""
    command = [sys.executable, "-m", "benchmarks.headwater_run", "--bootstrap", bench.servers]
    command += ["--work", "state", "--input", source.topic, "--output", "bench-none"]
    command += ["--records", str(source.records), "--threads", "2"]
    command += ["processing.guarantee=exactly_once_v2", f"commit.interval.ms={COMMIT_MS}"]
    return source.records / float(told_by(command)["seconds_closed"])


def continuous(bench: Bench, source: Source) -> float:
    """The streaming query of ``headwater spark`` works a topic off."""
    command = [sys.executable, "-m", "benchmarks.spark_continuous", "--bootstrap", bench.servers]
    command += ["--work", "state", "--input", source.topic, "--output", "bench-none"]
    command += ["--records", str(source.records)]
    return source.records / float(told_by(command)["seconds"])


def told_by(command: Sequence[str]) -> dict[str, Any]:
    """Run a program whose last line is JSON."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[2]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


class _Timed(SparkCluster):
    """Notes how long the tasks took."""

    took_s = 0.0

    def run(self, works: Sequence[TaskWork]) -> list[TaskDone]:
        """Run every task in a Spark task of its own."""
        began = time.perf_counter()
        try:
            return super().run(works)
        finally:
            self.took_s += time.perf_counter() - began

    def compute(self, work: UnitWork, tell: Any) -> UnitDone:
        """Compute sub-topologies as DataFrames."""
        began = time.perf_counter()
        try:
            return super().compute(work, tell)
        finally:
            self.took_s += time.perf_counter() - began


class _Quiet:
    """Listens to nothing."""

    def step(self, text: str) -> None:
        """A step begins."""

    def progress(self, progress: Shown) -> None:
        """So far are the tasks."""


def backfill(bench: Bench, source: Source, target: str) -> float:
    """Backfill a count of a topic by ``target``."""
    cluster = _Timed(MASTER, bench.settings)
    given = BackfillSettings(
        application=ApplicationSettings(
            config={
                "application.id": f"bench-{uuid.uuid4().hex[:8]}",
                "bootstrap.servers": bench.servers,
            },
            topology=cloudpickle.dumps(_count_of(source.topic)),
            import_path=(str(ROOT),),
        ),
        target=target,
    )
    report = Backfill(given, cluster, _Quiet()).run()
    keys = sum(done.keys for done in report.tasks)
    if (report.records, keys) != (source.records, source.keys):
        raise RuntimeError(f"{source} counted as {report.records} records of {keys} keys")
    bench.whole[target] = source.records / report.took_s
    return source.records / cluster.took_s


def _count_of(topic: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
        stream.group_by_key().count(store="counts")

    return build


def sql(bench: Bench, source: Source) -> float:
    """The count as one writes it in Spark SQL, read by Spark's Kafka connector."""
    session = start(MASTER, bench.settings)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    began = time.perf_counter()
    records = (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bench.servers)
        .option("subscribe", source.topic)
        .load()
    )
    records.createOrReplaceTempView("records")
    counts = session.sql(
        "SELECT CAST(key AS STRING) AS key, count(value) AS n, max(timestamp) AS at "
        "FROM records GROUP BY CAST(key AS STRING)"
    )
    counts.write.format("noop").mode("overwrite").save()
    return source.records / (time.perf_counter() - began)


def per_key(bench: Bench) -> float:
    """The count by a stateful processor of Spark, called for each key; without its start."""
    more_s = _per_key_s(bench, bench.short) - _per_key_s(bench, bench.shorter)
    return (bench.short.records - bench.shorter.records) / more_s


def _per_key_s(bench: Bench, source: Source) -> float:
    from benchmarks.spark_per_key import counted  # noqa: PLC0415 - pandas, and a warning of it

    session = start(MASTER, bench.settings)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as checkpoint:
        began = time.perf_counter()
        keys = counted(session, bench.servers, source.topic, checkpoint)
        took_s = time.perf_counter() - began
    if keys != source.keys:
        raise RuntimeError(f"{source}: {keys} keys were counted")
    return took_s


SYSTEMS: Final[dict[str, Callable[[Bench], float]]] = {
    "native": lambda bench: native(bench, bench.large),
    "t1": lambda bench: backfill(bench, bench.large, "t1"),
    "t2": lambda bench: backfill(bench, bench.large, "t2"),
    "sql": lambda bench: sql(bench, bench.large),
    "t1, a tenth": lambda bench: backfill(bench, bench.small, "t1"),
    "t2, a tenth": lambda bench: backfill(bench, bench.small, "t2"),
    "native, streamed": lambda bench: native(bench, bench.streamed),
    "continuous": lambda bench: continuous(bench, bench.streamed),
    "per key": per_key,
}
