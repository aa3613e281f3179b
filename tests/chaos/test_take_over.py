"""The same application, here and in Java, by turns: what one leaves, the other goes on from."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from examples.word_count.app import words

from headwater.config import StreamsConfig
from headwater.service.duties import Duties
from tests.chaos.proof import counted_once_each
from tests.java.tool import JavaTool
from tests.support.continuous import START_S, SparkDriver
from tests.support.counting import PREFIX_VARIABLE
from tests.support.local_cluster import LocalCluster, create_topics, read_counts, streamapp
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.sampled,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

PARTITIONS = 4
JAVA_APPS = Path(__file__).parents[1] / "java" / "apps"
LINES_PER_TURN = 500
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
        assert self._producer.flush(START_S) == 0

    def wait_counted(self, runs: Callable[[], bool]) -> None:
        """Wait until the committed counts are those of all lines so far.

        Args:
            runs: whether the application still runs.
        """

        def equal() -> bool:
            is_there = runs()
            is_equal = read_counts(self.servers, self.prefix) == self.sent
            assert is_equal or is_there, "the application has ended"
            return is_equal

        wait_for(equal, what=f"{sum(self.sent.values())} words", timeout_s=START_S, every_s=1.0)

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
                self.wait_counted(cluster.is_up)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{cluster.output}") from error
            cluster.interrupt()
            assert cluster.wait(START_S) == 0, cluster.output

    def spark(self, turn: int) -> None:
        """Run on Spark for one share of the text."""
        spec = {
            "topology": {"module": "tests.support.word_count:build"},
            "config": {"statestore.cache.max.bytes": 0},
            "spark": {"master": "local[2]", "config": {"spark.driver.memory": "1g"}},
        }
        document = streamapp(self.servers, self.prefix, **spec)
        directory = self.root / f"turn-{turn}"
        self._wait_alone()
        with SparkDriver(document, directory, **{PREFIX_VARIABLE: self.prefix}) as driver:
            self.feed()
            try:
                self.wait_counted(lambda: driver.process.poll() is None)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{driver.log}") from error
            driver.stop()

    def _wait_alone(self) -> None:
        """Wait until the group has no members: a driver by hand refuses while Java is one."""
        duties = Duties(
            StreamsConfig.parse({"application.id": self.prefix, "bootstrap.servers": self.servers}),
            client_id="turns",
        )
        wait_for(
            lambda: not duties.admin.group_members(self.prefix),
            what="the end of Java's membership",
            every_s=0.5,
        )

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
        try:
            self.feed()
            self.wait_counted(lambda: application.poll() is None)
            application.communicate("stop\n", timeout=START_S)
        except AssertionError as error:
            application.kill()
            raise AssertionError(f"{error}\n{application.communicate()[0]}") from error
        finally:
            application.kill()


@pytest.mark.parametrize(
    "turns",
    [
        # From Java to workers, back to Java, on to Spark, to workers again. From workers to Spark
        # goes tests/kafka/test_engine_switch.py.
        pytest.param("java-ours-java-spark-ours", marks=pytest.mark.spark),
        pytest.param("ours-java-ours", marks=pytest.mark.soak),
        pytest.param("java-ours-java", marks=pytest.mark.soak),
        pytest.param("java-ours-spark-ours-java", marks=[pytest.mark.spark, pytest.mark.soak]),
    ],
)
def test_python_and_java_take_over_from_each_other_without_losing_or_doubling_a_word(
    turns: str, bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    run = Turns(bootstrap_servers, topic_prefix, tmp_path)

    for number, who in enumerate(turns.split("-")):
        getattr(run, who)(number)

    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", run.sent)
