"""Consumers for which partitions end somewhere, however far they go on."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import BackfillError
from headwater.kafka.consumer import Batch, PartitionConsumer
from headwater.ports import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.errors import Connection
    from headwater.kafka.newest import Run
    from headwater.ports import RawRecord

_HELD_RECORDS: Final = 2_000
"""Once so many records of a partition are held back, no more of it are fetched."""


def deleted(partitions: Iterable[object]) -> BackfillError:
    """Return what says that records were deleted before they were read."""
    return BackfillError(
        f"{', '.join(map(str, partitions))}: the records to read next were deleted while the "
        "backfill ran (retention has passed its start, or somebody purged the topic); "
        "raise retention.ms, give this backfill up with --abort and begin another one"
    )


def none_deleted(lost: list[TopicPartition]) -> list[TopicPartition]:
    """Return ``lost``, which is empty.

    Raises:
        BackfillError: it is not.
    """
    if lost:
        raise deleted(lost)
    return lost


class BoundedReader(PartitionConsumer):
    """Reads each partition up to an offset, and says that it ends there.

    Args:
        settings: from ``settings.consumer_settings``.
        connection: told when records arrive.
        batch_records: how many records ``poll`` returns at most.
        hands_on: as ``PartitionConsumer``.
        cut: where each partition ends.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        *,
        batch_records: int = 2_000,
        hands_on: bool = False,
        cut: Mapping[TopicPartition, int],
    ) -> None:
        super().__init__(settings, connection, batch_records=batch_records, hands_on=hands_on)
        self._cut = dict(cut)
        self._parked: set[TopicPartition] = set()
        """Fetched no more, whoever resumes them."""

    def poll(self, timeout_s: float) -> list[Batch]:
        """Return what is there before the cut. See the base class."""
        found: list[Batch] = []
        for partition, records in super().poll(timeout_s):
            cut = self._limit(partition)
            if records[-1][0] < cut:
                found.append((partition, records))
                continue
            before = [record for record in records if record[0] < cut]
            if before:
                found.append((partition, before))
            self._keep(partition, records[len(before) :] if before else records)
        return found

    def _limit(self, partition: TopicPartition) -> int:
        """Return up to where what is fetched now may be returned."""
        return self._cut.get(partition, 0)

    def _keep(self, partition: TopicPartition, beyond: list[RawRecord]) -> None:
        """What lies beyond the cut was fetched."""

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the cut if everything before it has been returned."""
        cut = self._cut.get(partition)
        position = self.position(partition)
        return cut if cut is not None and position is not None and position >= cut else None

    @property
    def is_at_cut(self) -> bool:
        """Whether everything before the cut has been returned."""
        return all(self.end_of(partition) is not None for partition in self.assigned)

    def _park(self, partition: TopicPartition) -> None:
        self._parked.add(partition)
        super().pause([partition])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again, unless there is nothing more to fetch."""
        super().resume([partition for partition in partitions if partition not in self._parked])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        self._parked.discard(partition)
        super().seek(partition, offset)


class ReaderToCut(BoundedReader):
    """Reads up to a cut that stays where it is, and fetches nothing beyond it."""

    def poll(self, timeout_s: float) -> list[Batch]:
        """Return what is there before the cut. See the base class."""
        found = super().poll(timeout_s)
        self._park_finished()
        return found

    def poll_runs(self, timeout_s: float) -> list[tuple[TopicPartition, Run]]:
        """Return what is there before the cut. See the base class."""
        found: list[tuple[TopicPartition, Run]] = []
        for partition, run in super().poll_runs(timeout_s):
            cut = self._limit(partition)
            before = run if run.next_offset <= cut else run.before(cut)
            if len(before):
                found.append((partition, before))
        self._park_finished()
        return found

    def _park_finished(self) -> None:
        """Fetch no more of what has come to its end."""
        for partition in self.assigned - self._parked:
            if self.end_of(partition) is not None:
                self._park(partition)

    def take_lost(self) -> list[TopicPartition]:
        """Raise if records were deleted before they were read.

        Raises:
            BackfillError: they were; the state would lack them.
        """
        return none_deleted(super().take_lost())


