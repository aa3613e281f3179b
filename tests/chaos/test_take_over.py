"""The same application, here and in Java, by turns: what one leaves, the other goes on from."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from examples.word_count.app import words

from tests.chaos.proof import counted_once_each
from tests.java.tool import JavaTool
from tests.support.local_cluster import LocalCluster, create_topics, read_counts, streamapp
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 4
JAVA_APPS = Path(__file__).parents[1] / "java" / "apps"
LINES_PER_TURN = 2_000
VOCABULARY = [f"word{number}" for number in range(300)]


class Turns:
    """Feeds a share of the text to whoever's turn it is and waits until it is counted."""

    def __init__(self, bootstrap_servers: str, prefix: str, root: Path) -> None:
        self.servers = bootstrap_servers
        self.prefix = prefix
        self.root = root
        self.sent: Counter[str] = Counter()
        self._rng = random.Random(prefix)
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})

    def feed(self) -> None:
        """Write more lines."""
        for _ in range(LINES_PER_TURN):
            line = " ".join(self._rng.choices(VOCABULARY, k=6))
            self.sent.update(words(line))
            self._producer.produce(f"{self.prefix}-in", value=line)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def wait_counted(self) -> None:
        """Wait until the committed counts are those of all lines so far."""

        def equal() -> bool:
            return read_counts(self.servers, self.prefix) == self.sent

        wait_for(equal, what=f"{sum(self.sent.values())} words", timeout_s=150, every_s=1.0)

    def ours(self, turn: int) -> None:
        """Run here for one share of the text."""
        with LocalCluster(self.root / f"turn-{turn}", self.prefix) as cluster:
            (self.root / f"turn-{turn}").mkdir()
            spec = {
                "topology": {"module": "tests.support.word_count:build"},
                "replicas": 1,
                "threadsPerWorker": 2,
                "config": {"statestore.cache.max.bytes": 0},
            }
            cluster.up(streamapp(self.servers, self.prefix, **spec))
            self.feed()
            try:
                self.wait_counted()
            except AssertionError as error:
                raise AssertionError(f"{error}\n{cluster.output}") from error
            cluster.interrupt()
            assert cluster.wait(60) == 0, cluster.output

    def java(self, turn: int) -> None:
        """Run in Java for one share of the text."""
        application = JavaTool(JAVA_APPS).start(
            "WordCountApp",
            f"application.id={self.prefix}",
            f"bootstrap.servers={self.servers}",
            f"input={self.prefix}-in",
            f"output={self.prefix}-out",
            f"state.dir={self.root / f'java-{turn}'}",
            "commit.interval.ms=100",
            "processing.guarantee=exactly_once_v2",
            "statestore.cache.max.bytes=0",
            "session.timeout.ms=6000",
        )
        self.feed()
        self.wait_counted()
        application.stdin.write("stop\n")
        application.stdin.flush()
        application.communicate(timeout=60)


@pytest.mark.parametrize("turns", ["ours-java-ours", "java-ours-java"])
def test_python_and_java_take_over_from_each_other_without_losing_or_doubling_a_word(
    turns: str, bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    run = Turns(bootstrap_servers, topic_prefix, tmp_path)

    for number, who in enumerate(turns.split("-")):
        getattr(run, who)(number)

    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", run.sent)
