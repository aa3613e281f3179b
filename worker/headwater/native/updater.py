"""The StateUpdater: a process that brings the stores of tasks to the end of their changelogs.

    Restore(task) ─► open stores, judge positions ─► apply ... apply ─► close stores ─► Restored
                                                       └─ CancelRestore ─► close ─► Cancelled
    Follow(task)  ─► open stores, judge positions ─► apply, tell the lag, apply ...
                        ├─ Restore: the tail up to the end of this moment ─► close ─► Restored
                        └─ CancelRestore ─► close ─► Cancelled

How a changelog becomes a store is ``restoration``'s. The end of a restore is the changelog's end
offset, open transactions counted, as it is when the restore begins; main sends ``Restore`` only
after whoever wrote before has released the task or was fenced. Stores in memory are the
StreamThread's own business.

Standby and warm-up tasks are followed without an end, while there is no restore. Copies that keep
up are followed by a thread of low priority, so that processing goes first on a full machine. A
follower outlives what it knew when it opened the store, so now and then it looks whether its
changelogs are still the same ones (``_look``).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from headwater.errors import HeadwaterError, StoreCorruptedError
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.kafka.native_clients import new_consumer
from headwater.kafka.native_module import native
from headwater.kafka.settings import consumer_settings
from headwater.metrics_settings import RecordingLevel
from headwater.model.reporting import changelog_topic
from headwater.native import logs
from headwater.native.blocks import shared_blocks
from headwater.native.changelogs import Changelogs, now_ms
from headwater.native.courtesy import CourteousThread
from headwater.native.cutoff import CutOffWatch
from headwater.native.garbage import tune_garbage_collection
from headwater.native.loading import child_topology
from headwater.native.losses import ChangelogGuard
from headwater.native.messages import (
    Cancelled,
    CancelRestore,
    Configure,
    Follow,
    Following,
    Restore,
    Restored,
    RestoreProgress,
    Stop,
    Stopped,
    UpdaterStats,
)
from headwater.native.process import failed
from headwater.native.ratios import UpdaterRatios
from headwater.native.restoration import ChangelogOpener, Restoration, RestoreTeller
from headwater.native.taskstores import TaskStores, TaskStoresOpener
from headwater.state.directory import StateDirectory
from headwater.state.position import Rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headwater.ids import TaskId
    from headwater.model.stores import StoreSpec
    from headwater.native.changelogs import Sight
    from headwater.native.messages import ChildSettings, ToUpdater
    from headwater.native.process import Link
    from headwater.native.restoration import Changelog
    from headwater.state.restore import ChangelogFacts

log = logging.getLogger(__name__)

_PROGRESS_S: Final = 0.5
_NUMBERS_S: Final = 1.0
_POLL_RECORDS: Final = 1_000
"""So few that what a poll returns is still in the processor's cache when it is looked at."""
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
        self._config = settings.application.parsed()
        self._topology = child_topology(settings)
        client_id = f"{settings.application_id}-{settings.worker}-StateUpdater-{settings.slot}"
        access = Access.of(self._config, client_id=client_id)
        self._connection, admin = access.connection, access.admin
        self._changelogs = Changelogs(admin)
        self._consumer = new_consumer(native(self._config.headwater_native))(
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
        self._blocks = shared_blocks(self._config, write_buffer_bytes=_WRITE_BUFFER_BYTES)
        self._opener = TaskStoresOpener(
            StateDirectory(Path(settings.state_dir), settings.application_id),
            ChangelogOpener(
                f"StateUpdater {settings.slot} of {settings.worker}",
                self._blocks,
                guard,
            ),
            guard,
            # Whoever listens to restores is told of every store.
            opens_all=settings.tells_restores,
        )
        teller = RestoreTeller(link.send) if settings.tells_restores else None
        self._restoration = Restoration(self._consumer, teller)
        self._specs = {
            subtopology.id: tuple(
                spec for spec in subtopology.stores if spec.logging and spec.persistent
            )
            for subtopology in self._topology.subtopologies
        }
        self._tasks: dict[TaskId, TaskStores] = {}
        self._of_partition: dict[TopicPartition, TaskStores] = {}
        self._told_at = self._looked_at = 0.0
        self._looking_from: Mapping[TopicPartition, int] = {}
        self._sights: Callable[[], dict[TopicPartition, Sight] | None] | None = None
        self._courteous = CourteousThread()
        self._ratios = UpdaterRatios()
        self._numbers_at = time.monotonic()
        self._thread_id = f"{settings.worker}-StateUpdater-{settings.slot}"
        self._measures = self._config.metrics.level.records(RecordingLevel.INFO)

    def run(self) -> None:
        """Do what main says until it says stop."""
        while True:
            commands = self._link.commands()
            if not commands and not self._tasks:
                began = time.perf_counter()
                command = self._link.wait(_IDLE_S)
                self._ratios.idled(time.perf_counter() - began)
                self._tell_numbers()
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
        began = time.perf_counter()
        restores = not all(stores.follows for stores in self._tasks.values())
        self._read()
        self._look()
        self._cut_off.check(self._restoration.reading)
        self._tell_progress()
        self._ratios.turned(time.perf_counter() - began, restores=restores)
        self._tell_numbers()

    def _tell_numbers(self) -> None:
        """Tell about once a second where the time goes."""
        now = time.monotonic()
        if self._measures and now - self._numbers_at >= _NUMBERS_S:
            self._numbers_at = now
            self._link.offer(UpdaterStats(numbers=self._ratios.take(self._thread_id)))

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
                case Configure():
                    self._configure(command)
                case Stop():
                    pass
                case _:
                    assert_never(command)
        self._begin([task for task, follows in wanted.items() if not follows], follow=False)
        self._begin([task for task, follows in wanted.items() if follows], follow=True)

    def _configure(self, command: Configure) -> None:
        logs.give_levels(command.levels)
        self._measures = command.metrics_level.records(RecordingLevel.INFO)
        # A copy keeps an option that is taken away until it is opened again.
        self._blocks.configure(command.rocksdb)

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
            self._of_partition |= dict.fromkeys(stores.changelogs, stores)
            if stores.is_at_end and not follow:
                # Closed before the next is opened: hundreds at once would take much memory, and
                # their thread goes on with this one meanwhile.
                self._restoration.add(stores.changelogs.values())
                self._end_failed()
                self._finish_if_done(stores)
        begun = [self._tasks[task] for task in tasks if task in self._tasks]
        self._restoration.add(
            changelog
            for stores in begun
            for changelog in stores.changelogs.values()
            if changelog.partition not in self._restoration.changelogs
        )
        self._end_failed()
        for stores in begun:
            self._finish_if_done(stores)
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
            self._restoration.begin(changelog)
        return True

    # -- apply -----------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            lost = self._restoration.read()
        except HeadwaterError as error:
            # The consumer does not say for whom: every task under way is tried again.
            for stores in list(self._tasks.values()):
                self._fail(stores.task, error, following=stores.follows)
            return
        self._end_failed()
        for stores in {id(found): found for found in map(self._owner, lost) if found}.values():
            # The log was truncated under us, or is another one: judge the position anew.
            self._begin_again(stores)
        for stores in list(self._tasks.values()):
            self._finish_if_done(stores)

    def _owner(self, changelog: Changelog) -> TaskStores | None:
        return self._of_partition.get(changelog.partition)

    def _begin_again(self, stores: TaskStores) -> None:
        self._drop(stores.task)
        self._begin([stores.task], follow=stores.follows)

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

    def _end_failed(self) -> None:
        """Give up the tasks that have a store which could not be written."""
        for changelog, error in self._restoration.take_failed():
            stores = self._owner(changelog)
            if stores is None:
                continue
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
        self._restoration.remove(stores.changelogs)
        for partition in stores.changelogs:
            self._of_partition.pop(partition, None)
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
            self._restoration.advance(changelog, offset)
            self._end_failed()
        return True

    # -- tell ------------------------------------------------------------------------------------

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._told_at < _PROGRESS_S:
            return
        self._told_at = now
        self._restoration.settle()
        self._end_failed()
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
            self._link.offer(
                Following(lags=lags, applied=self._restoration.followed, problem=problem)
            )
