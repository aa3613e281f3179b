"""Opens the stores of a task in a StreamThread's process, at the end of their changelogs.

A StateUpdater has brought a persistent store up to date and closed it, so nothing is missing, or
only the marker of a transaction that was aborted meanwhile. Whatever is missing is read here, so
that no store is ever behind; for a store in memory, which dies with its process, that is all.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import (
    ChangelogLostError,
    KafkaUnavailableError,
    StoreCorruptedError,
)
from headwater.model import losses
from headwater.model.reporting import changelog_topic
from headwater.native.changelogs import Changelogs
from headwater.processor.resolving import store_serdes
from headwater.state import BlockCache, CacheBudget, open_store
from headwater.state.restore import StoreRestorer, open_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.native.clients import TaskClients
    from headwater.native.losses import ChangelogGuard
    from headwater.ports import Backend, Clock, KeyValueStore, RecordCollector
    from headwater.state.directory import StateDirectory, StoreDirectory

log = logging.getLogger(__name__)

_STALLED_S: Final = 60.0
_POLL_S: Final = 0.1


class StoreOpener:
    """Opens stores for the tasks of one StreamThread.

    Args:
        directory: where persistent stores lie.
        holder: who opens them, for the message that somebody else may get.
        cache_bytes: the share of the record cache that all of them have together.
        clients: asked how far changelogs go, and for a consumer of committed records.
        collector: what stores log goes there.
        clock: the wall clock.
        heartbeat: called while a restore goes on.
        guard: asked before a store is replaced that may be the last copy of its state.
        blocks: shared with other openers of this process; one of its own if not given.
    """

    def __init__(
        self,
        *,
        directory: StateDirectory,
        holder: str,
        cache_bytes: int,
        clients: TaskClients[Any],
        collector: RecordCollector,
        clock: Clock,
        heartbeat: Callable[[], None] = lambda: None,
        guard: ChangelogGuard,
        blocks: BlockCache | None = None,
    ) -> None:
        self._config = clients.access.config
        self._admin = clients.admin
        self._collector = collector
        self._restore_consumer = clients.restore_consumer
        self._clock = clock
        self._heartbeat = heartbeat
        self._guard = guard
        self._changelogs = Changelogs(clients.admin)
        self._directory = directory
        self._holder = holder
        self._cache = CacheBudget(cache_bytes)
        self._blocks = blocks or BlockCache()

    def resize_cache(self, limit: int) -> None:
        """Change this thread's share of the record cache, unless it has none."""
        if self._cache.limit and limit:
            self._cache.resize(limit)

    def open(
        self,
        task_id: TaskId,
        subtopology: Subtopology,
        changelogs: Mapping[str, TopicPartition],
        topic_ids: Mapping[str, str],
    ) -> dict[str, KeyValueStore]:
        """Open every store of a task; none stays open if one fails.

        Args:
            task_id: whose stores.
            subtopology: names them.
            changelogs: partition per logged store.
            topic_ids: UUID per changelog topic.

        Raises:
            ChangelogLostError: a changelog is younger than a store on disk.
            StateError: a store cannot be opened.
            ConfigError: a serde is missing.
        """
        ends = self._admin.end_offsets(changelogs.values())
        stores: dict[str, KeyValueStore] = {}
        try:
            for spec in subtopology.stores:
                changelog = changelogs.get(spec.name)
                # First: without them nothing needs to be opened, nor restored.
                key_serde, value_serde = store_serdes(self._config, spec)
                backend = self._backend(task_id, spec, changelog, topic_ids, ends)
                try:
                    stores[spec.name] = open_store(
                        spec,
                        task=task_id,
                        changelog_topic=changelog_topic(self._config.application_id, spec.name),
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

    def _backend(
        self,
        task_id: TaskId,
        spec: StoreSpec,
        changelog: TopicPartition | None,
        topic_ids: Mapping[str, str],
        ends: Mapping[TopicPartition, int],
    ) -> Backend:
        directory = self._directory.store(task_id, spec.name) if spec.persistent else None
        if changelog is not None:
            end = ends[changelog]
            if not spec.persistent:
                return self._restored(task_id, spec, None, changelog, topic_ids, end)
            try:
                backend = self._open_backend(spec, directory)
            except StoreCorruptedError:
                # It was whole when the StateUpdater closed it, or it is opened without one.
                return self._restored(task_id, spec, directory, changelog, topic_ids, end)
            position = backend.position()
            is_current = position is not None and position.topic_id == topic_ids[changelog.topic]
            log.info(
                "task %s: store %s at offset %s of %s, which ends at %d",
                task_id,
                spec.name,
                None if position is None else position.offset,
                changelog,
                end,
            )
            is_new = end == 0 and position is None
            if is_new and (news := self._guard.never_held(changelog, spec.name)):
                log.warning("task %s built anew: %s", task_id, news)
            if is_new or (is_current and position is not None and position.offset == end):
                return backend
            backend.close()
            return self._restored(task_id, spec, directory, changelog, topic_ids, end)
        return self._open_backend(spec, directory)

    def _open_backend(self, spec: StoreSpec, directory: StoreDirectory | None) -> Backend:
        return open_backend(spec, directory, holder=self._holder, block_cache=self._blocks)

    def _restored(
        self,
        task_id: TaskId,
        spec: StoreSpec,
        directory: StoreDirectory | None,
        changelog: TopicPartition,
        topic_ids: Mapping[str, str],
        end: int,
    ) -> Backend:
        """Apply what the store lacks, up to where the changelog ended when the task was opened."""
        found = self._changelogs.facts([changelog]).get(changelog)
        if found is None or found.topic_id != topic_ids[changelog.topic]:
            is_there_again = found is not None
            raise ChangelogLostError(losses.deleted(changelog.topic, is_there_again=is_there_again))
        known = replace(found, log_end=end)
        name = f"store {spec.name} of task {task_id}"
        restorer = StoreRestorer(
            spec,
            directory,
            known,
            now_ms=self._clock.now_ms(),
            holder=self._holder,
            block_cache=self._blocks,
            consent=partial(self._guard.consent, changelog, known, name),
        )
        try:
            if news := self._guard.news(changelog, known, spec.name, restorer):
                log.warning("task %s built anew: %s", task_id, news)
            if restorer.offset < end:
                self._read(changelog, end, restorer)
        except BaseException:
            restorer.close()
            raise
        if directory is None:
            return restorer.take()
        # Opened again for reading and writing: a restore has the options of a bulk load.
        restorer.close()
        return self._open_backend(spec, directory)

    def _read(self, changelog: TopicPartition, end: int, restorer: StoreRestorer) -> None:
        consumer = self._restore_consumer()
        try:
            consumer.assign({changelog: restorer.offset})
            moved_at = time.monotonic()
            while restorer.offset < end:
                before = restorer.offset
                for _, records in consumer.poll(_POLL_S):
                    restorer.apply(records, records[-1][0] + 1)
                # The end that the client reports lies behind markers, which are no records.
                reached = consumer.end_of(changelog)
                if reached is not None and reached > restorer.offset:
                    restorer.apply((), reached)
                if restorer.offset > before:
                    moved_at = time.monotonic()
                elif time.monotonic() - moved_at > _STALLED_S:
                    raise KafkaUnavailableError(
                        f"nothing new of {changelog} at offset {before} for {_STALLED_S:.0f} s "
                        f"while restoring up to {end}; check the broker, and that no transaction "
                        "is left open"
                    )
                self._heartbeat()
            restorer.apply((), restorer.offset, complete_at_ms=self._clock.now_ms())
        finally:
            consumer.close()
