"""Every panel has data of a live run that a real Prometheus scrapes: with a kill and a scale."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import prometheus
from tests.support.creating import create_known
from tests.support.holding import Held
from tests.support.local_cluster import APP, LocalCluster, streamapp
from tests.support.shown import WINDOW, Shown, configuration, until_shown, write_targets
from tests.support.waiting import wait_for

from headwater_operator.dashboards import APPLICATION, FLEET, STATE, WORKER
from headwater_operator.dashboards.choosing import MOVES, OF_WORKERS
from headwater_operator.dashboards.promql import annotation_promql
from headwater_operator.local.observe import read_worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.prometheus import Prometheus

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.timeout(600)]

BOARDS: Final = (FLEET, APPLICATION, WORKER, STATE)
NAMESPACE: Final = "live"
PLACES: Final = 50_000
WITHOUT: Final = {
    WORKER.uid: {"Callers by HTTP that were refused": "only workers in pods ask for a token"},
}
"""Panels without data here, with the reason, by the dashboard."""
HAPPENED: Final = (
    (FLEET, "Records processed"),
    (FLEET, "Input records not yet processed"),
    (FLEET, "State on disk"),
    (APPLICATION, "Dead letters"),
    (APPLICATION, "Records dropped"),
    (APPLICATION, "Bytes produced"),
    (WORKER, "Time of a commit"),
    (WORKER, "Tasks opened"),
    (WORKER, "Requests to brokers"),
    (STATE, "Records still to restore"),
    (STATE, "Tasks being restored"),
    (STATE, "Records of global stores still to read"),
    (STATE, "Copies"),
    (STATE, "Records applied to copies"),
    (STATE, "Disk still available"),
    (STATE, "Keys"),
    (STATE, "Puts"),
)
"""Panels that must show more than zeros, for what has been done."""


class Feeding(threading.Thread):
    """Writes records of some keys, of now, and now and then one that cannot be read."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 10})
        self._topic = topic
        self._ended = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.05):
            for _ in range(20):
                number += 1
                value = b"\xff" if number % 200 == 0 else f"value {number}".encode()
                with suppress(BufferError):
                    self._producer.produce(self._topic, value, f"k{number % 97}")
            self._producer.poll(0)

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._producer.flush(10)


class Run:
    """A local cluster, and the Prometheus that scrapes it."""

    def __init__(self, cluster: LocalCluster, server: Prometheus, targets: Path) -> None:
        self.cluster = cluster
        self.server = server
        self._targets = targets

    def scraped(self, query: str) -> bool:
        """Whether a query has an answer by now; workers that came meanwhile are scraped, too."""
        workers = map(read_worker, self.cluster.cluster.app(APP).workers())
        endpoints = [it.status.endpoint for it in workers if it is not None and it.status.endpoint]
        write_targets(self._targets, endpoints, namespace=NAMESPACE)
        return bool(self.server.instant(query))

    def wait(self, query: str) -> None:
        wait_for(lambda: self.scraped(query), what=query, timeout_s=180, every_s=0.5)


@pytest.fixture
def feeding(bootstrap_servers: str, topic_prefix: str) -> Iterator[Feeding]:
    parts = {"in": 4, "out": 4, "places": 1, "dead": 1}
    topics = [NewTopic(f"{topic_prefix}-{name}", count) for name, count in parts.items()]
    create_known(AdminClient({"bootstrap.servers": bootstrap_servers}), *topics)
    fill(bootstrap_servers, f"{topic_prefix}-places")
    made = Feeding(bootstrap_servers, f"{topic_prefix}-in")
    made.start()
    yield made
    made.end()


def fill(servers: str, topic: str) -> None:
    """Write so many rows for a global store that it is filled in several batches."""
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 2 * PLACES})
    for number in range(PLACES):
        producer.produce(topic, b"somewhere", f"place {number}")
    assert producer.flush(60) == 0


