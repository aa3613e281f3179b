"""Opens the stores of a task in a StreamThread's process, at the end of their changelogs.

A StateUpdater has brought a persistent store up to date and closed it, so nothing is missing, or
only the marker of a transaction that was aborted meanwhile. Whatever is missing is read here, so
that no store is ever behind; for a store in memory, which dies with its process, that is all.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.errors import (
    ChangelogLostError,
    StoreCorruptedError,
)
from headwater.metrics_settings import RecordingLevel
from headwater.model import losses
from headwater.model.reporting import changelog_of
from headwater.native.blocks import shared_blocks
from headwater.native.changelogs import Changelogs
from headwater.native.restoration import ChangelogOpener, restore_now
from headwater.processor.resolving import store_serdes
from headwater.state import BlockCache, CacheBudget, open_store
from headwater.state.directory import prepare
from headwater.state.restore import open_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.native.clients import TaskClients
    from headwater.native.losses import ChangelogGuard
    from headwater.native.restoration import RestoreTeller
    from headwater.ports import Backend, KeyValueStore, RecordCollector
    from headwater.state.directory import StateDirectory, StoreDirectory

log = logging.getLogger(__name__)


class _Logged(NamedTuple):
    """A store's changelog as it is when the task is opened."""

    partition: TopicPartition
    topic_id: str
    end: int
    asked_at_ms: int


class LogEnds(NamedTuple):
    """Where the changelogs of a task end."""

    ends: Mapping[TopicPartition, int]
    """By partition. Of a source topic: where it ends for us, for what comes behind is still to be
    processed."""
    asked_at_ms: int
    """When that was so, by the wall clock, in milliseconds."""


