"""Turns of one task, in this process: how far they read, which are late, what stays open."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from headwater import Processor, ProcessorContext, Record, Serdes
from headwater.errors import (
    ChangelogLostError,
    HeadwaterError,
    MissingTopicError,
    ProcessingError,
)
from headwater.ids import TaskId
from headwater.model.engine import EngineRecord
from headwater.model.lifecycle import Engine
from headwater.spark.turns.hosting import Host
from headwater.spark.turns.live_task import LiveTask
from headwater.spark.turns.messages import LateTurnError, Turn, TurnNumber
from tests.support.topologies import counts_of
from tests.support.turns import TASK, Rig
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

LARGE = 5_000


def merged(app: str) -> Callable[[StreamsBuilder], None]:
    """Two topics into one, by the timestamps of their records."""

    def build(builder: StreamsBuilder) -> None:
        first, second = (
            builder.stream(f"{app}-{name}", key_serde=Serdes.string, value_serde=Serdes.string)
            for name in ("a", "b")
        )
        first.merge(second).to(f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.string)

    return build


def copied(app: str) -> Callable[[StreamsBuilder], None]:
    """One topic into another."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(f"{app}-a", key_serde=Serdes.string, value_serde=Serdes.string).to(
            f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.string
        )

    return build


def told_by_name(app: str) -> Callable[[StreamsBuilder], None]:
    """What comes from one topic, joined with a global table."""

    def build(builder: StreamsBuilder) -> None:
        texts: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        stream: Any = builder.stream(f"{app}-a", **texts)
        names = builder.global_table(f"{app}-names", store="names", **texts)
        stream.join(names, lambda _key, value: value, lambda _value, name: name).to(
            f"{app}-out", **texts
        )

    return build


@pytest.fixture
def copy(topics: Topics, unique_name: str, tmp_path: Path) -> Rig:
    """Forty records to be copied; the first turn has opened the task and committed offset 0."""
    for name in ("a", "out"):
        topics.create(f"{unique_name}-{name}")
    topics.send(f"{unique_name}-a", [("k", str(n)) for n in range(40)], 0)
    rig = Rig(topics, unique_name, tmp_path, copied(unique_name))
    first = rig.take(1)
    # A partition without committed offset has no end yet, and nothing of it is read.
    assert (first.processed, first.opened, rig.committed("a")) == (0, True, 0)
    return rig


# -- up to the ends --------------------------------------------------------------------------------


def test_a_turn_reads_up_to_its_ends_and_no_further(copy: Rig) -> None:
    for number, end in enumerate((5, 6, 6, 30, 40), 2):
        before = copy.committed("a")

        done = copy.take(number, a=end)

        assert (done.processed, done.opened) == (end - before, False)
        assert copy.committed("a") == end == done.offsets[copy.partition("a")]
    assert len(copy.out()) == 40


def test_what_is_held_back_is_not_passed_over(copy: Rig) -> None:
    copy.take(2, a=3)
    partition, reader = copy.partition("a"), copy.host._tasks[TASK]._single.clients.consumer
    wait_for(
        lambda: not reader.poll(0.1) and len(reader._held.get(partition, ())) == 37,
        what="everything to be held back",
        timeout_s=120,
    )
    assert reader.end_of(partition) == 3

    reader.read_up_to({partition: 10})
    reader.pause([partition])
    assert (reader.poll(0.1), reader.end_of(partition)) == ([], None)
    reader.resume([partition])

    ((_, records),) = reader.poll(0.1)
    assert [record[0] for record in records] == list(range(3, 10))
    assert reader.end_of(partition) == 10


def test_a_task_that_has_read_further_than_a_turn_goes_is_opened_anew(copy: Rig) -> None:
    """What is buffered of a turn that waits for another partition is read again, not processed."""
    copy.host._tasks[TASK]._single.clients.consumer.read_up_to({copy.partition("a"): 30})

    done = copy.take(2, a=7)

    assert (done.processed, done.opened, copy.committed("a")) == (7, True, 7)


