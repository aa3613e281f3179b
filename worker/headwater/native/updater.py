"""The StateUpdater: a process that brings the stores of tasks to the end of their changelogs.

    Restore(task) ─► open stores, judge positions ─► apply ... apply ─► close stores ─► Restored
                                                       └─ CancelRestore ─► close ─► Cancelled
    Follow(task)  ─► open stores, judge positions ─► apply, tell the lag, apply ...
                        ├─ Restore: the tail up to the end of this moment ─► close ─► Restored
                        └─ CancelRestore ─► close ─► Cancelled

The end of a restore is the changelog's end offset, open transactions counted, as it is when the
restore begins; main sends ``Restore`` only after whoever wrote before has released the task or was
fenced. Only committed records are applied. A restore is complete when the *consumer's position*
has reached that end: the last offsets of a changelog are commit markers, aborted records or gaps
of compaction more often than records. Stores in memory are the StreamThread's own business.

What is read is taken in, and written when it is much or has waited: only the newest change of each
key. Standby and warm-up tasks are followed without an end. Restores come first: while there is one,
followed changelogs wait. Copies that keep up are followed by a thread of low priority, so that
processing goes first on a full machine. A follower outlives what it knew when it opened the store,
so now and then it looks whether its changelogs are still the same ones (``_look``).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from headwater.config import StreamsConfig
from headwater.errors import HeadwaterError, StateError, StoreCorruptedError
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.settings import consumer_settings
from headwater.model.reporting import changelog_topic
from headwater.native.changelogs import Changelogs, now_ms
from headwater.native.courtesy import CourteousThread
from headwater.native.cutoff import CutOffWatch
from headwater.native.garbage import tune_garbage_collection
from headwater.native.loading import child_topology
from headwater.native.losses import ChangelogGuard
from headwater.native.messages import (
    Cancelled,
    CancelRestore,
    Follow,
    Following,
    Restore,
    Restored,
    RestoreProgress,
    Stop,
    Stopped,
)
from headwater.native.process import failed
from headwater.native.taskstores import TaskStores, TaskStoresOpener
from headwater.state.backends.rocks import BlockCache
from headwater.state.directory import StateDirectory
from headwater.state.position import Rebuild
from headwater.state.restore import BATCH_ENTRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headwater.ids import TaskId
    from headwater.kafka.newest import Run
    from headwater.model.stores import StoreSpec
    from headwater.native.changelogs import Sight
    from headwater.native.messages import ChildSettings, ToUpdater
    from headwater.native.process import Link
    from headwater.native.taskstores import Changelog
    from headwater.state.restore import ChangelogFacts

log = logging.getLogger(__name__)

_PROGRESS_S: Final = 0.5
_POLL_S: Final = 0.02
"""So long a command may wait while nothing comes, for example one that promotes a copy."""
_POLL_RECORDS: Final = 1_000
"""So few that what a poll returns is still in the processor's cache when it is looked at."""
_POLLS_MORE: Final = 4
_WRITE_S: Final = 2.0
"""So long a change may wait for the next one of its key before it is written to the store."""
_TAKEN_BYTES_MAX: Final = 48 * 1024 * 1024
"""Memory for what waits, of all stores."""
_IDLE_S: Final = 1.0
_LOOK_S: Final = 20.0
"""How often followed changelogs are looked at."""
_WRITE_BUFFER_BYTES: Final = 96 * 1024 * 1024
"""Memory for what all stores have not written to their files yet."""


def run(settings: ChildSettings, link: Link) -> None:
    """Run a StateUpdater until it is told to stop; the target of ``ChildProcess``."""
    updater = StateUpdater(settings, link)
    tune_garbage_collection()
    updater.run()


