"""The loop of a StreamThread: poll, buffer, process, punctuate, commit. It opens no task.

    run_once:  poll ─► buffer (pause what is full) ─► process n, punctuate ─► commit if due
                                                        ▲______________│  until n records a task
                                                                          give nothing, or it is
                                                                          time to poll again

A round takes ``n`` records of every task; ``pace`` says how many that is.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import KafkaUnavailableError, OffsetsExpiredError
from headwater.kafka.consumer import FROM_END, FROM_START
from headwater.kafka.errors import OutputRefusedError, TransactionAbortedError
from headwater.native.messages import FULL_COMMIT_INTERVAL_S
from headwater.native.pace import Pace
from headwater.native.ratios import Ratios
from headwater.native.repeating import Repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.kafka.errors import Connection
    from headwater.kafka.producer import StreamsProducer
    from headwater.native.commit import Committer
    from headwater.native.opening import RunningTask, TaskOpener
    from headwater.ports import Clock

log = logging.getLogger(__name__)

POLL_EVERY_S: Final = 0.050
"""Rounds go on for so long before the next poll, if there is enough to do."""
AHEAD_RECORDS: Final = 8_000
"""So many records are fetched ahead while a commit waits and nothing may be processed."""
HELD_RECORDS: Final = 20_000
"""So many records may be sent while a commit waits; they leave when it is done."""
FLUSH_INTERVAL_S: Final = 1.0
"""How often changed entries go to the changelog under at-least-once: a crash repeats little."""
STALLED_S: Final = 15.0
"""After so long without any answer a commit never gets one; a transaction has timed out by then."""
_COMMIT_POLL_S: Final = 0.002
_DRAIN_S: Final = 30.0
_DRAIN_STEP_S: Final = 0.2


class ProcessingLoop:
    """Drives the running tasks of one StreamThread.

    Args:
        config: the application's.
        clock: the wall clock.
        consumer: reads the tasks' partitions.
        producer: where tasks send to.
        admin: purges.
        committer: carries commits out.
        connection: asked whether a broker is there.
        opener: knows topics, reset policies and committed offsets.
        heartbeat: called while waiting for the broker.
        check_lease: called between waiting for records and processing them; a process that was
            frozen meanwhile ends there.
        full_commit_interval_s: how often every offset is committed, changed or not.
    """

    def __init__(
        self,
        *,
        config: StreamsConfig,
        clock: Clock,
        consumer: PartitionConsumer,
        producer: StreamsProducer,
        admin: Admin,
        committer: Committer,
        connection: Connection,
        opener: TaskOpener,
        heartbeat: Callable[[], None],
        check_lease: Callable[[], None],
        full_commit_interval_s: float = FULL_COMMIT_INTERVAL_S,
    ) -> None:
        self.tasks: dict[TaskId, RunningTask] = {}
        """The running tasks; changed by ``add`` and ``remove`` only."""
        self.ratios = Ratios()
        self.failing: TaskId | None = None
        """The task in which the last error happened."""
        self._config = config
        self._clock = clock
        self._consumer = consumer
        self._producer = producer
        self._admin = admin
        self._committer = committer
        self._connection = connection
        self._opener = opener
        self._heartbeat = heartbeat
        self._check_lease = check_lease
        self._owners: dict[TopicPartition, RunningTask] = {}
        self._several: list[RunningTask] = []
        self._paused: set[TopicPartition] = set()
        self._pace = Pace()
        self._hungry = True
        self._committing: Generator[Future[Any], None, None] | None = None
        self._waiting: Future[Any] | None = None
        self._answered_at = 0.0
        self._queued = 0
        now = time.monotonic()
        self._commit_due = now + config.commit_interval_ms / 1000
        self._flush_due = now + FLUSH_INTERVAL_S
        self._full_commit_interval_s = full_commit_interval_s
        self._full_commit_due = now + full_commit_interval_s
        self._is_full_commit = False
        self._purge_due = now + config.repartition_purge_interval_ms / 1000
        self._purging: list[Future[object]] = []
        self._aborting_since: float | None = None
        self._repeating = Repeating(producer)

    # ---- tasks ---------------------------------------------------------------------------------

    def add(self, running: Iterable[RunningTask]) -> None:
        """Read and process these tasks from now on; commit all their offsets soon."""
        assert self._committing is None, "tasks change only between commits"
        offsets: dict[TopicPartition, int] = {}
        for found in running:
            self.tasks[found.task_id] = found
            self._owners |= dict.fromkeys(found.start, found)
            offsets |= found.start
        self._consumer.assign(offsets)
        self._several = [found for found in self.tasks.values() if len(found.start) > 1]
        self._full_commit_due = time.monotonic()

    def remove(self, task_ids: Iterable[TaskId]) -> list[RunningTask]:
        """Stop reading and processing these tasks, which stay open; commit them before."""
        assert self._committing is None, "tasks change only between commits"
        removed = [self.tasks.pop(task_id) for task_id in task_ids if task_id in self.tasks]
        partitions = [partition for found in removed for partition in found.start]
        for partition in partitions:
            del self._owners[partition]
        self._paused.difference_update(partitions)
        self._consumer.unassign(partitions)
        self._several = [found for found in self.tasks.values() if len(found.start) > 1]
        return removed

    @property
    def is_committing(self) -> bool:
        """Whether a commit waits for the broker; tasks must not change then."""
        return self._waiting is not None

    def reading(self) -> list[TopicPartition]:
        """Return the partitions whose next records are wanted now: all but the paused ones."""
        return [partition for partition in self._owners if partition not in self._paused]

    # ---- one turn ------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Do one turn: wait for records at most ``poll.ms``, then work for some ten milliseconds.

        Raises:
            FencedError: another producer has the transactional id; close without committing.
            HeadwaterError: the thread cannot go on; ``failing`` names the task, if one.
        """
        self._check_connection()
        try:
            if self._waiting is not None:
                self._work_ahead(self._waiting)
                self._resume_commit()
            else:
                self._turn()
        except TransactionAbortedError as error:
            self._abort(error)

    def _work_ahead(self, waiting: Future[Any]) -> None:
        """Process for the next commit while this one waits, as far as memory allows."""
        if (
            self._producer.held > HELD_RECORDS
            or self._holds_too_much()
            or self._repeating.commit_interval_s
        ):
            self._pass_time(waiting)
            return
        self._resume_partitions()
        self._poll(_COMMIT_POLL_S if self._hungry else 0.0)
        for running in self._several:
            self._update_lags(running)
        self._hungry = not self._round()
        self._punctuate()

    def _pass_time(self, waiting: Future[Any]) -> None:
        """Fetch what will be processed after the commit, but no more than a few batches of it.

        Filling every buffer would pause every partition, and the client forgets what it has
        fetched of a paused one.
        """
        if self._config.exactly_once and self._buffered() > AHEAD_RECORDS:
            wait([waiting], timeout=_COMMIT_POLL_S)
        else:
            # Under at-least-once this is also what completes the commit.
            self._poll(_COMMIT_POLL_S)

    def _buffered(self) -> int:
        return sum(owner.task.buffered(partition) for partition, owner in self._owners.items())

    def _turn(self) -> None:
        self._resume_partitions()
        self._poll(self._poll_timeout_s())
        if not self.tasks or self._producer.is_congested:
            return
        self._producer.begin()
        if time.monotonic() >= self._full_commit_due:
            # For a new task this comes before its first record: a changelog that holds data must
            # never stand beside a group that has no offset.
            self._start_commit(every_offset=True)
            return
        for running in self._several:
            self._update_lags(running)
        polled_at = time.monotonic()
        while True:
            is_full = self._round()
            self._punctuate()
            self._producer.check()
            now = time.monotonic()
            if self._start_commit_if_due(now) or not is_full or now - polled_at > POLL_EVERY_S:
                self._hungry = not is_full
                return

    def _poll_timeout_s(self) -> float:
        """How long to wait for records: not at all while some can be processed."""
        if not self._hungry:
            return 0.0
        wait_s = self._config.poll_ms / 1000
        if any(running.task.commit_needed for running in self.tasks.values()):
            due = min(self._commit_due, self._flush_due)
            wait_s = min(wait_s, max(0.0, due - time.monotonic()))
        return wait_s

    def _poll(self, timeout_s: float) -> None:
        started = time.perf_counter()
        limit = self._config.buffered_records_per_partition
        found = self._consumer.poll(timeout_s)
        self._check_lease()
        for partition, records in found:
            running = self._owners.get(partition)
            if running is None:
                continue  # unassigned since it was fetched
            held = running.task.add_records(partition, records)
            if held > limit and partition not in self._paused:
                self._paused.add(partition)
                self._consumer.pause([partition])
        for partition in self._consumer.take_lost():
            if partition in self._owners:
                self._reset_offset(partition)
        self.ratios.poll += time.perf_counter() - started

    def _resume_partitions(self) -> None:
        # Java resumes at the limit. The client forgets what it has fetched of a paused partition,
        # so pausing for a few records would fetch everything again and again.
        enough = self._config.buffered_records_per_partition // 2
        ready = [p for p in self._paused if self._owners[p].task.buffered(p) <= enough]
        if ready:
            self._paused.difference_update(ready)
            self._consumer.resume(ready)

    def _update_lags(self, running: RunningTask) -> None:
        """Say which empty partitions have nothing more on the broker."""
        end_of = self._consumer.end_of
        running.task.update_lags({p: 1 if end_of(p) is None else 0 for p in running.start})

    def _round(self) -> bool:
        """Process up to n records of each task; return whether one of them used it up."""
        n = self._pace.records
        now_ms = self._clock.now_ms()
        started = time.perf_counter()
        is_full = False
        for task_id, running in self.tasks.items():
            self.failing = task_id
            if running.task.process(n, now_ms) >= n:
                is_full = True
        self.failing = None
        took = time.perf_counter() - started
        self.ratios.process += took
        self._pace.adapt(took, is_full=is_full)
        return is_full

    def _punctuate(self) -> None:
        started = time.perf_counter()
        now_ms = self._clock.now_ms()
        for task_id, running in self.tasks.items():
            self.failing = task_id
            running.task.punctuate(now_ms)
        self.failing = None
        self.ratios.punctuate += time.perf_counter() - started

    def _reset_offset(self, partition: TopicPartition) -> None:
        """The next offset is not on the broker: deleted before it was read, or never there."""
        policy = self._opener.reset_policy(partition.topic)
        if policy == "none":
            raise OffsetsExpiredError(
                f"{partition}: the records to read next were deleted, and auto.offset.reset is "
                "none; set it to earliest or latest, or commit an offset that exists"
            )
        log.warning(
            "%s: the offset to read next is not on the broker (records were deleted before they "
            "were read, or the log was truncated); going on from the %s offset",
            partition,
            policy,
        )
        self._consumer.seek(partition, FROM_START if policy == "earliest" else FROM_END)

    def _check_connection(self) -> None:
        lost_s = self._connection.lost_for_s
        if lost_s > self._config.task_timeout_ms / 1000:
            raise self._connection.problem(f"waiting for a broker for {lost_s:.0f} s")

    # ---- commits -------------------------------------------------------------------------------

    def _start_commit_if_due(self, now: float) -> bool:
        is_due = now >= self._commit_due
        tasks = self.tasks.values()
        if is_due:
            self._observe_positions()
            self._commit_due = now + self._commit_interval_s
            self._purge_if_due(now)
        requested = any(running.task.commit_requested for running in tasks)
        if (is_due or requested or self._holds_too_much()) and (
            any(running.task.commit_needed for running in tasks)
            or self._producer.is_transaction_open
        ):
            self._start_commit()
            return True
        if now >= self._flush_due:
            self._flush_due = now + FLUSH_INTERVAL_S
            if not self._config.exactly_once:
                self._flush_changelogs()
        return False

    def _observe_positions(self) -> None:
        """Let committed offsets pass what no record stands for: transaction markers, gaps."""
        for partition, running in self._owners.items():
            end = self._consumer.end_of(partition)
            if end is not None:
                running.task.observe_position(partition, end)

    def _holds_too_much(self) -> bool:
        held = sum(running.task.uncommitted_bytes() for running in self.tasks.values())
        return held > self._config.max_uncommitted_bytes

    def _flush_changelogs(self) -> None:
        started = time.perf_counter()
        for running in self.tasks.values():
            for store in running.stores.values():
                store.flush_changelog()
        self.ratios.commit += time.perf_counter() - started

    def _start_commit(self, *, every_offset: bool = False) -> None:
        started = time.perf_counter()
        self._producer.begin()
        chosen = [
            running for running in self.tasks.values() if every_offset or running.task.commit_needed
        ]
        self._is_full_commit = every_offset
        changelogs = {p.topic for running in chosen for p in running.changelogs.values()}
        self._committing = self._committer.commit(
            chosen, self._opener.topic_ids(changelogs), every_offset=every_offset
        )
        self._waiting = next(self._committing)
        self._answered_at = time.monotonic()
        self.ratios.commit += time.perf_counter() - started

    def _resume_commit(self) -> None:
        """Finish the commit if the broker has answered."""
        assert self._waiting is not None
        assert self._committing is not None
        if not self._waiting.done():
            self._check_progress()
            return
        started = time.perf_counter()
        committing, self._committing, self._waiting = self._committing, None, None
        waiting = next(committing, None)
        if waiting is not None:
            self._committing, self._waiting = committing, waiting
        else:
            self._aborting_since = None
            self._repeating.end_if_done(self._owners)
            now = time.monotonic()
            self._commit_due = now + self._commit_interval_s
            self._flush_due = now + FLUSH_INTERVAL_S
            if self._is_full_commit:  # one that is aborted is still due
                self._full_commit_due = now + self._full_commit_interval_s
        self.ratios.commit += time.perf_counter() - started

    def _check_progress(self) -> None:
        """End a commit that gets no answer although a broker is there.

        After an outage the client was seen to wait for ever on a connection that it had given up;
        only a new one helps, and so a new process. While no broker is there, waiting is right, as
        long as ``task.timeout.ms`` allows.
        """
        now = time.monotonic()
        queued = self._producer.queued
        if self._connection.lost_for_s > 0 or queued != self._queued:
            self._answered_at, self._queued = now, queued
        elif now - self._answered_at > STALLED_S:
            raise KafkaUnavailableError(
                f"a commit has had no answer for {STALLED_S:.0f} s although a broker is there; "
                "a new process goes on from what is committed"
            )

    def commit_now(self, *, every_offset: bool = False) -> None:
        """Commit everything, waiting for it: before tasks are closed.

        Tasks that were added just now may have changelog entries, which must never stand beside a
        group that has no offset: their first commit, if it is still due, is this one.

        Args:
            every_offset: commit offsets that have not changed, too, in any case.

        Raises:
            HeadwaterError: as ``run_once``; nothing, or all, of it was committed.
        """
        try:
            self._wait_for_broker()
            self._observe_positions()
            is_due = time.monotonic() >= self._full_commit_due
            every_offset = every_offset or (is_due and bool(self.tasks))
            is_needed = any(running.task.commit_needed for running in self.tasks.values())
            if is_needed or every_offset or self._producer.is_transaction_open:
                self._start_commit(every_offset=every_offset)
                self._wait_for_broker()
        except TransactionAbortedError as error:
            # The tasks are back at their last commit, which is as good a state to be closed in.
            self._abort(error)

    def _wait_for_broker(self) -> None:
        while self._waiting is not None:
            self._pass_time(self._waiting)
            self._resume_commit()
            self._heartbeat()

    def _abort(self, error: TransactionAbortedError) -> None:
        """Forget everything since the last commit and read it again.

        Nothing of a transaction was visible. Under at-least-once what was sent is sent again.
        """
        now = time.monotonic()
        self._aborting_since = self._aborting_since or now
        timeout_s = self._config.task_timeout_ms / 1000
        if now - self._aborting_since > timeout_s:
            raise error
        log.warning("going back to the last commit, to process again: %s", error)
        if not self._config.exactly_once:
            # Learn what else was refused, or the next attempt would.
            deadline = now + _DRAIN_S
            while not self._producer.drain(_DRAIN_STEP_S) and time.monotonic() < deadline:
                self._check_lease()
                self._heartbeat()
        if isinstance(error, OutputRefusedError):
            self._repeating.begin(self.tasks.values())
            self._commit_due = now
        self._committing = self._waiting = None
        self._producer.abort_transaction(timeout_s)
        committed = self._opener.committed(list(self._owners))
        for running in self.tasks.values():
            running.task.abort()
            for partition, start in running.start.items():
                found = committed.get(partition)
                self._consumer.seek(partition, start if found is None else found.offset)
        self._paused.clear()
        self._hungry = True

    @property
    def _commit_interval_s(self) -> float:
        again_s = self._repeating.commit_interval_s
        return again_s or self._config.commit_interval_ms / 1000

    def _purge_if_due(self, now: float) -> None:
        """Delete what is committed from repartition topics; nobody else reads them."""
        if now < self._purge_due or not all(future.done() for future in self._purging):
            return
        self._purge_due = now + self._config.repartition_purge_interval_ms / 1000
        for future in self._purging:
            if future.exception() is not None:
                log.info(
                    "purge of repartition topics failed, to be repeated: %s", future.exception()
                )
        internal = self._opener.repartition_topics
        offsets = {
            partition: offset
            for running in self.tasks.values()
            for partition, offset in running.committed.items()
            if partition.topic in internal and offset > running.start[partition]
        }
        self._purging = list(self._admin.delete_records(offsets))
