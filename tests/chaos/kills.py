"""One seeded kill at a time, each in a situation that is *seen* before the signal is sent.

A victim is frozen first (SIGSTOP) and looked at; if the situation does not hold it is thawed
and the hunt goes on. So a kill that counts
had records in flight:

* ``transaction open``: the last stable offset of a partition the application writes lies below
  its end;
* ``restore under way``: a worker reports a task RESTORING and its StateUpdater has not finished;
* ``hand-over under way``: tasks are being revoked, or an epoch is not acknowledged yet.

If calls of functions that wait are to be in flight, too, a kill counts only if the process that is
killed has some; one that makes none, if the application has. In a transaction calls of each kind
must be in flight.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import psutil
from confluent_kafka import (
    Consumer,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headwater.failpoints import VARIABLE
from headwater.model.lifecycle import TaskState
from headwater_operator.local.observe import read_worker
from headwater_operator.local.processes import ProcessId
from tests.chaos.recovery import Recovery
from tests.support.flying import KINDS, in_flight
from tests.support.freezing import freeze, thaw
from tests.support.local_cluster import APP, LocalCluster
from tests.support.transactions import open_transactions
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from headwater.local.broker import KafkaBroker


class Victim(StrEnum):
    """What is killed."""

    THREAD = "StreamThread"
    UPDATER = "StateUpdater"
    GLOBAL = "GlobalStreamThread"
    WORKER = "worker"
    LOOP = "control loop"


class Situation(StrEnum):
    """What must be under way when it is killed."""

    TRANSACTION = "transaction open"
    RESTORE = "restore under way"
    HANDOVER = "hand-over under way"


_CALLING = (Victim.THREAD, Victim.WORKER)
"""Functions are called by these, or by their children."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One planned kill."""

    victim: Victim
    situation: Situation


def plan(rng: random.Random, number: int, *, global_thread: bool = False) -> list[Kill]:
    """Plan ``number`` kills:
    the situations in equal shares, the victims at random among those that fit.
    With ``global_thread`` the first one in a transaction is of a GlobalStreamThread.
    """
    fitting = {
        Situation.TRANSACTION: [Victim.THREAD, Victim.WORKER],
        Situation.RESTORE: [Victim.UPDATER, Victim.WORKER, Victim.LOOP],
        Situation.HANDOVER: [Victim.THREAD, Victim.WORKER, Victim.LOOP],
    }
    situations = [list(Situation)[index % len(Situation)] for index in range(number)]
    rng.shuffle(situations)
    kills = [Kill(rng.choice(fitting[situation]), situation) for situation in situations]
    if global_thread:
        kills[situations.index(Situation.TRANSACTION)] = Kill(Victim.GLOBAL, Situation.TRANSACTION)
    return kills


