"""Queries while tasks move and processes are killed: each answer is one that the store had.

The count of a key at a position is known from the input: as many of its records as there are up to
that offset. So each answer is checked exactly, with the position that it names.
"""

from __future__ import annotations

import bisect
import http.client
import json
import random
import shlex
import threading
import urllib.parse
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from headwater_operator.local.observe import read_worker
from tests.conftest import seed_base
from tests.support import pages
from tests.support.local_cluster import APP, Load, LocalCluster, create_topics, streamapp
from tests.support.reading import held
from tests.support.waiting import wait_for
from tests.support.worker import child_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS: Final = 4
READERS: Final = 3
READS: Final = 100_000
"""Of a soak; a share of these else."""
FEWEST: Final = 2_000
KEYS: Final = 997


class Reader(threading.Thread):
    """Asks for random keys, each answer at least as new as the one before of that partition."""

    def __init__(self, cluster: LocalCluster, topic: str, seed: str, reads: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._topic = topic
        self._draw = random.Random(seed)
        self._reads = reads
        self._at: dict[int, int] = {}
        self._pause = threading.Event()
        self.answers: list[tuple[int, str, int, int]] = []
        """Partition, key, offset and count of each answer."""
        self.steps_back: list[str] = []
        self.refusals: Counter[str] = Counter()
        self.unexpected: list[str] = []

    def run(self) -> None:
        endpoints: list[str] = []
        while len(self.answers) < self._reads and not self.unexpected:
            if not endpoints or self._draw.random() < 0.01:
                endpoints = self._endpoints()
            partition, key = self._draw.randrange(PARTITIONS), f"key-{self._draw.randrange(KEYS)}"
            for endpoint in self._draw.sample(endpoints, len(endpoints)):
                try:
                    status, answer = self._ask(endpoint, partition, key)
                except (OSError, http.client.HTTPException, ValueError):  # it ends, too
                    endpoints = []
                    break
                if status in {200, 404} and answer.get("error") in {None, "KEY_NOT_FOUND"}:
                    self._note(partition, key, answer)
                    break
                self.refusals[str(answer.get("error"))] += 1
                if status not in {412, 421, 503}:
                    self.unexpected.append(f"{status}: {answer}")
            else:
                self._pause.wait(0.01)  # nobody has it just now

    def _ask(self, endpoint: str, partition: int, key: str) -> tuple[int, dict[str, Any]]:
        query = {"partition": partition}
        if partition in self._at:
            query["bound"] = json.dumps({self._topic: {partition: self._at[partition]}})
        host, _, port = endpoint.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=15)
        try:
            path = f"/state/counts/keys/{key}?{urllib.parse.urlencode(query)}"
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def _note(self, partition: int, key: str, answer: dict[str, Any]) -> None:
        offset = answer["position"].get(self._topic, {}).get(str(partition))
        if offset is None:
            return  # a store that was opened just now: it does not say yet
        if offset < self._at.get(partition, -1):
            self.steps_back.append(f"{offset} after {self._at[partition]}")
        self._at[partition] = offset
        self.answers.append((partition, key, offset, answer.get("value", 0)))

    def _endpoints(self) -> list[str]:
        workers = filter(None, map(read_worker, self._cluster.cluster.app(APP).workers()))
        return [worker.status.endpoint for worker in workers if worker.status.endpoint]


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


def test_each_answer_is_one_that_the_store_had_at_some_commit_whatever_moves_or_dies(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    request: pytest.FixtureRequest,
) -> None:
    share: float = request.config.getoption("--share")
    seed, reads = seed_base(request.config), max(FEWEST, round(READS * share))
    topic = f"{topic_prefix}-in"
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    load = Load(bootstrap_servers, topic_prefix, records_per_s=2_000)
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=2))
    load.start()
    cluster.wait_running(replicas=2)
    readers = [Reader(cluster, topic, f"{seed}{n}", reads // READERS + 1) for n in range(READERS)]
    for reader in readers:
        reader.start()

    storm(cluster, readers, rounds=max(1, round(10 * share)))

    for reader in readers:
        reader.join(600)
        assert not reader.is_alive(), (len(reader.answers), reader.refusals, cluster.worker_logs())
    load.stop()
    run_page(cluster)
    offsets: dict[tuple[int, str], list[int]] = defaultdict(list)
    for message in held(bootstrap_servers, topic, isolation="read_uncommitted"):
        offsets[message.partition(), (message.key() or b"").decode()].append(message.offset())
    for found in offsets.values():
        found.sort()
    wrong = [
        (partition, key, offset, count)
        for reader in readers
        for partition, key, offset, count in reader.answers
        if bisect.bisect_right(offsets[partition, key], offset) != count
    ]
    refusals = sum((reader.refusals for reader in readers), Counter())
    total = sum(len(reader.answers) for reader in readers)
    print(f"seed {seed}: {total:,} answers, {len(wrong)} wrong, refused: {dict(refusals)}")
    assert [reader.unexpected for reader in readers] == [[]] * READERS
    assert [reader.steps_back for reader in readers] == [[]] * READERS
    assert wrong[:5] == [], [(w, bisect.bisect_right(offsets[w[0], w[1]], w[2])) for w in wrong]
    assert len({offset for reader in readers for *_, offset, _ in reader.answers}) > 20


def storm(cluster: LocalCluster, readers: list[Reader], *, rounds: int) -> None:
    """Kill a StreamThread, a query process and a worker; scale to one and back; again."""
    for _ in range(rounds):
        for kind in ("StreamThread", "Queries"):
            for process in cluster.processes().values():
                if (child := child_of(process.pid, kind)) is not None:
                    child.kill()
                    break
            some_more(readers)
        psutil.Process(next(iter(cluster.processes().values())).pid).kill()
        some_more(readers)
        cluster.wait_running(replicas=2)
        cluster.command("scale", APP, "--replicas", "1")
        cluster.wait_running(replicas=1)
        some_more(readers)
        cluster.command("scale", APP, "--replicas", "2")
        cluster.wait_running(replicas=2)


def blocks(page: str, language: str) -> list[str]:
    """What is written in a language on a page of docs."""
    return list(pages.blocks(Path(__file__).parents[2] / "docs" / page, language))


def run_page(cluster: LocalCluster) -> None:
    """Run the commands of the page: each finds what there is."""
    commands = [line for block in blocks("queries.md", "sh") for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "headwater"
        assert "key-1" in cluster.command(*arguments)


def some_more(readers: list[Reader]) -> None:
    """Wait until each reader has had more answers, or is done."""
    before = [len(reader.answers) for reader in readers]
    wait_for(
        lambda: all(
            len(reader.answers) > seen + 50 or not reader.is_alive()
            for reader, seen in zip(readers, before, strict=True)
        ),
        what="more answers",
        timeout_s=120,
    )
