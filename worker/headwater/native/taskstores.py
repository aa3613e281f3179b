"""The stores of one task that a StateUpdater has open, each on its way along its changelog."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.errors import MissingTopicError, StateError
from headwater.kafka.newest import Newest
from headwater.model import losses
from headwater.state.position import Rebuild
from headwater.state.restore import StoreRestorer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.newest import Run
    from headwater.model.stores import StoreSpec
    from headwater.native.losses import ChangelogGuard
    from headwater.state.backends.rocks import BlockCache
    from headwater.state.directory import StateDirectory
    from headwater.state.restore import ChangelogFacts


log = logging.getLogger(__name__)

_LATELY_S: Final = 5.0


@dataclass(slots=True)
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
    done: bool = False
    """``end`` was reached; a follower reads on."""
    offset: int = field(init=False)
    """Everything below was taken in; the store itself may be behind."""
    at_end_at: float = -math.inf
    """When there was nothing more to read, by the monotonic clock."""
    newest: Newest = field(default_factory=Newest)
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

    def take(self, run: Run) -> None:
        """Take in what was read."""
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
        newest, self.newest = self.newest, Newest()
        taken, self._taken = self._taken, 0
        offset, self.offset = self.offset, self.restorer.offset
        self.restorer.write(newest.rows(), offset, records=taken, complete_at_ms=complete_at_ms)
        self.offset = offset

    def condemn(self) -> None:
        """Release the store as damaged, and forget what was taken in: it is to be built anew."""
        self.newest, self._taken, self.offset = Newest(), 0, self.restorer.offset
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


@dataclass(slots=True)
class TaskStores:
    """One task's stores, to be restored up to the end or followed without one."""

    task: TaskId
    follows: bool
    changelogs: dict[TopicPartition, Changelog] = field(default_factory=dict)
    from_scratch: list[str] = field(default_factory=list)
    followed: int = 0
    """Records applied before the restore began."""

    @property
    def applied(self) -> int:
        """Records applied since the stores were opened, or since the restore began."""
        records = sum(changelog.applied for changelog in self.changelogs.values())
        return records - self.followed

    @property
    def remaining(self) -> int:
        """Offsets up to the ends that are known."""
        return sum(
            max(0, changelog.end - changelog.offset) for changelog in self.changelogs.values()
        )

    @property
    def is_done(self) -> bool:
        """Whether every store has reached the end that is known."""
        return all(changelog.done for changelog in self.changelogs.values())

    @property
    def keeps_up(self) -> bool:
        """Whether it is followed, and every store was at the end of its changelog lately."""
        lately = time.monotonic() - _LATELY_S
        return self.follows and all(each.at_end_at > lately for each in self.changelogs.values())

    def lag(self, log_end: Callable[[TopicPartition], int | None]) -> int:
        """Return how many offsets are not taken in yet.

        Args:
            log_end: where a changelog ends as of now, if that is known.
        """
        return sum(
            max(0, max(changelog.log_end, log_end(partition) or 0) - changelog.offset)
            for partition, changelog in self.changelogs.items()
        )

    @property
    def ahead(self) -> str:
        """Which offsets are to be applied, for the log."""
        return ", ".join(
            f"{partition} from {changelog.offset} to {changelog.end}"
            for partition, changelog in self.changelogs.items()
        )

    def may_go_on(self, facts: Mapping[TopicPartition, ChangelogFacts], now_ms: int) -> bool:
        """Whether every store, open all the time, may be continued from its changelog."""
        return all(
            partition in facts
            and changelog.offset <= facts[partition].log_end
            and not isinstance(changelog.restorer.judge(facts[partition], now_ms), Rebuild)
            for partition, changelog in self.changelogs.items()
        )

    def restore(self, facts: Mapping[TopicPartition, ChangelogFacts], asked_at_ms: int) -> None:
        """Follow no longer, but go up to the ends of this moment."""
        self.followed += self.applied
        self.follows = False
        self.from_scratch.clear()
        for partition, changelog in self.changelogs.items():
            changelog.end = changelog.log_end = facts[partition].log_end
            changelog.asked_at_ms = asked_at_ms
            changelog.done = False

    def close(self) -> None:
        """Release every store; each keeps its position."""
        for changelog in self.changelogs.values():
            changelog.close()


class TaskStoresOpener:
    """Opens the stores of tasks, and judges their positions.

    Args:
        directory: where they lie.
        holder: who opens them, for the message that somebody else may get.
        block_cache: the process' shared one.
        guard: asked before a store is replaced that may be the last copy of its state.
    """

    def __init__(
        self,
        directory: StateDirectory,
        holder: str,
        block_cache: BlockCache,
        guard: ChangelogGuard,
    ) -> None:
        self._directory = directory
        self._guard = guard
        self._holder = holder
        self._block_cache = block_cache

    def open(
        self,
        stores: TaskStores,
        specs: Mapping[TopicPartition, StoreSpec],
        facts: Mapping[TopicPartition, ChangelogFacts],
        asked_at_ms: int,
    ) -> None:
        """Open every store of a task; none stays open if one fails.

        Args:
            stores: of the task; filled.
            specs: the stores by their changelog partitions.
            facts: what the broker says about those that exist.
            asked_at_ms: when it said so.

        Raises:
            ChangelogLostError: a changelog is missing, or is younger than a store on disk.
            MissingTopicError: a changelog topic does not exist, and nothing was read yet.
            StateError: a store cannot be opened.
        """
        absent = [partition.topic for partition in specs if partition not in facts]
        if absent:
            self._guard.check_missing(absent)
            raise MissingTopicError(losses.absent(absent))
        try:
            for partition, spec in specs.items():
                known = facts[partition]
                directory = self._directory.store(stores.task, spec.name)
                restorer = StoreRestorer(
                    spec,
                    directory,
                    known,
                    now_ms=asked_at_ms,
                    holder=self._holder,
                    block_cache=self._block_cache,
                    consent=partial(
                        self._guard.consent, partition, known, f"store {directory.name}"
                    ),
                )
                changelog = Changelog(
                    partition, restorer, known.log_end, asked_at_ms, known.log_end
                )
                stores.changelogs[partition] = changelog
                if news := self._guard.news(partition, known, spec.name, restorer):
                    stores.from_scratch.append(news)
        except BaseException:
            stores.close()
            raise
