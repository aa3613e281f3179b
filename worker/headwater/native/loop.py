"""The loop of a StreamThread: poll, buffer, process, punctuate, commit. It opens no task.

    run_once:  poll ─► buffer (pause what is full) ─► process n, punctuate ─► commit if due
                                                        ▲______________│  until n records a task
                                                                          give nothing, or it is
                                                                          time to poll again

A round takes ``n`` records of every task; ``pace`` says how many that is. ``intake`` fills the
buffers, ``commits`` knows when to commit, and a ``policy`` where all this ends.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.attribution import TASK
from headwater.kafka.errors import OutputRefusedError, TransactionAbortedError
from headwater.native.commits import Commits
from headwater.native.intake import Intake
from headwater.native.messages import FULL_COMMIT_INTERVAL_S
from headwater.native.pace import ROUND_S, Round
from headwater.native.policy import Endless, Unheard
from headwater.native.ratios import Ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId, TopicPartition
    from headwater.native.opening import RunningTask
    from headwater.native.policy import CommitListener, LoopPolicy
    from headwater.native.ports import Commit, LoopClients, Offsets
    from headwater.ports import Clock
    from headwater.processor.task import StreamTask

log = logging.getLogger(__name__)

POLL_EVERY_S: Final = 0.050
"""Rounds go on for so long before the next poll, if every task has enough to do."""
AHEAD_RECORDS: Final = 8_000
"""So many records are fetched ahead while a commit waits and nothing may be processed."""
HELD_RECORDS: Final = 20_000
"""So many records may be sent while a commit waits; they leave when it is done."""
_COMMIT_POLL_S: Final = 0.002
_CALL_POLL_S: Final = 0.002
"""So long records are waited for while calls are in flight, or a batch is not full yet."""
_DRAIN_S: Final = 30.0
_DRAIN_STEP_S: Final = 0.2


def _turn_of(running: RunningTask) -> float:
    return running.pace.turn_s


def nothing() -> None:
    """Nobody supervises this loop but whoever runs it."""


class ProcessingLoop:
    """Drives the running tasks of one StreamThread, or of whoever else gives it a policy.

    Args:
        config: the application's.
        clock: the wall clock.
        clients: the tasks'.
        committer: carries commits out.
        opener: knows topics, reset policies and committed offsets.
        policy: where the work ends.
        listener: told what becomes of the work, once a commit.
        heartbeat: called while waiting for the broker.
        check_lease: called between waiting for records and processing them; a process that was
            frozen meanwhile ends there.
        full_commit_interval_s: how often every offset is committed, changed or not.
        ratios: where time is noted, if somebody looks at it.
    """

    def __init__(
        self,
        *,
        config: StreamsConfig,
        clock: Clock,
        clients: LoopClients,
        committer: Commit,
        opener: Offsets,
        policy: LoopPolicy | None = None,
        listener: CommitListener | None = None,
        heartbeat: Callable[[], None] = nothing,
        check_lease: Callable[[], None] = nothing,
        full_commit_interval_s: float = FULL_COMMIT_INTERVAL_S,
        ratios: Ratios | None = None,
    ) -> None:
        self.tasks: dict[TaskId, RunningTask] = {}
        """The running tasks; changed by ``add`` and ``remove`` only."""
        self.ratios = ratios or Ratios()
        TASK.set(None)
        self.is_paused = False
        """Nothing is processed or punctuated; polls and commits go on; see ``pause``."""
        self._config = config
        self._clock = clock
        self._producer = clients.producer
        self._connection = clients.connection
        self._opener = opener
        self._policy = policy or Endless()
        self._listener = listener or Unheard()
        self._heartbeat = heartbeat
        self._check_lease = check_lease
        self._hungry = True
        self._last_round = Round()
        self._staged: list[RunningTask] = []
        self._with_stages: list[StreamTask] = []
        self._scheduled: dict[TaskId, RunningTask] = {}
        self._intake = Intake(
            consumer=clients.consumer,
            records_max=config.buffered_records_per_partition,
            reset_policy=opener.reset_policy,
            offset_since=opener.offset_since,
            check_lease=check_lease,
        )
        self._commits = Commits(
            config=config,
            tasks=self.tasks,
            intake=self._intake,
            committer=committer,
            clients=clients,
            offsets=opener,
            ratios=self.ratios,
            listener=self._listener,
            is_each_round=self._policy.is_record_by_record,
            full_commit_interval_s=full_commit_interval_s,
        )

    # ---- tasks ---------------------------------------------------------------------------------

    def add(self, running: Iterable[RunningTask]) -> None:
        """Initialise these tasks, and read and process them from now on; commit all offsets soon.

        Raises:
            HeadwaterError: a processor could not begin; ``failing`` names the task.
        """
        assert not self.is_committing, "tasks change only between commits"
        added = list(running)
        for found in added:
            found.task.tell_schedules(partial(self._scheduled.setdefault, found.task_id, found))
            found.task.initialize()
        self.tasks.update((found.task_id, found) for found in added)
        self._find_stages()
        self._intake.add(added)
        self._commits.want_full()

    def remove(self, task_ids: Iterable[TaskId]) -> list[RunningTask]:
        """Stop reading and processing these tasks, which stay open; commit them before."""
        assert not self.is_committing, "tasks change only between commits"
        removed = [self.tasks.pop(task_id) for task_id in task_ids if task_id in self.tasks]
        for found in removed:
            self._scheduled.pop(found.task_id, None)
        self._find_stages()
        self._intake.remove(removed)
        return removed

    def _find_stages(self) -> None:
        self._staged = [running for running in self.tasks.values() if running.task.has_stages]
        self._with_stages = [running.task for running in self._staged]
        self._commits.count_anew()

    @property
    def failed_commits(self) -> int:
        """How often the tasks went back to their last commit."""
        return self._commits.failed

    @property
    def failing(self) -> TaskId | None:
        """The task in which the last error happened."""
        return TASK.get()

    @property
    def is_committing(self) -> bool:
        """Whether a commit waits for the broker; tasks must not change then."""
        return self._commits.waiting is not None

    def reading(self) -> list[TopicPartition]:
        """Return the partitions whose next records are wanted now: all but the paused ones."""
        return self._intake.reading()

    def pause(self) -> None:
        """Commit, then process nothing and call no punctuator until ``resume`` (KIP-834).

        Records are polled as far as the buffers allow. No transaction stays open.

        Raises:
            HeadwaterError: as ``run_once``.
        """
        self.commit_now()
        self.is_paused = True

    def resume(self) -> None:
        """Process again."""
        self.is_paused = False
        self._hungry = False  # what the buffers hold waits already

    # ---- bounds --------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the policy's bounds are reached: there is nothing more to do but to commit."""
        return not self.is_committing and self._policy.is_over(self._intake, self._clock.now_ms())

    def begin(self) -> None:
        """Count the commit interval from now: the policy's bounds have moved on."""
        self._commits.restart_interval()

    def end(self, *, every_offset: bool = False) -> bool:
        """Commit all that was done within the bounds; return whether that was possible.

        If it was not, the tasks are back at their last commit, and go on from there.

        Args:
            every_offset: commit offsets that have not changed, too.

        Raises:
            HeadwaterError: as ``run_once``.
        """
        if not self.commit_now(every_offset=every_offset):
            return False
        self._commits.purge_if_due(time.monotonic())
        return True

    # ---- one turn ------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Do one turn: wait for records at most ``poll.ms``, then work for some ten milliseconds.

        Raises:
            FencedError: another producer has the transactional id; close without committing.
            HeadwaterError: the thread cannot go on; ``failing`` names the task, if one.
        """
        self._check_connection()
        try:
            if (waiting := self._commits.waiting) is not None:
                self._work_ahead(waiting)
                self._commits.resume()
            else:
                self._turn()
        except TransactionAbortedError as error:
            self._abort(error)

    def _work_ahead(self, waiting: Future[Any]) -> None:
        """Process for the next commit while this one waits, until that is due or memory is full."""
        commits = self._commits
        if self.is_paused or self._producer.held > HELD_RECORDS or not commits.may_work_ahead():
            self._pass_time(waiting)
            return
        self._intake.resume()
        self._poll(_COMMIT_POLL_S if self._hungry else 0.0)
        self._update_lags()
        self._hungry = not self._round().is_full
        self.punctuate()

    def _pass_time(self, waiting: Future[Any]) -> None:
        """Fetch what will be processed after the commit, but no more than a few batches of it.

        Filling every buffer would pause every partition, and the client forgets what it has
        fetched of a paused one.
        """
        if self._config.exactly_once and self._intake.buffered() > AHEAD_RECORDS:
            started = time.perf_counter()
            wait([waiting], timeout=_COMMIT_POLL_S)
            self.ratios.blocked += time.perf_counter() - started
        else:
            # Under at-least-once this is also what completes the commit.
            self._poll(_COMMIT_POLL_S)

    def _turn(self) -> None:
        self._intake.resume()
        self._poll(self._poll_timeout_s())
        if not self.tasks or self._producer.is_congested:
            return
        if self.is_paused and not self._commits.is_full_due(time.monotonic()):
            return
        self._producer.begin()
        if self._commits.is_full_due(time.monotonic()):
            # For a new task this comes before its first record: a changelog that holds data must
            # never stand beside a group that has no offset.
            if self._commits.settle():
                self._commits.start(every_offset=True)
            return
        self._update_lags()
        polled_at = time.monotonic()
        while True:
            this = self._round()
            self.punctuate()
            self._producer.check()
            now = time.monotonic()
            poll_every_s = ROUND_S if this.has_idle else POLL_EVERY_S
            if (
                self._commits.start_if_due(now)
                or not this.is_full
                or this.ran_out
                or now - polled_at > poll_every_s
            ):
                self._hungry = not this.is_full
                return

    def _poll_timeout_s(self) -> float:
        """How long to wait for records: not at all while some can be processed."""
        if self.is_paused:
            return self._config.poll_ms / 1000
        if not self._hungry:
            return 0.0
        if any(task.pending for task in self._with_stages):
            if any(running.task.has_room for running in self.tasks.values()):
                return _CALL_POLL_S
            self._commits.wait_for_call()
            return 0.0
        wait_s = self._config.poll_ms / 1000
        if any(running.task.commit_needed for running in self.tasks.values()):
            wait_s = min(wait_s, max(0.0, self._commits.next_due - time.monotonic()))
        return wait_s

    def _poll(self, timeout_s: float) -> None:
        started = time.perf_counter()
        found = self._intake.poll(timeout_s)
        self.ratios.polled(found, time.perf_counter() - started)

    def _update_lags(self) -> None:
        """Say which empty partitions have nothing more on the broker."""
        for running in self._intake.several:
            running.task.update_lags(self._policy.lags(running, self._intake))

    def _round(self) -> Round:
        """Process some records of each task, or of those whose turn it is."""
        now_ms = self._clock.now_ms()
        if self._policy.is_record_by_record:
            return self._single_round(now_ms)
        # Where there are hundreds of tasks, most have nothing: a look at each would cost the most.
        filled = self._intake.filled
        tasks = list(filled.values())
        tasks += [one for one in self._staged if one.task_id not in filled]
        this = self._last_round.next([running.pace for running in tasks])
        if len(tasks) > 1:
            tasks.sort(key=_turn_of)
        this.has_idle = len(tasks) < len(self.tasks)
        began = started = time.perf_counter()
        for running in tasks:
            pace = running.pace
            if this.leaves_out(pace):
                break
            wanted = pace.records
            taken = running.task.process(wanted, now_ms)
            ended = time.perf_counter()
            holds = running.task.holds_records
            if taken or not holds:
                this.add(pace, ended - started, taken, wanted)
            # Else it waits for a partition, or for calls: it has no part in this round.
            if taken or running.task.commit_requested:
                self._commits.note(running)
            if not holds:
                filled.pop(running.task_id, None)
            started = ended
        self.ratios.processed(this.records, started - began)
        self._last_round = this
        return this

    def _single_round(self, now_ms: int) -> Round:
        """Process one record of each task."""
        this = Round()
        started = time.perf_counter()
        for running in self.tasks.values():
            taken = running.task.process(1, now_ms)
            this.records += taken
            this.is_full |= taken > 0
            self._commits.note(running)
        self.ratios.processed(this.records, time.perf_counter() - started)
        return this

    def punctuate(self) -> None:
        """Call the punctuators that are due.

        Raises:
            HeadwaterError: one has failed; ``failing`` names the task.
        """
        started = time.perf_counter()
        now_ms = self._clock.now_ms()
        fired = 0
        for running in list(self._scheduled.values()):
            if not running.task.has_schedules:  # it went back to its last commit, say
                del self._scheduled[running.task_id]
            elif called := running.task.punctuate(now_ms):
                fired += called
                self._commits.note(running)
        self.ratios.punctuated(fired, time.perf_counter() - started)

    def _check_connection(self) -> None:
        lost_s = self._connection.lost_for_s
        if lost_s > self._config.task_timeout_ms / 1000:
            raise self._connection.problem(f"waiting for a broker for {lost_s:.0f} s")

    # ---- waiting for a commit, and going back --------------------------------------------------

    def commit_now(self, *, every_offset: bool = False) -> bool:
        """Commit everything, waiting for it: before tasks are closed.

        Tasks that were added just now may have changelog entries, which must never stand beside a
        group that has no offset: their first commit, if it is still due, is this one.

        Args:
            every_offset: commit offsets that have not changed, too, in any case.

        Returns:
            ``False`` if the tasks are back at their last commit, which is as good a state to be
            closed in.

        Raises:
            HeadwaterError: as ``run_once``; nothing, or all, of it was committed.
        """
        try:
            self._wait_for_broker()
            self._intake.observe_positions()
            is_due = self._commits.is_full_due(time.monotonic())
            every_offset = every_offset or (is_due and bool(self.tasks))
            if every_offset or self._commits.is_needed():
                self._settle()
                self._commits.start(every_offset=every_offset)
                self._wait_for_broker()
        except TransactionAbortedError as error:
            self._abort(error)
            return False
        return True

    def _settle(self) -> None:
        """Wait for the calls in flight, and for those that record caches give rise to."""
        if self._with_stages:
            self._producer.begin()
            self._commits.settle_now(self._pulse)

    def _pulse(self) -> None:
        self._check_lease()
        self._heartbeat()

    def _wait_for_broker(self) -> None:
        while (waiting := self._commits.waiting) is not None:
            self._pass_time(waiting)
            self._commits.resume()
            self._heartbeat()

    def _abort(self, error: TransactionAbortedError) -> None:
        """Forget everything since the last commit and read it again.

        Nothing of a transaction was visible. Under at-least-once what was sent is sent again.
        """
        now = time.monotonic()
        self._commits.check_abort(error, now)
        log.warning("going back to the last commit, to process again: %s", error)
        if not self._config.exactly_once:
            # Learn what else was refused, or the next attempt would.
            deadline = now + _DRAIN_S
            while not self._producer.drain(_DRAIN_STEP_S) and time.monotonic() < deadline:
                self._check_lease()
                self._heartbeat()
        if isinstance(error, OutputRefusedError):
            self._commits.repeating.begin(self.tasks.values())
            self._commits.want_soon(now)
        self._commits.forget()
        self._producer.abort_transaction(self._config.task_timeout_ms / 1000)
        committed = self._opener.committed(list(self._intake.owners))
        for running in self.tasks.values():
            running.task.abort()
        self._intake.rewind(committed)
        self._listener.given_up(self.tasks.values())
        self._hungry = True
