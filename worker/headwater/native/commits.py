"""When the tasks of a loop are committed, all together; ``commit.py`` says how.

    start ──► waiting: the broker is asked, the loop goes on ──► resume ... ──► done
                 └─ aborted: ``loop.py`` takes the tasks back to their last commit

Every commit interval, or earlier if a task asks for it or holds too much. Every offset is committed
before a new task's first record, and every few hours.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import KafkaUnavailableError
from headwater.native.interval import CommitInterval
from headwater.native.purging import Purging
from headwater.native.repeating import Repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from concurrent.futures import Future

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.kafka.errors import TransactionAbortedError
    from headwater.native.intake import Intake
    from headwater.native.opening import RunningTask
    from headwater.native.policy import CommitListener
    from headwater.native.ports import Commit, LoopClients, Offsets
    from headwater.native.ratios import Ratios

FLUSH_INTERVAL_S: Final = 1.0
"""How often changed entries go to the changelog under at-least-once: a crash repeats little."""
CALL_WAIT_S: Final = 0.005
"""So long a loop waits for calls at a time; records may come meanwhile."""
STALLED_S: Final = 15.0
"""After so long without any answer a commit never gets one; a transaction has timed out by then."""


class Commits:
    """Starts the commits of one loop, and sees them through.

    Args:
        config: intervals and guarantee.
        tasks: the running ones; the loop's own mapping.
        intake: what the tasks read.
        committer: carries commits out.
        clients: the loop's.
        offsets: knows topics.
        ratios: where time is noted.
        listener: told what becomes of the work.
        is_each_round: whether each round is committed at once, every task with it.
        full_commit_interval_s: how often every offset is committed, changed or not.

    Attributes:
        waiting: what a commit under way waits for.
        failed: how often the tasks went back to their last commit.
        repeating: whether records are processed again because an output was refused.
    """

    def __init__(
        self,
        *,
        config: StreamsConfig,
        tasks: Mapping[TaskId, RunningTask],
        intake: Intake,
        committer: Commit,
        clients: LoopClients,
        offsets: Offsets,
        ratios: Ratios,
        listener: CommitListener,
        is_each_round: bool,
        full_commit_interval_s: float,
    ) -> None:
        self.waiting: Future[Any] | None = None
        self.failed = 0
        self.repeating = Repeating(clients.producer)
        self._config = config
        self._tasks = tasks
        self._intake = intake
        self._committer = committer
        self._producer = clients.producer
        self._offsets = offsets
        self._broker = clients.connection
        self._ratios = ratios
        self._listener = listener
        self._is_each_round = is_each_round
        self._under_way: Generator[Future[Any], None, None] | None = None
        self._answered_at = self._started = 0.0
        self._queued = 0
        self._held_bytes = 0
        self._has_asked = False
        self._is_counted = False
        self._aborting_since: float | None = None
        now = time.monotonic()
        self._interval = CommitInterval(now, config.commit_interval_ms / 1000)
        self._flush_due = now + FLUSH_INTERVAL_S
        self._full_interval_s = full_commit_interval_s
        self._full_due = now + full_commit_interval_s
        self._is_wanted = False
        self._is_full = False
        self._purging = Purging(
            clients.admin, offsets, interval_s=config.repartition_purge_interval_ms / 1000, now=now
        )

    # ---- when ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float:
        """When something is to be committed or flushed, by the monotonic clock."""
        return min(self._interval.due, self._flush_due)

    def is_full_due(self, now: float) -> bool:
        """Whether every offset is to be committed now."""
        return now >= self._full_due

    def want_full(self) -> None:
        """Commit every offset before the next record is processed."""
        if not self._is_each_round:
            self._full_due = time.monotonic()

    def want_soon(self, now: float) -> None:
        """Commit after the next round."""
        self._interval.hasten(now)

    def restart_interval(self) -> None:
        """Count the commit interval from now."""
        self._interval.restart(time.monotonic(), self._interval_s)

    def may_work_ahead(self) -> bool:
        """Whether records may be processed for the next commit while this one waits."""
        return (
            self._interval.may_work_ahead(time.monotonic())
            and not self.holds_too_much()
            and not self.repeating.commit_interval_s
        )

    def holds_too_much(self) -> bool:
        """Whether uncommitted writes take more memory than they may."""
        self._count()
        return self._held_bytes > self._config.max_uncommitted_bytes

    def _is_requested(self) -> bool:
        """Whether a task asks for a commit."""
        self._count()
        return self._has_asked

    def _count(self) -> None:
        """Look at every task if several may have changed since the last look."""
        if self._is_counted:
            return
        self._is_counted = True
        running = self._tasks.values()
        for one in running:
            one.held_bytes = one.task.uncommitted_bytes()
        self._held_bytes = sum(one.held_bytes for one in running)
        self._has_asked = any(one.task.commit_requested for one in running)

    def note(self, running: RunningTask) -> None:
        """Note what a task holds that has worked, and whether it asks for a commit.

        A look at every task each time costs too much.
        """
        held = running.task.uncommitted_bytes()
        self._held_bytes += held - running.held_bytes
        running.held_bytes = held
        self._has_asked |= running.task.commit_requested

    def count_anew(self) -> None:
        """Look at every task before it is said again what all of them hold and ask for."""
        self._is_counted = False

    def start_if_due(self, now: float) -> bool:
        """Start a commit, if it is time; return whether one was started."""
        if self._is_each_round:
            self.settle_now()
            self.start(every_offset=True)
            return True
        is_due = now >= self._interval.due
        if is_due:
            self._intake.observe_positions()
            self._interval.restart(now, self._interval_s)
            self.purge_if_due(now)
        if is_due or self._is_requested() or self.holds_too_much():
            self._is_wanted = True
        if self._is_wanted:
            self._is_wanted = self.is_needed()
            if self._is_wanted and self.settle():
                self.start()
                return True
        if now >= self._flush_due:
            self._flush_due = now + FLUSH_INTERVAL_S
            if not self._config.exactly_once:
                self._flush_changelogs()
        return False

    def settle(self) -> bool:
        """Let calls in flight end; return whether nothing waits inside any task.

        Raises:
            HeadwaterError: a record could not be handled.
        """
        self.count_anew()
        settled = [
            running.task.settle() for running in self._tasks.values()
        ]  # each, not the first few
        return all(settled)

    def settle_now(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until nothing waits inside any task; every call has a time-out.

        Args:
            meanwhile: called while waiting.

        Raises:
            HeadwaterError: as ``settle``.
        """
        while not self.settle():
            meanwhile()
            self.wait_for_call()

    def wait_for_call(self) -> None:
        """Wait for a moment if a task waits for a call: until one is over."""
        for running in self._tasks.values():
            if running.task.has_stages and running.task.pending:
                running.task.wait_for_call(CALL_WAIT_S)
                return

    def is_needed(self) -> bool:
        """Whether there is anything to commit."""
        return (
            any(running.task.commit_needed for running in self._tasks.values())
            or self._producer.is_transaction_open
        )

    def purge_if_due(self, now: float) -> None:
        """Delete what is committed from repartition topics, if it is time."""
        self._purging.purge_if_due(now, self._tasks.values())

    def _flush_changelogs(self) -> None:
        started = time.perf_counter()
        self.count_anew()
        for running in self._tasks.values():
            for store in running.stores.values():
                store.flush_changelog()
        self._ratios.commit += time.perf_counter() - started

    @property
    def _interval_s(self) -> float:
        return self.repeating.commit_interval_s or self._config.commit_interval_ms / 1000

    # ---- one commit ----------------------------------------------------------------------------

    def start(self, *, every_offset: bool = False) -> None:
        """Start a commit of the tasks that need it.

        Args:
            every_offset: commit all tasks, and offsets that have not changed, too.
        """
        started = self._started = time.perf_counter()
        self.count_anew()
        self._is_wanted = False
        self._interval.restart(time.monotonic(), self._interval_s)
        self._producer.begin()
        tasks = self._tasks.values()
        chosen = [running for running in tasks if every_offset or running.task.commit_needed]
        self._is_full = every_offset
        changelogs = {p.topic for running in chosen for p in running.changelogs.values()}
        self._under_way = self._committer.commit(
            chosen, self._offsets.topic_ids(changelogs), every_offset=every_offset
        )
        is_done = not self._go_on()
        self._answered_at = time.monotonic()
        self._interval.wait(self._answered_at)
        for running in tasks:
            running.task.resume()
        # What the record caches have let go is in this commit; what is processed from now on, not.
        self._listener.sealed(tasks)
        if is_done:
            self._done()
        self._ratios.commit += time.perf_counter() - started

    def resume(self) -> None:
        """Finish the commit under way if the broker has answered."""
        assert self.waiting is not None
        if not self.waiting.done():
            self._check_progress()
            return
        started = time.perf_counter()
        if not self._go_on():
            self._done()
        self._ratios.commit += time.perf_counter() - started

    def _go_on(self) -> bool:
        """Do the next step; return whether the broker is to be waited for before another."""
        assert self._under_way is not None
        under_way, self._under_way, self.waiting = self._under_way, None, None
        waiting = next(under_way, None)
        if waiting is not None:
            self._under_way, self.waiting = under_way, waiting
        return waiting is not None

    def _done(self) -> None:
        self._aborting_since = None
        self.count_anew()
        self._ratios.committed(time.perf_counter() - self._started)
        self.repeating.end_if_done(self._intake.owners)
        now = time.monotonic()
        self._flush_due = now + FLUSH_INTERVAL_S
        if self._is_full:  # one that is aborted is still due
            self._full_due = now + self._full_interval_s
        self._listener.committed()

    def forget(self) -> None:
        """Forget the commit under way, which was aborted."""
        self.failed += 1
        self.count_anew()
        self._under_way = self.waiting = None

    def check_abort(self, error: TransactionAbortedError, now: float) -> None:
        """Return if it is worth trying again after an abort.

        Raises:
            TransactionAbortedError: every commit has been aborted for ``task.timeout.ms``.
        """
        self._aborting_since = self._aborting_since or now
        if now - self._aborting_since > self._config.task_timeout_ms / 1000:
            raise error

    def _check_progress(self) -> None:
        """End a commit that gets no answer although a broker is there.

        After an outage the client was seen to wait for ever on a connection that it had given up;
        only a new one helps, and so a new process. While no broker is there, waiting is right, as
        long as ``task.timeout.ms`` allows.
        """
        now = time.monotonic()
        queued = self._producer.queued
        if self._broker.lost_for_s > 0 or queued != self._queued:
            self._answered_at, self._queued = now, queued
        elif now - self._answered_at > STALLED_S:
            raise KafkaUnavailableError(
                f"a commit has had no answer for {STALLED_S:.0f} s although a broker is there; "
                "a new process goes on from what is committed"
            )