class Hunter:
    """Carries out kills on one local cluster and keeps a log of what was under way."""

    def __init__(
        self,
        cluster: LocalCluster,
        bootstrap_servers: str,
        rng: random.Random,
        *,
        group: str,
        transactional: bool,
        calls: Path | None = None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._servers = bootstrap_servers
        self._transactional = transactional
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._rng = rng
        self._calls = calls
        self._recovery = Recovery(cluster)
        self.log: list[str] = []
        self.flying: list[Counter[str]] = []
        """The calls that were in flight at each kill, if they are looked at."""

    def carry_out(self, kill: Kill, *, topics: tuple[str, ...], replicas: int) -> int:
        """Bring the situation about and kill the victim in it.

        Return the number of replicas wanted afterwards.
        """
        match kill.situation:
            case Situation.TRANSACTION:
                self._kill_in_transaction(kill.victim, topics)
            case Situation.RESTORE:
                self._kill_in_restore(kill.victim)
            case Situation.HANDOVER:
                replicas = self._kill_in_handover(kill.victim, replicas)
        return replicas

    def carry_out_all(
        self,
        kills: Sequence[Kill],
        *,
        topics: tuple[str, ...],
        replicas: int,
        broker: KafkaBroker,
        restarts: Collection[int],
    ) -> None:
        """Carry out one kill after the other, each when all runs again.

        Args:
            kills: in order.
            topics: that the application writes.
            replicas: that are wanted at first.
            broker: is restarted in between.
            restarts: after the kills of which numbers.
        """
        for number, kill in enumerate(kills):
            replicas = self.carry_out(kill, topics=topics, replicas=replicas)
            self._wait_until_all_run(replicas)
            if number in restarts:
                broker.restart()
                self.log.append("restarted the broker")

    def _wait_until_all_run(self, replicas: int) -> None:
        self._cluster.wait_running(replicas=replicas, timeout_s=300, until=self._recovery.is_over)

    def story(self, title: str, topics: tuple[str, ...]) -> str:
        """What was done, what is in flight now, and what everybody printed."""
        now = f"now: {', '.join(open_transactions(self._admin, topics)) or 'nothing is in flight'}"
        printed = (self._cluster.output, self._cluster.worker_logs())
        return "\n".join((title, *self.log, now, *printed))

    def _kill_in_transaction(self, victim: Victim, topics: tuple[str, ...]) -> None:
        def hit() -> bool:
            workers = self._workers()
            if not workers:
                return False
            worker = self._rng.choice(workers)
            process = worker if victim is Victim.WORKER else self._child(worker, str(victim))
            if process is None:
                return False
            try:
                frozen = [worker, *worker.children(recursive=True)]
            except psutil.NoSuchProcess:
                return False  # it has ended just now
            freeze(frozen)
            held = self._in_flight(topics)
            is_hit = bool(held) and self._strike(process, victim, Situation.TRANSACTION, held)
            thaw(frozen)
            return is_hit

        wait_for(hit, what="an open transaction", timeout_s=60)

    def _in_flight(self, topics: tuple[str, ...]) -> str:
        """Say what is written but not committed; nothing while the broker cannot tell."""
        try:
            return self._open_transaction(topics) if self._transactional else self._uncommitted()
        except (KafkaException, TimeoutError):
            return ""

    def _uncommitted(self) -> str:
        # Asked by a consumer: the admin request crashes librdkafka while a coordinator starts.
        reader = Consumer({"bootstrap.servers": self._servers, "group.id": self._group})
        try:
            wanted = [
                TopicPartition(topic, number)
                for topic, found in self._admin.list_topics(timeout=10).topics.items()
                if topic == f"{self._group}-in"
                for number in found.partitions
            ]
            committed = {
                TopicPartition(found.topic, found.partition): found.offset
                for found in reader.committed(wanted, timeout=10)
                if found.offset >= 0
            }
        finally:
            reader.close()
        ends = self._admin.list_offsets(dict.fromkeys(committed, OffsetSpec.latest()))
        for partition, offset in committed.items():
            end = ends[partition].result(10).offset
            if end > offset:
                return f"{partition.topic}-{partition.partition} committed to {offset} of {end}"
        return ""

    def _open_transaction(self, topics: tuple[str, ...]) -> str:
        return next(iter(open_transactions(self._admin, topics)), "")

    def _kill_in_restore(self, victim: Victim) -> None:
        # A dead StreamThread makes its tasks restore; the StateUpdater is frozen on sight.
        first = self._rng.choice(wait_for(self._workers, what="a worker"))
        thread = self._child(first, "StreamThread")
        if thread is not None:
            self._recovery.kill(thread)

        def hit() -> bool:
            updater = self._child(first, "StateUpdater")
            if updater is None:
                return False
            freeze([updater])
            restoring = self._restoring()
            target = {
                Victim.UPDATER: updater,
                Victim.WORKER: first,
                Victim.LOOP: self._loop(),
            }[victim]
            if not restoring or target is None:
                thaw([updater])
                return False
            is_hit = self._strike(target, victim, Situation.RESTORE, ", ".join(restoring))
            thaw([updater])
            return is_hit

        try:
            wait_for(hit, what="a restore under way", timeout_s=8, every_s=0.005)
        except AssertionError:
            # The restore was over too soon; the thread's death stands, another one is tried.
            self._wait_until_all_run(self._cluster.status.replicas)
            self._kill_in_restore(victim)

    def _kill_in_handover(self, victim: Victim, replicas: int) -> int:
        def hit() -> bool:
            moving = self._moving()
            if not moving:
                return False
            workers = self._workers()
            if not workers:
                return False
            worker = self._rng.choice(workers)
            process = {
                Victim.WORKER: worker,
                Victim.LOOP: self._loop(),
                Victim.THREAD: self._child(worker, "StreamThread"),
            }[victim]
            if process is None:
                return False
            return self._strike(process, victim, Situation.HANDOVER, moving)

        replicas = 3 if replicas == 2 else 2
        self._cluster.command("scale", APP, "--replicas", str(replicas))
        try:
            wait_for(hit, what="a hand-over under way", timeout_s=20, every_s=0.005)
        except AssertionError:
            # The hand-over was over too soon to be seen: scale back, and look again.
            self._wait_until_all_run(replicas)
            return self._kill_in_handover(victim, replicas)
        return replicas

    def _strike(
        self, process: psutil.Process, victim: Victim, situation: Situation, seen: str
    ) -> bool:
        """Kill a process that was not killed before, and wait until it is gone.

        Return whether it was killed: it is not if calls are to be in flight and are not.
        """
        if not self._recovery.may_kill(process):
            return False
        told = f"{situation}: {seen}"
        if self._calls is None:
            self._recovery.kill(process)
        else:
            flying = self._kill_if_calling(process, victim, situation, self._calls)
            if flying is None:
                return False
            self.flying.append(flying)
            told += f"; in flight {dict(flying)}"
        self.log.append(
            f"{time.strftime('%H:%M:%S')} killed {victim} (process {process.pid}); {told}"
        )
        return True

    def _kill_if_calling(
        self, process: psutil.Process, victim: Victim, situation: Situation, calls: Path
    ) -> Counter[str] | None:
        """Kill a process with calls in flight; return them, or ``None`` if there are too few."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [p for one in self._workers() for p in (one, *one.children(recursive=True))]
            whose = [process, *process.children()] if victim in _CALLING else family
            freeze(family)
            try:
                wait_for(lambda: all(map(_is_halted, family)), what="a halt", every_s=0.001)
                flying = in_flight(calls, [one.pid for one in whose])
                if len(flying) < (len(KINDS) if situation is Situation.TRANSACTION else 1):
                    return None
                self._recovery.kill(process)
                return flying
            finally:
                thaw(family)
        return None

    def _workers(self) -> list[psutil.Process]:
        found = []
        for _, pod in sorted(self._cluster.processes().items()):
            # What is written down may have ended, and its number be another process's by now.
            if ProcessId(pid=pod.pid, started=pod.started).is_alive():
                with contextlib.suppress(psutil.NoSuchProcess):
                    found.append(psutil.Process(pod.pid))
        return found

    def _loop(self) -> psutil.Process | None:
        """The control loop; for a moment after it was killed there is none."""
        record = self._cluster.supervisor
        if ProcessId(pid=record.loop_pid, started=record.loop_started).is_alive():
            with contextlib.suppress(psutil.NoSuchProcess):
                return psutil.Process(record.loop_pid)
        return None

    def _child(self, worker: psutil.Process, kind: str) -> psutil.Process | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = [child for child in worker.children() if _is(child, kind)]
            if children:
                return self._rng.choice(children)
        return None

    def _restoring(self) -> list[str]:
        return [
            f"{worker.name} {status.task}"
            for directory in self._cluster.cluster.app(APP).workers()
            if (worker := read_worker(directory)) is not None
            for status in worker.status.tasks
            if status.state is TaskState.RESTORING
        ]

    def _moving(self) -> str:
        for directory in self._cluster.cluster.app(APP).workers():
            worker = read_worker(directory)
            if worker is not None and worker.spec.revoking:
                tasks = ", ".join(map(str, worker.spec.revoking))
                return f"{worker.name} gives up {tasks}"
        return ""


def _is(process: psutil.Process, kind: str) -> bool:
    try:
        return any(f"-{kind}" in part for part in process.cmdline()[3:4])
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def _is_halted(process: psutil.Process) -> bool:
    """Whether a process that was frozen does nothing any more."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


class Trap:
    """A fail point that freezes the first process to come by while it is set."""

    def __init__(self, point: str, path: Path, *, at_hit: int = 1) -> None:
        self.armed = f"{point}=stop@{at_hit}!{path}"
        self.environment = {VARIABLE: self.armed}
        self._path = path

    def close(self) -> None:
        """Let everybody pass."""
        self._path.write_text("closed")

    def set(self) -> None:
        """Freeze whoever comes next."""
        self._path.unlink()

    def caught(self, timeout_s: float = 240) -> psutil.Process:
        """Wait until a process is frozen."""
        said = wait_for(
            lambda: self._path.exists() and self._path.read_text().strip(),
            what="a process in the trap",
            timeout_s=timeout_s,
            every_s=0.002,
        )
        process = psutil.Process(int(said))
        # It says its number before it stops itself: thawed in between, it would stop for good.
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, what="its halt", every_s=0.002)
        return process
