"""A take-over on a real broker: nothing that the engine before still does reaches anybody."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import cloudpickle
import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from tests.support.clients import Clients
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for

from headwater import KafkaStreams, failpoints
from headwater.config import StreamsConfig
from headwater.errors import EngineError, FencedError, GroupInUseError, KafkaUnavailableError
from headwater.failpoints import FailpointError
from headwater.ids import SlotId, TaskId
from headwater.kafka.engine import EngineWriter
from headwater.model.duties import (
    DescribeGroup,
    DutyFailed,
    EngineTaken,
    GroupDescribed,
    TakeEngine,
)
from headwater.model.engine import spark_transactional_id
from headwater.model.lifecycle import ClientState, Engine
from headwater.native.application import ApplicationSettings
from headwater.native.messages import AddTasks, Failed, Go, Initialized
from headwater.service.duties import Duties
from headwater.spark.turns.live_task import LiveTask
from headwater.spark.turns.messages import HostSettings, Turn, TurnNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.model.engine import EngineRecord

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.timeout(900)]

SLOW_S = 240
"""How long a machine that is busy with other things may take for a step."""
TASK = TaskId(0, 0)
CONFIG = {
    "statestore.cache.max.bytes": 0,
    "commit.interval.ms": 100,
    "producer.transaction.timeout.ms": 300_000,  # whoever is late is not to be ended by the broker
}


class Unchecked(LiveTask):
    """A task that does not ask whether it is still meant."""

    @staticmethod
    def _check(*_: object) -> None:
        pass


class Rig:
    """One application with one task: Spark's task in this process, a StreamThread beside it."""

    kind: type[LiveTask] = LiveTask

    def __init__(self, topics: Topics, app: str, directory: Path) -> None:
        self.topics, self.app, self._directory = topics, app, directory
        self.duties = Duties(Clients(topics.bootstrap_servers, app).config, client_id="hand")
        for topic in (app, f"{app}-counts"):
            topics.create(topic)
        topics.create(f"{app}-counts-changelog", cleanup_policy="compact")
        self.worker_id = SlotId("w-0", 0).transactional_id(app)

    @property
    def config(self) -> dict[str, Any]:
        servers = self.topics.bootstrap_servers
        return {"application.id": self.app, "bootstrap.servers": servers, **CONFIG}

    def take(self, engine: Engine) -> EngineRecord:
        return self.duties.take_engine(engine, worker_ids=[self.worker_id], tasks=[str(TASK)])

    def begin_driver(self) -> EngineRecord:
        generation = self.take(Engine.SPARK).generation
        return self.writer().begin_attempt(generation)

    def writer(self) -> EngineWriter:
        found = Clients(self.topics.bootstrap_servers, self.app)
        return EngineWriter(found.access)

    def leave(self) -> None:
        """Workers take over."""
        self.take(Engine.NATIVE)

    def spark_task(self, record: EngineRecord) -> LiveTask:
        told = HostSettings(
            application=ApplicationSettings(
                config=self.config,
                topology=cloudpickle.dumps(counts_of(self.app)),  # type: ignore[no-untyped-call]
            ),
            record=record,
            state_dir=str(self._directory / "spark"),
        )
        return self.kind(told, TASK)

    def thread(self) -> ThreadRig:
        return ThreadRig(
            self.topics,
            self.app,
            counts_of(self.app),
            self._directory / "native",
            processing_guarantee="exactly_once_v2",
            **{name.replace(".", "_"): value for name, value in CONFIG.items()},
        )

    def visible(self) -> int:
        return len(self.topics.read(f"{self.app}-counts"))

    def send(self, number: int) -> None:
        self.topics.send(self.app, [("key", "value")] * number)


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


@pytest.fixture
def rig(topics: Topics, unique_name: str, tmp_path: Path) -> Rig:
    return Rig(topics, unique_name, tmp_path)


def process(live: LiveTask, number: int) -> None:
    """Have a task process records without committing them: its transaction is open."""
    ends = dict.fromkeys(live.inputs, number)
    turn = Turn(number=TurnNumber(0, 0, 1, 1), task=TASK, slot=0, ends=ends)
    live.begin(turn)

    def is_done() -> bool:
        live.step()
        return live.processed >= number

    wait_for(is_done, what="records to be processed", timeout_s=SLOW_S, every_s=0)


# -- Spark leaves --------------------------------------------------------------------------------


def commit_late(rig: Rig) -> None:
    """A task of Spark is frozen in its transaction while workers take over; then it commits."""
    live = rig.spark_task(rig.begin_driver())
    rig.send(5)
    process(live, 5)
    rig.leave()
    try:
        live.end()
    finally:
        live.close()