def application(servers: str, prefix: str, **spec: object) -> dict[str, object]:
    config = {
        "metrics.recording.level": "DEBUG",
        "statistics.interval.ms": 500,
        "commit.interval.ms": 200,
        "deserialization.exception.handler": "log-and-continue",
        "errors.dead.letter.queue.topic.name": f"{prefix}-dead",
    }
    made: dict[str, Any] = streamapp(servers, prefix, config=config, **spec)
    made["spec"]["topology"] = {"module": "tests.support.measured_app:build"}
    return made


def test_every_panel_has_plausible_data_of_a_run_with_a_kill_and_a_scale(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, feeding: Feeding
) -> None:
    del feeding
    began = time.time()
    restore = Held("restore.applied", tmp_path / "frozen")
    filling = Held("globals.filling", tmp_path / "filling")
    targets = tmp_path / "targets.json"
    write_targets(targets, [])
    with (
        prometheus.running(tmp_path / "prometheus", configuration(targets)) as server,
        LocalCluster(tmp_path, topic_prefix) as cluster,
    ):
        run = Run(cluster, server, targets)
        document = application(bootstrap_servers, topic_prefix, replicas=2)
        filling.arm()
        cluster.up(document, HEADWATER_FAILPOINTS=f"{restore.failpoint};{filling.failpoint}")
        see_a_global_store(run, filling)
        cluster.wait_running(replicas=2)
        run.wait('stream_state_put_total{state_id="counts"} > 100')

        lose_a_worker(run, restore)
        scaled_s = time.time()
        document = application(
            bootstrap_servers, topic_prefix, replicas=3, assignment={"standbyReplicas": 1}
        )
        file = tmp_path / "larger.yaml"
        file.write_text(yaml.safe_dump(document))
        cluster.command("up", "--detach", "-f", str(file))
        cluster.wait_running(replicas=3)
        run.wait("count(count by (client_id) (stream_ready == 1)) >= 3")
        run.wait("sum(stream_state_updater_standby_caught_up_tasks) >= 4")

        check(Shown(server, began, chosen(server, topic_prefix)))
        check_moves(server, topic_prefix, scaled_s)


def see_a_global_store(run: Run, filling: Held) -> None:
    """Look at a global store while it is filled: what is left is told with the second batch."""
    filling.step()
    run.wait("stream_global_restore_remaining_records > 0")
    filling.end()


def lose_a_worker(run: Run, restore: Held) -> None:
    """Kill a worker that has lost its disk, and look at the restore while it stands still."""
    name = f"{APP}-w-0"
    before = run.cluster.processes()[name]
    shutil.rmtree(run.cluster.cluster.app(APP).state(name))
    restore.arm()
    os.kill(before.pid, signal.SIGKILL)
    restore.wait()
    run.wait("stream_task_restore_remaining_records > 0")
    restore.end()
    run.cluster.wait_running(replicas=2)


def chosen(server: Prometheus, application_id: str) -> dict[str, list[str]]:
    selector = f'stream_ready{{application_id="{application_id}"}}'
    return {
        "namespace": [NAMESPACE],
        "application_id": [application_id],
        "client_id": server.label_values("client_id", selector),
    }


def check(shown: Shown) -> None:
    assert len(shown.chosen["client_id"]) == 3
    for board in BOARDS:
        until_shown(shown, board, WITHOUT.get(board.uid, {}))
    for board, title in HAPPENED:
        wait_for(
            lambda board=board, title=title: shown.most(board, title, time.time()) > 0,  # type: ignore[misc]
            what=f"{board.uid}: more than zeros of {title}",
            timeout_s=90,
            every_s=1,
        )


def check_moves(server: Prometheus, application_id: str, since_s: float) -> None:
    """Check that the tasks of the worker that has come are marked, with their application."""
    text = annotation_promql(MOVES, OF_WORKERS, window=WINDOW)
    for variable, value in (
        ("namespace", NAMESPACE),
        ("application_id", application_id),
        ("client_id", f"{APP}-w-2"),
    ):
        text = text.replace(f"${variable}", value)
    [marked] = server.range(text, since_s, time.time(), 1.0)

    assert marked.labels == {"namespace": NAMESPACE, "application_id": application_id}
    assert len(marked.points) > 1
