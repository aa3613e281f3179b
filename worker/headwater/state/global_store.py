"""One global store on a disk: a process of the worker writes it, its StreamThreads read it.

    <state dir>/<application id>/global/rocksdb/<store>/
        db/          the database; data and the positions in all partitions share a batch
        published    two numbers that say how far it is (``state.published``)
        readers/     scratch directories of those who read it

A store is filled once. Whoever starts goes on at its positions, if the topic still has everything
since. If not, it is made anew, and readers keep what they see until that is done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import StateError, StoreCorruptedError
from headwater.state.backends.rocks_shared import SharedRocks, SharedRocksReader
from headwater.state.position import RebuildReason, judge_all, positions
from headwater.state.published import Mark, Published

if TYPE_CHECKING:
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from headwater.model.topology import Topology
    from headwater.ports import Position
    from headwater.state.backends.rocks import BlockCache
    from headwater.state.directory import StateDirectory
    from headwater.state.store import LayeredStore

log = logging.getLogger(__name__)

_PUBLISHED: Final = "published"
_READERS: Final = "readers"

SETTLED_BYTES: Final = 64 * 1024 * 1024
"""Bound on rows that each reader keeps decoded."""


class TopicFacts(NamedTuple):
    """What the broker says of the topic that a global store is made of, when it is opened."""

    topic_id: str
    starts: tuple[int, ...]
    """First offset of each partition."""
    ends: tuple[int, ...]
    """End offset of each, uncommitted records included."""
    delete_retention_ms: int


class GlobalStoreFiles:
    """The writer's side of one global store.

    Args:
        spec: the store.
        directory: of the application's state.
        holder: who writes it, for the message that somebody else may get.
        blocks: the process' block cache.

    Attributes:
        backend: open from ``open`` on; ``close`` here closes it.
        offsets: the next offset of each partition.
        news: why it was made anew, for people; empty if it was not.
    """

    def __init__(
        self, spec: StoreSpec, directory: StateDirectory, holder: str, blocks: BlockCache
    ) -> None:
        self._spec = spec
        self._directory = directory.global_store(spec.directory_name)
        self._holder = holder
        self._blocks = blocks
        self._published: Published | None = None
        self._topic_id = ""
        self._complete_at_ms = 0
        self.offsets: list[int] = []
        self.news = ""

    def open(self, facts: TopicFacts, now_ms: int, *, keep: bool = True) -> None:
        """Open the store where it can be continued, else empty.

        Args:
            facts: of its topic.
            now_ms: wall-clock time at which they were asked for.
            keep: a store that is there may be continued.

        Raises:
            StateError: the store cannot be opened; nothing stays open.
        """
        try:
            self.backend = self._opened()
            position = self.backend.position()
            found = judge_all(position, now_ms=now_ms, **facts._asdict())
        except StoreCorruptedError:
            found, position = RebuildReason.DAMAGED, None
        if not keep and position is not None:
            found = RebuildReason.NO_POSITION
        self._topic_id, self._complete_at_ms = facts.topic_id, now_ms
        if isinstance(found, RebuildReason):
            is_first = found is RebuildReason.NO_POSITION
            self.news = "" if is_first else _of_topic(found)
            self._begin_anew(is_empty=is_first and position is None)
            self.offsets = list(facts.starts)
        else:
            assert position is not None
            self._complete_at_ms = position.committed_at_ms
            self.offsets = list(found)
        self.backend.tells = False

    def _opened(self) -> SharedRocks:
        self._directory.acquire(holder=self._holder)
        try:
            if self._directory.damage is not None:
                raise StoreCorruptedError(f"store {self._spec.name} was found damaged")
            self._published = Published(self._directory.path / _PUBLISHED, create=True)
            return SharedRocks(
                self._directory.database,
                block_cache=self._blocks,
                name=self._directory.name,
                store_name=self._spec.name,
                on_close=self._directory.release,
                on_damage=self._directory.mark_damaged,
            )
        except StateError:
            self._directory.release()
            raise

    def _begin_anew(self, *, is_empty: bool) -> None:
        """Replace the database, unless it is new itself."""
        backend: SharedRocks | None = getattr(self, "backend", None)
        if is_empty and backend is not None and backend.batch == 0:
            return
        if backend is not None:
            backend.close()
        self._directory.acquire(holder=self._holder)
        if self._published is None:
            self._published = Published(self._directory.path / _PUBLISHED, create=True)
        before = self._published.read()
        # First: from now on readers keep what they see.
        self._published.write(Mark(before.generation + before.generation % 2, before.batch))
        self._directory.wipe()
        self._directory.release()
        self.backend = self._opened()

    def add_partition(self, start: int = 0) -> None:
        """The topic has one partition more."""
        self.offsets.append(start)

    def move(self, partition: int, offset: int) -> None:
        """Everything of a partition below ``offset`` is in the next batch, or was before."""
        self.offsets[partition] = max(offset, self.offsets[partition])

    def complete(self, at_ms: int) -> None:
        """The store was at the end of its topic at that time: nothing before it can be missing."""
        self._complete_at_ms = at_ms

    def position(self) -> Position:
        """Return what is to be written with the next batch."""
        return positions(self._topic_id, self.offsets, self._complete_at_ms)

    def publish(self, *, filled: bool = False) -> None:
        """Tell readers how far the store is.

        Args:
            filled: it has reached the end of its topic since it was opened: it may be read.
        """
        assert self._published is not None
        generation = self._published.read().generation
        if filled:
            self.backend.tells = True
            generation += 1 - generation % 2
        self._published.write(Mark(generation, self.backend.batch))

    def close(self) -> None:
        """Release the files."""
        if (backend := getattr(self, "backend", None)) is not None:
            backend.close()
        if self._published is not None:
            self._published.close()


class GlobalStoreSight:
    """A reader's side of one global store: what it sees, and how that gets newer.

    Args:
        spec: the store.
        directory: of the application's state.
        reader: names its scratch directory; two readers of one store have two names.
        blocks: the process' block cache.

    Raises:
        StateError: the store was never filled, or cannot be opened.
    """

    def __init__(
        self, spec: StoreSpec, directory: StateDirectory, reader: str, blocks: BlockCache
    ) -> None:
        place = directory.global_store(spec.directory_name)
        self._name = spec.name
        self._published = Published(place.path / _PUBLISHED)
        self.numbers = self._published.numbers
        """Generation and batch as they are now."""
        mark = self._published.read()
        if not mark.is_complete:
            raise StateError(
                f"global store {spec.name} at {place.path} is not filled yet: the worker's "
                "GlobalStreamThread fills it before any task starts"
            )
        self.backend = SharedRocksReader(
            place.database,
            place.path / _READERS / reader,
            block_cache=blocks,
            name=place.name,
            store_name=spec.name,
        )
        """What the store's layers read."""
        self.generation, self.batch = mark
        self.renewed_at = 0.0
        """When it was renewed last, by the clock of whoever does so."""
        self._opened = mark.generation

    def renew(self, store: LayeredStore) -> None:
        """See what was told since, and have ``store`` forget what has changed.

        Raises:
            StateError: the store cannot be read any more.
        """
        mark = self._published.read()
        if not mark.is_complete:
            self.generation, self.batch = mark
            return  # It is made anew: what is seen now is better than a part.
        if mark.generation == self._opened:
            try:
                store.forget(self.backend.changes())
            except StateError as error:  # as when another process has begun to write it
                log.info("%s; opening it again", error)
            else:
                if self.backend.batch >= mark.batch:
                    self.generation, self.batch = mark
                    return
        self._open_again(store, mark)

    def _open_again(self, store: LayeredStore, mark: Mark) -> None:
        self.backend.reopen()
        store.forget(None)
        self._opened = mark.generation
        self.generation, self.batch = mark

    def close(self) -> None:
        """Release what it reads."""
        self.backend.close()
        self._published.close()


def _of_topic(reason: RebuildReason) -> str:
    """Return a reason for people: a global store has a topic instead of a changelog."""
    return reason.value.replace("changelog topic", "topic").replace("changelog", "topic")


def is_shared(spec: StoreSpec) -> bool:
    """Whether a global store is kept once for a worker: one of keys and values, on a disk or not.

    Of others each StreamThread keeps a copy: windows, sessions, versions, the entries used last,
    stores of the user's own.
    """
    kind = spec.kind
    is_special = spec.entries_max is not None or spec.make_store is not None
    return not (is_special or kind.expires or kind.versioned or kind.is_buffer)


def shared_groups(topology: Topology) -> tuple[Subtopology, ...]:
    """Return the global sub-topologies whose stores a worker keeps once."""
    return tuple(group for group in topology.global_subtopologies if is_shared(group.stores[0]))
