"""Standby tasks on a real broker: whoever stands by goes on at once and reads the tail only."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.kafka.test_local_cluster import PARTITIONS, wait_counted
from tests.support.local_cluster import APP, Load, LocalCluster, create_topics, streamapp
from tests.support.waiting import wait_for

from headwater.model.metrics import RESTORE_RECORDS
from headwater_operator.local.observe import read_worker
from headwater_operator.observe.numbers import HttpNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.model.cluster import StreamWorker

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

HISTORY = 10_000
"""So many changelog records there are before anything is killed."""


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


@pytest.fixture
def load(bootstrap_servers: str, topic_prefix: str) -> Iterator[Load]:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    feeding = Load(bootstrap_servers, topic_prefix, records_per_s=500)
    yield feeding
    if feeding.is_alive():
        feeding.stop()


def worker_of(cluster: LocalCluster, name: str) -> StreamWorker:
    worker = read_worker(cluster.cluster.app(APP).worker(name))
    assert worker is not None
    return worker


def wait_covered(cluster: LocalCluster) -> None:
    """Wait until every task runs, evenly, and every standby has caught up."""

    def is_covered() -> bool:
        counts = cluster.status.tasks
        tasks = [len(held) for held in cluster.tasks().values()]
        is_level = tasks == [PARTITIONS // 2] * 2 and counts.warmup == 0
        return is_level and counts.running == counts.caught_up == counts.standby == PARTITIONS

    try:
        wait_for(is_covered, what="every standby to catch up", timeout_s=120)
    except AssertionError as error:
        said = f"{cluster.status}\n{cluster.output}\n{cluster.worker_logs()}"
        raise AssertionError(f"{error}\n{said}") from error


def restored_at(endpoint: str) -> int:
    """How many changelog records the worker that serves there has read in restores."""
    numbers = HttpNumbers(silence_ms=0)
    found = wait_for(lambda: numbers.ask({"it": endpoint}).get("it"), what="numbers", timeout_s=120)
    numbers.close()
    return found.numbers.total(RESTORE_RECORDS)


def changelog_records(bootstrap_servers: str, prefix: str) -> int:
    """How many records the changelogs of the application have been given."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{prefix}-looks"})
    try:
        topics = consumer.list_topics(timeout=30).topics
        (name,) = (
            name for name in topics if name.startswith(prefix) and name.endswith("-changelog")
        )
        ends = (
            consumer.get_watermark_offsets(TopicPartition(name, number), timeout=30)
            for number in topics[name].partitions
        )
        return sum(end for _, end in ends)
    finally:
        consumer.close()


def test_killed_workers_are_replaced_by_their_standbys_which_read_the_tail_only(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load, tmp_path: Path
) -> None:
    wanted = {"standbyReplicas": 1, "acceptableRecoveryLag": 1_250}
    # A few transactions a second, not ten of each task.
    rarely = {"commit.interval.ms": 500}
    cluster.up(
        streamapp(bootstrap_servers, topic_prefix, replicas=2, assignment=wanted, config=rarely)
    )
    load.start()
    wait_covered(cluster)
    wait_for(
        lambda: changelog_records(bootstrap_servers, topic_prefix) > HISTORY,
        what="a history",
        timeout_s=120,
        every_s=1.0,
    )

    for lost, heir in ((f"{APP}-w-1", f"{APP}-w-0"), (f"{APP}-w-0", f"{APP}-w-1")):
        wait_covered(cluster)
        tasks = set(worker_of(cluster, lost).spec.active)
        endpoint = worker_of(cluster, heir).status.endpoint
        restored = restored_at(endpoint)
        history = changelog_records(bootstrap_servers, topic_prefix)
        os.kill(cluster.processes()[lost].pid, signal.SIGKILL)

        wait_for(
            lambda heir=heir, tasks=tasks: tasks <= set(worker_of(cluster, heir).spec.active),
            what=f"{heir} to be given the tasks of {lost}",
            timeout_s=30,
        )
        why = {
            task: placement.reason
            for placement in worker_of(cluster, heir).spec.why
            for task in placement.tasks
        }
        assert {why[task] for task in tasks} == {"its copy here had caught up"}
        wait_covered(cluster)
        assert worker_of(cluster, heir).status.endpoint == endpoint
        # A copy that did not count would cost half of the history.
        assert restored_at(endpoint) - restored < history / 8

    load.stop()
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)
    is_shown(cluster)
    words_show(cluster, tmp_path)


def words_show(cluster: LocalCluster, directory: Path) -> None:
    """See that the words of people show what the workers themselves tell of everything."""

    def with_all_numbers() -> dict[str, Any] | None:
        # Sizes of stores are looked at now and then, lags a moment after the last commit.
        done: dict[str, Any] = json.loads(cluster.command("status", APP, "--output", "json"))
        copies = [copy for task in done["tasks"] for copy in task["copies"]]
        is_measured = all(task["stateBytes"] and task["committed"] for task in done["tasks"])
        is_read = done["lag"] == 0 and all(copy["behind"] == 0 for copy in copies)
        return done if is_measured and is_read and len(copies) == PARTITIONS else None

    shown = wait_for(with_all_numbers, what="the numbers of all tasks and copies", every_s=1.0)
    tasks = shown["tasks"]
    assert (shown["isReady"], shown["inexact"], len(tasks)) == (True, "", PARTITIONS)

    told = cluster.command("why", tasks[0]["task"])
    assert f"RUNNING on {tasks[0]['worker']}" in told
    assert "placed there because: " in told
    assert f"({PARTITIONS} tasks · lag 0 · " in cluster.command("topology", APP)

    file = directory / "report.zip"
    cluster.command("report", APP, "--file", str(file))
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        metrics = archive.read(f"http/{APP}-w-0/metrics.txt").decode()
    assert {f"logs/{APP}-w-0.log", "logs/loop.log", "events.jsonl"} <= names
    assert "stream_version" in metrics


def is_shown(cluster: LocalCluster) -> None:
    """Wait until the live view, ``get`` and its JSON say what stands by."""
    wait_covered(cluster)
    table = cluster.command("get", APP)
    document = json.loads(cluster.command("get", APP, "--json"))
    assert table.count("Standby") == PARTITIONS
    assert table.count("caught up") == PARTITIONS
    assert document["status"]["tasks"]["caughtUp"] == PARTITIONS
    wait_for(
        lambda: f"{PARTITIONS}/{PARTITIONS} standbys caught up" in cluster.output,
        what="the view to tell",
        timeout_s=30,
    )
