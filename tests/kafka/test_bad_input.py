"""Bad input at a running worker: a named error, a message that helps, exit, nothing lost.

``tests/support/bad_input.py`` lists the tests of every kind of bad input.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from headwater import errors
from headwater.ids import TaskId
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

T0, T1 = TaskId(0, 0), TaskId(0, 1)
TOPOLOGIES = "tests.support.topologies"


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name)


@pytest.fixture
def worker(counting: Counting, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(counting, tmp_path, threads=1) as process:
        yield process


def ends_with(
    worker: WorkerProcess, error: type[errors.HeadwaterError], *words: str, timeout_s: float = 180
) -> None:
    """Wait for the worker's end; check its exit code, its report and what a person reads."""
    code = worker.exit_code(timeout_s)
    reported = worker.status.error
    assert reported is not None
    said = worker.log.read_text()
    assert (reported.error, code) == (error.__name__, error.exit_code), said
    assert [word for word in words if word not in reported.message] == [], reported.message
    assert f"error: {reported.message}" in said
    assert "Traceback" not in said
    worker.log.write_text("")


def goes_on(worker: WorkerProcess, counting: Counting, **config: object) -> None:
    """Start the worker again; check that everything good is counted, and exactly once."""
    worker.streamapp["spec"]["config"].update(config)
    counting.send(100)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what=f"all counts, not {counting.counted()}")


RECORDS = [
    pytest.param(
        b"\xff", b"x", 1, errors.DeserializationError,
        ["-0 offset 50", "the key cannot be decoded", "deserialization.exception.handler"],
        {"default.deserialization.exception.handler": "log-and-continue"},
        id="undecodable key",
    ),
    pytest.param(
        b"key-0", b"\xff", 1, errors.DeserializationError,
        ["-0 offset 50", "the value cannot be decoded", "deserialization.exception.handler"],
        {"default.deserialization.exception.handler": "log-and-continue"},
        id="undecodable value",
    ),
    pytest.param(
        b"key-0", b"x", -1, errors.InvalidTimestampError,
        ["-0 offset 50", "(-1)", "default.timestamp.extractor"],
        {"default.timestamp.extractor": "log-and-skip-on-invalid"},
        id="missing timestamp",
    ),
]  # fmt: skip


# A value ends a program in ``test_embedding_bad_input.py``.
@pytest.mark.parametrize(
    ("key", "value", "timestamp", "error", "words", "cure"),
    [
        *RECORDS[::2],
        pytest.param(*RECORDS[1].values, id=RECORDS[1].id, marks=pytest.mark.soak),
    ],
)
def test_a_bad_record_ends_the_worker_at_its_offset_and_the_cure_it_names_skips_just_that_one(
    worker: WorkerProcess,
    counting: Counting,
    key: bytes,
    value: bytes,
    timestamp: int,
    error: type[errors.HeadwaterError],
    words: list[str],
    cure: dict[str, Any],
) -> None:
    counting.send(100)
    producer = Producer({"bootstrap.servers": counting.bootstrap_servers})
    producer.produce(counting.topic, value, key, partition=0, timestamp=timestamp)
    assert producer.flush(30) == 0
    counting.send(100)
    worker.start()
    worker.incarnation()
    worker.grant(T0, T1)

    ends_with(worker, error, *words)

    assert counting.committed()[0] <= 50
    goes_on(worker, counting, **cure)


REFUSES = {"max.message.bytes": "2000"}
TOO_LARGE = [
    # Under exactly-once it ends a program in ``test_embedding_bad_input.py``.
    pytest.param("exactly_once_v2", REFUSES, 3_000, id="exactly once", marks=pytest.mark.soak),
    pytest.param("at_least_once", REFUSES, 3_000, id="at least once"),
    pytest.param("at_least_once", {}, 1_100_000, id="larger than the client sends"),
]


