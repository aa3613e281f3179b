"""The stores of one task that a StateUpdater has open, each on its way along its changelog."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.errors import MissingTopicError
from headwater.model import losses
from headwater.state.position import Rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.model.stores import StoreSpec
    from headwater.native.losses import ChangelogGuard
    from headwater.native.restoration import Changelog, ChangelogOpener
    from headwater.state.directory import StateDirectory, StoreDirectory
    from headwater.state.restore import ChangelogFacts


_LATELY_S: Final = 5.0


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
    def is_at_end(self) -> bool:
        """Whether every store was at the end that is known when it was opened."""
        return all(changelog.offset >= changelog.end for changelog in self.changelogs.values())

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
            changelog.follows = changelog.done = False

    def close(self) -> None:
        """Release every store; each keeps its position."""
        for changelog in self.changelogs.values():
            changelog.close()


class TaskStoresOpener:
    """Opens the stores of tasks, and judges their positions.

    Args:
        directory: where they lie.
        opener: opens one.
        guard: asked about changelogs that do not exist.
        opens_all: also open stores that have nothing to restore.
    """

    def __init__(
        self,
        directory: StateDirectory,
        opener: ChangelogOpener,
        guard: ChangelogGuard,
        *,
        opens_all: bool = True,
    ) -> None:
        self._opens_all = opens_all
        self._directory = directory
        self._opener = opener
        self._guard = guard

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
                directory = self._directory.store(stores.task, spec.directory_name)
                is_asked = stores.follows or self._opens_all
                if not is_asked and self._has_all(directory, partition, facts, spec, asked_at_ms):
                    continue  # whoever runs the task opens it, or makes it
                changelog, news = self._opener.open(
                    spec,
                    directory,
                    partition,
                    facts[partition],
                    asked_at_ms,
                    name=f"store {directory.name}",
                    follows=stores.follows,
                )
                stores.changelogs[partition] = changelog
                if news:
                    stores.from_scratch.append(news)
        except BaseException:
            stores.close()
            raise

    def _has_all(
        self,
        directory: StoreDirectory,
        partition: TopicPartition,
        facts: Mapping[TopicPartition, ChangelogFacts],
        spec: StoreSpec,
        asked_at_ms: int,
    ) -> bool:
        """Whether a store has nothing to restore: it has its whole changelog, or that is empty.

        To open a database for nothing takes longest of all that a start does.
        """
        if directory.path.exists():
            return self._opener.has_all(directory, facts[partition], asked_at_ms)
        return facts[partition].log_end == 0 and (
            self._guard.never_held(partition, spec.name) is None
        )
