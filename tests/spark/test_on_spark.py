"""The tasks of a backfill in Spark's Python workers, and the command that people run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import cloudpickle
import pytest

from headwater.errors import DeserializationError, FencedError
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.chaos.kills import Trap
from tests.support.backfills import ROOT, STORE, TOPOLOGY, Here, Listener, run_module
from tests.support.executors import Sleeper
from tests.support.local_cluster import is_gone
from tests.support.standalone import Standalone
from tests.support.thread_rig import LONG
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.word_count import build_on

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.spark.cluster import SparkCluster
    from headwater.spark.report import BackfillReport
    from tests.support.backfills import WordCount
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_800)]

LINES = ["to be or not to be", "that is the question"] * 50


@pytest.fixture
def streamapp(word_count: WordCount, unique_name: str, tmp_path: Path) -> Path:
    """The StreamApp of the word count."""
    file = tmp_path / "streamapp.yaml"
    file.write_text(
        f"""
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {{name: word-count}}
spec:
  applicationId: {unique_name}
  topology: {{module: "{TOPOLOGY}"}}
  replicas: 1
  config: {{statestore.cache.max.bytes: "0"}}
  kafka: {{bootstrapServers: "{word_count.topics.bootstrap_servers}"}}
"""
    )
    return file


def run_command(
    streamapp: Path, *arguments: str, failpoints: str = ""
) -> subprocess.CompletedProcess[str]:
    command = ("backfill", "-f", str(streamapp), *arguments)
    return run_module("headwater.cli.main", *command, failpoints=failpoints, timeout_s=900)


def gone_on(
    word_count: WordCount, app: str, spark: SparkCluster, outputs: Outputs = Outputs.NONE
) -> BackfillReport:
    """Finish what the command has begun, on the Spark that is there."""
    prefix = word_count.prefix
    build = cloudpickle.dumps(lambda builder: build_on(builder, prefix))
    told = BackfillSettings(
        application=ApplicationSettings(config=word_count.config(app), topology=build),
        outputs=outputs,
    )
    return Backfill(told, spark, Listener()).run()


@pytest.mark.sampled
def test_a_python_worker_killed_in_a_transaction_and_then_the_driver(
    word_count: WordCount, spark: SparkCluster, unique_name: str, streamapp: Path, tmp_path: Path
) -> None:
    word_count.send(LINES)
    killed = tmp_path / "killed"

    ended = run_command(
        streamapp,
        *("--master", "local[2]", "--outputs", "all"),
        failpoints=f"commit.acknowledged=kill@2!{killed};backfill.written=kill",
    )

    assert ended.returncode == -9, ended.stderr
    assert killed.exists(), "no Python worker was killed"
    assert gone_on(word_count, unique_name, spark, Outputs.ALL).manifest.attempt == 2
    assert word_count.counts(unique_name) == word_count.sent
    assert word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }
    word_count.send(["be that"])
    word_count.go_on(unique_name, tmp_path)


@pytest.mark.sampled
def test_ctrl_c_in_a_backfill_says_how_to_go_on(
    word_count: WordCount, spark: SparkCluster, unique_name: str, streamapp: Path, tmp_path: Path
) -> None:
    word_count.send(LINES)
    trap = tmp_path / "trap"
    choice = ("--master", "local[2]", "--target", "t1")
    with subprocess.Popen(
        [sys.executable, "-m", "headwater.cli.main", "backfill", "-f", str(streamapp), *choice],
        cwd=ROOT,
        env={**os.environ, "HEADWATER_FAILPOINTS": f"commit.acknowledged=stop!{trap}"},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        # A Python worker is caught in its transaction.
        wait_for(lambda: trap.exists() and trap.read_text(), what="a transaction", timeout_s=600)
        os.killpg(driver.pid, signal.SIGINT)
        said = driver.communicate(timeout=300)[1]
    with suppress(ProcessLookupError):
        os.kill(int(trap.read_text()), signal.SIGKILL)

    assert driver.returncode == 130, said
    assert "run the same command again to go on, or with --abort to give it up" in said
    assert "while sending command" not in said
    assert gone_on(word_count, unique_name, spark).manifest.attempt == 2
    assert word_count.counts(unique_name) == word_count.sent


@pytest.mark.sampled
def test_an_executor_killed_in_a_backfill_is_replaced_and_what_is_left_of_it_commits_nothing(
    word_count: WordCount, unique_name: str, streamapp: Path, tmp_path: Path
) -> None:
    """On a Spark cluster that is there before: `--master spark://...`."""
    word_count.send(LINES)
    trap = Trap("commit.acknowledged", tmp_path / "trap", at_hit=2)
    # The task that is run again is to end the transaction, not the broker.
    config = ("--config", "producer.transaction.timeout.ms=900000")
    spark = ["spark.executor.cores=1", "spark.executor.memory=1g", "spark.driver.host=127.0.0.1"]
    with Standalone(tmp_path, **trap.environment) as cluster, ThreadPoolExecutor(1) as pool:
        command = ["--master", cluster.master, "--outputs", "all", *config]
        command += [f"--spark-config={each}" for each in spark]
        running = pool.submit(run_command, streamapp, *command)
        sleeper = Sleeper(trap.caught(timeout_s=600))
        try:
            sleeper.kill_executor()
            ended = running.result()
            assert ended.returncode == 0, ended.stderr
            assert "is committed; workers go on" in ended.stdout
            changelog = word_count.changelog(unique_name)

            sleeper.wake_caught()
            wait_for(lambda: is_gone(sleeper.caught), what="the Python worker's end")
        finally:
            sleeper.kill()

    assert word_count.changelog(unique_name) == changelog
    assert word_count.counts(unique_name) == word_count.sent
    word_count.send(["be that"])
    word_count.go_on(unique_name, tmp_path)
    assert word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }


def test_every_task_runs_in_a_task_of_spark(
    spark: SparkCluster, topics: Topics, unique_name: str
) -> None:
    partitions = 3
    topics.create(unique_name, partitions)
    for partition in range(partitions):
        topics.send(unique_name, [(f"key-{partition}", "v")] * (partition + 1), partition)
    listener = Listener()

    report = Backfill(settings(topics, unique_name), spark, listener).run()

    assert report.records == 6
    assert [task.processed for task in report.tasks] == [1, 2, 3]
    assert report.keys == partitions
    found = topics.read(f"{unique_name}-counts-changelog")
    assert {key: LONG.unpack(value)[0] for key, value in found} == {
        "key-0": 1,
        "key-1": 2,
        "key-2": 3,
    }
    assert listener.seen[-1].done == listener.seen[-1].total == 6


def test_of_what_tasks_on_spark_send_only_the_last_of_each_key_is_written(
    spark: SparkCluster, topics: Topics, unique_name: str
) -> None:
    topics.create(unique_name, 2)
    topics.create(f"{unique_name}-counts")
    for partition in range(2):
        topics.send(unique_name, [(f"key-{partition}", "v")] * (partition + 2), partition)
    asked = replace(settings(topics, unique_name), outputs=Outputs.LATEST)

    Backfill(asked, spark, Listener()).run()

    found = topics.read(f"{unique_name}-counts")
    assert sorted((key, LONG.unpack(value)[0]) for key, value in found) == [
        ("key-0", 2),
        ("key-1", 3),
    ]


def test_a_record_that_cannot_be_read_ends_the_backfill_with_its_name(
    spark: SparkCluster, topics: Topics, unique_name: str
) -> None:
    topics.create(unique_name)
    topics.send(unique_name, [("key", "value")])
    bad = b"\xff\xfe"
    topics.send(unique_name, [("key", bad)])  # type: ignore[list-item]

    with pytest.raises(DeserializationError, match=f"{unique_name}-0 offset 1"):
        Backfill(settings(topics, unique_name), spark, Listener()).run()

    letters = topics.create(f"{unique_name}-dead")
    options = {
        "deserialization.exception.handler": "log-and-continue",
        "errors.dead.letter.queue.topic.name": letters,
    }
    report = Backfill(settings(topics, unique_name, **options), spark, Listener()).run()
    assert (report.dead_letters, report.dropped) == (1, 1)
    assert [value for _, value in topics.read(letters)] == [bad]


def test_tasks_of_a_driver_that_was_replaced_are_given_up_at_once(
    spark: SparkCluster, topics: Topics, unique_name: str
) -> None:
    topics.create(unique_name)
    topics.send(unique_name, [("key", "value")])

    class Interrupted(Here):
        def run(self, works):  # type: ignore[no-untyped-def]
            self.works += works
            raise KeyboardInterrupt

    earlier = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        Backfill(settings(topics, unique_name), earlier, Listener()).run()
    Backfill(settings(topics, unique_name), Here(), Listener()).run()

    with pytest.raises(FencedError, match="another driver has taken over; this task writes"):
        spark.run(earlier.works)


def settings(topics: Topics, app: str, **options: str) -> BackfillSettings:
    return BackfillSettings(
        application=ApplicationSettings(
            config={
                "application.id": app,
                "bootstrap.servers": topics.bootstrap_servers,
                **options,
            },
            topology=cloudpickle.dumps(counts_of(app)),
        ),
    )


def test_the_command_says_what_it_would_do(
    word_count: WordCount, unique_name: str, streamapp: Path
) -> None:
    word_count.send(LINES)

    planned = run_command(streamapp, "--dry-run")
    nothing = run_command(streamapp, "--abort")

    assert planned.returncode == 0, planned.stderr
    assert f"{unique_name}-in-0: offsets 0 to 50" in planned.stdout
    assert STORE not in planned.stdout
    assert nothing.stdout == "word-count: no backfill is under way\n"
