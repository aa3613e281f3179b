"""An application that Spark runs continuously, by the command that people run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewPartitions

from headwater.errors import EngineError, FencedError, PartitionMismatchError
from headwater.model.backfill import BackfillState
from headwater.model.lifecycle import Engine
from headwater.spark.outputs import Outputs
from headwater_operator.dashboards import SPARK
from tests.support import prometheus
from tests.support.backfills import STORE
from tests.support.continuous import SparkDriver, WordCountOnSpark, engine_writer, fence
from tests.support.counting import PREFIX_VARIABLE
from tests.support.executors import executors
from tests.support.holding import Held
from tests.support.manifests import leave, manifest
from tests.support.membership import member
from tests.support.reading import by_partition
from tests.support.shown import Shown, configuration, until_shown, write_targets
from tests.support.thread_rig import Topics
from tests.support.transactions import open_transactions
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backfills import WordCount

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_800)]

LINES = ["to be or not to be", "that is the question"] * 50
MORE = ["the fox again", "no dog"] * 20
WITHOUT_SPARK = "tests.support.driver"
"""The driver where what Spark does has been shown, and what the driver does is the question."""
LIMIT = 20
"""Offsets that a micro-batch takes of the topology without state."""


def is_exact(word_count: WordCount) -> bool:
    """Whether every word was counted, and each count put out once and in order."""
    return word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }


@pytest.mark.sampled
def test_spark_leaves_what_workers_leave_and_each_goes_on_after_the_other(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    native, mixed = f"{unique_name}-native", f"{unique_name}-mixed"
    word_count.send(LINES)
    word_count.go_on(native, tmp_path / "native")
    word_count.forget_outputs()

    with WordCountOnSpark(word_count, mixed, tmp_path / "spark") as driver:
        driver.wait_counted()
        word_count.send(MORE)
        driver.wait_counted()
        assert driver.get("/readyz") == (200, "ok\n")
        status = json.loads(driver.get("/status")[1])
        count = sum(word_count.sent.values()) + 140
        total = f'headwater_spark_records_total{{application_id="{mixed}"}} {count}\n'
        # A micro-batch is told when all its tasks have ended, later than what they commit.
        wait_for(lambda: total in driver.get("/metrics")[1], what=total)
        # Whatever is planned from now on is planned for the clock.
        wait_for(
            lambda: json.loads(driver.get("/status")[1])["batches"] > status["batches"] + 3,
            what="turns without records",
        )
        check_panels(driver, mixed, tmp_path)
        driver.stop()

    assert (status["state"], status["generation"], status["error"]) == ("RUNNING", 1, None)
    assert sorted(status["tasks"]) == ["0_0", "0_1", "1_0", "1_1"]
    word_count.go_on(native, tmp_path / "native")
    # What is on Kafka is the same: bytes, timestamps, partitions, offsets, partition times.
    assert word_count.changelog(mixed) == word_count.changelog(native)
    source = f"{word_count.prefix}-in"
    assert word_count.offsets(mixed, source) == word_count.offsets(native, source)

    word_count.send(LINES)
    with pytest.raises(EngineError, match="runs on Spark"):
        word_count.go_on(mixed, tmp_path / "mixed")
    word_count.go_on(mixed, tmp_path / "mixed", takeover=True)
    word_count.send(MORE)
    with WordCountOnSpark(word_count, mixed, tmp_path / "spark", program=WITHOUT_SPARK) as driver:
        driver.wait_counted()
        driver.stop()
    word_count.go_on(native, tmp_path / "native")
    assert word_count.changelog(mixed) == word_count.changelog(native)


def check_panels(driver: WordCountOnSpark, application_id: str, directory: Path) -> None:
    """A Prometheus that reads the driver has data for every panel of Spark's dashboard."""
    began, targets = time.time(), directory / "targets.json"
    write_targets(targets, [driver.endpoint], namespace="shop")
    with prometheus.running(directory / "prometheus", configuration(targets)) as server:
        chosen = {"namespace": ["shop"], "application_id": [application_id]}
        until_shown(Shown(server, began, chosen), SPARK)


