"""One worker on a real broker, told by files what to do, as a control loop on this machine does."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.support.freezing import freeze, thaw
from tests.support.local_cluster import is_gone
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess, family

from headwater.ids import TaskId
from headwater.model.duties import DescribeTopics, Fence, IdsFenced, TopicsDescribed
from headwater.model.lifecycle import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

T0, T1 = TaskId(0, 0), TaskId(0, 1)


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name)


@pytest.fixture
def worker(counting: Counting, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(counting, tmp_path) as process:
        yield process


def test_granted_tasks_are_restored_and_processed_and_sigterm_commits_and_ends_with_0(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(1_000)

    worker.started_with(T0, T1)

    wait_for(counting.all_counted, what="all counts")
    assert {status.slot for status in worker.status.tasks} == {0, 1}
    assert counting.committed() == {0: 500, 1: 500}
    assert worker.status.topology is not None
    assert [topic.name for topic in worker.changelogs()] == [counting.changelog]

    assert worker.stop() == 0

    assert worker.status.tasks == ()
    assert {stored.task for stored in worker.status.stored} == {T0, T1}


def test_a_revoked_task_is_released_with_its_final_offsets_and_may_come_back(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")

    worker.grant(T0, revoking=(T1,))
    worker.runs(T0)

    released = worker.status.released
    assert [(item.task, item.offsets[0].offset) for item in released] == [(T1, 50)]
    assert [stored.task for stored in worker.status.stored] == [T1]
    counting.send(100)
    wait_for(lambda: counting.committed()[0] == 100, what="the task that stayed")
    assert counting.committed()[1] == 50

    worker.grant(T0, T1)
    worker.runs(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    assert worker.status.released == ()


@pytest.mark.sampled
def test_a_restarted_worker_resumes_from_its_stores_and_reads_only_the_tail(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(2_000, keys=1_000)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    # One more commit, which is behind the stores' positions of all that went before.
    counting.send(2, keys=2)
    wait_for(counting.all_counted, what="two more counts")
    os.kill(worker.pid, signal.SIGKILL)
    worker.exit_code()
    assert len(counting.read(counting.changelog)) >= 1_000

    worker.started_with(T0, T1)

    _, text = worker.get("/tasks")
    assert json.loads(text)["restoredTotal"] <= 2
    counting.send(100)
    wait_for(counting.all_counted, what="all counts")


@pytest.mark.parametrize(
    "guarantee", [pytest.param("at_least_once", marks=pytest.mark.soak), "exactly_once_v2"]
)
def test_a_second_thread_comes_and_goes_while_the_worker_runs(
    counting: Counting, tmp_path: Path, guarantee: str
) -> None:
    with WorkerProcess(counting, tmp_path, threads=1, guarantee=guarantee) as worker:
        worker.started_with(T0, T1)
        counting.send(100)
        wait_for(counting.all_counted, what="all counts")
        incarnation = worker.status.incarnation

        worker.write(threads=2, slots=(0, 1))
        wait_for(lambda: slots_running(worker) == [0, 1], what="a task in each slot", timeout_s=120)
        counting.send(1_000)
        wait_for(counting.all_counted, what="all counts")
        wait_for(lambda: processed(worker).get(1, 0) >= 500, what="the second thread's count")
        second = worker.child("StreamThread-1")

        worker.write(threads=1)
        wait_for(lambda: slots_running(worker) == [0, 0], what="both in one slot", timeout_s=120)
        wait_for(lambda: not second.is_running(), what="the second thread's end")
        counting.send(100)
        wait_for(counting.all_counted, what="all counts")
        wait_for(lambda: processed(worker).keys() == {0}, what="one thread")
        assert worker.status.incarnation == incarnation
        assert worker.stop() == 0


def slots_running(worker: WorkerProcess) -> list[int]:
    return sorted(held.slot for held in worker.status.tasks if held.state is TaskState.RUNNING)


def processed(worker: WorkerProcess) -> dict[int, int]:
    """By slot, how many records its process has processed."""
    _, text = worker.get("/tasks")
    return {thread["slot"]: thread.get("processed", 0) for thread in json.loads(text)["threads"]}


@pytest.mark.parametrize(
    "victim", ["StreamThread-0", pytest.param("StreamThread-1", marks=pytest.mark.soak)]
)
def test_a_killed_stream_thread_is_replaced_and_nothing_is_lost_or_doubled(
    worker: WorkerProcess, counting: Counting, victim: str
) -> None:
    counting.send(300)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    counting.send(5_000)

    killed = worker.child(victim)
    killed.kill()
    counting.send(1_000)

    wait_for(counting.all_counted, what="all counts")
    worker.runs(T0, T1)
    assert worker.child(victim).pid != killed.pid


def test_a_frozen_stream_thread_is_taken_for_hung_and_replaced(
    counting: Counting, tmp_path: Path
) -> None:
    config: dict[str, object] = {"max.poll.interval.ms": 6_000, "session.timeout.ms": 6_000}
    with WorkerProcess(counting, tmp_path, config=config) as worker:
        worker.started_with(T0, T1)
        counting.send(1_000)
        frozen = worker.child("StreamThread-0")
        frozen.suspend()
        counting.send(1_000)

        wait_for(counting.all_counted, what="all counts")
        assert "no sign of life for 6 s" in worker.log.read_text()
        assert worker.child("StreamThread-0").pid != frozen.pid


@pytest.mark.sampled
def test_a_state_updater_killed_in_a_restore_is_replaced(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(40_000, keys=20_000)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    worker.stop()
    for directory in worker.state_dir.glob("*/0_*"):
        directory.rename(directory.with_name(f"gone-{directory.name}"))

    # Once: on a slow machine a batch is small, and one process after another would be killed.
    killed = worker.state_dir.with_name("killed")
    worker.started_with(T0, T1, HEADWATER_FAILPOINTS=f"restore.applied=kill@2!{killed}")

    assert killed.exists()
    assert "StateUpdater-0" in worker.log.read_text()
    assert "ended with -9" in worker.log.read_text()
    counting.send(1_000)
    wait_for(counting.all_counted, what="all counts")


@pytest.mark.sampled
def test_a_store_with_damaged_blocks_is_built_anew_and_the_other_is_kept(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(20_000, keys=10_000)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    worker.stop()
    # To be opened once more moves what the log of the database holds into its tables.
    worker.started_with(T0, T1)
    worker.stop()
    tables = worker.state_dir.glob("*/0_0/rocksdb/counts/db/*.sst")
    table = max(tables, key=lambda path: path.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 3)
        file.write(b"\xde\xad" * 10_000)

    worker.started_with(T0, T1)
    counting.send(10_000, keys=10_000)

    wait_for(counting.all_counted, what="all counts")
    worker.runs(T0, T1)
    said = worker.log.read_text()
    assert "must be rebuilt from its changelog" in said
    assert "task 0_0 built anew: counts: the database is damaged" in said
    assert "task 0_1 built anew: counts: the database is damaged" not in said
    assert worker.status.error is None


def test_no_descendant_outlives_a_killed_main_process_by_a_second(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.started_with(T0, T1)
    descendants = psutil.Process(worker.pid).children(recursive=True)
    assert len(descendants) >= 2
    freeze(descendants[:1])

    os.kill(worker.pid, signal.SIGKILL)

    # Nothing else would end them, and a slow machine takes more than the second.
    wait_for(lambda: all(map(is_gone, descendants)), what="the end of all", timeout_s=15)


@pytest.mark.sampled
def test_a_worker_whose_tasks_moved_while_it_was_frozen_writes_nothing_more(
    worker: WorkerProcess, counting: Counting, tmp_path: Path
) -> None:
    counting.send(1_000)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    counting.send(2_000)
    frozen = family(worker.pid)
    freeze(frozen)

    worker.write(active=(), revoking=(T0, T1), fencing_epoch=worker.spec.epoch + 1)
    with WorkerProcess(counting, tmp_path, name="counting-w-1") as other:
        other.start()
        other.incarnation()
        fence = Fence(
            id="fence-w-0",
            epoch=1,
            worker=worker.name,
            transactional_ids=tuple(f"{counting.application_id}-{worker.name}-{n}" for n in (0, 1)),
        )
        other.write(duties=(fence,))
        wait_for(lambda: other.status.duty_results, what="the fence")
        assert other.status.duty_results == (IdsFenced(id="fence-w-0"),)
        other.grant(T0, T1, duties=())
        other.runs(T0, T1)
        counting.send(1_000)
        thaw(frozen)
        wait_for(counting.all_counted, what="all counts")
        wait_for(lambda: worker.status.acknowledged_epoch == worker.spec.epoch, what="the ack")
        wait_for(lambda: worker.status.tasks == (), what="the zombie to let go")
        counting.send(1_000)
        wait_for(counting.all_counted, what="all counts")
        assert other.is_running(T0, T1)


def test_tasks_of_a_fenced_slot_start_again_only_under_a_greater_epoch(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.started_with(T0, T1)
    wait_for(counting.all_counted, what="all counts")
    slot = next(status.slot for status in worker.status.tasks if status.task == T0)
    ids = (f"{counting.application_id}-{worker.name}-{slot}",)
    worker.write(
        duties=(
            Fence(id="own", epoch=worker.spec.epoch + 1, worker=worker.name, transactional_ids=ids),
        )
    )
    wait_for(lambda: worker.status.duty_results, what="the fence")
    counting.send(100)

    wait_for(lambda: worker.status.fenced_slots == (slot,), what="the fence to be noticed")
    assert [status.task for status in worker.status.tasks] == [T1]

    worker.grant(T0, T1, duties=())
    worker.runs(T0, T1)
    wait_for(counting.all_counted, what="all counts")


@pytest.mark.sampled
def test_an_epoch_lower_than_the_highest_is_refused_also_after_a_restart(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(10)
    worker.started_with(T0)
    worker.stop()
    highest = worker.spec.epoch
    before = worker.status.incarnation
    worker.start()
    worker.incarnation(other_than=before)

    worker.write(epoch=highest - 1, active=(T0, T1), incarnation=worker.status.incarnation)
    worker.write(epoch=highest - 1, active=(T0, T1), incarnation=worker.status.incarnation)

    duty = DescribeTopics(id="later", epoch=highest + 1, topics=(counting.topic,))
    wait_for(lambda: "refused epoch" in worker.log.read_text(), what="the refusal")
    assert worker.status.acknowledged_epoch == highest
    worker.write(epoch=highest + 1, active=(), duties=(duty,))
    wait_for(lambda: worker.status.duty_results, what="the duty under the greater epoch")
    assert worker.status.tasks == ()
    (result,) = worker.status.duty_results
    assert isinstance(result, TopicsDescribed)
    assert (result.id, result.partitions) == ("later", {counting.topic: 2})


def test_http_tells_health_readiness_metrics_and_tasks(
    worker: WorkerProcess, counting: Counting
) -> None:
    counting.send(100)
    worker.start()
    worker.incarnation()
    wait_for(lambda: worker.status.endpoint, what="the endpoint")
    assert worker.get("/healthz") == (200, "ok\n")
    assert worker.get("/readyz")[0] == 503
    worker.write()
    wait_for(
        lambda: worker.get("/readyz") == (200, "ok\n"),
        what="a worker for which there is no task to be ready",
        timeout_s=60,
    )
    worker.grant(T0, T1)
    worker.runs(T0, T1)

    wait_for(lambda: worker.get("/readyz") == (200, "ok\n"), what="readiness")
    wait_for(lambda: _processed(worker) == 100, what="the counters")
    metrics = worker.get("/metrics")[1]
    tags = f'application_id="{counting.application_id}",client_id="counting-w-0"'
    assert f"stream_alive_stream_threads{{{tags}}} 2.0" in metrics
    assert 'task_id="0_0"' in metrics
    assert "stream_thread_process_total{" in metrics
    assert worker.get("/nowhere")[0] == 404


def _processed(worker: WorkerProcess) -> int:
    tasks = json.loads(worker.get("/tasks")[1])["tasks"]
    assert all(task["lag"] is None or task["lag"] >= 0 for task in tasks)
    return sum(task["processed"] for task in tasks)