class StoreOpener:
    """Opens stores for the tasks of one StreamThread.

    Args:
        directory: where persistent stores lie.
        holder: who opens them, for the message that somebody else may get.
        cache_bytes: the share of the record cache that all of them have together.
        clients: asked how far changelogs go, and for a consumer of committed records.
        collector: what stores log goes there.
        heartbeat: called while a restore goes on.
        guard: asked before a store is replaced that may be the last copy of its state.
        blocks: shared with other openers of this process; one of its own if not given.
        teller: told of restores, if somebody listens.
    """

    def __init__(
        self,
        *,
        directory: StateDirectory,
        holder: str,
        cache_bytes: int,
        clients: TaskClients[Any],
        collector: RecordCollector,
        heartbeat: Callable[[], None] = lambda: None,
        guard: ChangelogGuard,
        blocks: BlockCache | None = None,
        teller: RestoreTeller | None = None,
    ) -> None:
        self._config = clients.access.config
        self._collector = collector
        self._restore_consumer = clients.restore_consumer
        is_debug = self._config.metrics.level.records(RecordingLevel.DEBUG)
        self._blocks = blocks or shared_blocks(self._config, statistics=is_debug)
        self._heartbeat = heartbeat
        self._teller = teller
        self._guard = guard
        self._opener = ChangelogOpener(holder, self._blocks, guard)
        self._changelogs = Changelogs(clients.admin)
        self._directory = directory
        self._holder = holder
        in_c = clients.native
        updater = None if in_c is None else in_c.module.RecordUpdater
        self._cache = CacheBudget(cache_bytes, updater)

    @property
    def blocks(self) -> BlockCache:
        """The block cache that the stores share."""
        return self._blocks

    def resize_cache(self, limit: int) -> None:
        """Change this thread's share of the record cache, unless it has none."""
        if self._cache.limit and limit:
            self._cache.resize(limit)

    def prepare(self, tasks: Mapping[TaskId, Subtopology]) -> None:
        """Make the directories of stores that are opened next, all at once.

        Args:
            tasks: whose stores, with what they run.
        """
        directories = [
            self._directory.store(task_id, spec.directory_name)
            for task_id, subtopology in tasks.items()
            for spec in subtopology.stores
            if spec.persistent
        ]
        prepare(directories, holder=self._holder)

    def open(
        self,
        task_id: TaskId,
        subtopology: Subtopology,
        changelogs: Mapping[str, TopicPartition],
        topic_ids: Mapping[str, str],
        logs: LogEnds,
    ) -> dict[str, KeyValueStore]:
        """Open every store of a task; none stays open if one fails.

        Args:
            task_id: whose stores.
            subtopology: names them.
            changelogs: partition per store that a topic restores.
            topic_ids: UUID per changelog topic.
            logs: where the changelogs end.

        Raises:
            ChangelogLostError: a changelog is younger than a store on disk.
            StateError: a store cannot be opened.
            ConfigError: a serde is missing.
        """
        stores: dict[str, KeyValueStore] = {}
        try:
            for spec in subtopology.stores:
                changelog = changelogs.get(spec.name)
                logged = None
                if changelog is not None:
                    topic_id = topic_ids[changelog.topic]
                    logged = _Logged(changelog, topic_id, logs.ends[changelog], logs.asked_at_ms)
                # First: without them nothing needs to be opened, nor restored.
                key_serde, value_serde = store_serdes(self._config, spec)
                backend = self._backend(task_id, spec, logged)
                try:
                    stores[spec.name] = open_store(
                        spec,
                        task=task_id,
                        changelog_topic=changelog_of(self._config.application_id, spec),
                        backend=backend,
                        cache=self._cache,
                        changelog_send=(
                            None if changelog is None else self._collector.sender(changelog.topic)
                        ),
                        key_serde=key_serde,
                        value_serde=value_serde,
                    )
                except BaseException:
                    backend.close()
                    raise
        except BaseException:
            for store in stores.values():
                store.close()
            raise
        return stores

    def _backend(self, task_id: TaskId, spec: StoreSpec, logged: _Logged | None) -> Backend:
        directory = None
        if spec.persistent:
            directory = self._directory.store(task_id, spec.directory_name)
        if logged is None:
            return self._open_backend(spec, directory)
        if directory is None:
            return self._restored(task_id, spec, None, logged)
        try:
            backend = self._open_backend(spec, directory)
        except StoreCorruptedError:
            # It was whole when the StateUpdater closed it, or it is opened without one.
            return self._restored(task_id, spec, directory, logged)
        position = backend.position()
        is_current = position is not None and position.topic_id == logged.topic_id
        log.info(
            "task %s: store %s at offset %s of %s, which ends at %d",
            task_id,
            spec.name,
            None if position is None else position.offset,
            logged.partition,
            logged.end,
        )
        is_new = logged.end == 0 and position is None
        if is_new and (news := self._guard.never_held(logged.partition, spec.name)):
            log.warning("task %s built anew: %s", task_id, news)
        if is_new or (is_current and position is not None and position.offset == logged.end):
            return backend
        backend.close()
        return self._restored(task_id, spec, directory, logged)

    def _open_backend(self, spec: StoreSpec, directory: StoreDirectory | None) -> Backend:
        return open_backend(spec, directory, holder=self._holder, block_cache=self._blocks)

    def _restored(
        self, task_id: TaskId, spec: StoreSpec, directory: StoreDirectory | None, logged: _Logged
    ) -> Backend:
        """Apply what the store lacks, up to where the changelog ended when the task was opened."""
        partition = logged.partition
        found = self._changelogs.facts([partition]).get(partition)
        if found is None or found.topic_id != logged.topic_id:
            is_there_again = found is not None
            raise ChangelogLostError(losses.deleted(partition.topic, is_there_again=is_there_again))
        changelog, news = self._opener.open(
            spec,
            directory,
            partition,
            replace(found, log_end=logged.end),
            logged.asked_at_ms,
            name=f"store {spec.name} of task {task_id}",
        )
        try:
            if news:
                log.warning("task %s built anew: %s", task_id, news)
            if changelog.offset < changelog.end:
                with closing(self._restore_consumer()) as consumer:
                    restore_now(consumer, changelog, self._heartbeat, self._teller)
            elif directory is None and self._teller is not None:
                self._teller.begun(changelog)
                changelog.done = True
                self._teller.ended(changelog)
        except BaseException:
            changelog.close()
            raise
        if directory is None:
            return changelog.restorer.take()
        # Opened again for reading and writing: a restore has the options of a bulk load.
        changelog.close()
        return self._open_backend(spec, directory)