@pytest.mark.parametrize(("guarantee", "limits", "size"), TOO_LARGE)
def test_a_record_larger_than_the_broker_takes_ends_the_worker_and_is_read_again_later(
    counting: Counting, tmp_path: Path, guarantee: str, limits: dict[str, str], size: int
) -> None:
    output = f"{counting.topic}-copies"
    counting.create(output, 2, **limits)
    big = Producer({"bootstrap.servers": counting.bootstrap_servers, "message.max.bytes": 900_000})
    repeat = {"HEADWATER_TEST_REPEAT": str(max(1, size // 1_000))}
    with WorkerProcess(
        counting, tmp_path, threads=1, guarantee=guarantee, topology=f"{TOPOLOGIES}:repeats",
        **repeat,
    ) as worker:  # fmt: skip
        worker.started_with(T0)
        big.produce(counting.topic, b"x" * 10, b"small", partition=0)
        big.produce(counting.topic, b"x" * 1_000, b"big", partition=0)
        assert big.flush(30) == 0

        ends_with(worker, errors.RecordTooLargeError, output, "max.message.bytes")

        assert counting.committed().get(0, 0) <= 1
        worker.started_with(T0, HEADWATER_TEST_REPEAT="1")
        wait_for(
            lambda: {key for key, _ in counting.read(output)} == {b"small", b"big"},
            what="both records",
        )


# A fail point ends a program in ``test_embedding_bad_input.py``.
@pytest.mark.parametrize(
    "how", [pytest.param("fail point", marks=pytest.mark.soak), "file size limit"]
)
def test_a_full_disk_ends_the_worker_and_costs_nothing_but_the_time_to_make_room(
    worker: WorkerProcess, counting: Counting, how: str
) -> None:
    counting.send(1_000)
    armed = "rocks.write=disk_full@3" if how == "fail point" else ""
    worker.start(HEADWATER_FAILPOINTS=armed)
    worker.incarnation()
    worker.grant(T0, T1)
    if how == "file size limit":
        worker.runs(T0, T1)
        thread = worker.child("StreamThread-0").pid
        resource.prlimit(thread, resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
    counting.send(20_000, keys=10_000)

    ends_with(worker, errors.DiskFullError, str(worker.state_dir), "free space")

    goes_on(worker, counting)


def test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    directory = StateDirectory(worker.state_dir, counting.application_id)
    store = directory.store(T0, "counts")
    store.acquire(holder="a test")
    worker.start()
    worker.incarnation()
    worker.grant(T0, T1)

    ends_with(
        worker, errors.StoreLockedError, f"in use by a test (process {os.getpid()})", "state_dir"
    )

    store.release()
    goes_on(worker, counting)


@pytest.mark.soak(
    stays="tests/kafka/test_embedding_bad_input.py::test_expired_offsets_end_the_program_with_the_choices_and_the_state_is_kept"
)
def test_expired_offsets_stop_the_application_with_the_choices_and_the_state_is_kept(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    assert worker.stop() == 0
    admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})
    group = counting.application_id
    admin.delete_consumer_groups([group])[group].result(30)
    counting.send(100)
    before = worker.status.incarnation
    worker.start()
    worker.incarnation(other_than=before)
    worker.grant(T0, T1)

    ends_with(
        worker, errors.OffsetsExpiredError,
        counting.changelog, "headwater reset", "kafka-consumer-groups --reset-offsets",
    )  # fmt: skip

    assert counting.committed() == {0: OFFSET_INVALID, 1: OFFSET_INVALID}
    offsets = [TopicPartition(counting.topic, number, 50) for number in (0, 1)]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    admin.alter_consumer_group_offsets(request)[group].result(30)
    goes_on(worker, counting)


@pytest.mark.soak(
    stays="tests/kafka/test_embedding_bad_input.py::test_a_source_topic_deleted_in_mid_run_ends_the_program_and_keeps_what_was_counted"
)
def test_a_source_topic_deleted_in_mid_run_ends_the_worker_and_keeps_what_was_counted(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})

    admin.delete_topics([counting.topic])[counting.topic].result(30)

    ends_with(worker, errors.MissingTopicError, counting.topic, "create it")
    assert counting.all_counted()
