"""A worker without a Lease: what goes on, what does not, and what ends, under both guarantees."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.support.freezing import freeze, thaw
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess, child_of, family

from headwater.ids import TaskId

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

T0, T1 = TaskId(0, 0), TaskId(0, 1)
SHORT = {"session.timeout.ms": 6_000}
"""A Lease is lost after two thirds of this."""
LONGER = {"session.timeout.ms": 36_000}
"""Six seconds to commit and to stop."""
LOST_S = 4.0


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name)


def block_lease(worker: WorkerProcess) -> float:
    """Make every renewal fail; return when the last one can have been."""
    path = worker.directory / "lease.json"
    while not path.is_dir():  # a renewal may come in between
        path.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir()
    return time.monotonic()


def allow_lease(worker: WorkerProcess) -> None:
    (worker.directory / "lease.json").rmdir()


def lease_is_lost(worker: WorkerProcess) -> bool:
    return '"lease":false' in worker.get("/tasks")[1]


def test_exactly_once_goes_on_but_accepts_and_initialises_nothing(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path, config=SHORT) as worker:
        worker.started_with(T0, T1)
        block_lease(worker)
        wait_for(lambda: lease_is_lost(worker), what="the loss of the Lease")

        counting.send(200)
        wait_for(counting.all_counted, what="all counts without a Lease")
        accepted = worker.status.acknowledged_epoch
        worker.grant(T0, revoking=(T1,))
        killed = worker.child("StreamThread-0")
        killed.kill()
        wait_for(lambda: not killed.is_running(), what="the end of the thread")
        counting.send(200)
        wait_for(
            lambda: "ended with -9" in worker.log.read_text(), what="the worker to notice the end"
        )
        assert worker.status.acknowledged_epoch == accepted
        assert child_of(worker.pid, "StreamThread-0") is None

        allow_lease(worker)
        worker.runs(T0)
        worker.grant(T0, T1)
        wait_for(counting.all_counted, what="all counts with a Lease")


@pytest.mark.sampled
def test_at_least_once_commits_and_stops_before_the_lease_ends(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path, config=LONGER, guarantee="at_least_once") as worker:
        worker.started_with(T0, T1)
        counting.send(200)
        wait_for(counting.all_counted, what="all counts")
        blocked = block_lease(worker)

        wait_for(lambda: worker.status.tasks == (), what="the tasks to be given up", timeout_s=60)
        assert time.monotonic() - blocked < 6 * LOST_S + 1
        assert counting.committed() == {0: 100, 1: 100}
        wait_for(lambda: lease_is_lost(worker), what="the loss of the Lease")
        counting.send(200)
        assert worker.status.tasks == ()
        assert counting.committed() == {0: 100, 1: 100}

        allow_lease(worker)
        wait_for(counting.all_counted, what="all counts with a Lease")


@pytest.mark.sampled
def test_under_at_least_once_threads_stop_by_themselves_when_their_worker_is_frozen(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path, config=SHORT, guarantee="at_least_once") as worker:
        worker.started_with(T0, T1)
        threads = [worker.child("StreamThread-0"), worker.child("StreamThread-1")]
        main = psutil.Process(worker.pid)

        main.send_signal(signal.SIGSTOP)
        wait_for(
            lambda: all(thread.status() == psutil.STATUS_ZOMBIE for thread in threads),
            what="the threads to end",
        )
        counting.send(200)
        main.send_signal(signal.SIGCONT)

        wait_for(counting.all_counted, what="all counts")
        assert "the Lease ran out" in worker.log.read_text()


@pytest.mark.sampled
def test_under_at_least_once_a_worker_frozen_as_a_whole_stops_when_it_wakes(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path, config=SHORT, guarantee="at_least_once") as worker:
        worker.started_with(T0, T1)
        processes = family(worker.pid)
        freeze(processes)
        worker.write(active=(), revoking=(T0, T1))
        frozen = time.monotonic()
        wait_for(lambda: time.monotonic() - frozen > LOST_S + 1, what="the Lease to end")
        counting.send(200)

        thaw(processes)

        wait_for(lambda: worker.status.acknowledged_epoch == worker.spec.epoch, what="the ack")
        wait_for(lambda: worker.status.tasks == (), what="the tasks to be given up")
        assert counting.counted() == {}
        worker.grant(T0, T1)
        wait_for(counting.all_counted, what="all counts")
