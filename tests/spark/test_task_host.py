"""What a task host does, without Spark: turns that fail, and hosts that are late."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import cloudpickle
import pytest

from headwater import Processor, ProcessorContext, PunctuationType, Record, Serdes
from headwater.ids import TaskId, TopicPartition
from headwater.model.engine import EngineRecord, spark_transactional_id
from headwater.model.streamapp import Engine
from headwater.native.application import ApplicationSettings
from headwater.spark.turns.messages import (
    Again,
    HostSettings,
    TakenOverError,
    Turn,
    TurnDone,
    TurnNumber,
)
from tests.support.backfills import STORE, TOPOLOGY
from tests.support.continuous import START_S, TaskHost, engine_writer, fence
from tests.support.thread_rig import LONG
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headwater import StreamsBuilder
    from tests.support.backfills import WordCount
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_800)]

LINES = ["the quick brown fox", "jumps over the lazy dog", "", "the end"] * 10
TASKS = [TaskId(subtopology, partition) for subtopology in (0, 1) for partition in (0, 1)]
UNCHECKED = "from headwater.kafka.engine import EngineRecords as e; e.check = lambda *_: None"


class Rig:
    """An application that Spark's driver has taken over, and whose turns are made here."""

    def __init__(self, word_count: WordCount, app: str, directory: Path) -> None:
        self.word_count = word_count
        self.app = app
        self.directory = directory
        self.number = 0
        word_count.go_on(app, directory / "native")  # creates the internal topics

    def take_over(self, engine: Engine, *, fences: bool = True) -> EngineRecord:
        writer = engine_writer(self.word_count, self.app)
        taken = writer.take_over(engine, TASKS)
        ids = [spark_transactional_id(self.app, task) for task in taken.tasks]
        if fences:
            fence(self.word_count, self.app, ids)
        record = writer.confirm()
        writer.close()
        return record

    def host(
        self, record: EngineRecord, config: Mapping[str, int] | None = None, **options: str
    ) -> TaskHost:
        self.record = record
        told = HostSettings(
            application=ApplicationSettings(
                config=self.word_count.config(self.app, **(config or {})), topology=TOPOLOGY
            ),
            record=record,
            state_dir=str(self.directory / "tasks"),
        )
        return TaskHost(told, self.directory, **options)

    def turn(self, task: TaskId) -> Turn:
        """Everything that is there."""
        self.number += 1
        topic = (
            f"{self.word_count.prefix}-in"
            if task.subtopology == 0
            else f"{self.app}-{STORE}-repartition"
        )
        partition = TopicPartition(topic, task.partition)
        ends = self.word_count.topics.ends
        wait_for(
            lambda: ends([partition]) == ends([partition], isolation="read_uncommitted"),
            what="the markers of the turn before",
        )
        end = ends([partition])[partition]
        return Turn(number=self.numbered(self.number), task=task, slot=0, ends={partition: end})

    def numbered(self, number: int, query: int = 1) -> TurnNumber:
        return TurnNumber(self.record.generation, self.record.attempt, query, number)

    def take_all(self, host: TaskHost) -> list[TurnDone]:
        done = [host.take(self.turn(task)) for task in TASKS]
        assert all(isinstance(found, TurnDone) for found in done), done
        return done


@pytest.fixture
def rig(word_count: WordCount, unique_name: str, tmp_path: Path) -> Rig:
    word_count.send(LINES)
    return Rig(word_count, unique_name, tmp_path)


def is_exact(word_count: WordCount) -> bool:
    """Whether every word was counted, and each count put out once and in order."""
    return word_count.outputs() == {
        word: list(range(1, times + 1)) for word, times in word_count.sent.items()
    }


def test_a_host_goes_on_where_workers_have_stopped_and_they_go_on_after_it(
    rig: Rig, word_count: WordCount, unique_name: str
) -> None:
    word_count.send(LINES)
    with rig.host(rig.take_over(Engine.SPARK)) as host:
        first = rig.take_all(host)
        assert [found.opened for found in first] == [True] * 4
        assert sum(found.processed for found in first[:2]) == len(LINES)
        word_count.send(LINES)
        assert [found.opened for found in rig.take_all(host)] == [False] * 4
        # A turn that is run again finds done what was done.
        assert [found.processed for found in rig.take_all(host)] == [0] * 4

    assert word_count.counts(unique_name) == word_count.sent
    assert is_exact(word_count)
    rig.take_over(Engine.NATIVE)
    word_count.send(LINES)
    word_count.go_on(unique_name, rig.directory / "native")
    assert is_exact(word_count)


@pytest.mark.parametrize(
    "failpoint",
    [
        pytest.param("commit.flushed", marks=pytest.mark.soak),
        "commit.acknowledged",  # in an open transaction, everything sent
        "commit.offsets_committed",  # Kafka has it, the store on disk has not
        "spark.turn_committed",  # Kafka has it, Spark has not
    ],
)
@pytest.mark.sampled
def test_a_host_killed_in_mid_turn_leaves_nothing_twice(
    rig: Rig, word_count: WordCount, unique_name: str, failpoint: str
) -> None:
    record = rig.take_over(Engine.SPARK)
    with rig.host(record) as host:
        rig.take_all(host)
    word_count.send(LINES)
    # The first commit of a task that was just opened holds its offsets only.
    at = 1 if failpoint == "spark.turn_committed" else 2
    with rig.host(record, failpoints=f"{failpoint}=kill@{at}") as host:
        host.send(rig.turn(TASKS[0]))
        assert host.process.wait(START_S) == -9

    with rig.host(record) as host:
        rig.take_all(host)
        rig.take_all(host)

    assert word_count.counts(unique_name) == word_count.sent
    assert is_exact(word_count)