class Kills:
    """Fail points at which a process ends once it is told so, and kills in an open transaction."""

    POINTS = MappingProxyType(
        {
            "spark.turn_committed": "a task host between Kafka's commit and Spark's",
            "spark.turn_asked": "a Python worker while its host works",
            "spark.batch_done": "the driver between Kafka's commits and Spark's",
        }
    )
    IN_TRANSACTION = "commit.acknowledged"
    HOST = (IN_TRANSACTION, "spark.turn_committed")
    WORKER = "spark.turn_asked"
    DRIVER = "spark.batch_done"
    EXECUTOR = "executor"

    def __init__(self, directory: Path, topics: Topics, sink: str) -> None:
        self._directory = directory
        self._topics = topics
        self._sink = sink
        directory.mkdir()
        self._held = Held(self.IN_TRANSACTION, directory / "held")
        for point in self.POINTS:
            self._file(point).touch()  # as long as it is there nobody ends

    @property
    def failpoints(self) -> str:
        kills = [f"{point}=kill!{self._file(point)}" for point in self.POINTS]
        return ";".join([*kills, self._held.failpoint])

    def strike(
        self, victim: str, driver: WordCountOnSpark, rng: random.Random, send: Callable[[], None]
    ) -> None:
        """Wait until the victim has ended where it is to end, with records on their way."""
        if victim == self.EXECUTOR:
            running = wait_for(
                lambda: executors(driver.process), what="executors", timeout_s=300, every_s=0.2
            )
            chosen = rng.choice(running)
            host, records = self._open_transaction(send)
            chosen.kill()
            with contextlib.suppress(ProcessLookupError):  # it ended with its executor
                os.kill(host, signal.SIGCONT)
            what = f"an executor, {records}"
        elif victim == self.IN_TRANSACTION:
            host, records = self._open_transaction(send)
            os.kill(host, signal.SIGKILL)
            what = f"a task host, {records}"
        else:
            self._file(victim).unlink()
            send()
            wait_for(self._file(victim).exists, what=f"a kill at {victim}", timeout_s=300)
            what = self.POINTS[victim]
        print(f"{time.strftime('%H:%M:%S')} killed {what}")

    def _open_transaction(self, send: Callable[[], None]) -> tuple[int, str]:
        """Have a task host stand still in a commit; return its id, and which records are open."""
        self._held.arm()
        for _ in range(100):
            send()
            host = self._held.wait()
            if found := open_transactions(self._topics.admin, [self._sink]):
                return host, found[0]
            # Of a sub-topology without outputs: the next one, perhaps.
            self._held.arm()
            os.kill(host, signal.SIGCONT)
        raise AssertionError("no commit had outputs")

    def _file(self, point: str) -> Path:
        return self._directory / point


BACKFILL_STEPS = (
    "backfill.prepared",
    "backfill.cleaned",
    "backfill.task_initialized",
    "commit.acknowledged",
    "backfill.stage_computed",
    "backfill.written",
    "backfill.offsets_added",
)


