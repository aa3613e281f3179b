"""Backfills of the word count: by tasks in this process, or as a program that may be killed.

``python -m tests.support.backfills`` is a driver without Spark: it runs its tasks one by one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_END,
    Producer,
    TopicPartition,
)
from examples.word_count.app import words

from headwater import KafkaStreams
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from headwater.spark.work import TaskDone, TaskWork, run_task
from tests.support.counting import PREFIX_VARIABLE
from tests.support.reading import by_partition
from tests.support.thread_rig import LONG
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.spark.frames.computing import UnitDone, UnitWork
    from headwater.spark.progress import Shown
    from headwater.spark.report import BackfillReport
    from tests.support.thread_rig import Topics

ROOT = Path(__file__).parents[2]
TOPOLOGY = "tests.support.word_count:build"
PARTITIONS = 2
STORE = "counts-store"
PATIENCE_S = 600
"""How long a program or an application may take on a busy machine."""


def run_module(
    module: str, *arguments: str, failpoints: str = "", timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a module as a program, with failpoints armed in it."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "HEADWATER_FAILPOINTS": failpoints},
        text=True,
        capture_output=True,
        check=False,
        timeout=timeout_s,
    )


class Here:
    """Runs tasks in this process, one after the other."""

    def __init__(self) -> None:
        self.works: list[TaskWork] = []
        """Everything that was run."""

    def prepare(self) -> None:
        """There is nothing to be started."""

    def run(self, works: Sequence[TaskWork]) -> list[TaskDone]:
        self.works += works
        return [run_task(work) for work in works]

    def compute(self, work: UnitWork, tell: Any) -> UnitDone:
        raise AssertionError(f"no Spark here for sub-topologies {work.unit.subtopologies}")


class Listener:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.seen: list[Shown] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def progress(self, progress: Shown) -> None:
        self.seen.append(progress)


class WordCount:
    """The word count over ``<prefix>-in``, by any number of applications."""

    def __init__(self, topics: Topics, prefix: str) -> None:
        self.topics = topics
        self.prefix = prefix
        self.sent: Counter[str] = Counter()
        """How often each word was sent."""
        self._lines = 0
        self._producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
        topics.create(f"{prefix}-in", PARTITIONS)
        topics.create(f"{prefix}-out", PARTITIONS)

    def send(self, lines: Iterable[str]) -> None:
        """Send lines, by turns to the partitions; every third is earlier than the one before."""
        for line in lines:
            number = self._lines
            self._lines += 1
            at_ms = 1_000_000 + number * 10 - (500 if number % 3 == 0 else 0)
            key = f"line-{number}"
            self._producer.produce(
                f"{self.prefix}-in", line, key, number % PARTITIONS, timestamp=at_ms
            )
            self.sent.update(words(line))
        assert self._producer.flush(60) == 0

    def config(self, app: str, **options: Any) -> dict[str, Any]:
        return {
            "application.id": app,
            "bootstrap.servers": self.topics.bootstrap_servers,
            "statestore.cache.max.bytes": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def backfill(self, app: str, cluster: Here | None = None, **options: Any) -> Backfill:
        given = {"topology": TOPOLOGY, "config": self.config(app), **options}
        return Backfill(settings_of(**given), cluster or Here(), Listener())

    def drive(
        self,
        app: str,
        failpoints: str = "",
        outputs: Outputs = Outputs.NONE,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run the driver as a program."""
        settings = {"topology": TOPOLOGY, **(settings or {})}
        told = (json.dumps(self.config(app, **options)), outputs.value, json.dumps(settings))
        return run_module(__name__, *told, failpoints=failpoints, timeout_s=PATIENCE_S)

    def go_on(self, app: str, directory: Path, *, takeover: bool = False) -> None:
        """Run the application on workers until it has read everything, then close it."""
        config = self.config(app, state_dir=str(directory), processing_guarantee="exactly_once_v2")
        with KafkaStreams(TOPOLOGY, config, takeover=takeover):
            wait_for(lambda: self.counts(app) == self.sent, what="every word", timeout_s=PATIENCE_S)

    def counts(self, app: str) -> Counter[str]:
        """The last count of each word in the changelog."""
        return Counter(
            {
                (key or b"").decode(): LONG.unpack(value)[0]
                for (_, key), (value, _) in self.changelog(app).items()
            }
        )

    def changelog(self, app: str) -> dict[tuple[int, bytes | None], tuple[bytes, int]]:
        """What compaction would leave: the last value and timestamp by partition and key."""
        topic = f"{app}-{STORE}-changelog"
        if topic not in self.topics.admin.list_topics(timeout=30).topics:
            return {}
        return {
            (partition, key): (value or b"", at)
            for partition, key, value, at in records(self.topics, topic)
        }

    def outputs(self) -> dict[str, list[int]]:
        """Every count that was put out, by word, in order."""
        found: dict[str, list[int]] = defaultdict(list)
        for _, key, value, _ in records(self.topics, f"{self.prefix}-out"):
            found[(key or b"").decode()].append(LONG.unpack(value or b"")[0])
        return found

    def forget_outputs(self) -> None:
        """Delete what was put out so far."""
        topic = f"{self.prefix}-out"
        ends = [TopicPartition(topic, number, OFFSET_END) for number in range(PARTITIONS)]
        for future in self.topics.admin.delete_records(ends).values():
            future.result(60)

    def offsets(self, app: str, topic: str) -> dict[int, tuple[int, str]]:
        return self.topics.committed_with_metadata(app, topic, PARTITIONS)


def settings_of(*, topology: Any, config: Mapping[str, Any], **others: Any) -> BackfillSettings:
    """What a backfill is told."""
    application = ApplicationSettings(topology=topology, config=config)
    return BackfillSettings(application=application, **others)


def records(topics: Topics, topic: str) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """Read what is committed, partition by partition: partition, key, value, timestamp."""
    return [
        (message.partition() or 0, message.key(), message.value(), message.timestamp()[1])
        for message in by_partition(topics.bootstrap_servers, topic)
    ]


def main(config: str, outputs: str, others: str) -> BackfillReport:
    """Drive a backfill of the application whose prefix the environment names."""
    assert PREFIX_VARIABLE in os.environ
    settings = settings_of(
        config=json.loads(config), outputs=Outputs(outputs), **json.loads(others)
    )
    return Backfill(settings, Here(), Listener()).run()


if __name__ == "__main__":
    print("\n".join(main(*sys.argv[1:]).lines()))
