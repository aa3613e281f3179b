"""What follows a kill: the process ends, others take its place, and what is reported is of them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState
from headwater_operator.local.observe import read_process, read_worker
from headwater_operator.local.processes import ProcessId
from tests.support.local_cluster import APP, LocalCluster, is_gone
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from headwater_operator.local.layout import WorkerDir


@dataclass(frozen=True, slots=True)
class _Strike:
    """One kill, and what was reported before it.

    Attributes:
        loop: the generation of the control loop that was killed, else -1.
        worker: of which the process was a child.
        successor: the name of the child that the worker must have again.
        reported_ns: when the worker had reported tasks of the process that was killed, else 0.
    """

    loop: int = -1
    worker: WorkerDir | None = None
    successor: str = ""
    reported_ns: int = 0

    def is_made_up_for(self, cluster: LocalCluster) -> bool:
        if self.worker is None:
            return cluster.decided_by > self.loop
        children = _children(self.worker)
        if children is None:
            return True  # The worker was replaced as a whole, or has gone.
        if self.successor and self.successor not in children:
            return False
        return _reported_ns(self.worker) != self.reported_ns


class Recovery:
    """Kills processes of a local cluster, none twice, and tells when all that it holds runs."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._killed: set[psutil.Process] = set()
        self._strikes: list[_Strike] = []

    def may_kill(self, process: psutil.Process) -> bool:
        """Whether a process lives and was not killed before."""
        return process not in self._killed and not is_gone(process)

    def kill(self, process: psutil.Process) -> None:
        """Kill a process and wait until it is gone."""
        strike = self._strike(process)
        process.kill()
        self._killed.add(process)
        self._strikes.append(strike)
        wait_for(
            lambda: is_gone(process),
            what=f"process {process.pid} to end",
            timeout_s=60,
            every_s=0.002,
        )

    def is_over(self) -> bool:
        """Whether each process that was killed has a successor, and every task runs in one.

        A report of before a kill does not count, whatever it says.
        """
        self._strikes = [it for it in self._strikes if not it.is_made_up_for(self._cluster)]
        workers = self._cluster.cluster.app(APP).workers()
        return not self._strikes and all(map(_runs_its_tasks, workers))

    def _strike(self, process: psutil.Process) -> _Strike:
        if process.pid == self._cluster.supervisor.loop_pid:
            return _Strike(loop=self._cluster.decided_by)
        name, parent = _name(process), process.ppid()
        for directory in self._cluster.cluster.app(APP).workers():
            pod = read_process(directory)[1]
            if pod is not None and pod.pid == parent:
                is_global = "-GlobalStreamThread" in name
                has_tasks = name in _threads_with_tasks(directory)
                return _Strike(
                    worker=directory,
                    successor=name if is_global else "",
                    reported_ns=_reported_ns(directory) if has_tasks else 0,
                )
        # A worker: its report is of a process that has ended until its successor reports.
        return _Strike()


def _runs_its_tasks(directory: WorkerDir) -> bool:
    """Whether all tasks of a worker run in processes that live, as its present process says."""
    worker = read_worker(directory)
    if worker is None or not worker.spec.active:
        return True
    children = _children(directory)
    try:
        if directory.status.stat().st_mtime_ns < directory.process.stat().st_mtime_ns:
            return False  # said by the process before
    except FileNotFoundError:
        return False
    if children is None:
        return False
    running = {task.task for task in worker.status.tasks if task.state is TaskState.RUNNING}
    return running.issuperset(worker.spec.active) and _threads_with_tasks(directory) <= children


def _threads_with_tasks(directory: WorkerDir) -> set[str]:
    worker = read_worker(directory)
    tasks = () if worker is None else worker.status.tasks
    return {f"{directory.name}-StreamThread-{it.slot}" for it in tasks if it.role is Role.ACTIVE}


def _reported_ns(directory: WorkerDir) -> int:
    try:
        return directory.status.stat().st_mtime_ns
    except FileNotFoundError:
        return -1


def _children(directory: WorkerDir) -> set[str] | None:
    """The names of a worker's processes that live; ``None`` if the worker's own does not."""
    pod = read_process(directory)[1]
    if pod is None or not ProcessId(pid=pod.pid, started=pod.started).is_alive():
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        return {_name(it) for it in psutil.Process(pod.pid).children() if not is_gone(it)}
    return None


def _name(process: psutil.Process) -> str:
    """The name that a child of a worker was given, else nothing."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return "".join(process.cmdline()[3:4])
    return ""
