"""The supervisor: the small process that owns a local cluster, and with which everything ends.

    python -m headwater_operator.local.supervisor ROOT [--detached]

    standard input     the lifeline: a line ``stop`` stops everything in order; its end (whoever
                       started us is gone) kills everything. Not read when detached.
    SIGTERM, SIGINT    stop everything in order

It starts the private Kafka if an application needs one, keeps a process per pod, and starts the
control loop anew, with a higher generation, whenever it ends. It decides nothing: pods are the
control loop's wishes. What it starts dies with it, by the kernel's parent-death signal; the workers
do not notice the death of a control loop.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.errors import HeadwaterError, InstanceRunningError
from headwater.model.cluster import StreamWorker, generation_of
from headwater.privatefiles import keep_private, own_directory
from headwater_operator.local import files
from headwater_operator.local.keeper import PodKeeper
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.owned import OwnedProgram, PrivateKafka
from headwater_operator.local.processes import adopt_orphans, identify
from headwater_operator.local.records import AppRecord, ClusterPhase, KafkaRecord, SupervisorRecord
from headwater_operator.local.rootlock import RootLock

log = logging.getLogger(__name__)

_TICK_S: Final = 0.2
_ENDING_TICK_S: Final = 0.01
_STOP_GRACE_MS: Final = 30_000
_KAFKA_GRACE_S: Final = 20.0
_LOOP_SILENCE_S: Final = 30.0
_LOCK_WAIT_S: Final = 2.0


class Supervisor:
    """Owns the processes of one cluster.

    Args:
        cluster: its directory, whose lock the caller holds.
        lifeline: descriptor whose end kills everything; ``None`` when detached.
    """

    def __init__(self, cluster: ClusterDir, *, lifeline: int | None) -> None:
        self._cluster = cluster
        self._lifeline = lifeline
        self._loop = OwnedProgram("control loop", cluster.loop_log)
        self._kafka = PrivateKafka(cluster.kafka_data, cluster.kafka_log)
        self._keepers: dict[Path, PodKeeper] = {}
        self._stopping = False
        self._killed = False
        self._lifeline_said = b""
        self._signals, signal_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(signal_writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._hear_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._generation = _last_generation(cluster)

    def run(self) -> int:
        """Supervise until told to stop; return the exit code."""
        adopt_orphans()
        self._say(ClusterPhase.STARTING)
        try:
            while not self._stopping:
                self._reap()
                self._keep_kafka()
                self._keep_loop()
                self._keep_pods()
                self._wait()
            self._stop_in_order()
        finally:
            self._kill_all()
            self._say(ClusterPhase.STOPPED)
        return 0

    # -- one turn -----------------------------------------------------------------------------

    def _keep_kafka(self) -> None:
        if self._kafka.is_due() and self._needs_kafka():
            self._kafka.start_broker()
            self._say(self._phase())

    def _needs_kafka(self) -> bool:
        for app in self._cluster.apps():
            with suppress(HeadwaterError):
                data = files.read(app.app)
                if data is not None:
                    kafka = AppRecord.from_dict(data).app.spec.kafka
                    if kafka.bootstrap_servers is None:
                        return True
        return False

    def _keep_loop(self) -> None:
        if self._loop.is_due():
            # Known on disk before the loop can act on it: no two loops ever share a generation.
            self._generation += 1
            self._say(self._phase())
            self._loop.start(
                ("headwater_operator.local.loop", str(self._cluster.root), str(self._generation))
            )
            self._say(self._phase())

        elif self._loop.silence_s > _LOOP_SILENCE_S:
            # Frozen or stuck, it can do nothing wrong (its writes carry an old epoch), nor right.
            log.warning("the control loop has said nothing for %.0f s", self._loop.silence_s)
            self._loop.kill()

    def _keep_pods(self) -> None:
        for app in self._cluster.apps():
            for worker in app.programs():
                if worker.path not in self._keepers:
                    self._keepers[worker.path] = PodKeeper(worker)
        for path, keeper in list(self._keepers.items()):
            keeper.step()
            if keeper.is_forgotten:
                del self._keepers[path]

    def _wait(self) -> None:
        is_ending = any(
            keeper.is_running and keeper.pid is None for keeper in self._keepers.values()
        )
        watched = [self._signals]
        if self._lifeline is not None:
            watched.append(self._lifeline)
        watched += [
            program.output.fileno()
            for program in (self._loop, self._kafka)
            if program.output is not None
        ]
        readable, _, _ = select.select(watched, [], [], _ENDING_TICK_S if is_ending else _TICK_S)
        if self._signals in readable:
            with suppress(BlockingIOError):
                os.read(self._signals, 4096)
        if self._lifeline in readable:
            self._read_lifeline()
        # The control loop writes to wake us up, and to show that it turns.
        self._loop.hear()
        if self._kafka.listen():
            log.info("private Kafka answers at %s", self._kafka.bootstrap_servers)
            self._say(self._phase())
            self._loop.nudge()

    def _read_lifeline(self) -> None:
        assert self._lifeline is not None
        received = os.read(self._lifeline, 4096)
        if not received:
            log.warning("the process that started us is gone: killing everything")
            self._lifeline = None
            self._stopping = self._killed = True
            return
        self._lifeline_said += received
        if b"stop\n" in self._lifeline_said:
            self._stopping = True

    def _hear_stop(self, number: int, _frame: object) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        self._stopping = True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._ended(pid, os.waitstatus_to_exitcode(status))
        # Not any(): each one has to be finished.
        if [keeper for keeper in self._keepers.values() if keeper.finish()]:
            self._loop.nudge()

    def _ended(self, pid: int, exit_code: int) -> None:
        for program in (self._loop, self._kafka):
            if program.pid == pid:
                program.ended(exit_code)
                self._say(self._phase())
                return
        for keeper in self._keepers.values():
            if keeper.pid == pid:
                keeper.main_ended(exit_code)
                return
        log.info("process %d, whose parent had ended, ended with %d", pid, exit_code)

    # -- the end ------------------------------------------------------------------------------

    def _stop_in_order(self) -> None:
        """First the control loop, so that it replaces nobody, then the workers, then the broker."""
        if self._killed:
            return
        self._say(ClusterPhase.STOPPING)
        self._loop.stop()
        for keeper in self._keepers.values():
            keeper.stop(grace_ms=_STOP_GRACE_MS)
        deadline = time.monotonic() + _STOP_GRACE_MS / 1000
        while any(keeper.is_running for keeper in self._keepers.values()) and self._goes_on(
            deadline
        ):
            for keeper in self._keepers.values():
                keeper.stop(grace_ms=_STOP_GRACE_MS)
        self._kafka.let_go()
        deadline = time.monotonic() + _KAFKA_GRACE_S
        while self._kafka.pid is not None and self._goes_on(deadline):
            pass

    def _goes_on(self, deadline: float) -> bool:
        """Take one turn of waiting; return whether to wait on."""
        self._wait()
        self._reap()
        return not self._killed and time.monotonic() < deadline

    def _kill_all(self) -> None:
        self._loop.stop()
        self._kafka.stop()
        for keeper in self._keepers.values():
            keeper.kill()
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline and (
            any(keeper.is_running for keeper in self._keepers.values())
            or self._loop.pid is not None
            or self._kafka.pid is not None
        ):
            select.select([self._signals], [], [], _ENDING_TICK_S)
            self._reap()

    # -- what it says of itself ---------------------------------------------------------------

    def _phase(self) -> ClusterPhase:
        if self._stopping:
            return ClusterPhase.STOPPING
        is_ready = not self._needs_kafka() or self._kafka.bootstrap_servers
        return ClusterPhase.RUNNING if is_ready else ClusterPhase.STARTING

    def _say(self, phase: ClusterPhase) -> None:
        own = identify(os.getpid())
        assert own is not None
        loop = self._loop.identity
        record = SupervisorRecord(
            pid=own.pid,
            started=own.started,
            phase=phase,
            generation=self._generation,
            loop_pid=loop.pid if loop is not None else 0,
            loop_started=loop.started if loop is not None else "",
            loop_failures=self._loop.failures,
            kafka=KafkaRecord(
                bootstrap_servers=self._kafka.bootstrap_servers,
                pid=self._kafka.broker_pid,
                failures=self._kafka.failures,
            ),
        )
        files.replace(self._cluster.supervisor, record.to_dict())


def _last_generation(cluster: ClusterDir) -> int:
    """The highest generation of any control loop that ran here, as far as anything tells."""
    seen = [0]
    if (before := files.read(cluster.supervisor)) is not None:
        seen.append(SupervisorRecord.from_dict(before).generation)
    for app in cluster.apps():
        specs = filter(None, (files.read(worker.spec) for worker in app.workers()))
        seen += [generation_of(StreamWorker.from_dict(spec).spec.epoch) for spec in specs]
    return max(seen)


def _take_charge(cluster: ClusterDir) -> None:
    """Take the lock of the cluster, and keep it until this process ends.

    Raises:
        InstanceRunningError: another process has it, and keeps it.
    """
    lock = RootLock(cluster.lock)
    if lock.acquire():
        return
    log.info("%s is locked by %s; waiting", cluster.lock, lock.holder)
    if not lock.acquire(timeout_s=_LOCK_WAIT_S):
        raise InstanceRunningError(
            f"another supervisor runs the cluster in {cluster.root}: {lock.holder} holds "
            f"{cluster.lock}; use that one, or end it, then try again"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run a supervisor."""
    parser = argparse.ArgumentParser(prog="supervisor")
    parser.add_argument("root", type=Path)
    parser.add_argument("--detached", action="store_true")
    parsed = parser.parse_args(arguments)
    cluster = ClusterDir(parsed.root)
    keep_private()
    own_directory(cluster.root)
    own_directory(cluster.apps_root)
    logging.basicConfig(
        filename=cluster.supervisor_log,
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
    )
    _take_charge(cluster)
    try:
        return Supervisor(cluster, lifeline=None if parsed.detached else sys.stdin.fileno()).run()
    except Exception:
        log.exception("the supervisor failed")
        raise


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
