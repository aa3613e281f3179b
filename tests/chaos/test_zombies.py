"""A worker that slept while its tasks moved: what it still does when it wakes reaches nobody.

A fail point freezes one process of one worker at a chosen step and leaves its process id in a file;
the rest of that worker is frozen on sight. A frozen process is no dead one, so the control loop has
nothing to go by but the Lease. When the tasks run elsewhere, the worker is thawed.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from headwater.model.lifecycle import TaskState
from headwater_operator.local.observe import read_worker
from tests.chaos.kills import Trap
from tests.chaos.proof import counted_at_least, counted_once_each
from tests.support.freezing import freeze, thaw
from tests.support.local_cluster import (
    APP,
    Load,
    LocalCluster,
    create_topics,
    is_gone,
    read_counts,
    streamapp,
)
from tests.support.waiting import wait_for
from tests.support.worker import child_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.sampled, pytest.mark.slow]

PARTITIONS = 4
LEASE_MS = 6_000
CONFIG = {
    "statestore.cache.max.bytes": 0,
    "commit.interval.ms": 200,
    "session.timeout.ms": LEASE_MS,
}


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


@pytest.fixture
def load(bootstrap_servers: str, topic_prefix: str) -> Iterator[Load]:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    feeding = Load(bootstrap_servers, topic_prefix, records_per_s=500)
    yield feeding
    if feeding.is_alive():
        feeding.stop()


class Zombie:
    """The worker whose process was caught: frozen as a whole until it is woken."""

    def __init__(self, cluster: LocalCluster, caught: psutil.Process) -> None:
        self._cluster = cluster
        self.caught = caught
        pids = {pod.pid: name for name, pod in cluster.processes().items()}
        main = caught if caught.pid in pids else caught.parent()
        assert main is not None
        freeze([main])
        self.main = main
        self.children = main.children(recursive=True)
        freeze(self.children)
        self.name = pids[main.pid]
        [self.other] = set(pids.values()) - {self.name}

    @property
    def log(self) -> str:
        """What its processes have printed."""
        return self._cluster.cluster.app(APP).worker(self.name).log.read_text()

    def wait_replaced(self) -> None:
        """Wait until the other worker runs every task and this one is granted none."""

        def is_replaced() -> bool:
            worker = read_worker(self._cluster.cluster.app(APP).worker(self.other))
            assert worker is not None
            running = [task for task in worker.status.tasks if task.state is TaskState.RUNNING]
            return len(running) == PARTITIONS and not self._cluster.tasks()[self.name]

        try:
            wait_for(is_replaced, what="the tasks to move", timeout_s=180)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._cluster.output}") from error
        assert self.main.status() == psutil.STATUS_STOPPED

    def wake(self) -> None:
        """Thaw all of it, those who write first."""
        thaw(self.children)
        thaw([self.main])


def settle(cluster: LocalCluster, load: Load, bootstrap_servers: str, prefix: str) -> None:
    """Wait until two workers run again and everything is counted; then stop in order."""
    cluster.wait_running(replicas=2)
    load.stop()

    def all_counted() -> bool:
        counts = read_counts(bootstrap_servers, prefix)
        return all(counts.get(key, 0) >= number for key, number in load.sent.items())

    wait_for(all_counted, what="all records to be counted", timeout_s=180, every_s=0.5)
    cluster.interrupt()
    assert cluster.wait(120) == 0, cluster.output


@pytest.mark.parametrize(
    "guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.soak)]
)
def test_a_worker_frozen_before_it_took_its_transactional_id_does_not_begin_when_it_wakes(
    guarantee: str,
    cluster: LocalCluster,
    load: Load,
    bootstrap_servers: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    trap = Trap("thread.before_init", tmp_path / "trap")
    document = streamapp(
        bootstrap_servers,
        topic_prefix,
        replicas=2,
        processingGuarantee=guarantee,
        config=CONFIG,
    )
    cluster.up(document, **trap.environment)
    load.start()

    zombie = Zombie(cluster, trap.caught())
    assert cluster.tasks()[zombie.name]
    zombie.wait_replaced()
    zombie.wake()

    settle(cluster, load, bootstrap_servers, topic_prefix)
    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", load.sent)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("thread.initialized", marks=pytest.mark.soak),
        pytest.param("worker.before_read", marks=pytest.mark.soak),
        "worker.before_go",
    ],
)
def test_a_worker_frozen_between_fencing_and_replacing_a_thread_writes_nothing_when_it_wakes(
    point: str,
    cluster: LocalCluster,
    load: Load,
    bootstrap_servers: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    trap = Trap(point, tmp_path / "trap")
    trap.close()
    document = streamapp(bootstrap_servers, topic_prefix, replicas=2, config=CONFIG)
    cluster.up(document, **trap.environment)
    load.start()
    cluster.wait_running(replicas=2)

    trap.set()
    first = psutil.Process(cluster.processes()[f"{APP}-w-0"].pid)
    thread = child_of(first.pid, "StreamThread")
    assert thread is not None
    thread.kill()
    zombie = Zombie(cluster, trap.caught())
    assert zombie.main == first
    zombie.wait_replaced()
    zombie.wake()

    settle(cluster, load, bootstrap_servers, topic_prefix)
    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", load.sent)


@pytest.mark.parametrize(
    "point", [pytest.param("commit.flushed", marks=pytest.mark.soak), "commit.acknowledged"]
)
def test_a_worker_frozen_in_mid_transaction_cannot_commit_it_when_it_wakes(
    point: str,
    cluster: LocalCluster,
    load: Load,
    bootstrap_servers: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    trap = Trap(point, tmp_path / "trap")
    trap.close()
    document = streamapp(bootstrap_servers, topic_prefix, replicas=2, config=CONFIG)
    cluster.up(document, **trap.environment)
    load.start()
    cluster.wait_running(replicas=2)

    trap.set()
    zombie = Zombie(cluster, trap.caught())
    zombie.wait_replaced()
    zombie.wake()

    wait_for(lambda: "FencedError" in zombie.log, what="the zombie to be fenced", timeout_s=120)
    settle(cluster, load, bootstrap_servers, topic_prefix)
    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", load.sent)


@pytest.mark.soak(
    stays="tests/kafka/test_worker_lease.py::test_under_at_least_once_threads_stop_by_themselves_when_their_worker_is_frozen"
)
def test_under_at_least_once_a_zombies_thread_ends_by_its_own_clock_and_nothing_is_lost(
    cluster: LocalCluster, load: Load, bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    trap = Trap("commit.acknowledged", tmp_path / "trap")
    trap.close()
    document = streamapp(
        bootstrap_servers,
        topic_prefix,
        replicas=2,
        processingGuarantee="at_least_once",
        config=CONFIG,
    )
    cluster.up(document, **trap.environment)
    load.start()
    cluster.wait_running(replicas=2)
    trap.set()
    zombie = Zombie(cluster, trap.caught())
    zombie.wait_replaced()

    # Its main process stays frozen: nobody else can stop it.
    thaw(zombie.children)

    wait_for(lambda: is_gone(zombie.caught), what="the end of the zombie's thread")
    assert "the Lease ran out" in zombie.log
    thaw([zombie.main])
    settle(cluster, load, bootstrap_servers, topic_prefix)
    counted_at_least(bootstrap_servers, f"{topic_prefix}-out", load.sent)


@pytest.mark.soak(
    stays="tests/kafka/test_worker.py::test_no_descendant_outlives_a_killed_main_process_by_a_second"
)
def test_a_frozen_workers_processes_end_with_its_main_process(
    cluster: LocalCluster, load: Load, bootstrap_servers: str, topic_prefix: str
) -> None:
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=1, config=CONFIG))
    cluster.wait_running(replicas=1)
    main = psutil.Process(cluster.processes()[f"{APP}-w-0"].pid)
    family = [main, *main.children(recursive=True)]
    assert len(family) >= 2
    freeze(family)

    os.kill(main.pid, signal.SIGKILL)

    wait_for(lambda: all(map(is_gone, family)), what="the end of all", every_s=0.01)
