"""StreamThreads of a running application: more, fewer, none, paused, hung, failed and replaced."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import wait_for
from tests.support.worker import LONG, Counting, WorkerProcess

from headwater import KafkaStreams, Serdes, StreamThreadExceptionResponse
from headwater.errors import ConfigError, ProcessingError
from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.lifecycle import ClientState, ThreadState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka

TASKS = (TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(0, 3))


class RefusedError(Exception):
    """What the application's function raises."""


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, changelog=False, partitions=4)


@pytest.fixture
def config(counting: Counting, tmp_path: Path) -> dict[str, Any]:
    return {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(tmp_path / "state"),
    }


def counts(topic: str, function: Callable[[Any], Any]) -> Callable[[StreamsBuilder], None]:
    """Count by key behind ``function``, which sees every value; nothing is cached."""

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
            .map_values(function)
            .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts", key_serde=Serdes.string)
            .to_stream()
            .to(f"{topic}-counts", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


def running(streams: KafkaStreams) -> None:
    wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING")


def is_exact(counting: Counting) -> bool:
    """Whether the counts of every key go up one by one, to what was sent: nothing came twice."""
    found = defaultdict(list)
    for key, value in counting.read(f"{counting.topic}-counts"):
        assert value is not None
        found[key.decode()].append(LONG.unpack(value)[0])
    return found == {key: list(range(1, sent + 1)) for key, sent in counting.sent.items()}


@pytest.fixture
def load(counting: Counting) -> Iterator[None]:
    """Send records all the time."""
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.05):
            counting.send(40, keys=8)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join(30)


def busy(streams: KafkaStreams) -> dict[str, int]:
    """How many tasks each thread has that runs and has any."""
    return {
        thread.thread_name: len(thread.active_tasks)
        for thread in streams.metadata_for_local_threads()
        if thread.thread_state is ThreadState.RUNNING and thread.active_tasks
    }


def test_threads_come_and_go_under_load_and_every_record_is_counted_once(
    counting: Counting, config: dict[str, Any], load: None, caplog: pytest.LogCaptureFixture
) -> None:
    config |= {"statestore.cache.max.bytes": 0}
    with KafkaStreams(counts(counting.topic, str.upper), config) as streams:
        running(streams)
        first, second, third = (f"embedded-StreamThread-{number}" for number in range(3))
        assert (streams.add_stream_thread(), streams.add_stream_thread()) == (second, third)
        wait_for(lambda: sorted(busy(streams).values()) == [1, 1, 2], what="three busy threads")

        assert streams.remove_stream_thread() == third
        assert streams.remove_stream_thread(timedelta(minutes=1)) == second
        wait_for(lambda: busy(streams) == {first: 4}, what="one busy thread")
        restored = streams._worker.view.numbers.total(metrics.RESTORE_RECORDS)
        assert restored == 0, "stores were closed and opened, and nothing was read again"

        # As in Java the last one may go; nothing is processed, and the state stays.
        running(streams)
        assert streams.remove_stream_thread() == first
        assert streams.metadata_for_local_threads() == frozenset()
        assert streams.remove_stream_thread() is None
        assert "no StreamThread to remove; add_stream_thread() starts one" in caplog.text
        assert streams.state is ClientState.RUNNING

        assert streams.add_stream_thread() == first
        wait_for(lambda: busy(streams) == {first: 4}, what="one busy thread again")
        counting.send(40, keys=8)
        wait_for(lambda: counting.counted() != {}, what="counts")
    assert streams.add_stream_thread() is None
    assert streams.remove_stream_thread() is None
    with pytest.raises(ConfigError, match="the application is NOT_RUNNING"):
        streams.metadata_for_local_threads()


