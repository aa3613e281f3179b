"""The one machine from changelog to backend: whoever has a store that lacks something uses it.

    Changelog     one store on its way along its changelog partition: up to an end, or without one
    Restoration   reads any number of them with one consumer, and writes what it has read
    restore_now   reads one up to its end, and waits for that

The StateUpdater restores and follows the stores of tasks with it, a StreamThread and a task on
Spark fill stores in memory. Only committed records are applied. An end is reached when the
*consumer's position* has reached it: the last offsets of a changelog are commit markers, aborted
records or gaps of compaction more often than records.

What is read is taken in, and written when it is much or has waited: only the newest change of each
key. Restores come first: while there is one, changelogs that are followed wait.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.errors import KafkaUnavailableError, StateError
from headwater.model.restoring import RestoreStep
from headwater.native.messages import StoreRestore
from headwater.state.restore import BATCH_ENTRIES_MAX, StoreRestorer, is_up_to_date

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from headwater.ids import TopicPartition
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.kafka.newest import ChangelogRun, NewestRecords
    from headwater.model.stores import StoreSpec
    from headwater.native.losses import ChangelogGuard
    from headwater.state.backends.rocks import BlockCache
    from headwater.state.directory import StoreDirectory
    from headwater.state.restore import ChangelogFacts

log = logging.getLogger(__name__)

_POLL_S: Final = 0.02
"""So long a command may wait while nothing comes, for example one that promotes a copy."""
_POLLS_MORE: Final = 4
_WRITE_S: Final = 2.0
"""So long a change may wait for the next one of its key before it is written to the store."""
_TAKEN_BYTES_MAX: Final = 48 * 1024 * 1024
"""Memory for what waits, of all stores."""
_STALLED_S: Final = 60.0


@dataclass(slots=True, eq=False)
class Changelog:
    """One store on its way to the end of its changelog partition.

    What is read is taken in first, and written later: by then most of it may be outdated.
    """

    partition: TopicPartition
    restorer: StoreRestorer
    end: int
    asked_at_ms: int
    """When ``end`` was the end."""
    log_end: int
    """The newest end that is known, open transactions counted."""
    follows: bool = False
    """It is read on behind ``end``, which moves."""
    done: bool = False
    """``end`` was reached; a follower reads on."""
    failed: bool = False
    """The store could not be written: it is to be closed."""
    offset: int = field(init=False)
    """Everything below was taken in; the store itself may be behind."""
    since: int = 0
    """What ``applied`` was when the restore began."""
    at_end_at: float = -math.inf
    """When there was nothing more to read, by the monotonic clock."""
    newest: NewestRecords | None = None
    """What the store does not have yet."""
    _taken: int = 0
    _waits_since: float = 0.0

    def __post_init__(self) -> None:
        self.offset = self.restorer.offset

    @property
    def applied(self) -> int:
        """Records taken in since the store was opened."""
        return self.restorer.applied + self._taken

    @property
    def waiting_s(self) -> float:
        """For how long something has been waiting to be written; 0 if nothing is."""
        is_behind = self._taken or self.offset != self.restorer.offset
        return time.monotonic() - self._waits_since if is_behind else 0.0

    @property
    def size_bytes(self) -> int:
        """About how much memory takes what the store does not have yet."""
        return 0 if self.newest is None else self.newest.size_bytes

    @property
    def is_batch(self) -> bool:
        """Whether what the store does not have yet fills a batch."""
        return self.newest is not None and len(self.newest) >= BATCH_ENTRIES_MAX

    def take(self, run: ChangelogRun) -> None:
        """Take in what was read."""
        if self.newest is None:
            restorer = self.restorer
            self.newest = run.newest(
                headers=restorer.keeps_headers, versions=restorer.keeps_versions
            )
        self.newest.add(run)
        self._taken += len(run)

    def move(self, offset: int) -> None:
        """Note that everything below ``offset`` was taken in, be it records or not."""
        if self.offset == self.restorer.offset:
            self._waits_since = time.monotonic()
        self.offset = offset

    def write(self, complete_at_ms: int | None = None) -> None:
        """Write what was taken in.

        Args:
            complete_at_ms: see ``StoreRestorer.apply``.

        Raises:
            StateError: as ``StoreRestorer.write``; the store is to be closed.
        """
        newest, self.newest = self.newest, None
        taken, self._taken = self._taken, 0
        offset, self.offset = self.offset, self.restorer.offset
        if newest is None:
            entries = []
        elif self.restorer.keeps_rows:
            entries = self.restorer.entries_of(newest.rows())
        else:
            entries = newest.entries(timestamped=self.restorer.timestamped)
        self.restorer.write(entries, offset, records=taken, complete_at_ms=complete_at_ms)
        self.offset = offset

    @property
    def is_read(self) -> bool:
        """Whether there is more to be read."""
        return not self.failed and (self.follows or not self.done)

    def condemn(self) -> None:
        """Release the store as damaged, and forget what was taken in: it is to be built anew."""
        self.newest, self._taken, self.offset = None, 0, self.restorer.offset
        self.restorer.condemn()

    def close(self) -> None:
        """Write what was taken in, if that is possible, and release the store."""
        try:
            if self._taken or self.offset != self.restorer.offset:
                self.write()
        except StateError as error:
            log.warning("%s: read again from offset %d: %s", self.partition, self.offset, error)
        finally:
            self.restorer.close()


class RestoreTeller:
    """Tells what becomes of the restores of stores; changelogs that are followed are passed over.

    Args:
        send: takes what is told to the worker's main process.
    """

    def __init__(self, send: Callable[[StoreRestore], object]) -> None:
        self._send = send

    def begun(self, changelog: Changelog) -> None:
        """A store is to be read up to its end, from where it is."""
        changelog.since = changelog.applied
        self._tell(RestoreStep.START, changelog, changelog.offset, changelog.end)

    def wrote(self, changelog: Changelog, records: int) -> None:
        """A store has everything below its offset."""
        if records:
            self._tell(RestoreStep.BATCH, changelog, changelog.offset - 1, records)

    def ended(self, changelog: Changelog) -> None:
        """A store is at its end, or is read no more."""
        step = RestoreStep.END if changelog.done else RestoreStep.SUSPENDED
        self._tell(step, changelog, changelog.applied - changelog.since)

    def _tell(self, step: RestoreStep, changelog: Changelog, *numbers: int) -> None:
        if changelog.follows:
            return
        store = changelog.restorer.store
        self._send(
            StoreRestore(step=step, partition=changelog.partition, store=store, numbers=numbers)
        )


class Restoration:
    """Reads changelogs and writes them to their stores, fairly: the consumer takes turns.

    Args:
        consumer: reads committed records; whoever made it closes it.
        teller: told of restores, if somebody listens.

    Attributes:
        changelogs: those under way, by partition.
        followed: records applied to stores that are followed, since the beginning.
    """

    def __init__(self, consumer: PartitionConsumer, teller: RestoreTeller | None = None) -> None:
        self._teller = teller
        self.changelogs: dict[TopicPartition, Changelog] = {}
        self.followed = 0
        self._consumer = consumer
        self._paused: set[TopicPartition] = set()
        self._failed: list[tuple[Changelog, StateError]] = []

    def add(self, changelogs: Iterable[Changelog]) -> None:
        """Take these under way, too; those that are at their ends already are done at once."""
        added = {changelog.partition: changelog for changelog in changelogs}
        self.changelogs |= added
        for changelog in added.values():
            self.begin(changelog)
        self._consumer.assign({p: found.offset for p, found in added.items() if found.is_read})

    def begin(self, changelog: Changelog) -> None:
        """Begin at the store's position; one that is at its end already is done at once."""
        if self._teller is not None:
            self._teller.begun(changelog)
        self.advance(changelog, changelog.offset)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more; their stores stay open."""
        if paused := self._paused.intersection(partitions):
            self._consumer.resume(paused)  # or else the next one to read it would wait
        self._consumer.unassign(partitions)
        for partition in partitions:
            changelog = self.changelogs.pop(partition, None)
            self._paused.discard(partition)
            if changelog is not None and self._teller is not None and not changelog.done:
                self._teller.ended(changelog)

    def reading(self) -> list[TopicPartition]:
        """Return the partitions whose next records are wanted now."""
        return [
            partition
            for partition, changelog in self.changelogs.items()
            if partition not in self._paused and changelog.is_read
        ]

    def read(self) -> list[Changelog]:
        """Read and apply for some milliseconds.

        Returns:
            Those whose log was truncated under us, or is another one: to be opened anew.

        Raises:
            HeadwaterError: as the consumer, which does not say for whom.
        """
        self._put_restores_first()
        self._take(self._consumer.poll_runs(_POLL_S))
        for _ in range(_POLLS_MORE):
            if not self._consumer.has_backlog:
                break
            self._take(self._consumer.poll_runs(0))
        lost = [self.changelogs[p] for p in self._consumer.take_lost() if p in self.changelogs]
        for partition, changelog in self.changelogs.items():
            end = self._consumer.end_of(partition) if changelog.is_read else None
            if end is not None and changelog not in lost:
                changelog.at_end_at = time.monotonic()
                self.advance(changelog, end)
        self._write_what_is_due()
        return lost

    def take_failed(self) -> list[tuple[Changelog, StateError]]:
        """Return, once, the stores that could not be written, and why; they are to be closed."""
        failed, self._failed = self._failed, []
        return failed

    def advance(self, changelog: Changelog, position: int) -> None:
        """Note that everything below ``position`` was seen, be it records or not."""
        if changelog.failed:
            return
        if position >= changelog.end and not changelog.done:
            end = max(position, changelog.end) if changelog.follows else changelog.end
            changelog.move(max(changelog.offset, end))
            self._write(changelog, complete_at_ms=changelog.asked_at_ms)
            changelog.done = not changelog.failed
            if changelog.done and self._teller is not None:
                self._teller.ended(changelog)
        elif changelog.follows and position > changelog.offset:
            changelog.move(position)

    def settle(self) -> None:
        """Keep stores at the end of their changelogs so that they can be closed at once."""
        for changelog in self.changelogs.values():
            try:
                if changelog.follows and changelog.done and not changelog.failed:
                    changelog.restorer.settle()
            except StateError as error:
                self._fail(changelog, error)

    def _put_restores_first(self) -> None:
        """Let followed changelogs wait while a store is restored."""
        followed = {p for p, changelog in self.changelogs.items() if changelog.follows}
        waiting = followed if len(followed) < len(self.changelogs) else set()
        self._paused &= self.changelogs.keys()
        if resumed := self._paused - waiting:
            self._consumer.resume(resumed)
        if paused := waiting - self._paused:
            self._consumer.pause(paused)
        self._paused = waiting

    def _take(self, runs: Iterable[tuple[TopicPartition, ChangelogRun]]) -> None:
        for partition, run in runs:
            changelog = self.changelogs.get(partition)
            if changelog is None or not changelog.is_read:
                continue
            found, position = run, run.next_offset
            if not changelog.follows and position > changelog.end:
                # Written behind the end by a zombie, or the beginnings of the next owner's.
                found, position = run.before(changelog.end), changelog.end
            changelog.take(found)
            changelog.move(position)
            if changelog.follows:
                self.followed += len(found)
            self.advance(changelog, position)

    def _write_what_is_due(self) -> None:
        """Write what is much, or has waited long enough for most of it to be outdated."""
        under_way = [found for found in self.changelogs.values() if not found.failed]
        is_much = sum(found.size_bytes for found in under_way) > _TAKEN_BYTES_MAX
        for changelog in under_way:
            is_batch = changelog.is_batch and not changelog.follows
            if is_batch or is_much or changelog.waiting_s > _WRITE_S:
                self._write(changelog)

    def _write(self, changelog: Changelog, complete_at_ms: int | None = None) -> None:
        before = changelog.restorer.applied
        try:
            changelog.write(complete_at_ms)
        except StateError as error:
            self._fail(changelog, error)
        else:
            if self._teller is not None:
                self._teller.wrote(changelog, changelog.restorer.applied - before)

    def _fail(self, changelog: Changelog, error: StateError) -> None:
        changelog.failed = True
        self._failed.append((changelog, error))


class ChangelogOpener:
    """Opens stores to be restored or followed, and judges their positions.

    Args:
        holder: who opens them, for the message that somebody else may get.
        block_cache: the process' shared one.
        guard: asked before a store is replaced that may be the last copy of its state.
    """

    def __init__(self, holder: str, block_cache: BlockCache, guard: ChangelogGuard) -> None:
        self._holder = holder
        self._block_cache = block_cache
        self._guard = guard

    def has_all(self, directory: StoreDirectory, facts: ChangelogFacts, asked_at_ms: int) -> bool:
        """Say whether a store on disk has its whole changelog; see ``restore.is_up_to_date``.

        Args:
            directory: where it lies.
            facts: what the broker says about its changelog.
            asked_at_ms: when it said so.

        Raises:
            StateError: the store cannot be looked at.
        """
        return is_up_to_date(directory, facts, now_ms=asked_at_ms, holder=self._holder)

    def open(
        self,
        spec: StoreSpec,
        directory: StoreDirectory | None,
        partition: TopicPartition,
        facts: ChangelogFacts,
        asked_at_ms: int,
        *,
        name: str,
        follows: bool = False,
    ) -> tuple[Changelog, str | None]:
        """Open a store.

        Args:
            spec: the store.
            directory: where it lies; ``None`` for one in memory.
            partition: its changelog.
            facts: what the broker says about that one.
            asked_at_ms: when it said so.
            name: what messages call the store.
            follows: it is to be read on behind the end.

        Returns:
            The store, and what is worth a warning if it begins anew.

        Raises:
            ChangelogLostError: the changelog is younger than the store.
            StateError: the store cannot be opened.
        """
        restorer = StoreRestorer(
            spec,
            directory,
            facts,
            now_ms=asked_at_ms,
            holder=self._holder,
            block_cache=self._block_cache,
            consent=partial(self._guard.consent, partition, facts, name),
        )
        end = facts.log_end
        changelog = Changelog(partition, restorer, end, asked_at_ms, end, follows)
        try:
            return changelog, self._guard.news(partition, facts, spec.name, restorer)
        except BaseException:
            changelog.close()
            raise


def restore_now(
    consumer: PartitionConsumer,
    changelog: Changelog,
    heartbeat: Callable[[], None],
    teller: RestoreTeller | None = None,
) -> None:
    """Bring one store to the end of its changelog, waiting for it.

    Args:
        consumer: reads committed records, and nothing else.
        changelog: the store's.
        heartbeat: called now and then.
        teller: told of the restore, if somebody listens.

    Raises:
        KafkaUnavailableError: nothing came for a minute.
        StateError: the store cannot be written.
    """
    restoration = Restoration(consumer, teller)
    restoration.add([changelog])
    try:
        _read_to_end(restoration, changelog, heartbeat)
    finally:
        restoration.remove([changelog.partition])


def _read_to_end(
    restoration: Restoration, changelog: Changelog, heartbeat: Callable[[], None]
) -> None:
    offset, moved_at = changelog.offset, time.monotonic()
    while not changelog.done:
        restoration.read()
        for _, error in restoration.take_failed():
            raise error
        if changelog.offset > offset:
            offset, moved_at = changelog.offset, time.monotonic()
        elif time.monotonic() - moved_at > _STALLED_S:
            raise KafkaUnavailableError(
                f"nothing new of {changelog.partition} at offset {offset} for {_STALLED_S:.0f} s "
                f"while restoring up to {changelog.end}; check the broker, and that no transaction "
                "is left open"
            )
        heartbeat()
