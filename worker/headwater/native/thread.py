"""A StreamThread process: takes commands from the worker's main process, runs the loop, reports.

    STARTING ── producer has its id ──► waiting for Go ──► RUNNING ── Stop ──► committed, closed
                   Initialized                 │  AddTasks: open, read offsets    Stopped
                                               │  RevokeTasks: commit, close, Released
                                               │  Pause: commit, Paused     Resume
                                               └─ nothing touches Kafka output before Go

Whatever goes wrong ends the process: a new one starts from what is committed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from headwater import failpoints
from headwater.errors import HeadwaterError, RecordError
from headwater.ids import SlotId
from headwater.kafka.native_clients import new_consumer
from headwater.kafka.native_module import native
from headwater.kafka.settings import offset_reset
from headwater.model import metrics
from headwater.model.metrics import RecordingLevel, Snapshot
from headwater.native import logs
from headwater.native.clients import TaskClients
from headwater.native.clock import SystemClock
from headwater.native.commit import Committer
from headwater.native.cutoff import CutOffWatch
from headwater.native.garbage import tune_garbage_collection
from headwater.native.global_sight import GlobalSight
from headwater.native.loading import child_topology
from headwater.native.locating import locate
from headwater.native.loop import ProcessingLoop
from headwater.native.losses import guard_of
from headwater.native.measured import ThreadNumbers
from headwater.native.messages import (
    AddTasks,
    Configure,
    Go,
    Initialized,
    LeaseRenewed,
    Locate,
    Pause,
    Paused,
    Released,
    Resume,
    RevokeTasks,
    ShareCache,
    Stats,
    Stop,
    Stopped,
    TaskRunning,
)
from headwater.native.opening import RunningTask, TaskOpener
from headwater.native.process import ChildError
from headwater.native.queries.values import AskTask
from headwater.native.querying import answer_task
from headwater.native.restoration import RestoreTeller
from headwater.native.stores import StoreOpener
from headwater.native.watching import TopicWatch
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.model.topology import Topology
    from headwater.native.messages import ChildSettings, ToThread
    from headwater.native.process import Link

log = logging.getLogger(__name__)

_STATS_INTERVAL_S: Final = 1.0
_STATS_INTERVAL_MAX_S: Final = 5.0
_STATS_SHARE: Final = 0.05
"""Reports take no more of the thread's time: with hundreds of tasks each takes long."""
_EXIT_LEASE_LOST: Final = 72
_IDLE_S: Final = 0.5
_DEAD_LETTERS_S: Final = 10.0


def run(settings: ChildSettings, link: Link) -> None:
    """Run a StreamThread until ``Stop``; the target of a ``ChildProcess``.

    Raises:
        HeadwaterError: why it cannot go on; nothing uncommitted was kept.
    """
    config = settings.application.parsed()
    topology = child_topology(settings)
    thread = StreamThread(settings, config, topology, link)
    link.locate = partial(locate, threading.get_ident())
    tune_garbage_collection()
    thread.run()


