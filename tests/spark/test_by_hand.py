"""``headwater spark`` run by hand: it takes over from workers, whatever is frozen or killed.

The driver is the real one, but for Spark itself (``tests.support.driver``).
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import KafkaException, Producer

from headwater import KafkaStreams
from headwater.config import StreamsConfig
from headwater.errors import EngineError
from headwater.model.cluster import StreamWorker, WorkerSpec
from headwater.model.lifecycle import Engine
from headwater.service.duties import Duties
from tests.support.backfills import TOPOLOGY
from tests.support.continuous import WordCountOnSpark
from tests.support.membership import member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.engine import EngineRecord
    from tests.support.backfills import WordCount
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

LINES = ["to be or not to be", "that is the question"] * 20
WORKER = "word-count-w-0"


class ByHand:
    """An application whose workers were those of `headwater up` in this directory."""

    def __init__(self, word_count: WordCount, app: str, directory: Path) -> None:
        self.word_count = word_count
        self.app = app
        self.directory = directory
        self.worker_id = f"{app}-{WORKER}-0"
        self._file = directory / "apps" / "word-count" / "workers" / WORKER / "spec.json"
        self.duties = Duties(StreamsConfig.parse(word_count.config(app)), client_id="test")

    def leave_worker(self) -> None:
        """Have `headwater up` leave behind that there was a worker."""
        self._file.parent.mkdir(parents=True)
        worker = StreamWorker(name=WORKER, spec=WorkerSpec(app="word-count", slots=(0,)))
        self._file.write_text(json.dumps(worker.to_dict()))

    def forget_worker(self) -> None:
        """Have the next driver run where nobody knows of it."""
        self._file.unlink()

    def frozen_worker(self) -> Producer:
        """A worker in an open transaction, from which it wakes when it is committed."""
        producer = Producer(
            {
                "bootstrap.servers": self.word_count.topics.bootstrap_servers,
                "transactional.id": self.worker_id,
                "transaction.timeout.ms": 900_000,  # the driver is to end it, not the broker
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(f"{self.word_count.prefix}-out", b"late", b"late", 0)
        return producer

    def driver(self, failpoints: str = "", *options: str) -> WordCountOnSpark:
        return WordCountOnSpark(
            self.word_count,
            self.app,
            self.directory,
            failpoints=failpoints,
            options=options,
            program="tests.support.driver",
            guarantee="exactly_once_v2",  # or its workers had no ids
        )

    @property
    def record(self) -> EngineRecord:
        return self.duties.engine()

    @property
    def end(self) -> dict[str, object]:
        """What the last driver has left for a control loop."""
        found: dict[str, object] = json.loads((self.directory / "state/ended.json").read_text())
        return found


@pytest.fixture
def by_hand(word_count: WordCount, unique_name: str, tmp_path: Path) -> ByHand:
    word_count.send(LINES)
    return ByHand(word_count, unique_name, tmp_path)


def test_a_worker_frozen_in_its_transaction_makes_nothing_visible(by_hand: ByHand) -> None:
    by_hand.leave_worker()
    frozen = by_hand.frozen_worker()

    with by_hand.driver() as driver:
        driver.wait_counted()
        with pytest.raises(KafkaException):
            frozen.commit_transaction(60)
        driver.stop()

    assert "late" not in by_hand.word_count.outputs()
    assert by_hand.record.workers == (by_hand.worker_id,)


@pytest.mark.parametrize("point", ["takeover.written", "takeover.fenced"])
def test_a_driver_killed_before_it_has_confirmed_has_taken_nothing_over(
    by_hand: ByHand, point: str
) -> None:
    by_hand.leave_worker()
    frozen = by_hand.frozen_worker()
    with by_hand.driver(f"{point}=kill") as driver:
        assert driver.process.wait(300) == -signal.SIGKILL, driver.log[-4000:]

    assert by_hand.record.holder is None
    config = by_hand.word_count.config(by_hand.app, state_dir=str(by_hand.directory / "native"))
    with pytest.raises(EngineError, match="nobody may run it"):
        KafkaStreams(TOPOLOGY, config).start()
    with by_hand.driver("", "--generation", "1") as driver:
        code, line = driver.ended()
    assert code != 0
    assert "is about to take over" in line
    assert by_hand.end["error"] == "FencedError"

    # The next one fences what the first was to fence, though it does not know of it.
    by_hand.forget_worker()
    with by_hand.driver() as driver:
        driver.wait_counted()
        driver.stop()
    assert by_hand.record.holder is Engine.SPARK
    assert by_hand.record.generation == 2
    with pytest.raises(KafkaException):
        frozen.commit_transaction(60)
    assert "late" not in by_hand.word_count.outputs()


def test_who_joins_the_group_during_the_take_over_is_seen(by_hand: ByHand, topics: Topics) -> None:
    trap = by_hand.directory / "trap"
    with by_hand.driver(f"takeover.written=stop!{trap}") as driver:
        wait_for(
            lambda: psutil.Process(driver.process.pid).status() == psutil.STATUS_STOPPED,
            what="the driver to be frozen",
            timeout_s=300,
        )
        with member(
            topics.bootstrap_servers, by_hand.app, f"{by_hand.word_count.prefix}-in", "somebody"
        ):
            os.kill(driver.process.pid, signal.SIGCONT)
            code, line = driver.ended()

    assert code != 0
    assert "somebody" in line
    assert by_hand.record.holder is None
    assert by_hand.end["error"] == "GroupInUseError"
    assert "somebody" in str(by_hand.end["message"])
    with by_hand.driver() as driver:
        driver.wait_counted()
        driver.stop()
    assert by_hand.record.holder is Engine.SPARK