@pytest.mark.seeded(4)
@pytest.mark.timeout(3_600)
@pytest.mark.sampled
def test_outputs_are_exact_whoever_is_killed(
    word_count: WordCount, unique_name: str, tmp_path: Path, seed: str
) -> None:
    """Five kills a seed: a backfill between two steps, then one of each kind of process."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    word_count.send(LINES)
    step = rng.choice(BACKFILL_STEPS)
    ended = word_count.drive(unique_name, f"{step}=kill", Outputs.ALL)
    assert ended.returncode == -signal.SIGKILL, (step, ended.stderr)
    print(f"{time.strftime('%H:%M:%S')} killed a backfill at {step}")
    ended = word_count.drive(unique_name, outputs=Outputs.ALL)
    assert ended.returncode == 0, ended.stderr

    victims = [Kills.DRIVER, Kills.EXECUTOR, Kills.WORKER, rng.choice(Kills.HOST)]
    rng.shuffle(victims)
    kills = Kills(tmp_path / "kills", word_count.topics, f"{word_count.prefix}-out")
    master = "local-cluster[2,1,1024]"
    is_over = False
    while not is_over:
        with WordCountOnSpark(
            word_count, unique_name, tmp_path, master=master, failpoints=kills.failpoints
        ) as driver:
            driver.wait_counted()
            while victims:
                victim = victims.pop()
                kills.strike(victim, driver, rng, lambda: word_count.send(MORE))
                if victim == Kills.DRIVER:
                    assert driver.process.wait(300) == -signal.SIGKILL, driver.log[-4000:]
                    break
                word_count.send(MORE)
                driver.wait_counted()
            else:
                driver.stop()
                is_over = True
    assert is_exact(word_count)


def test_what_must_not_be_is_refused(
    word_count: WordCount, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    with member(topics.bootstrap_servers, unique_name, f"{unique_name}-in", "somebody"):
        code, line = WordCountOnSpark(word_count, unique_name, tmp_path / "1").ended()
    assert code != 0
    assert "has members" in line
    assert "somebody" in line
    assert line.endswith("then start it again")

    (tmp_path / "2" / "state").mkdir(parents=True)
    (tmp_path / "2" / "state" / "application").write_text("another\n")
    code, line = WordCountOnSpark(word_count, unique_name, tmp_path / "2").ended()
    assert "holds checkpoint and stores of another, not of" in line

    code, line = WordCountOnSpark(
        word_count, unique_name, tmp_path / "3", options=("--generation", "7")
    ).ended()
    assert "was given generation 7, but Native of generation 0" in line

    leave(topics, unique_name, manifest(BackfillState.PREPARED).encode())
    code, line = WordCountOnSpark(word_count, unique_name, tmp_path / "4").ended()
    assert code != 0
    assert "a backfill of" in line
    assert "--abort" in line


@pytest.mark.sampled
def test_who_comes_to_the_group_while_spark_runs_ends_the_driver_between_turns(
    word_count: WordCount, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    watchful = "tests.support.watchful_driver"
    with WordCountOnSpark(word_count, unique_name, tmp_path, program=watchful) as driver:
        driver.wait_counted()
        with member(topics.bootstrap_servers, unique_name, f"{unique_name}-in", "somebody"):
            code, line = driver.ended()
    assert code != 0
    assert "has members" in line
    assert "somebody" in line
    assert line.endswith("then start it again")
    said = json.loads((driver.state_dir / "ended.json").read_text())
    assert said["error"] == "GroupInUseError"

    # Nothing was half done, so whoever goes on finds all of it.
    word_count.send(MORE)
    word_count.go_on(unique_name, tmp_path / "native", takeover=True)
    assert is_exact(word_count)


@pytest.mark.sampled
def test_a_driver_that_is_shut_out_ends_soon_and_says_so_in_one_line(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    with WordCountOnSpark(word_count, unique_name, tmp_path) as driver:
        driver.wait_counted()
        writer = engine_writer(word_count, unique_name)
        writer.take_over(Engine.NATIVE)
        fence(word_count, unique_name, [f"{unique_name}-spark-{task}" for task in ("0_0", "1_0")])
        writer.confirm()
        writer.close()
        code, line = driver.ended()

    assert code == FencedError.exit_code
    assert "has taken over" in line
    assert "its driver ends" in line
    foreign = ("\tat ", "Traceback", "py4j", "log4j", "NativeCodeLoader", "loopback")
    assert [word for word in foreign if word in driver.log] == []
    said = json.loads((driver.state_dir / "ended.json").read_text())
    assert said["error"] == "FencedError"


@pytest.mark.sampled
def test_what_fails_in_a_task_is_told_in_its_own_words(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    failpoints = "spark.task_initialized=error@1+"
    with WordCountOnSpark(
        word_count,
        unique_name,
        tmp_path,
        master="local[2,1]",  # one attempt: each costs a Python worker
        failpoints=failpoints,
    ) as driver:
        code, line = driver.ended()

    assert code != 0
    told = r"task [01]_[01]: FailpointError: fail point spark\.task_initialized \(Spark has given"
    assert re.search(told, line), line
    assert "beginning the query anew: task" in driver.log


def test_a_topic_that_gets_partitions_ends_the_driver_with_a_sentence(
    word_count: WordCount, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    with WordCountOnSpark(word_count, unique_name, tmp_path, program=WITHOUT_SPARK) as driver:
        driver.wait_counted()
        source = f"{unique_name}-in"
        topics.admin.create_partitions([NewPartitions(source, 3)])[source].result(60)

        code, line = driver.ended()

    assert code != 0
    assert f"topic {source} has 3 partitions and had 2" in line
    # Started again, it is as natively: the topics in between have the old count, and say so.
    code, line = WordCountOnSpark(word_count, unique_name, tmp_path).ended()
    assert code != 0
    assert "partitions" in line
    assert STORE in line
    assert is_exact(word_count)
    with pytest.raises(PartitionMismatchError):
        word_count.go_on(unique_name, tmp_path / "native", takeover=True)


@pytest.mark.sampled
def test_a_stateless_topology_reads_the_partitions_that_have_come_in_turns_of_the_limit(
    topics: Topics, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX_VARIABLE, unique_name)
    source, sink = topics.create(f"{unique_name}-in"), topics.create(f"{unique_name}-out")
    first, second = ([f"{place}{n:02}" for n in range(60)] for place in ("a", "b"))
    topics.send(source, [("k", value) for value in first], 0)
    spec: dict[str, object] = {
        "applicationId": unique_name,
        "topology": {"module": "tests.support.copying:build"},
        "config": {"auto.offset.reset": "earliest"},
        "kafka": {"bootstrapServers": topics.bootstrap_servers},
        "spark": {
            "master": "local[2]",
            "triggerInterval": "100ms",
            "maxOffsetsPerTrigger": LIMIT,
        },
    }
    document: dict[str, object] = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "copying"},
        "spec": spec,
    }

    def copied() -> list[str]:
        return sorted(value.decode() for _, value in topics.read(sink))

    with SparkDriver(document, tmp_path) as driver:
        wait_for(lambda: copied() == first, what="the first", timeout_s=300, every_s=0.5)
        topics.admin.create_partitions([NewPartitions(source, 2)])[source].result(60)
        wait_for(
            lambda: len(topics.admin.list_topics(timeout=30).topics[source].partitions) == 2,
            what="the partition",
        )
        # A producer that knows of them.
        Topics(topics.bootstrap_servers).send(source, [("k", value) for value in second], 1)
        code, line = driver.ended()
    assert code != 0
    assert f"topic {source} has 2 partitions and had 1" in line
    # All of them were there from the beginning, and each micro-batch has taken its share.
    assert max(transactions(topics, sink)) <= LIMIT

    with SparkDriver(document, tmp_path, program=WITHOUT_SPARK) as driver:
        wait_for(lambda: copied() == first + second, what="both", timeout_s=300, every_s=0.5)
        tasks = json.loads(driver.get("/status")[1])["tasks"]
        driver.stop()
    assert sorted(tasks) == ["0_0", "0_1"]


def transactions(topics: Topics, topic: str) -> list[int]:
    """How many records each transaction has written to a topic: a marker is between two."""
    found: list[int] = []
    last = None
    for message in by_partition(topics.bootstrap_servers, topic):
        offset = message.offset() or 0
        if last is None or offset > last + 1:
            found.append(0)
        found[-1] += 1
        last = offset
    return found