def test_a_task_that_costs_more_moves_to_an_idle_thread_and_nothing_is_restored(
    counting: Counting, config: dict[str, Any]
) -> None:
    def costs(value: str) -> str:
        if value == "slow":
            threading.Event().wait(0.002)
        return value

    def placed() -> dict[TaskId, str]:
        return {
            task.task_id: thread.thread_name
            for thread in streams.metadata_for_local_threads()
            for task in thread.active_tasks
            if thread.thread_state is ThreadState.RUNNING
        }

    def is_elsewhere(task_id: TaskId, thread: str) -> bool:
        return task_id in both and thread != before[task_id]

    def committed(task_id: TaskId) -> int:
        (found,) = (task for task in streams._worker.view.tasks if task.task == task_id)
        return sum(found.committed.values())

    config |= {"statestore.cache.max.bytes": 0, "num.stream.threads": 2}
    with KafkaStreams(counts(counting.topic, costs), config) as streams:
        loads = streams._worker._table.loads
        loads.window_ms, loads.pause_ms = 1_000, 0
        running(streams)
        wait_for(lambda: sorted(busy(streams).values()) == [2, 2], what="two busy threads")
        before = placed()
        both = [task for task, thread in before.items() if thread == before[TASKS[0]]]
        for task in both * 3_000:
            counting._producer.produce(counting.topic, "slow", "key", partition=task.partition)
        counting._producer.flush(30)

        (moved,) = wait_for(
            lambda: [task for task, thread in placed().items() if is_elsewhere(task, thread)],
            what="a move",
        )
        wait_for(lambda: committed(moved) == 3_000, what="all of its records")
        restored = streams._worker.view.numbers.total(metrics.RESTORE_RECORDS)
        assert restored == 0, "its store was closed and opened, and nothing was read again"


def test_what_came_and_went_has_counted_exactly(counting: Counting, config: dict[str, Any]) -> None:
    config |= {"statestore.cache.max.bytes": 0}
    with KafkaStreams(counts(counting.topic, str.upper), config) as streams:
        running(streams)
        for change in (streams.add_stream_thread, streams.remove_stream_thread) * 3:
            counting.send(400, keys=8)
            assert change() is not None
        counting.send(400, keys=8)
        wait_for(lambda: is_exact(counting), what="exact counts")


def test_a_paused_application_takes_records_in_and_processes_none(
    counting: Counting, config: dict[str, Any]
) -> None:
    def buffered() -> float:
        return streams._worker.view.numbers.total(metrics.RECORDS_LAG)

    counting.send(80, keys=8)
    with KafkaStreams(counts(counting.topic, str.upper), config) as streams:
        wait_for(counting.all_counted, what="all counts")
        assert not streams.is_paused()
        streams.pause()
        assert streams.is_paused()
        wait_for(lambda: streams._carrier.status.paused, what="the pause")
        before = counting.counted()

        counting.send(80, keys=8)
        wait_for(lambda: buffered() == 80, what="the records to be buffered")
        assert counting.counted() == before
        assert streams._worker.view.numbers.total(metrics.TRANSACTION_OPEN) == 0
        assert streams.state is ClientState.RUNNING
        # A thread that comes meanwhile is paused as well.
        streams.add_stream_thread()
        wait_for(lambda: len(busy(streams)) == 2, what="two busy threads")
        wait_for(lambda: streams._carrier.status.paused, what="the pause of both")
        assert counting.counted() == before

        streams.resume()
        wait_for(counting.all_counted, what="all counts")
    assert not streams.is_paused()


