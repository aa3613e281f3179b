"""The worker's main process: one loop that observes, asks ``decide`` what to do, and does it.

    spec, Lease, children, duties ─► observe ─► Table ─► decide ─► actions ─► children, carrier
                                                  └────► report ─► status, HTTP

It does nothing per record.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import uuid
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from headwater import failpoints
from headwater.errors import ConfigError, StateError
from headwater.model.cluster import Lease, WorkerError, WorkerStatus, format_epoch
from headwater.model.duties import DescribeGroup, GroupDescribed
from headwater.model.livesettings import live_options
from headwater.model.reporting import configured
from headwater.native import logs
from headwater.native.loading import built
from headwater.native.messages import Go
from headwater.native.process import failed
from headwater.service.carrier import CarrierLostError, CarrierUnavailableError
from headwater.service.children import Children, log_failure
from headwater.service.clock import boot_ms
from headwater.service.decide.actions import (
    Action,
    ApplyLive,
    BeginDuty,
    End,
    KillGlobalThread,
    KillThread,
    KillUpdater,
    LookAtGroup,
    ReadSpec,
    RememberEpoch,
    StartGlobalThread,
    StartThread,
    StartUpdater,
    TellGlobalThread,
    TellThread,
    TellUpdater,
)
from headwater.service.decide.failing import fail
from headwater.service.decide.global_thread import GlobalThread
from headwater.service.decide.observations import (
    DutyEnded,
    GroupSeen,
    LeaseKept,
    Observation,
    SpecRead,
    StopAsked,
)
from headwater.service.decide.observe import observe
from headwater.service.decide.reconcile import decide
from headwater.service.decide.report import status_of
from headwater.service.decide.values import GROUP_WATCH_MS, Table
from headwater.service.duties import Duties, DutyRunner
from headwater.service.epoch import EpochFile
from headwater.service.http import serve
from headwater.service.localstate import hear_restore
from headwater.service.otlp import OtlpPusher
from headwater.service.planning import partitions_of
from headwater.service.queries.desk import QueryDesk
from headwater.service.settings import lease_duration_ms
from headwater.service.stored import stored_tasks
from headwater.service.uncaught import UncaughtHandler
from headwater.service.view import Numbers
from headwater.state.directory import StateDirectory
from headwater.state.global_store import shared_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.config import StreamsConfig
    from headwater.httpserver import HttpServer
    from headwater.ids import TaskId
    from headwater.model.duties import Duty, DutyResult
    from headwater.model.livesettings import LiveSettings
    from headwater.model.restoring import StateRestoreListener
    from headwater.model.topics import TopologyReport
    from headwater.model.topology import Topology
    from headwater.service.carrier import Carrier
    from headwater.service.settings import WorkerSettings
    from headwater.service.view import WorkerView

log = logging.getLogger(__name__)

_TICK_S: Final = 0.1
_RENEWALS: Final = 10
_LOOK: Final = "group-watch"
"""Id of a look at the group that nobody asked for."""
"""How often the Lease is renewed within its duration."""
_RETRY_MS: Final = 500
_VIEW_MS: Final = 500
_COMPLAINT_MS: Final = 10_000
"""The same complaint is logged again only after so long."""


class Worker:
    """One worker. ``run`` is its life; ``stop`` may be called from any thread or signal handler.

    Args:
        settings: what it was told.
        carrier: its way to its StreamWorker and Lease.
        incarnation: under which it has reported already, if it has.
        raises: what ends it becomes an exception of the program, so the log need not tell it, too.
        uncaught: asked about errors that end StreamThreads; by default as the configuration says.
        restores: told how stores are restored, if the settings ask for it.

    Raises:
        ConfigError: an option is unknown or wrong.
        ImportPathError: the topology cannot be had.
        TopologyError: the topology breaks a rule.
        StateError: the state directory cannot be used.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        carrier: Carrier,
        incarnation: str | None = None,
        *,
        raises: bool = False,
        uncaught: UncaughtHandler | None = None,
        restores: StateRestoreListener | None = None,
    ) -> None:
        config = settings.parsed()
        self._raises = raises
        self._uncaught = uncaught or UncaughtHandler.of(config)
        self._restores = restores
        topology = built(settings.application)
        self._carrier, self._changed_files = carrier, settings.changed_files
        self._application_id = config.application_id
        self._children = Children(settings, config)
        client_id = f"{config.client_id or config.application_id}-{settings.name}"
        report = topology.report(config.application_id)
        duties = Duties(config, client_id=client_id, report=report)
        self._duties = DutyRunner(duties, self._duty_done)
        self._directory = StateDirectory(Path(config.state_dir), config.application_id)
        self._directory.own()
        self._epoch_file = EpochFile(self._directory.path / f"{settings.name}.epoch.json")
        self._inbox: queue.SimpleQueue[Observation] = queue.SimpleQueue()
        self._table = _table(settings, config, topology, self._epoch_file.read())
        self._table.incarnation = incarnation or self._table.incarnation
        told = settings.revision, self._directory.room, settings.refused
        self._numbers = Numbers(config.metrics, *told)
        self._written: WorkerStatus | None = None
        self._renewals = self._renew_due_ms = self._write_due_ms = self._view_due_ms = 0
        self._read_due_ms = 0
        self._complained: dict[str, int] = {}
        self._held: frozenset[TaskId] = frozenset()
        self._end: End | None = None
        self.view = self._new_view()
        """The newest view of this worker; replaced as a whole."""
        self.queries = QueryDesk(
            settings, config, partial(partitions_of, duties, report), self._wake, carrier.peers
        )
        """Where this worker's stores are asked."""
        self._otlp = OtlpPusher(config.metrics, lambda: self.view, self._numbers.push_failed)
        self._http: HttpServer | None = None
        if settings.http_port is not None:
            at = settings.http_host, settings.http_port
            take = self.queries.over_http(self._directory.path)
            guard = settings.guard
            self._http = serve(*at, lambda: self.view, boot_ms, queries=take, guard=guard)
            self._table.endpoint = self._http.endpoint
        # Last, because nobody closes a worker that could not be made.
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Reentrant: a signal handler, which calls ``stop``, may interrupt who holds it.
        self._wake_lock = threading.RLock()
        self._is_closed = False
        carrier.call_on_change(self._wake)

    @property
    def incarnation(self) -> str:
        """The UUID of this process' worker; tasks are granted to it."""
        return self._table.incarnation

    @property
    def highest_epoch(self) -> int:
        """The highest epoch this worker has seen, now or in an earlier life."""
        return self._table.highest_epoch

    @property
    def endpoint(self) -> str:
        """``host:port`` of the HTTP service; empty without one."""
        return self._table.endpoint

    @property
    def topology_report(self) -> TopologyReport:
        """What was built from the topology, as names and numbers."""
        assert self._table.topology is not None
        return self._table.topology

    @property
    def error(self) -> WorkerError | None:
        """Why the worker ended, if it had to."""
        return self._table.error

    def stop(self) -> None:
        """Ask for a drain: commit and release everything, then end."""
        self._post(StopAsked())

    def close(self) -> None:
        """Release what a worker that was never run holds."""
        self._close()

    def run(self) -> int:
        """Live until stopped or until it cannot go on; return the exit code."""
        try:
            self._scan_state(None)
            while self._end is None:
                self._wait(self._turn())
            self._write_status(boot_ms())
            return self._end.exit_code
        finally:
            self._close()

    # -- the loop --------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Observe, decide, act and report once; return whether something was done."""
        now_ms = boot_ms()
        self._renew_lease(now_ms)
        if self._end is None and self._carrier.has_changed():
            self._read_spec()
        if self._end is not None:
            return False
        for observation in (*self._children.observe(), *self._changed_files.look(now_ms)):
            if not self.queries.took(observation):
                self._observe(observation)
        while not self._inbox.empty():
            self._observe(self._inbox.get())
        has_acted = self._act_all(decide(self._table, boot_ms()))
        self._notice_tasks_given_up()
        self.queries.turn(self._table, self._children)
        self._write_status(now_ms)
        if has_acted or now_ms >= self._view_due_ms:
            self._view_due_ms = now_ms + _VIEW_MS
            self.view = self._new_view()
        return has_acted

    def _wait(self, hurry: bool) -> None:  # noqa: FBT001 - private, called once
        """Sleep until a child says something, somebody posts, or the next tick is due."""
        if hurry:
            return
        said = [*self._children.connections(), *self.queries.connections()]
        ready = wait([*said, self._wake_read], _TICK_S)
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)

    def _observe(self, observation: Observation) -> None:
        now_ms = boot_ms()
        self._numbers.take(observation, now_ms)
        hear_restore(self._restores, observation)
        observation = self._uncaught.asked(self._table, observation, now_ms)
        had_ended = self._table.error is not None
        observe(self._table, observation, now_ms)
        is_raised = self._raises and not had_ended and self._table.error is not None
        log_failure(self._table.worker, observation, is_raised=is_raised)

    def _post(self, observation: Observation) -> None:
        self._inbox.put(observation)
        self._wake()

    def _wake(self) -> None:
        with self._wake_lock, contextlib.suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._wake_write, b"x")

    # -- actions ---------------------------------------------------------------------------------

    def _act_all(self, actions: Sequence[Action]) -> bool:
        """Carry out what was decided; return whether anything came of it."""
        has_acted = False
        for action in actions:
            if self._end is not None:
                break
            has_acted = self._act(action) or has_acted
        return has_acted

    def _act(self, action: Action) -> bool:  # noqa: C901, PLR0912 - one case per action
        """Carry an action out; return whether anything came of it."""
        match action:
            case ReadSpec():
                failpoints.hit("worker.before_read")
                return self._read_spec()
            case RememberEpoch(epoch=epoch):
                self._remember_epoch(epoch)
            case StartThread(slot=slot):
                self._children.start_thread(slot, self._table.threads)
            case TellThread(slot=slot, message=message):
                if isinstance(message, Go):
                    failpoints.hit("worker.before_go")
                self._children.tell_thread(slot, message)
            case KillThread(slot=slot, reason=reason, is_failure=is_failure):
                if reason and is_failure:
                    log.warning("killing StreamThread %d: %s", slot, reason)
                elif reason:
                    log.info("StreamThread %d ends: %s", slot, reason)
                for observation in self._children.kill_thread(
                    slot, shows_stacks=action.shows_stacks
                ):
                    self._observe(observation)
            case StartUpdater(updater=updater):
                self._children.start_updater(updater)
            case TellUpdater(updater=updater, message=message_):
                self._children.tell_updater(updater, message_)
            case KillUpdater(updater=updater, reason=reason):
                log.warning("killing StateUpdater %d: %s", updater, reason)
                for observation in self._children.kill_updater(updater):
                    self._observe(observation)
            case StartGlobalThread() | TellGlobalThread() | KillGlobalThread():
                for observation in self._children.global_thread.act(action):
                    self._observe(observation)
            case ApplyLive(settings=live):
                self._apply_live(live)
            case BeginDuty(duty=duty):
                return self._begin_duty(duty)
            case LookAtGroup():
                look = DescribeGroup(id=_LOOK, epoch=0, group=self._application_id)
                self._duties.begin(look)
            case End():
                self._end = action
            case _:
                assert_never(action)
        return True

    def _read_spec(self) -> bool:
        if boot_ms() < self._read_due_ms or self._end is not None:
            return False
        try:
            spec = self._carrier.read()
        except CarrierUnavailableError as error:
            self._read_due_ms = self._try_again(error)
            return False
        except CarrierLostError as error:
            self._give_way(error)
            return False
        if spec is not None and spec.epoch < self._table.highest_epoch:
            log.warning(
                "refused epoch %s: %s was seen before; an outdated control loop wrote it",
                format_epoch(spec.epoch),
                format_epoch(self._table.highest_epoch),
            )
        self._observe(SpecRead(spec=spec))
        return True

    def _apply_live(self, live: LiveSettings) -> None:
        try:
            settings, config, message = self._children.configure(live)
        except ConfigError as error:
            log.warning("what the StreamApp says now is not taken over: %s", error)
            return
        log.info("taken over while running: %s", live)
        logs.give_levels(message.levels)
        self._numbers.configure(config.metrics)
        self.queries.configure(settings, message)

    def _begin_duty(self, duty: Duty) -> bool:
        """Carry out a duty if it still stands in the spec as it is at this moment."""
        has_read = self._read_spec()
        if has_read and self._table.spec is not None and duty in self._table.spec.duties:
            self._duties.begin(duty)
        else:
            self._observe(DutyEnded(id=duty.id, result=None))
        return has_read

    def _duty_done(self, result: DutyResult) -> None:
        if result.id == _LOOK:
            is_in_use = bool(result.members) if isinstance(result, GroupDescribed) else None
            self._post(GroupSeen(is_in_use=is_in_use))
            return
        self._post(DutyEnded(id=result.id, result=result))

    def _remember_epoch(self, epoch: int) -> None:
        try:
            self._epoch_file.write(epoch)
        except StateError as error:
            fail(self._table, failed(error), boot_ms())

    # -- reports ---------------------------------------------------------------------------------

    def _renew_lease(self, now_ms: int) -> None:
        if now_ms < self._renew_due_ms:
            return
        lease = Lease(
            worker=self._table.worker,
            holder=self._table.incarnation,
            duration_ms=self._table.lease_duration_ms,
            renewals=self._renewals + 1,
        )
        try:
            at_ms = self._carrier.renew(lease)
        except CarrierUnavailableError as error:
            self._renew_due_ms = self._try_again(error)
            return
        except CarrierLostError as error:
            self._give_way(error)
            return
        if at_ms is not None:
            self._renewals += 1
            self._renew_due_ms = now_ms + self._table.lease_duration_ms // _RENEWALS
            self._observe(LeaseKept(at_ms=at_ms))

    def _try_again(self, error: CarrierUnavailableError) -> int:
        """Say what is in the way, unless it was said just now; return when to try again."""
        now_ms, said = boot_ms(), str(error)
        if now_ms - self._complained.get(said, -_COMPLAINT_MS) >= _COMPLAINT_MS:
            self._complained = {said: now_ms}
            log.warning("%s; trying again", said)
        return now_ms + max(_RETRY_MS, int(error.retry_after_s * 1000))

    def _give_way(self, error: CarrierLostError) -> None:
        """End at once: closing in order would commit what may be somebody else's by now."""
        fail(self._table, failed(error), boot_ms())
        self._end = End(exit_code=error.exit_code)

    def _write_status(self, now_ms: int) -> None:
        status = status_of(self._table)
        if status == self._written or now_ms < self._write_due_ms:
            return
        try:
            self._carrier.write_status(status)
        except CarrierUnavailableError as error:
            self._write_due_ms = self._try_again(error)
        else:
            self._written = status

    def _new_view(self) -> WorkerView:
        return self._numbers.view(self._table, self._children, self._application_id, boot_ms())

    def _notice_tasks_given_up(self) -> None:
        held = self._table.held
        gone = self._held - held
        self._held = held
        if gone:
            self._scan_state(gone)

    def _scan_state(self, tasks: frozenset[TaskId] | None) -> None:
        """Find out which tasks the directory stores, and up to where; ``None``: all of them."""
        for task in self._table.stored.keys() & tasks if tasks is not None else ():
            del self._table.stored[task]
        self._table.stored |= stored_tasks(self._application_id, self._directory.stored(tasks))

    def _close(self) -> None:
        self.queries.close()
        self._children.close()
        self._duties.close(0.0)
        self._otlp.close()
        if self._http is not None:
            self._http.close()
        with self._wake_lock:
            # Others may post still; the numbers may be somebody else's files from now on.
            self._is_closed = True
            os.close(self._wake_read)
            os.close(self._wake_write)


def _table(
    settings: WorkerSettings, config: StreamsConfig, topology: Topology, highest_epoch: int
) -> Table:
    report = topology.report(config.application_id)
    return Table(
        worker=settings.name,
        incarnation=str(uuid.uuid4()),
        exactly_once=config.exactly_once,
        group_watch_ms=GROUP_WATCH_MS if settings.watches_group else 0,
        import_timeout_ms=settings.import_timeout_ms,
        hung_ms=config.max_poll_interval_ms,
        cores=os.cpu_count() or 1,
        patience_ms=config.task_timeout_ms,
        lease_duration_ms=lease_duration_ms(config),
        highest_epoch=highest_epoch,
        remembered_epoch=highest_epoch,
        stateful=frozenset(
            subtopology.id
            for subtopology in topology.subtopologies
            if any(store.logging and store.persistent for store in subtopology.stores)
        ),
        in_memory=frozenset(
            subtopology.id
            for subtopology in topology.subtopologies
            if not all(store.persistent for store in subtopology.stores)
        ),
        topology=configured(report, config),
        live=live_options(settings.application.config),
        global_thread=GlobalThread() if shared_groups(topology) else None,
    )