class StreamThread:
    """One slot's process (Kafka's ``StreamThread``).

    Args:
        settings: who it is.
        config: the application's.
        topology: what it runs.
        link: to the worker's main process.
    """

    def __init__(
        self, settings: ChildSettings, config: StreamsConfig, topology: Topology, link: Link
    ) -> None:
        self._settings = settings
        self._config = config
        self._link = link
        self._clock = SystemClock()
        slot = self._slot = SlotId(settings.worker, settings.slot)
        numbers = self._numbers = ThreadNumbers(config, self._clock, slot.thread_id)
        application_id = config.application_id
        in_c = native(config.headwater_native)
        clients = TaskClients(
            config,
            name=str(slot),
            transactional_id=slot.transactional_id(application_id) if config.exactly_once else None,
            reader=partial(new_consumer(in_c), hands_on=True),
            native=in_c,
        )
        numbers.statistics = clients.statistics
        self._connection = clients.connection
        self._admin = clients.admin
        self._producer = clients.producer
        self._consumer = clients.consumer
        committer = self._committer = Committer(clients, self._clock)
        guard = guard_of(config, topology, clients)
        stores = self._stores = StoreOpener(
            directory=StateDirectory(Path(settings.state_dir), settings.application_id),
            holder=f"StreamThread {settings.worker}-{settings.slot}",
            cache_bytes=settings.cache_bytes,
            clients=clients,
            collector=self._producer,
            heartbeat=self._report_if_due,
            guard=guard,
            teller=RestoreTeller(link.send) if settings.tells_restores else None,
        )
        self._globals = GlobalSight(settings, topology, clients, stores.blocks, self._pass_time)
        self._opener = TaskOpener(
            topology=topology,
            clients=clients,
            collector=self._producer,
            stores=stores,
            clock=self._clock,
            default_reset=offset_reset(config),
            guard=guard,
            check=guard.gate.check,
            global_stores=self._globals.stores,
            measures=numbers.measures,
        )
        self.loop = ProcessingLoop(
            config=config,
            clock=self._clock,
            clients=clients,
            committer=committer,
            opener=self._opener,
            heartbeat=self._report_if_due,
            check_lease=self._check_lease,
            full_commit_interval_s=settings.full_commit_interval_s,
            ratios=numbers.ratios,
        )
        self._specs = {spec.name: spec for g in topology.subtopologies for spec in g.stores}
        self._watch = TopicWatch(self._admin, self._connection)
        self._cut_off = CutOffWatch(self._consumer, self._admin, committed_only=config.exactly_once)
        self._may_begin = False
        self._lease_until_ms: int | None = None
        self._early: list[ToThread] = []
        self._unserved: list[ToThread] = []
        self._stopping = False
        self._processed_by_closed = 0
        self._report_due = 0.0

    def run(self) -> None:
        """Initialise, wait for Go, run until told to stop."""
        try:
            self._admin.check_reachable(self._config.request_timeout_ms / 1000)
            failpoints.hit("thread.before_init")
            if self._config.exactly_once:
                self._producer.init_transactions(self._config.request_timeout_ms / 1000)
            failpoints.hit("thread.initialized")
            self._link.send(Initialized())
            while not self._stopping:
                # Before a renewal is taken in: one that came too late must not hide the loss.
                self._check_lease()
                self._receive()
                self._serve_commands()
                self._globals.update()
                if self.loop.tasks:
                    self.loop.run_once()
                    if partitions := self._watch.check():
                        self._open_grown(partitions)
                    self._cut_off.check(self.loop.reading)
                elif not self._stopping:
                    self._idle()
                self._report_if_due()
            self._close()
            self._link.send(Stopped())
        except HeadwaterError as error:
            self._close_dirty(error)
            raise ChildError(error, self.loop.failing) from error

    # ---- commands ------------------------------------------------------------------------------

    def _idle(self) -> None:
        """Without tasks there is nothing to poll: wait for a command."""
        command = self._link.wait(_IDLE_S)
        if command is not None:
            self._obey(command)

    def _receive(self) -> None:
        """Take in what has arrived; renewals of the Lease and queries do not wait for a commit."""
        if self._link.pending():
            for command in self._link.commands():
                if isinstance(command, LeaseRenewed | AskTask):
                    self._obey(command)
                else:
                    self._unserved.append(command)

    def _serve_commands(self) -> None:
        """Obey, unless a commit waits for the broker: tasks must not change then."""
        if self._unserved and not self.loop.is_committing:
            commands, self._unserved = self._unserved, []
            for command in together(commands):
                self._obey(command)

    def _obey(self, command: ToThread) -> None:
        if not self._may_begin and isinstance(command, AddTasks | RevokeTasks):
            self._early.append(command)
            return
        match command:
            case Go():
                self._may_begin = True
                early, self._early = self._early, []
                for waiting in early:
                    self._obey(waiting)
            case AddTasks():
                self._add(command.tasks)
            case RevokeTasks():
                self._revoke(command)
            case Pause() | Resume() | ShareCache() | Configure():
                self._adjust(command)
            case LeaseRenewed():
                self._lease_until_ms = command.until_boot_ms
            case Stop():
                self._stopping = True
            case AskTask():
                self._link.send(answer_task(command, self.loop.tasks, self._specs))
            case Locate():
                pass  # Answered by the thread that reads the pipe.
            case _:
                assert_never(command)

    def _adjust(self, command: Pause | Resume | ShareCache | Configure) -> None:
        match command:
            case Pause():
                self.loop.pause()
                self._link.send(Paused())
            case Resume():
                self.loop.resume()
            case ShareCache():
                # Committed entries leave the cache without a word: nothing is forwarded here.
                # Tasks that were added just now may have entries and no committed offsets yet.
                self.loop.commit_now(every_offset=True)
                self._stores.resize_cache(self._config.cache_share(command.threads))
            case Configure():
                self._configure(command)
            case _:
                assert_never(command)

    def _configure(self, command: Configure) -> None:
        """Take over settings.

        What is measured is compiled into tasks, and a store without an option of RocksDB that it
        was opened with is another one: then tasks are opened anew.
        """
        logs.give_levels(command.levels)
        is_anew = self._stores.blocks.configure(command.rocksdb)
        if self._numbers.change_level(command.metrics_level):
            self._opener.measure(self._numbers.measures)
            self._stores.blocks.statistics = command.metrics_level.records(RecordingLevel.DEBUG)
            is_anew = True
        if is_anew:
            self._open_anew(tuple(self.loop.tasks))

    def _pass_time(self) -> None:
        """Take in renewals of the Lease while global stores are filled, and report."""
        self._check_lease()
        self._receive()
        self._report_if_due()

    def _check_lease(self) -> None:
        """Without a Lease, under at-least-once, somebody else may have our tasks by now."""
        if self._lease_until_ms is None:
            return
        now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        if now_ms > self._lease_until_ms:
            log.error(
                "the Lease ran out %d ms ago: ending at once, uncommitted",
                now_ms - self._lease_until_ms,
            )
            # Whatever takes time, even closing the producer, would let queued records out.
            os._exit(_EXIT_LEASE_LOST)

    def _add(self, tasks: Iterable[TaskId]) -> None:
        self._globals.bootstrap()
        wanted = [task_id for task_id in tasks if task_id not in self.loop.tasks]
        opened = self._opener.open(wanted)
        self.loop.add(opened)
        self._numbers.opened(len(opened))
        if not self._config.exactly_once and any(running.is_new for running in opened):
            # Or else a crash between the first changelog entry and the first commit would look as
            # if offsets had expired.
            self.loop.commit_now(every_offset=True)
        self._watch_topics()
        for running in opened:
            self._link.send(TaskRunning(task=running.task_id))

    def _revoke(self, command: RevokeTasks) -> None:
        leaving = [task_id for task_id in command.tasks if task_id in self.loop.tasks]
        if leaving:
            self.loop.commit_now()
        removed = {running.task_id: running for running in self.loop.remove(leaving)}
        self._watch_topics()
        for task_id in command.tasks:
            offsets: dict[str, int] = {}
            if task_id in removed:
                offsets = self._close_task(removed[task_id])
            self._link.send(Released(task=task_id, offsets=offsets, epoch=command.epoch))

    def _open_grown(self, partitions: Mapping[str, int]) -> None:
        """Open tasks anew that have more to read: one of their topics has got partitions."""
        grown = self._opener.grown(self.loop.tasks, partitions)
        if not grown:
            return
        log.info("partitions were added: opening anew %s", ", ".join(map(str, grown)))
        self._open_anew(grown)

    def _open_anew(self, tasks: tuple[TaskId, ...]) -> None:
        """Commit, close and open tasks that stay with this thread."""
        if not tasks:
            return
        self.loop.commit_now()
        for running in self.loop.remove(tasks):
            self._close_task(running)
        self._add(tasks)

    def _close_task(self, running: RunningTask) -> dict[str, int]:
        self._processed_by_closed += running.task.statistics().total(metrics.TASK_PROCESS)
        running.task.close()
        self._numbers.closed(1)
        return {str(partition): offset for partition, offset in running.committed.items()}

    def _watch_topics(self) -> None:
        tasks = self.loop.tasks.values()
        changelogs = {p.topic for running in tasks for p in running.changelogs.values()}
        topics = changelogs | {p.topic for running in tasks for p in running.start}
        self._watch.watch(self._opener.topic_ids(topics), changelogs, self._opener.patterns)

    # ---- the end -------------------------------------------------------------------------------

    def _close(self) -> None:
        """Commit and close everything."""
        self.loop.commit_now()
        for running in self.loop.remove(list(self.loop.tasks)):
            self._close_task(running)
        self._opener.close()
        self._globals.close()
        self._consumer.close()

    def _close_dirty(self, error: HeadwaterError) -> None:
        """Close the stores as they were at their last commit; send nothing more.

        Except, where no transaction binds them, what handlers that said FAIL have sent as dead
        letters, with whatever was sent before.
        """
        if isinstance(error, RecordError) and not self._config.exactly_once:
            with contextlib.suppress(HeadwaterError):
                self._producer.drain(_DEAD_LETTERS_S)
        self._producer.discard()
        for running in self.loop.tasks.values():
            try:
                running.task.close()
            except Exception:
                log.exception("closing task %s", running.task_id)
        self._opener.close()

    # ---- reports -------------------------------------------------------------------------------

    def _report_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._report_due:
            began = time.thread_time()
            self._link.offer(self.statistics())
            took = time.thread_time() - began
            patience_s = self._config.max_poll_interval_ms / 1000
            self._report_due = now + report_interval_s(took, patience_s)

    def statistics(self) -> Stats:
        """Return what is reported about once a second."""
        tasks = [self._task_statistics(running) for running in self.loop.tasks.values()]
        processed = sum(task.total(metrics.TASK_PROCESS) for task in tasks)
        ratios = self.loop.ratios.take()
        thread = Snapshot.of(
            {
                metrics.THREAD_PROCESS: self._processed_by_closed + processed,
                metrics.COMMIT: self._committer.commits,
                metrics.FAILED_COMMITS: self.loop.failed_commits,
                metrics.PRODUCED_RECORDS: self._producer.sent,
                metrics.TRANSACTION_OPEN: self._producer.is_transaction_open,
                **{metrics.RATIOS[part]: share for part, share in ratios.items()},
            },
            self._slot.thread_id,
        )
        numbers = Snapshot.merged([thread, self._numbers.of_thread(), *tasks])
        lost_s = self._connection.lost_for_s
        return Stats(
            numbers=Snapshot.merged([numbers, self._numbers.rates(numbers)]),
            tree=self._numbers.tree(self.loop.tasks.values(), self._consumer.lag),
            committed={
                running.task_id: {str(p): offset for p, offset in running.committed.items()}
                for running in self.loop.tasks.values()
            },
            busy_s={one.task_id: one.pace.busy_s for one in self.loop.tasks.values()},
            problem=f"no broker has answered for {lost_s:.0f} s" if lost_s > 1 else "",
        )

    def _task_statistics(self, running: RunningTask) -> Snapshot:
        found = running.task.statistics()
        lags = (self._consumer.lag(partition) for partition in running.start)
        buffered = found.total(metrics.ACTIVE_BUFFER_COUNT)
        lag = buffered + sum(lag for lag in lags if lag is not None)
        return Snapshot.merged(
            [found, Snapshot.of({metrics.RECORDS_LAG: lag}, str(running.task_id))]
        )


def together(commands: Iterable[ToThread]) -> list[ToThread]:
    """Return commands with those that add tasks one after the other made one.

    Tasks that are opened together share their questions to the broker.
    """
    found: list[ToThread] = []
    for command in commands:
        last = found[-1] if found else None
        if isinstance(command, AddTasks) and isinstance(last, AddTasks):
            tasks = tuple(dict.fromkeys(last.tasks + command.tasks))
            found[-1] = AddTasks(tasks=tasks, epoch=command.epoch)
        else:
            found.append(command)
    return found


def report_interval_s(took_s: float, patience_s: float) -> float:
    """Return how long after a report the next one is due, in seconds.

    Args:
        took_s: CPU time that the report took.
        patience_s: a thread without a sign of life for so long is killed.
    """
    most = min(_STATS_INTERVAL_MAX_S, patience_s / 4)
    return max(_STATS_INTERVAL_S, min(took_s / _STATS_SHARE, most))