@pytest.mark.parametrize(
    ("failpoint", "fault"),
    [
        ("spark.before_init=stop", False),
        pytest.param("spark.task_initialized=stop", False, marks=pytest.mark.soak),
        ("commit.acknowledged=stop@2", False),
        ("spark.before_init=stop", True),
    ],
)
@pytest.mark.sampled
def test_a_host_frozen_over_a_take_over_makes_nothing_visible(
    rig: Rig, word_count: WordCount, unique_name: str, failpoint: str, fault: bool
) -> None:
    frozen = rig.directory / "frozen"
    before = UNCHECKED if fault else "pass"
    word_count.send(LINES)
    record = rig.take_over(Engine.SPARK)
    with rig.host(record, failpoints=f"{failpoint}!{frozen}", before=before) as late:
        late.send(rig.turn(TASKS[0]))
        wait_for(frozen.exists, what="the host to freeze", timeout_s=START_S)
        rig.take_over(Engine.NATIVE)
        word_count.go_on(unique_name, rig.directory / "native")
        # More comes, which workers are about to process.
        word_count.send(LINES)
        source = f"{word_count.prefix}-in"
        offsets = word_count.offsets(unique_name, source)

        late.resume()
        answer = late.answer()

        if fault:
            # Without the check it writes what is not its to write.
            assert isinstance(answer, TurnDone)
            late.take(rig.turn(TASKS[0]))
            assert word_count.offsets(unique_name, source) != offsets
            return
        assert isinstance(answer, TakenOverError | Again), answer
        if isinstance(answer, Again):
            answer = late.take(rig.turn(TASKS[0]))
        assert isinstance(answer, TakenOverError), answer
        assert "Native of generation 2" in str(answer)
    assert word_count.offsets(unique_name, source) == offsets
    word_count.go_on(unique_name, rig.directory / "native")
    assert is_exact(word_count)


def test_without_the_fence_a_host_commits_late(
    rig: Rig, word_count: WordCount, unique_name: str
) -> None:
    """Planted: the workers are granted everything, and no id of Spark's was initialised."""
    frozen = rig.directory / "frozen"
    source = f"{word_count.prefix}-in"
    before = word_count.offsets(unique_name, source)[0][0]
    word_count.send(LINES)
    record = rig.take_over(Engine.SPARK)
    # The take-over would have to end its transaction, not the broker.
    patient = {"producer_transaction_timeout_ms": 900_000}
    failpoints = f"commit.acknowledged=stop@2!{frozen}"
    with rig.host(record, patient, failpoints=failpoints) as late:
        late.send(rig.turn(TASKS[0]))
        wait_for(frozen.exists, what="the host to freeze", timeout_s=START_S)
        rig.take_over(Engine.NATIVE, fences=False)

        late.resume()

        assert isinstance(late.answer(), TurnDone)
    assert word_count.offsets(unique_name, source)[0][0] > before


def test_punctuation_by_the_wall_clock_needs_no_records(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    source, sink = topics.create(unique_name), topics.create(f"{unique_name}-out")
    task = TaskId(0, 0)
    config = {"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers}
    told = HostSettings(
        application=ApplicationSettings(
            config=config, topology=cloudpickle.dumps(ticking(source, sink))
        ),
        record=EngineRecord(),
        state_dir=str(tmp_path / "tasks"),
    )
    partition = TopicPartition(source, 0)
    with TaskHost(told, tmp_path) as host:
        for number in range(1, 5):
            turn = TurnNumber(0, 0, 1, number)
            found = host.take(Turn(number=turn, task=task, slot=0, ends={partition: 0}))
            assert isinstance(found, TurnDone)
            wait_for(clock_has_moved(), what="a millisecond", timeout_s=60)

    topics.wait_settled(sink)
    # The schedule lives from turn to turn.
    ticks = [LONG.unpack(value)[0] for _, value in topics.read(sink)]
    assert len(ticks) >= 3
    assert ticks == list(range(1, len(ticks) + 1))


def clock_has_moved() -> Callable[[], bool]:
    before = time.time_ns() // 1_000_000
    return lambda: time.time_ns() // 1_000_000 > before + 1


def ticking(source: str, sink: str) -> Callable[[StreamsBuilder], None]:
    """Count the calls of a punctuator that is due every millisecond."""

    class Ticking(Processor[str, str, str, int]):
        def init(self, context: ProcessorContext[str, int]) -> None:
            self.ticks = 0
            self.context = context
            context.schedule(1, PunctuationType.WALL_CLOCK_TIME, self.tick)

        def tick(self, now_ms: int) -> None:
            self.ticks += 1
            self.context.forward(Record("tick", self.ticks, now_ms))

        def process(self, record: Record[str, str]) -> None:
            """Nothing comes."""

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(source, key_serde=Serdes.string, value_serde=Serdes.string)
            .process(Ticking)
            .to(sink, key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build