class TurnReader(BoundedReader):
    """Reads up to a cut that every turn moves on; what was fetched beyond it is held back.

    Args:
        settings: from ``settings.consumer_settings``.
        connection: told when records arrive.
        batch_records: how many records ``poll`` returns at most.
        hands_on: as ``PartitionConsumer``.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        *,
        batch_records: int = 2_000,
        hands_on: bool = False,
    ) -> None:
        super().__init__(
            settings, connection, batch_records=batch_records, hands_on=hands_on, cut={}
        )
        self._marked: dict[TopicPartition, dict[int, Unreadable]] = {}
        """Records held back that cannot be read, by offset."""
        self._held: dict[TopicPartition, list[RawRecord]] = {}
        self._paused: set[TopicPartition] = set()
        """By whoever reads."""

    def read_up_to(self, cut: Mapping[TopicPartition, int]) -> None:
        """Return what lies before these offsets from now on, and nothing of other partitions."""
        self._cut = dict(cut)

    def has_passed(self, cut: Mapping[TopicPartition, int]) -> bool:
        """Whether records beyond ``cut`` may have been returned."""
        return any(end > cut.get(partition, 0) for partition, end in self._cut.items())

    def poll(self, timeout_s: float) -> list[Batch]:
        """Return what is there before the cut, held back or fetched just now."""
        is_waiting = any(map(self._can_release, self._held))
        found = super().poll(0.0 if is_waiting else timeout_s)
        return self._released() + found

    def _can_release(self, partition: TopicPartition) -> bool:
        return partition not in self._paused and self._holds_back(partition)

    def _holds_back(self, partition: TopicPartition) -> bool:
        """Whether records before the cut are still to be returned."""
        held = self._held.get(partition)
        return held is not None and held[0][0] < self._cut.get(partition, 0)

    def _released(self) -> list[Batch]:
        found: list[Batch] = []
        for partition in list(filter(self._can_release, self._held)):
            cut, records = self._cut[partition], self._held.pop(partition)
            before = [record for record in records if record[0] < cut]
            found += ((partition, part) for part in self._parts(partition, before))
            if len(before) < len(records):
                self._held[partition] = records[len(before) :]
            elif partition in self._parked:
                self._parked.discard(partition)
                super().resume([partition])
        return found

    def _parts(self, partition: TopicPartition, records: list[RawRecord]) -> list[list[RawRecord]]:
        """Put records that cannot be read back into batches of their own."""
        marked = self._marked.get(partition)
        if not marked:
            return [records]
        parts: list[list[RawRecord]] = []
        for mark, run in groupby(records, lambda record: marked.pop(record[0], None)):
            parts.append(list(run) if mark is None else mark)
        return parts

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the cut if everything before it has been returned."""
        return None if self._holds_back(partition) else super().end_of(partition)

    def _limit(self, partition: TopicPartition) -> int:
        # Behind what is held back comes nothing before it.
        return 0 if partition in self._held else super()._limit(partition)

    def _keep(self, partition: TopicPartition, beyond: list[RawRecord]) -> None:
        if isinstance(beyond, Unreadable):
            self._marked.setdefault(partition, {})[beyond[0][0]] = beyond
        held = self._held.setdefault(partition, [])
        held += beyond
        if len(held) >= _HELD_RECORDS and partition not in self._parked:
            self._park(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing more of these, whether it is held back or not."""
        chosen = list(partitions)
        self._paused.update(chosen)
        super().pause(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return, and fetch, again."""
        chosen = list(partitions)
        self._paused.difference_update(chosen)
        super().resume(chosen)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        self._held.pop(partition, None)
        self._marked.pop(partition, None)
        self._paused.discard(partition)
        super().seek(partition, offset)


class PassReader(TurnReader):
    """Reads the passes of a backfill; what was deleted before it was read ends it."""

    def take_lost(self) -> list[TopicPartition]:
        """Raise if records were deleted before they were read.

        Raises:
            BackfillError: they were; the state would lack them.
        """
        return none_deleted(super().take_lost())