def begin_late(rig: Rig) -> None:
    """A task of Spark is frozen before it takes its id while workers take over; then it begins."""
    record = rig.begin_driver()
    rig.leave()
    rig.send(5)
    live = rig.spark_task(record)
    process(live, 5)
    live.end()
    live.close()


@pytest.mark.parametrize("late", [commit_late, begin_late])
def test_what_sparks_task_does_after_a_take_over_is_not_seen(
    rig: Rig, late: Callable[[Rig], None]
) -> None:
    with pytest.raises(FencedError):
        late(rig)

    assert rig.visible() == 0
    with rig.thread() as thread:
        thread.start(TASK)
        wait_for(lambda: rig.visible() == 5, what="the worker's counts", timeout_s=SLOW_S)
    assert rig.topics.counts(f"{rig.app}-counts") == {"key": 5}


class WithoutFence(Rig):
    """Planted: the other engine is granted everything before this one is fenced."""

    def leave(self) -> None:
        writer = self.writer()
        writer.take_over(Engine.NATIVE)
        writer.confirm()


class WithoutRecord(Rig):
    """Planted: all ids are fenced, and nobody writes that another engine has the application."""

    def leave(self) -> None:
        self.duties.fence([spark_transactional_id(self.app, TASK)])


class WithoutCheck(Rig):
    """Planted: a task does not look whether it is still meant."""

    kind = Unchecked


@pytest.mark.parametrize(
    ("faulty", "late"),
    [(WithoutFence, commit_late), (WithoutRecord, begin_late), (WithoutCheck, begin_late)],
)
def test_each_planted_fault_lets_sparks_task_write(
    topics: Topics,
    unique_name: str,
    tmp_path: Path,
    faulty: type[Rig],
    late: Callable[[Rig], None],
) -> None:
    rig = faulty(topics, unique_name, tmp_path)

    late(rig)

    rig.topics.wait_settled(rig.app)
    assert rig.visible() == 5


# -- workers leave -------------------------------------------------------------------------------


def test_what_a_frozen_worker_does_after_a_take_over_is_not_seen(rig: Rig) -> None:
    with rig.thread() as thread:
        thread.start(TASK, failpoints="commit.flushed=stop@2")  # the first has no record
        rig.send(5)
        process_id = thread.child.pid
        wait_for(
            lambda: psutil.Process(process_id).status() == psutil.STATUS_STOPPED,
            what="the thread to be frozen in its transaction",
            timeout_s=SLOW_S,
        )
        record = rig.begin_driver()
        os.kill(process_id, signal.SIGCONT)
        failed = thread.wait_for(Failed, timeout_s=SLOW_S)
    assert failed.error == FencedError.__name__
    assert rig.visible() == 0

    live = rig.spark_task(record)
    process(live, 5)
    live.end()
    live.close()

    rig.topics.wait_settled(rig.app)
    assert rig.topics.counts(f"{rig.app}-counts") == {"key": 5}
    assert rig.visible() == 5


def test_a_worker_that_begins_after_a_take_over_opens_no_task(rig: Rig) -> None:
    rig.begin_driver()
    with rig.thread() as thread:
        thread.start_initialising()
        thread.wait_for(Initialized, timeout_s=SLOW_S)
        thread.child.send(Go(epoch=1))
        thread.child.send(AddTasks(tasks=(TASK,), epoch=1))

        failed = thread.wait_for(Failed, timeout_s=SLOW_S)

    assert failed.error == EngineError.__name__
    ways_on = ("generation 1", "spec.engine to Native", "takeover=True")
    assert [word for word in ways_on if word not in failed.message] == []


def test_a_program_takes_over_from_spark_only_if_it_is_told_to(rig: Rig, tmp_path: Path) -> None:
    rig.begin_driver()
    config = {**rig.config, "state.dir": str(tmp_path / "embedded")}
    with pytest.raises(EngineError, match="takeover=True"):
        KafkaStreams(counts_of(rig.app), config).start()

    with KafkaStreams(counts_of(rig.app), config, takeover=True) as streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=SLOW_S)

    assert rig.duties.engine().engine is Engine.NATIVE
    assert rig.duties.engine().generation == 2


# -- a take-over that is broken off --------------------------------------------------------------


