"""What was killed counts as made up for by what came after the kill, and by nothing before it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from headwater.ids import TaskId
from headwater.model.cluster import StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater_operator.local import files
from headwater_operator.local.pods import Phase, PodProcess
from headwater_operator.local.processes import identify
from headwater_operator.local.records import AppReport, ClusterPhase, SupervisorRecord
from headwater_operator.local.rootlock import RootLock
from tests.chaos.recovery import Recovery
from tests.support.local_cluster import APP, LocalCluster
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK = TaskId(0, 0)
WORKER = "counting-w-0"
THREAD, GLOBAL = f"{WORKER}-StreamThread-0", f"{WORKER}-GlobalStreamThread"
RUN_CHILDREN = """
import pathlib, subprocess, sys, threading
may_begin, *names = sys.argv[1:]
running = {}
while True:
    for name in names:
        gone = name not in running or running[name].poll() is not None
        if gone and pathlib.Path(may_begin).exists():
            code = "import signal; signal.pause()"
            running[name] = subprocess.Popen([sys.executable, "-c", code, name])
    threading.Event().wait(0.01)
"""
"""A process that has a child of each name, as long as they may begin."""


class Site:
    """The files of a local cluster with one worker, whose processes live and do nothing."""

    def __init__(self, root: Path) -> None:
        self.cluster = LocalCluster(root, "prefix")
        self._worker = self.cluster.cluster.app(APP).worker(WORKER)
        self._may_begin = root / "may-begin"
        self._started: list[subprocess.Popen[bytes]] = []
        self._now_ns = 0
        self._lock = RootLock(self.cluster.cluster.lock)
        assert self._lock.acquire()
        self.loop = self._run("import signal; signal.pause()")
        self.report_by_loop(1)
        spec = StreamWorker(name=WORKER, spec=WorkerSpec(app=APP, active=(TASK,)))
        files.replace(self._worker.spec, spec.to_dict())
        self.let_begin(yes=True)
        self.start_worker()
        self.report()

    def _run(self, code: str, *arguments: str) -> psutil.Process:
        self._started.append(subprocess.Popen([sys.executable, "-c", code, *arguments]))
        return psutil.Process(self._started[-1].pid)

    def let_begin(self, *, yes: bool) -> None:
        """Say whether children may begin."""
        if yes:
            self._may_begin.touch()
        else:
            self._may_begin.unlink()

    def start_worker(self) -> None:
        """Be the supervisor: start the worker's process and say so."""
        self.worker = self._run(RUN_CHILDREN, str(self._may_begin), THREAD, GLOBAL)
        identity = identify(self.worker.pid)
        assert identity is not None
        process = PodProcess(
            attempt=len(self._started),
            phase=Phase.RUNNING,
            pid=identity.pid,
            started=identity.started,
        )
        self._write(self._worker.process, process.to_dict())
        self.wait_for_children()

    def wait_for_children(self) -> None:
        """Wait until the worker has both of its children."""
        wait_for(lambda: {*self.children()} == {THREAD, GLOBAL}, what="children")

    def children(self) -> dict[str, psutil.Process]:
        """The children of the worker that live, by name."""
        found = {}
        for child in self.worker.children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                found["".join(child.cmdline()[3:4])] = child
        return {name: child for name, child in found.items() if name}

    def report(self) -> None:
        """Be the worker: say that the task runs."""
        tasks = (TaskStatus(task=TASK, state=TaskState.RUNNING),)
        said = StreamWorker(name=WORKER, spec=WorkerSpec(app=""), status=WorkerStatus(tasks=tasks))
        self._write(self._worker.status, {**said.to_dict(), "spec": {}})

    def report_by_loop(self, generation: int) -> None:
        """Be the supervisor and a generation of its control loop."""
        own = identify(os.getpid())
        assert own is not None
        record = SupervisorRecord(
            pid=own.pid, started=own.started, phase=ClusterPhase.RUNNING, loop_pid=self.loop.pid
        )
        files.replace(self.cluster.cluster.supervisor, record.to_dict())
        said = AppReport(generation=generation)
        files.replace(self.cluster.cluster.app(APP).status, said.to_dict())

    def _write(self, path: Path, data: dict[str, object]) -> None:
        """Write a file that is newer than each before, however coarse the clock of files is."""
        files.replace(path, data)
        self._now_ns = max(self._now_ns + 1_000_000, path.stat().st_mtime_ns)
        os.utime(path, ns=(self._now_ns, self._now_ns))

    def close(self) -> None:
        """End all processes."""
        for started in self._started:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(started.pid).children():
                    child.kill()
            started.kill()
            started.wait()
        self._lock.release()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_report_of_before_a_kill_does_not_count(site: Site) -> None:
    recovery = Recovery(site.cluster)
    assert recovery.is_over()

    recovery.kill(site.children()[THREAD])
    site.wait_for_children()
    assert not recovery.is_over()

    site.report()
    assert recovery.is_over()


def test_a_report_counts_once_the_thread_has_a_successor(site: Site) -> None:
    recovery = Recovery(site.cluster)
    site.let_begin(yes=False)
    recovery.kill(site.children()[THREAD])
    site.report()
    assert not recovery.is_over()

    site.let_begin(yes=True)
    site.wait_for_children()
    assert recovery.is_over()


def test_a_global_stream_thread_needs_a_successor_and_no_report(site: Site) -> None:
    recovery = Recovery(site.cluster)
    site.let_begin(yes=False)
    recovery.kill(site.children()[GLOBAL])
    assert not recovery.is_over()

    site.let_begin(yes=True)
    site.wait_for_children()
    assert recovery.is_over()


def test_a_worker_needs_a_process_that_has_reported(site: Site) -> None:
    recovery = Recovery(site.cluster)
    for child in site.children().values():
        child.kill()
    recovery.kill(site.worker)
    assert not recovery.is_over()

    site.start_worker()
    assert not recovery.is_over()

    site.report()
    assert recovery.is_over()


def test_a_control_loop_needs_the_report_of_a_later_one(site: Site) -> None:
    recovery = Recovery(site.cluster)
    recovery.kill(site.loop)
    assert not recovery.is_over()

    site.report_by_loop(2)
    assert recovery.is_over()


def test_nothing_is_killed_twice(site: Site) -> None:
    recovery = Recovery(site.cluster)
    thread = site.children()[THREAD]
    assert recovery.may_kill(thread)

    recovery.kill(thread)
    site.wait_for_children()

    assert not recovery.may_kill(thread)
    assert recovery.may_kill(site.children()[THREAD])
