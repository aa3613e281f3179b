"""The run behind the pictures of Spark: a word count on Spark on this machine.

It is fed for a minute, and its driver is killed once.
"""

from __future__ import annotations

import os
import random
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from headwater_operator.dashboards import SPARK
from headwater_operator.local import files
from headwater_operator.local.driver import answer_of
from headwater_operator.local.observe import read_process
from tests.golden.boards import answered, board_of
from tests.support import prometheus
from tests.support.local_cluster import LocalCluster
from tests.support.shown import configuration, write_targets
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.local.layout import AppDir

APP: Final = "word-count"
NAMESPACE: Final = "shop"
_START_S: Final = 600
_FED_S: Final = 40
_DOCUMENT: Final[dict[str, Any]] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": APP},
    "spec": {
        "topology": {"module": "examples.word_count.app:build"},
        "engine": "Spark",
        "spark": {
            "master": "local[2]",
            "triggerInterval": "500ms",
            "config": {"spark.driver.memory": "1g"},
        },
        "kafka": {
            "topics": [
                {"name": "TextLinesTopic", "partitions": 2},
                {"name": "WordsWithCountsTopic", "partitions": 2},
            ]
        },
    },
}
_WORDS: Final = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "many",
    "streams",
    "flow",
    "home",
]


def run(take_page: Callable[[str], None]) -> dict[str, Any]:
    """Run it; return the dashboard with its answers.

    Args:
        take_page: is called with the address of the page.
    """
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder), APP) as cluster:
        targets = Path(folder) / "targets.json"
        write_targets(targets, [])
        with prometheus.running(Path(folder) / "prometheus", configuration(targets)) as server:
            cluster.up(_DOCUMENT, "--web", "0")
            app, ended = cluster.cluster.app(APP), threading.Event()
            wait_for(lambda: answer_of(app).state, what="a driver", timeout_s=_START_S)
            began = time.time()
            servers = cluster.supervisor.kafka.bootstrap_servers
            for work in (lambda: feed(servers, ended), lambda: scrape(app, targets, ended)):
                threading.Thread(target=work, daemon=True).start()
            wait_for(lambda: is_counting(app), what="a micro-batch", timeout_s=_START_S)
            ended.wait(_FED_S)
            process = read_process(app.driver)[1]
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
            wait_for(
                lambda: (
                    (now := read_process(app.driver)[1]) is not None
                    and now.pid != process.pid
                    and is_counting(app)
                ),
                what="another driver",
                timeout_s=_START_S,
            )
            ended.wait(_FED_S)
            found = answered(board_of(SPARK.uid), server, (began, time.time()), {})
            url = re.search(r"page: (http://\S+)", cluster.output)
            assert url is not None, cluster.output
            take_page(url[1])
            ended.set()
            cluster.interrupt()
            wait_for(lambda: not cluster.is_up(), what="the end of the cluster")
            return found


def is_counting(app: AppDir) -> bool:
    """Whether the driver that runs now has done a micro-batch."""
    answer = answer_of(app)
    return answer.state == "RUNNING" and answer.batches > 0


def feed(servers: str, ended: threading.Event) -> None:
    """Write lines of some words."""
    chance, producer = random.Random(1), Producer({"bootstrap.servers": servers, "linger.ms": 20})
    while not ended.wait(0.1):
        for _ in range(30):
            producer.produce("TextLinesTopic", " ".join(chance.choices(_WORDS, k=4)))
        producer.poll(0)
    producer.flush(10)


def scrape(app: AppDir, targets: Path, ended: threading.Event) -> None:
    """Tell Prometheus where the driver is."""
    while not ended.wait(1):
        told = files.read(app.driver_address) or {}
        write_targets(targets, [str(told["http"])] if told.get("http") else [], namespace=NAMESPACE)
