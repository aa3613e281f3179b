"""An executor of a real Spark sleeps while workers take over; nothing comes of it when it wakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater import KafkaStreams
from headwater.ids import TaskId
from headwater.model.lifecycle import Engine
from tests.chaos.kills import Trap
from tests.support import halting
from tests.support.backfills import TOPOLOGY
from tests.support.continuous import START_S, WordCountOnSpark, engine_writer
from tests.support.executors import Sleeper
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backfills import WordCount

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_800)]

LINES = ["to be or not to be", "that is the question"] * 20
MORE = ["the fox again", "no dog"] * 10
HALTING = [f"before {halting.WORD} {halting.WORD} after"]
TASKS = [TaskId(subtopology, partition) for subtopology in (0, 1) for partition in (0, 1)]


class Story:
    """A word count whose only executor is caught in an open transaction; then its driver ends."""

    def __init__(self, word_count: WordCount, app: str, directory: Path) -> None:
        self.word_count = word_count
        self.app = app
        self._directory = directory
        self.log = directory / "host.log"

    def sleeper(self, monkeypatch: pytest.MonkeyPatch) -> Sleeper:
        monkeypatch.setenv(halting.SERVERS_VARIABLE, self.word_count.topics.bootstrap_servers)
        monkeypatch.setenv(halting.LOG_VARIABLE, str(self.log))
        trap = Trap(halting.POINT, self._directory / "trap")
        with WordCountOnSpark(
            self.word_count,
            self.app,
            self._directory,
            master="local-cluster[1,1,1024]",
            topology=halting.TOPOLOGY,
            # The take-over is to end the transaction, not the broker.
            config={"producer.transaction.timeout.ms": 900_000},
            failpoints=trap.armed,
        ) as driver:
            driver.wait_counted()
            self.word_count.send(HALTING)
            sleeper = Sleeper(trap.caught(timeout_s=600))
            # It has had its time to end: the control loop kills it.
            driver.kill()
        assert halting.is_transaction_open(self.word_count.topics, f"{self.word_count.prefix}-out")
        return sleeper

    def workers(self, *, takeover: bool) -> KafkaStreams:
        config = self.word_count.config(
            self.app,
            state_dir=str(self._directory / "native"),
            processing_guarantee="exactly_once_v2",
        )
        return KafkaStreams(TOPOLOGY, config, takeover=takeover)

    def wait_counted(self) -> None:
        wait_for(
            lambda: self.word_count.counts(self.app) == self.word_count.sent,
            what="every word",
            timeout_s=START_S,
        )

    def wait_exact(self) -> None:
        """Wait until every word was counted, and each count put out once and in order."""
        counted = {word: list(range(1, times + 1)) for word, times in self.word_count.sent.items()}
        wait_for(
            lambda: self.word_count.outputs() == counted,
            what=f"each count once of {counted}",
            timeout_s=START_S,
        )

    def is_counted_twice(self) -> bool:
        outputs = self.word_count.outputs().values()
        return any(found != list(range(1, len(found) + 1)) for found in outputs)


@pytest.fixture
def story(word_count: WordCount, unique_name: str, tmp_path: Path) -> Story:
    word_count.send(LINES)
    return Story(word_count, unique_name, tmp_path)


@pytest.mark.sampled
def test_an_executor_frozen_in_its_transaction_over_the_switch_makes_nothing_visible(
    story: Story, monkeypatch: pytest.MonkeyPatch, unique_name: str, tmp_path: Path
) -> None:
    word_count, native = story.word_count, f"{unique_name}-native"
    sleeper = story.sleeper(monkeypatch)
    try:
        with story.workers(takeover=True):
            word_count.send(MORE)
            story.wait_counted()
            # What it had sent is given up while it sleeps, and holds nobody back.
            story.wait_exact()

            sleeper.wake_caught()
            wait_for(
                lambda: "has taken over" in story.log.read_text(),
                what="the task host to be fenced",
                timeout_s=START_S,
            )
            word_count.send(MORE)
            story.wait_counted()
        sleeper.wake()
    finally:
        sleeper.kill()
    # Where it had stopped, or had been fenced, nobody else goes on.
    word_count.send(MORE)
    with story.workers(takeover=False):
        story.wait_counted()

    story.wait_exact()
    # The changelog and the offsets are those of workers that were alone all the time.
    word_count.go_on(native, tmp_path / "alone")
    assert word_count.changelog(unique_name) == word_count.changelog(native)
    source = f"{word_count.prefix}-in"
    assert word_count.offsets(unique_name, source) == word_count.offsets(native, source)


@pytest.mark.soak(stays="tests/spark/test_task_host.py::test_without_the_fence_a_host_commits_late")
def test_without_the_fence_the_frozen_executor_counts_again(
    story: Story, monkeypatch: pytest.MonkeyPatch, unique_name: str
) -> None:
    """Planted: the workers are granted everything, and no id of Spark's was initialised."""
    word_count = story.word_count
    sleeper = story.sleeper(monkeypatch)
    try:
        writer = engine_writer(word_count, unique_name)
        writer.take_over(Engine.NATIVE, TASKS)
        writer.confirm()
        writer.close()
        with story.workers(takeover=False):
            word_count.send(MORE)
            story.wait_counted()

        sleeper.wake_caught()

        wait_for(story.is_counted_twice, what="a word to be counted twice", timeout_s=START_S)
    finally:
        sleeper.kill()