class StateUpdater:
    """Restores and follows any number of tasks, fairly: the consumer takes turns among partitions.

    Args:
        settings: ``slot`` is the number of this StateUpdater.
        link: to the worker's main process.
    """

    def __init__(self, settings: ChildSettings, link: Link) -> None:
        self._settings = settings
        self._link = link
        self._config = StreamsConfig.parse(settings.config)
        self._topology = child_topology(settings)
        client_id = f"{settings.application_id}-{settings.worker}-StateUpdater-{settings.slot}"
        access = Access.of(self._config, client_id=client_id)
        self._connection, admin = access.connection, access.admin
        self._changelogs = Changelogs(admin)
        self._consumer = PartitionConsumer(
            consumer_settings(
                self._config,
                self._connection,
                client_id=f"{client_id}-restore-consumer",
                role="restore",
            ),
            self._connection,
            batch_records=_POLL_RECORDS,
        )
        self._cut_off = CutOffWatch(self._consumer, admin, committed_only=True)
        report = self._topology.report(settings.application_id)
        guard = ChangelogGuard(access, report)
        self._opener = TaskStoresOpener(
            StateDirectory(Path(settings.state_dir), settings.application_id),
            f"StateUpdater {settings.slot} of {settings.worker}",
            BlockCache(write_buffer_bytes=_WRITE_BUFFER_BYTES),
            guard,
        )
        self._specs = {
            subtopology.id: tuple(
                spec for spec in subtopology.stores if spec.logging and spec.persistent
            )
            for subtopology in self._topology.subtopologies
        }
        self._tasks: dict[TaskId, TaskStores] = {}
        self._of_partition: dict[TopicPartition, TaskStores] = {}
        self._paused: set[TopicPartition] = set()
        self._told_at = self._looked_at = 0.0
        self._looking_from: Mapping[TopicPartition, int] = {}
        self._sights: Callable[[], dict[TopicPartition, Sight] | None] | None = None
        self._followed = 0
        self._courteous = CourteousThread()

    def run(self) -> None:
        """Do what main says until it says stop."""
        while True:
            commands = self._link.commands()
            if not commands and not self._tasks:
                command = self._link.wait(_IDLE_S)
                commands = [] if command is None else [command, *self._link.commands()]
            if any(isinstance(command, Stop) for command in commands):
                break
            self._obey(commands)
            if self._may_step_back():
                self._courteous.repeat(self._turn, self._may_step_back)
            elif self._tasks:
                self._turn()
        for stores in self._tasks.values():
            stores.close()
        self._consumer.close()
        self._link.send(Stopped())

    def _turn(self) -> None:
        self._put_restores_first()
        self._read()
        self._look()
        self._cut_off.check(self._reading)
        self._tell_progress()

    def _may_step_back(self) -> bool:
        """Whether there is nothing but copies near the ends of their changelogs."""
        tasks = self._tasks.values()
        return bool(tasks) and not self._link.pending() and all(s.keeps_up for s in tasks)

    def _obey(self, commands: Iterable[ToUpdater]) -> None:
        wanted: dict[TaskId, bool] = {}
        for command in commands:
            match command:
                case Restore(task=task):
                    held = self._tasks.get(task)
                    if held is not None and not held.follows:
                        self._drop(task)
                    wanted[task] = False
                case Follow(task=task):
                    self._drop(task)
                    wanted[task] = True
                case CancelRestore(task=task):
                    wanted.pop(task, None)
                    self._drop(task)
                    self._link.send(Cancelled(task=task))
                case Stop():
                    pass
                case _:
                    assert_never(command)
        self._begin([task for task, follows in wanted.items() if not follows], follow=False)
        self._begin([task for task, follows in wanted.items() if follows], follow=True)

    # -- begin -----------------------------------------------------------------------------------

    def _begin(self, tasks: Collection[TaskId], *, follow: bool) -> None:
        """Open the stores of tasks, and read those that are not at the end yet.

        A task that is followed and is to be restored keeps its stores open.
        """
        if not tasks:
            return
        partitions = {task: self._partitions(task) for task in tasks}
        try:
            facts = self._changelogs.facts([p for found in partitions.values() for p in found])
        except HeadwaterError as error:
            for task in tasks:
                self._fail(task, error, following=follow)
            return
        asked_at_ms = now_ms()
        start: dict[TopicPartition, int] = {}
        for task in tasks:
            try:
                if self._goes_on(task, facts, asked_at_ms):
                    continue
                stores = TaskStores(task, follow)
                self._opener.open(stores, partitions[task], facts, asked_at_ms)
            except HeadwaterError as error:
                self._fail(task, error, following=follow)
                continue
            self._tasks[task] = stores
            log.info("task %s: %s %s", task, "following" if follow else "restoring", stores.ahead)
            if follow and stores.from_scratch:
                log.warning("task %s built anew: %s", task, "; ".join(stores.from_scratch))
            for partition, changelog in stores.changelogs.items():
                self._of_partition[partition] = stores
                self._advance(stores, changelog, changelog.offset)
            self._finish_if_done(stores)
            start |= {
                changelog.partition: changelog.offset
                for changelog in stores.changelogs.values()
                if task in self._tasks and (follow or not changelog.done)
            }
        self._consumer.assign(start)
        self._told_at = 0.0

    def _partitions(self, task: TaskId) -> dict[TopicPartition, StoreSpec]:
        application_id = self._settings.application_id
        return {
            TopicPartition(changelog_topic(application_id, spec.name), task.partition): spec
            for spec in self._specs.get(task.subtopology, ())
        }

    def _goes_on(
        self, task: TaskId, facts: Mapping[TopicPartition, ChangelogFacts], asked_at_ms: int
    ) -> bool:
        """Whether a task that was followed is restored from where it is, its stores open."""
        stores = self._tasks.get(task)
        if stores is None:
            return False
        if not stores.may_go_on(facts, asked_at_ms):
            self._drop(task)
            return False
        stores.restore(facts, asked_at_ms)
        log.info("task %s: promoted, %s", task, stores.ahead)
        for changelog in stores.changelogs.values():
            self._advance(stores, changelog, changelog.offset)
        self._finish_if_done(stores)
        return True

    # -- apply -----------------------------------------------------------------------------------

    def _put_restores_first(self) -> None:
        """Let followed changelogs wait while a task is restored."""
        followed = {p for p, stores in self._of_partition.items() if stores.follows}
        waiting = followed if any(not stores.follows for stores in self._tasks.values()) else set()
        self._paused &= self._of_partition.keys()
        if resumed := self._paused - waiting:
            self._consumer.resume(resumed)
        if paused := waiting - self._paused:
            self._consumer.pause(paused)
        self._paused = waiting

    def _reading(self) -> list[TopicPartition]:
        return [
            partition
            for partition, stores in self._of_partition.items()
            if partition not in self._paused
            and (stores.follows or not stores.changelogs[partition].done)
        ]

    def _read(self) -> None:
        try:
            self._take(self._consumer.poll_runs(_POLL_S))
            for _ in range(_POLLS_MORE):
                if not self._consumer.has_backlog:
                    break
                self._take(self._consumer.poll_runs(0))
        except HeadwaterError as error:
            # The consumer does not say for whom: every task under way is tried again.
            for stores in list(self._tasks.values()):
                self._fail(stores.task, error, following=stores.follows)
            return
        for partition in self._consumer.take_lost():
            if (lost := self._of_partition.get(partition)) is not None:
                # The log was truncated under us, or is another one: judge the position anew.
                self._begin_again(lost)
        for stores in list(self._tasks.values()):
            for partition, changelog in stores.changelogs.items():
                is_read = stores.follows or not changelog.done
                end = self._consumer.end_of(partition) if is_read else None
                if end is not None:
                    changelog.at_end_at = time.monotonic()
                    self._advance(stores, changelog, end)
            self._finish_if_done(stores)
        self._write_what_is_due()

    def _begin_again(self, stores: TaskStores) -> None:
        self._drop(stores.task)
        self._begin([stores.task], follow=stores.follows)

    def _take(self, runs: Iterable[tuple[TopicPartition, Run]]) -> None:
        for partition, run in runs:
            stores = self._of_partition.get(partition)
            if stores is None:
                continue
            changelog, found, position = stores.changelogs[partition], run, run.next_offset
            if not stores.follows:
                if changelog.done:
                    continue
                if position > changelog.end:
                    # Written behind the end by a zombie, or the beginnings of the next owner's.
                    found, position = run.before(changelog.end), changelog.end
            changelog.take(found)
            changelog.move(position)
            if stores.follows:
                self._followed += len(found)
            self._advance(stores, changelog, position)

    def _advance(self, stores: TaskStores, changelog: Changelog, position: int) -> None:
        """Note that everything below ``position`` was seen, be it records or not."""
        if position >= changelog.end and not changelog.done:
            end = max(position, changelog.end) if stores.follows else changelog.end
            changelog.move(max(changelog.offset, end))
            self._write(stores, changelog, complete_at_ms=changelog.asked_at_ms)
            changelog.done = stores.task in self._tasks
        elif stores.follows and position > changelog.offset:
            changelog.move(position)

    def _write_what_is_due(self) -> None:
        """Write what is much, or has waited long enough for most of it to be outdated."""
        under_way = [
            (stores, changelog)
            for stores in self._tasks.values()
            for changelog in stores.changelogs.values()
        ]
        is_much = sum(each.newest.size_bytes for _, each in under_way) > _TAKEN_BYTES_MAX
        for stores, changelog in under_way:
            is_batch = not stores.follows and len(changelog.newest) >= BATCH_ENTRIES_MAX
            if is_batch or is_much or changelog.waiting_s > _WRITE_S:
                self._write(stores, changelog)

    def _write(
        self, stores: TaskStores, changelog: Changelog, complete_at_ms: int | None = None
    ) -> None:
        if stores.task not in self._tasks:
            return
        try:
            changelog.write(complete_at_ms)
        except StateError as error:
            self._store_failed(stores, changelog, error)

    def _finish_if_done(self, stores: TaskStores) -> None:
        if stores.task not in self._tasks or stores.follows:
            return
        if not stores.is_done:
            return
        self._drop(stores.task)
        if stores.from_scratch:
            log.warning("task %s built anew: %s", stores.task, "; ".join(stores.from_scratch))
        self._link.send(
            Restored(
                task=stores.task, records=stores.applied, from_scratch=tuple(stores.from_scratch)
            )
        )

    def _store_failed(self, stores: TaskStores, changelog: Changelog, error: StateError) -> None:
        if isinstance(error, StoreCorruptedError):
            changelog.condemn()
        self._fail(stores.task, error, following=stores.follows)

    def _fail(self, task: TaskId, error: HeadwaterError, *, following: bool) -> None:
        self._drop(task)
        self._link.send(failed(error, task=task, following=following))

    def _drop(self, task: TaskId) -> None:
        """Close a task's stores, which keep their positions, and read its changelogs no more."""
        stores = self._tasks.pop(task, None)
        if stores is None:
            return
        if paused := self._paused & stores.changelogs.keys():
            self._consumer.resume(paused)  # or else the next one to read it would wait
        self._consumer.unassign(stores.changelogs)
        for partition in stores.changelogs:
            self._of_partition.pop(partition, None)
            self._paused.discard(partition)
        stores.close()

    # -- followers -------------------------------------------------------------------------------

    def _look(self) -> None:
        """Look now and then whether followed changelogs are what they were, and how far they go.

        A store that has reached where its changelog ended when it was asked is complete as of then.
        """
        if self._sights is None:
            now = time.monotonic()
            is_lost = self._connection.lost_for_s > 0
            if now - self._looked_at < _LOOK_S or is_lost:
                return
            self._looked_at = now
            self._looking_from = {
                partition: stores.changelogs[partition].restorer.offset
                for partition, stores in self._of_partition.items()
                if stores.follows
            }
            if self._looking_from:
                self._sights = self._changelogs.look(self._looking_from)
            return
        sights = self._sights()
        if sights is None:
            if time.monotonic() - self._looked_at > 3 * _LOOK_S:
                self._sights = None  # asked of a client that was cut off
            return
        self._sights = None
        stale = {}
        for partition, sight in sights.items():
            stores = self._of_partition.get(partition)
            if stores is not None and stores.follows and not self._see(stores, partition, sight):
                stale[stores.task] = stores
        for stores in stale.values():
            self._begin_again(stores)

    def _see(self, stores: TaskStores, partition: TopicPartition, sight: Sight) -> bool:
        """Take in what was seen; return whether the store may be continued."""
        changelog = stores.changelogs[partition]
        offset = changelog.offset
        facts = sight.facts
        if facts is None or self._looking_from[partition] > facts.log_end:
            return False
        # Meanwhile it has been read on.
        facts = replace(facts, log_end=max(facts.log_end, offset))
        if isinstance(changelog.restorer.judge(facts, now_ms()), Rebuild):
            return False
        changelog.log_end = facts.log_end
        if changelog.done:
            changelog.end, changelog.asked_at_ms = facts.log_end, sight.asked_at_ms
            changelog.done = False
            self._advance(stores, changelog, offset)
        return True

    def _settle(self) -> None:
        """Keep stores at the end of their changelogs so that they can be closed at once."""
        for stores in [stores for stores in self._tasks.values() if stores.follows]:
            for changelog in stores.changelogs.values():
                try:
                    if changelog.done:
                        changelog.restorer.settle()
                except StateError as error:
                    self._store_failed(stores, changelog, error)
                    break

    # -- tell ------------------------------------------------------------------------------------

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._told_at < _PROGRESS_S:
            return
        self._told_at = now
        self._settle()
        lags = {}
        for stores in self._tasks.values():
            if stores.follows:
                lags[stores.task] = stores.lag(self._consumer.log_end)
            else:
                self._link.offer(
                    RestoreProgress(
                        task=stores.task, restored=stores.applied, remaining=stores.remaining
                    )
                )
        if lags:
            lost_s = self._connection.lost_for_s
            problem = f"no broker has answered for {lost_s:.0f} s" if lost_s > 1 else ""
            self._link.offer(Following(lags=lags, applied=self._followed, problem=problem))
