"""Which engine runs an application, on a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.support import manifests
from tests.support.clients import Clients
from tests.support.thread_rig import Topics

from headwater.errors import BackfillUnfinishedError, EngineError, FencedError
from headwater.kafka.driver_topic import MANIFEST_KEY, DriverVoice
from headwater.kafka.engine import EngineRecords, EngineWriter
from headwater.kafka.manifest import ManifestGate
from headwater.model.backfill import BackfillState, manifest_topic
from headwater.model.engine import EngineRecord, driver_transactional_id
from headwater.model.lifecycle import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = pytest.mark.kafka


@pytest.fixture
def clients(bootstrap_servers: str, unique_name: str) -> Clients:
    return Clients(bootstrap_servers, unique_name)


def writer(clients: Clients) -> EngineWriter:
    return EngineWriter(clients.access)


def taken(
    clients: Clients, engine: Engine, tasks: Iterable[str] = (), workers: Iterable[str] = ()
) -> EngineRecord:
    """Take over, fence nobody, and confirm it."""
    taking = writer(clients)
    taking.take_over(engine, tasks, workers=workers)
    return taking.confirm()


def records(clients: Clients) -> EngineRecords:
    return EngineRecords(clients.access)


def test_without_a_record_the_workers_run_the_application(clients: Clients) -> None:
    assert records(clients).read() == EngineRecord(engine=Engine.NATIVE, generation=0)


def test_each_take_over_is_a_generation_and_remembers_every_task_of_spark(
    clients: Clients,
) -> None:
    reader = records(clients)
    first = taken(clients, Engine.SPARK, ["0_0", "0_1"], ["w-0"])
    assert (first.engine, first.generation, first.tasks) == (Engine.SPARK, 1, ("0_0", "0_1"))
    assert reader.read() == first

    second = taken(clients, Engine.NATIVE, workers=["w-1"])

    assert (second.engine, second.generation) == (Engine.NATIVE, 2)
    assert reader.read() == second
    third = taken(clients, Engine.SPARK, ["1_0"])
    assert (third.generation, third.tasks) == (3, ("0_0", "0_1", "1_0"))
    assert third.workers == ("w-0", "w-1")
    assert writer(clients).begin_attempt(3, ["1_0", "1_1"]).tasks == ("0_0", "0_1", "1_0", "1_1")
    assert taken(clients, Engine.NATIVE).tasks == ("0_0", "0_1", "1_0", "1_1")


def test_until_everything_is_fenced_nobody_may_run(clients: Clients) -> None:
    gate = ManifestGate(clients.access)
    for engine in (Engine.SPARK, Engine.NATIVE):
        taking = writer(clients)
        ours = taking.take_over(engine)

        assert records(clients).read().holder is None
        with pytest.raises(EngineError, match=r"not yet fenced.*takeover=True"):
            gate.check()
        with pytest.raises(FencedError):
            records(clients).check(ours)

        ours = taking.confirm()
        assert records(clients).read().holder is engine
        records(clients).check(ours)
    gate.check()


def test_a_driver_does_not_begin_in_a_generation_that_is_not_fenced(clients: Clients) -> None:
    writer(clients).take_over(Engine.SPARK)

    with pytest.raises(FencedError, match="Spark of generation 1 is about to take over"):
        writer(clients).begin_attempt(1)


def test_who_was_shut_out_while_it_fenced_confirms_nothing(clients: Clients) -> None:
    slow = writer(clients)
    slow.take_over(Engine.NATIVE)
    fast = writer(clients)
    fast.take_over(Engine.SPARK)

    with pytest.raises(FencedError):
        slow.confirm()

    assert records(clients).read().holder is None
    fast.confirm()
    assert records(clients).read().holder is Engine.SPARK


@pytest.mark.parametrize("state", [BackfillState.PREPARED, BackfillState.WRITTEN])
def test_nobody_takes_over_what_a_backfill_has_loaded_in_part(
    clients: Clients, state: BackfillState
) -> None:
    taken(clients, Engine.SPARK)
    voice = DriverVoice(clients.access)
    voice.write(MANIFEST_KEY, manifests.manifest(state).encode())

    for come in (
        lambda: writer(clients).take_over(Engine.SPARK),
        lambda: writer(clients).take_over(Engine.NATIVE),
        lambda: writer(clients).begin_attempt(1),
    ):
        with pytest.raises(BackfillUnfinishedError, match="--abort"):
            come()

    assert (records(clients).read().generation, records(clients).read().attempt) == (1, 0)


def test_a_take_over_shuts_the_driver_before_out(clients: Clients) -> None:
    former = writer(clients)
    former.take_over(Engine.SPARK)
    taken_since = writer(clients).take_over(Engine.NATIVE)

    with pytest.raises(FencedError):
        former.take_over(Engine.SPARK)

    assert records(clients).read() == taken_since


@pytest.mark.parametrize(
    "come",
    [
        lambda writer: writer.take_over(Engine.NATIVE),
        lambda writer: writer.take_over(Engine.SPARK),
        lambda writer: writer.begin_attempt(1),
    ],
    ids=["workers", "another driver", "a driver of the same generation"],
)
def test_a_task_whose_turn_is_over_finds_out(
    clients: Clients, come: Callable[[EngineWriter], EngineRecord]
) -> None:
    taken(clients, Engine.SPARK)
    ours = writer(clients).begin_attempt(1)
    reader = records(clients)
    reader.check(ours)

    come(writer(clients))

    with pytest.raises(FencedError, match="has taken over; this task writes nothing"):
        reader.check(ours)


def test_a_driver_begins_only_in_its_own_generation(clients: Clients) -> None:
    with pytest.raises(FencedError, match="given generation 1, but Native of generation 0"):
        writer(clients).begin_attempt(1)
    taken(clients, Engine.SPARK)
    assert writer(clients).begin_attempt(1).attempt == 1
    assert writer(clients).begin_attempt(1).attempt == 2
    taken(clients, Engine.SPARK)

    with pytest.raises(FencedError, match="given generation 1, but Spark of generation 2"):
        writer(clients).begin_attempt(1)


def test_what_a_driver_has_not_committed_is_not_said(
    bootstrap_servers: str, clients: Clients
) -> None:
    ours = taken(clients, Engine.SPARK)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": driver_transactional_id(clients.config.application_id),
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(
        manifest_topic(clients.config.application_id), EngineRecord().encode(), b"engine", 0
    )
    assert producer.flush(30) == 0

    assert records(clients).read() == ours
    producer.abort_transaction(30)


def test_manifest_and_engine_stand_side_by_side(clients: Clients) -> None:
    manifest = manifests.manifest(BackfillState.COMMITTED)
    voice = DriverVoice(clients.access)
    voice.write(MANIFEST_KEY, manifest.encode())
    ours = taken(clients, Engine.SPARK)
    gate = ManifestGate(clients.access)

    assert gate.read() == manifest
    assert records(clients).read() == ours


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"version": 9}', ["version 9", "newer Headwater"]),
        (b"hello", ["does not say which engine", "reset"]),
    ],
    ids=["newer", "foreign"],
)
def test_a_record_that_is_none_is_not_passed_over(
    clients: Clients, data: bytes, words: list[str]
) -> None:
    topics = Topics(clients.connection.bootstrap_servers)
    topics.create(manifest_topic(clients.config.application_id))
    manifests.leave(topics, clients.config.application_id, data, key=b"engine")

    with pytest.raises(EngineError) as refused:
        records(clients).read()

    said = str(refused.value)
    wanted = [manifest_topic(clients.config.application_id), *words]
    assert [word for word in wanted if word not in said] == []