def test_a_function_that_does_not_return_is_named_and_its_thread_replaced(
    counting: Counting,
    config: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = str(tmp_path / "seen")

    def hang_once(value: str) -> str:
        from pathlib import Path

        if value == "slow" and not Path(seen).exists():
            Path(seen).touch()
            threading.Event().wait(3_600)
        return value

    config |= {"statestore.cache.max.bytes": 0, "consumer.max.poll.interval.ms": 8_000}
    config |= {"consumer.session.timeout.ms": 8_000}  # the client wants it to be no longer
    counting.send(80, keys=8)
    with (
        caplog.at_level(logging.WARNING),
        KafkaStreams(counts(counting.topic, hang_once), config) as streams,
    ):
        wait_for(lambda: is_exact(counting), what="exact counts")
        counting._producer.produce(counting.topic, "slow", "key-3", partition=3)
        counting.sent["key-3"] += 1
        counting.send(80, keys=8)
        wait_for(lambda: streams._carrier.status.hangs, what="the hang to be noticed")
        (hang,) = streams._carrier.status.hangs
        wait_for(lambda: is_exact(counting), what="exact counts")
        wait_for(lambda: not streams._carrier.status.hangs, what="the hang to be over")

    assert hang.place == (
        f"task 0_3, node KSTREAM-MAPVALUES-0000000001, topic {counting.topic} partition 3 offset 20"
    )
    assert f"{hang.place} does not return" in caplog.text
    assert "threading.Event().wait(3_600)" in caplog.text


@pytest.mark.parametrize("response", StreamThreadExceptionResponse)
def test_the_handler_says_what_becomes_of_an_application_whose_function_raises(
    counting: Counting,
    config: dict[str, Any],
    tmp_path: Path,
    response: StreamThreadExceptionResponse,
) -> None:
    mended = tmp_path / "mended"
    path = str(mended)

    def refuse(value: str) -> str:
        from pathlib import Path

        from tests.kafka.test_threads import RefusedError

        if value == "bad" and not Path(path).exists():
            raise RefusedError(value)
        return value

    asked: list[BaseException] = []

    def handler(exception: Exception) -> StreamThreadExceptionResponse:
        asked.append(exception)
        mended.touch()
        return response

    config |= {"statestore.cache.max.bytes": 0}
    counting.send(80, keys=8)
    streams = KafkaStreams(counts(counting.topic, refuse), config)
    streams.set_uncaught_exception_handler(handler)
    streams.start()
    try:
        wait_for(lambda: is_exact(counting), what="exact counts")
        with pytest.raises(ConfigError, match="before start"):
            streams.set_uncaught_exception_handler(handler)
        counting._producer.produce(counting.topic, "bad", "key-3", partition=3)
        counting.sent["key-3"] += 1
        counting.send(80, keys=8)
        if response is StreamThreadExceptionResponse.REPLACE_THREAD:
            wait_for(lambda: is_exact(counting), what="exact counts")
            assert streams.error is None
        else:
            with pytest.raises(ProcessingError, match="RefusedError: bad"):
                streams.wait(60_000)
            assert streams.state is ClientState.ERROR
            error = streams._carrier.status.error
            assert error is not None
            is_all = response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION
            assert error.shuts_down_application == is_all
    finally:
        streams.close()

    (exception,) = asked
    assert isinstance(exception, ProcessingError)
    assert isinstance(exception.__cause__, RefusedError)


def test_a_worker_does_as_the_handler_of_its_configuration_says(
    counting: Counting, tmp_path: Path
) -> None:
    config: dict[str, object] = {"uncaught.exception.handler": "shutdown-application"}
    counting.create(counting.changelog, 4, **{"cleanup.policy": "compact"})
    with WorkerProcess(counting, tmp_path, threads=1, config=config) as worker:
        worker.started_with(*TASKS)
        counting._producer.produce(counting.topic, b"\xff", b"\xff", partition=0)
        counting._producer.flush(30)

        assert worker.exit_code() == 4
        error = worker.status.error
        assert error is not None
        assert (error.error, error.shuts_down_application) == ("DeserializationError", True)


def test_another_number_of_threads_is_carried_out_by_the_worker_that_runs(
    counting: Counting, tmp_path: Path
) -> None:
    counting.create(counting.changelog, 4, **{"cleanup.policy": "compact"})
    counting.send(80, keys=8)
    with WorkerProcess(counting, tmp_path, threads=1) as worker:
        worker.started_with(*TASKS)
        pid, worker.threads = worker.pid, 2
        worker.grant(*TASKS, threads=2)
        worker.runs(*TASKS)
        wait_for(lambda: {task.slot for task in worker.status.tasks} == {0, 1}, what="two slots")
        worker.runs(*TASKS)
        wait_for(counting.all_counted, what="all counts")

        worker.write(threads=1, paused=True)
        worker.runs(*TASKS)
        wait_for(lambda: worker.status.paused, what="the pause")
        wait_for(lambda: {task.slot for task in worker.status.tasks} == {0}, what="one slot")
        counting.send(80, keys=8)
        worker.write(paused=False)
        wait_for(counting.all_counted, what="all counts")
        assert worker.pid == pid
        assert worker.process is not None
        assert worker.process.poll() is None