class Frozen:
    """Whoever has a transactional id, in an open transaction.

    Args:
        rig: of the application.
        transactional_id: its.
    """

    def __init__(self, rig: Rig, transactional_id: str) -> None:
        self._topic = f"{rig.app}-counts"
        self._producer = Producer(
            {
                "bootstrap.servers": rig.topics.bootstrap_servers,
                "transactional.id": transactional_id,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"late", b"late", 0)

    def commit(self) -> None:
        self._producer.commit_transaction(60)


@pytest.fixture
def broken_off() -> Iterator[Callable[[str], None]]:
    """Break what is done next off at a fail point."""
    yield lambda point: failpoints.arm(f"{point}=error")
    failpoints.disarm()


@pytest.mark.parametrize(
    ("engine", "point"),
    [
        (Engine.SPARK, "takeover.written"),
        (Engine.NATIVE, "takeover.fenced"),
        pytest.param(Engine.SPARK, "takeover.fenced", marks=pytest.mark.soak),
        pytest.param(Engine.NATIVE, "takeover.written", marks=pytest.mark.soak),
    ],
)
def test_a_take_over_that_was_broken_off_lets_nobody_run_and_is_done_again_from_its_start(
    rig: Rig, tmp_path: Path, broken_off: Callable[[str], None], engine: Engine, point: str
) -> None:
    if engine is Engine.NATIVE:
        rig.take(Engine.SPARK)
    leaving = rig.worker_id if engine is Engine.SPARK else spark_transactional_id(rig.app, TASK)
    before = rig.duties.engine().generation
    broken_off(point)
    with pytest.raises(FailpointError):
        rig.take(engine)

    # Who looks does not take it for finished.
    found = rig.duties.engine()
    assert (found.generation, found.holder) == (before + 1, None)
    look = rig.duties.carry_out(DescribeGroup(id="look", epoch=1, group=rig.app))
    assert isinstance(look, GroupDescribed)
    assert not look.engine_fenced
    config = {**rig.config, "state.dir": str(tmp_path / "embedded")}
    with pytest.raises(EngineError, match=rf"generation {before + 1}\).*takeover=True"):
        KafkaStreams(counts_of(rig.app), config).start()
    with pytest.raises(FencedError, match="is about to take over"):
        rig.writer().begin_attempt(before + 1)

    # Who was left in a transaction is fenced by the next one, who need not know of it.
    frozen = Frozen(rig, leaving)
    taken = rig.duties.take_engine(engine)
    assert (taken.generation, taken.holder) == (before + 2, engine)
    with pytest.raises(KafkaException):
        frozen.commit()
    assert rig.visible() == 0


def test_tasks_that_a_later_driver_of_a_generation_has_are_fenced_as_well(rig: Rig) -> None:
    generation = rig.take(Engine.SPARK).generation
    # A partition more has made a task more.
    rig.writer().begin_attempt(generation, [TASK, TaskId(0, 1)])
    frozen = Frozen(rig, spark_transactional_id(rig.app, TaskId(0, 1)))

    rig.leave()

    with pytest.raises(KafkaException):
        frozen.commit()
    assert rig.visible() == 0


def test_what_cannot_be_fenced_is_named(topics: Topics, rig: Rig) -> None:
    config = {"request.timeout.ms": 1_000, "bootstrap.servers": "127.0.0.1:1"}
    away = Duties(StreamsConfig.parse({**rig.config, **config}), client_id="hand", timeout_s=1)

    with pytest.raises(KafkaUnavailableError) as raised:
        away.fence([rig.worker_id])

    for words in (rig.worker_id, "127.0.0.1:1", "check bootstrap.servers"):
        assert words in str(raised.value)


# -- the duty ------------------------------------------------------------------------------------


def test_the_control_loop_is_told_which_engine_has_the_application(rig: Rig) -> None:
    look = DescribeGroup(id="look", epoch=1, group=rig.app)
    assert rig.duties.carry_out(look) == GroupDescribed(id="look")
    take = TakeEngine(id="take", epoch=1, engine=Engine.SPARK, engine_tasks=("0_0",))

    taken = rig.duties.carry_out(take)

    assert taken == EngineTaken(id="take", engine=Engine.SPARK, engine_generation=1)
    told = rig.duties.carry_out(look)
    assert told == GroupDescribed(id="look", engine=Engine.SPARK, engine_generation=1)


def test_a_duty_that_comes_late_does_nothing(rig: Rig) -> None:
    rig.take(Engine.SPARK)
    late = TakeEngine(id="take", epoch=1, engine=Engine.SPARK, replaces=0)

    failed = rig.duties.carry_out(late)

    assert isinstance(failed, DutyFailed)
    assert "generation 1 has it by now" in failed.message
    assert rig.duties.engine().generation == 1


def test_spark_gets_nothing_while_somebody_is_in_the_group(rig: Rig) -> None:
    consumer = Consumer({"bootstrap.servers": rig.topics.bootstrap_servers, "group.id": rig.app})
    consumer.subscribe([rig.app])
    wait_for(
        lambda: (consumer.poll(0.1), consumer.assignment())[1], what="a member", timeout_s=SLOW_S
    )

    with pytest.raises(GroupInUseError, match="has members"):
        rig.take(Engine.SPARK)

    consumer.close()
    assert rig.take(Engine.SPARK).engine is Engine.SPARK