def test_a_turn_that_ends_where_no_record_is_ends_there(
    copy: Rig, topics: Topics, unique_name: str
) -> None:
    copy.take(2, a=40)
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "transactional.id": unique_name}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(10):
        producer.produce(f"{unique_name}-a", f"aborted {n}", "k", 0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    topics.send(f"{unique_name}-a", [("k", "after")], 0)

    # Offsets 40 to 49 are aborted, 50 is a marker: else a small share would never get over them.
    inside = copy.take(3, a=45, more="a")
    assert (inside.processed, copy.committed("a")) == (0, 45)
    behind = copy.take(4, a=52)
    assert (behind.processed, copy.committed("a")) == (1, 52)
    assert copy.out()[-1] == "after"


def test_a_global_table_is_full_before_the_first_turn_and_followed_in_each(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    topics.create(f"{unique_name}-names", 2)
    for name in ("a", "out"):
        topics.create(f"{unique_name}-{name}")
    topics.send(f"{unique_name}-names", [("1", "one"), ("2", "two")])
    topics.send(f"{unique_name}-a", [("k", "1"), ("k", "2"), ("k", "3")], 0)
    rig = Rig(topics, unique_name, tmp_path, told_by_name(unique_name))
    rig.take(1)

    rig.take(2, a=3)
    assert rig.out() == ["one", "two"]
    topics.send(f"{unique_name}-names", [("3", "three")])
    turns = count(3)

    def is_followed() -> bool:
        number = next(turns)
        topics.send(f"{unique_name}-a", [("k", "3")], 0)
        rig.take(number, a=number + 1)
        return rig.out()[2:] == ["three"]

    wait_for(is_followed, what="the table to be followed", timeout_s=60)


@pytest.mark.parametrize("idle_ms", [0, 50])
def test_of_two_partitions_the_lowest_timestamp_is_next_wherever_a_turn_ends(
    topics: Topics, unique_name: str, tmp_path: Path, idle_ms: int
) -> None:
    for name in ("a", "b", "out"):
        topics.create(f"{unique_name}-{name}")
    for n in range(20):
        topics.send(f"{unique_name}-a", [("k", f"{2 * n:02}")], 0, timestamp_ms=1_000 + 2 * n)
        topics.send(f"{unique_name}-b", [("k", f"{2 * n + 1:02}")], 0, timestamp_ms=1_001 + 2 * n)
    rig = Rig(topics, unique_name, tmp_path, merged(unique_name), max_task_idle_ms=idle_ms)
    rig.take(1)

    # The next record of a comes before those of b, but is not of this turn.
    waits = rig.take(2, a=2, b=20, more="a")
    assert (waits.processed, rig.committed("a"), rig.committed("b")) == (3, 2, 1)
    again = rig.take(3, a=12, b=20, more="a")
    assert (again.processed, rig.committed("b")) == (20, 11)
    turns = count(4)

    def is_all_read() -> bool:
        # The last record may wait for another one of the partition that has none, turn by turn.
        rig.take(next(turns), a=20, b=20)
        return (rig.committed("a"), rig.committed("b")) == (20, 20)

    wait_for(is_all_read, what="the last record")  # so the markers are there
    assert rig.out() == [f"{n:02}" for n in range(40)]


def test_a_task_that_idles_for_a_record_of_another_partition_holds_up_no_turn(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    """The other tasks' next turns come after it."""
    for name in ("a", "b", "out"):
        topics.create(f"{unique_name}-{name}")
    an_hour = 3_600_000
    rig = Rig(topics, unique_name, tmp_path, merged(unique_name), max_task_idle_ms=an_hour)
    rig.take(1)
    topics.send(f"{unique_name}-a", [("k", "1")], 0)

    assert [rig.take(number, a=1, b=0).processed for number in (2, 3)] == [0, 0]
    assert rig.committed("a") == 0

    topics.send(f"{unique_name}-b", [("k", "2")], 0)
    assert rig.take(4, a=1, b=1).processed == 1


def test_a_turn_whose_transaction_was_aborted_goes_on_and_reports_what_is_committed(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    topics.create(f"{unique_name}-a", max_message_bytes="10000000")
    topics.create(f"{unique_name}-out", max_message_bytes="1000")
    values = ["x" * LARGE if n == 7 else str(n) for n in range(20)]
    topics.send(f"{unique_name}-a", [("k", value) for value in values], 0)
    rig = Rig(
        topics,
        unique_name,
        tmp_path,
        copied(unique_name),
        production_exception_handler="tests.support.handlers:drop_undeliverable",
    )
    rig.take(1)

    done = rig.take(2, a=20)

    assert rig.committed("a") == 20 == done.offsets[rig.partition("a")]
    assert done.processed == 20
    assert rig.out() == [value for value in values if len(value) < LARGE]


# -- late, and again -------------------------------------------------------------------------------


def test_a_turn_that_is_run_again_is_answered_as_it_was(copy: Rig) -> None:
    done = copy.take(2, a=10)

    assert copy.take(2, a=10) == done
    # By a host that has not seen it, it is found done.
    elsewhere = Host(copy.told)
    assert elsewhere.take(copy.turn(2, a=10)).processed == 0
    assert len(copy.out()) == 10


def test_a_turn_that_comes_late_does_nothing_and_says_so(copy: Rig) -> None:
    copy.take(2, a=10)
    copy.take(3, a=20)

    with pytest.raises(LateTurnError, match=r"turn 0\.0\.1\.2 comes after turn 0\.0\.1\.3"):
        copy.take(2, a=10)
    # A query that was begun anew counts from 1 again.
    assert copy.take(1, query=2, a=30).processed == 10
    with pytest.raises(LateTurnError):
        copy.take(4, a=40)
    other = Turn(number=TurnNumber(0, 1, 1, 9), task=TASK, slot=0, ends={})
    with pytest.raises(LateTurnError, match="of another driver"):
        copy.host.take(other)
    assert copy.committed("a") == 30


def test_a_late_turn_does_not_take_the_task_from_who_has_it(copy: Rig) -> None:
    copy.take(2, a=10)
    copy.take(3, a=20)

    with pytest.raises(LateTurnError, match="comes too late: it ends at 10"):
        Host(copy.told).take(copy.turn(2, a=10))

    assert copy.take(4, a=30).opened is False


def test_a_task_that_has_moved_is_closed_here_whatever_query_counts(copy: Rig) -> None:
    other = TaskId(0, 1)
    copy.host._tasks[other] = copy.host._tasks.pop(TASK)
    copy.host._newest[other] = copy.host._newest.pop(TASK)

    for number in range(1, 22):
        copy.take(number, query=2, a=number)

    assert list(copy.host._tasks) == [TASK]


@pytest.mark.parametrize(
    ("name", "error"), [("a", MissingTopicError), ("counts-changelog", ChangelogLostError)]
)
def test_a_topic_that_is_made_anew_while_its_task_is_open_ends_it(
    topics: Topics, unique_name: str, tmp_path: Path, name: str, error: type[HeadwaterError]
) -> None:
    """What is committed next would be all that a changelog holds, or of other records."""
    for topic in ("a", "a-counts", "counts-changelog"):
        topics.create(f"{unique_name}-{topic}")
    topics.send(f"{unique_name}-a", [("k", "v")] * 3, 0)
    rig = Rig(topics, unique_name, tmp_path, counts_of(f"{unique_name}-a"))
    turns = count(1)
    rig.take(next(turns))
    assert rig.take(next(turns), a=3).processed == 3
    topics.delete(f"{unique_name}-{name}")
    topics.create(f"{unique_name}-{name}")

    def said() -> str:
        try:
            rig.take(next(turns), a=3)
        except error as found:
            return str(found)
        return ""

    found = wait_for(said, what="the end of the task")
    assert f"{unique_name}-{name} was deleted and created again" in found


def test_a_store_of_a_changelog_that_was_made_anew_is_not_gone_on_with(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    changelog = f"{unique_name}-counts-changelog"
    for name in ("a", "a-counts"):
        topics.create(f"{unique_name}-{name}")
    topics.create(changelog, cleanup_policy="compact")
    topics.send(f"{unique_name}-a", [("k", "v")] * 3, 0)
    rig = Rig(topics, unique_name, tmp_path, counts_of(f"{unique_name}-a"))
    rig.take(1)
    rig.take(2, a=3)
    topics.wait_settled(changelog)
    assert topics.counts(changelog) == {"k": 3}
    rig.host._close(TASK)

    # What a reset does, and a backfill: the store lies where it lay.
    topics.delete(changelog)
    topics.admin.delete_consumer_groups([unique_name])[unique_name].result(60)
    topics.create(changelog, cleanup_policy="compact")
    again = Rig(topics, unique_name, tmp_path, counts_of(f"{unique_name}-a"))
    again.take(1)
    again.take(2, a=3)

    topics.wait_settled(changelog)
    assert topics.counts(changelog) == {"k": 3}


# -- nothing stays open ----------------------------------------------------------------------------


class Failing(Processor[str, str, str, str]):
    """Fails when it is made ready, or with the first record, and when it is closed."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        raise RuntimeError("not ready")

    def process(self, record: Record[str, str]) -> None:
        """Nothing comes."""

    def close(self) -> None:
        raise RuntimeError("not closed either")


def failing(app: str) -> Callable[[StreamsBuilder], None]:
    """Count, and fail."""

    def build(builder: StreamsBuilder) -> None:
        counts_of(f"{app}-a")(builder)
        builder.stream(f"{app}-b", key_serde=Serdes.string, value_serde=Serdes.string).process(
            Failing
        )

    return build


def held(directory: Path) -> list[str]:
    """Stores and locks that are open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the directory that is being listed
            found.append(str(entry.readlink()))
    return [name for name in found if name.startswith(str(directory))]


def clients() -> int:
    """How many clients of Kafka there are: each has one thread of this name."""
    gc.collect()
    names = []
    for entry in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # one that has ended just now
            names.append((entry / "comm").read_text().strip())
    return names.count("rdk:main")


@pytest.mark.parametrize("where", ["topology", "record", "clients", "task", "replaced", "turn"])
def test_whatever_fails_nothing_stays_open(
    topics: Topics,
    unique_name: str,
    tmp_path: Path,
    where: str,
) -> None:
    for name in ("a", "b", "a-counts"):
        topics.create(f"{unique_name}-{name}")
    topics.create(f"{unique_name}-counts-changelog", cleanup_policy="compact")
    build = failing(unique_name) if where == "task" else counts_of(f"{unique_name}-a")
    options = {"consumer_fetch_min_bytes": "many"} if where == "clients" else {}
    rig = Rig(topics, unique_name, tmp_path, build, **options)
    told = rig.told
    if where == "topology":
        application = replace(told.application, topology="no.such:module")
        told = replace(told, application=application)
    if where == "record":
        told = replace(told, record=EngineRecord(engine=Engine.SPARK, generation=7))
    task = TaskId(1, 0) if where == "task" else TASK
    before = clients()

    if where == "replaced":
        host = Host(told)
        host.take(rig.turn(1))
        host.take(rig.turn(2, a=0))
        host._tasks[TASK]._single.clients.consumer.read_up_to({rig.partition("a"): 9})
        host.take(rig.turn(3, a=0))
        host._close(TASK)
    elif where == "turn":
        topics.send(f"{unique_name}-a", [("k", "v")], 0)
        topics.send(f"{unique_name}-a", [("k", b"\xff\xfe")], 0)  # type: ignore[list-item]
        host = Host(told)
        host.take(rig.turn(1))
        with pytest.raises(HeadwaterError):
            host.take(rig.turn(2, a=2))
        assert host._tasks == {}
    else:
        for _ in range(3):
            with pytest.raises((HeadwaterError, ProcessingError, RuntimeError)):
                LiveTask(told, task)

    def is_closed() -> bool:
        still.clear()
        still.update(held=held(tmp_path), clients=(clients(), before))
        return not still["held"] and still["clients"][0] <= before

    still: dict[str, Any] = {}
    try:
        wait_for(is_closed, what="everything to be closed", timeout_s=120)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{still}") from error
