"""A loop's clients without a broker: what is sent to a topic that is read is read back.

The reader hands out one record at a time, the one with the lowest timestamp of all partitions,
equal ones in the order of Java's ``PriorityQueue``: so does the one task of Kafka Streams' driver.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import KafkaUnavailableError
from headwater.model.offset_reset import OffsetReset
from headwater.ports import Position
from headwater.processor.buffer import HeadHeap
from headwater.testing.collector import MemoryCollector

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from headwater.ids import TopicPartition
    from headwater.kafka.committed import CommittedOffset
    from headwater.native.intake import Intake
    from headwater.native.opening import RunningTask
    from headwater.ports import Headers, RawRecord
    from headwater.processor.loops import Head


class _Log:
    """What a partition holds that was not read yet; the first of it is the head."""

    __slots__ = ("head", "next_offset", "partition", "waiting")

    def __init__(self, partition: TopicPartition, next_offset: int) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.waiting: deque[RawRecord] = deque()
        self.head: Head | None = None

    def show(self) -> None:
        """Make the first record the head."""
        record = self.waiting[0] if self.waiting else None
        self.head = None if record is None else (record, record[2], record[3], record[1])


class LastingBackend:
    """What a store in memory holds, also when its task is closed and opened anew."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def close(self) -> None:
        """Keep everything."""

    def release(self) -> None:
        """Close what is held."""
        self._backend.close()


class MemoryReader:
    """The partitions that a topology reads (a ``Reader``)."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, _Log] = {}
        self._heap: HeadHeap[_Log] = HeadHeap()
        self._paused: dict[TopicPartition, _Log | None] = {}
        """With what was to be read of them."""

    @property
    def has_more(self) -> bool:
        """Whether ``poll`` would return a record."""
        return bool(self._heap)

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
    ) -> None:
        """Write a record at the end of a partition."""
        log = self._logs[partition]
        log.waiting.append((log.next_offset, timestamp, key, value, headers))
        log.next_offset += 1
        if log.head is None:
            log.show()
            self._offer(log)

    def _offer(self, log: _Log) -> None:
        if log.partition in self._paused:
            self._paused[log.partition] = log
        else:
            self._heap.push(log)

    def poll(self, timeout_s: float) -> list[tuple[TopicPartition, list[RawRecord]]]:
        """Return the next record, if there is one; nothing is waited for."""
        del timeout_s
        if not self._heap:
            return []
        log = self._heap.pop()
        record = log.waiting.popleft()
        log.show()
        if log.head is not None:
            self._offer(log)
        return [(log.partition, [record])]

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these, too."""
        self._logs |= {partition: _Log(partition, at) for partition, at in offsets.items()}

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for partition in partitions:
            del self._logs[partition]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing more of these, from the record after the next on."""
        for partition in partitions:
            self._paused.setdefault(partition, None)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        for partition in partitions:
            log = self._paused.pop(partition, None)
            if log is not None:
                self._heap.push(log)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Never called: no commit is aborted here, and no record is deleted."""
        raise RuntimeError(f"{partition} is read once, it cannot be read from {offset}")

    def take_lost(self) -> list[TopicPartition]:
        """Return nothing: no record is deleted."""
        return []

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return a partition's end if everything before it was read."""
        log = self._logs[partition]
        return None if log.waiting else log.next_offset


class MemoryProducer(MemoryCollector):
    """Keeps what tasks send (an ``Output``): nothing is under way, nothing fails.

    Args:
        counts: the partitions of topics that have more than one.
    """

    is_congested = False
    is_transaction_open = False
    held = 0
    queued = 0

    def __init__(self, counts: Mapping[str, int]) -> None:
        super().__init__()
        self._counts = counts

    def partitions(self, topic: str) -> int:
        """Return how many partitions ``topic`` has."""
        return self._counts.get(topic, 1)

    def begin(self) -> None:
        """There are no transactions."""

    def check(self) -> None:
        """Nothing fails."""

    def drain(self, timeout_s: float) -> bool:
        """Nothing is under way."""
        del timeout_s
        return True

    def abort_transaction(self, timeout_s: float) -> None:
        """There are no transactions."""
        del timeout_s

    def settle_refused(self) -> None:
        """Nothing is refused."""


_POSITION: Final = Position("", 0, 0)
"""Of every store: there are no changelogs to be restored from."""


class MemoryCommitter:
    """Commits at once (a ``Commit``).

    Attributes:
        is_held: commits are put off, and everything goes on as if they were done.
    """

    def __init__(self) -> None:
        self.is_held = False

    def commit(
        self,
        tasks: Sequence[RunningTask],
        topic_ids: Mapping[str, str],
        *,
        every_offset: bool = False,
    ) -> Generator[Future[Any], None, None]:
        """Flush caches and changelogs of all tasks, then write their stores."""
        del topic_ids, every_offset
        if not self.is_held:
            for running in tasks:
                running.task.prepare_commit()
            for running in tasks:
                running.task.post_commit(dict.fromkeys(running.stores, _POSITION))
        yield from ()


class MemoryOffsets:
    """What a loop asks about topics (an ``Offsets``): there is nothing to be known."""

    repartition_topics: frozenset[str] = frozenset()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return nothing: topics have no UUIDs."""
        del topics
        return {}

    def reset_policy(self, topic: str) -> OffsetReset:
        """Return ``earliest``."""
        del topic
        return OffsetReset.EARLIEST

    def offset_since(self, partition: TopicPartition, duration_ms: int) -> int | None:
        """Return nothing: what is not read yet is never deleted."""
        del partition, duration_ms
        return None

    def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Return nothing: every partition begins at 0."""
        del partitions
        return {}


class MemoryClients:
    """All of them (``LoopClients``), and nobody who is to be waited for.

    Args:
        counts: the partitions of topics that have more than one.
    """

    lost_for_s = 0.0

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.consumer = MemoryReader()
        self.producer = MemoryProducer(counts)

    @property
    def admin(self) -> MemoryClients:
        """Itself."""
        return self

    @property
    def connection(self) -> MemoryClients:
        """Itself."""
        return self

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[Future[object]]:
        """Keep everything."""
        del offsets
        return []

    def problem(self, doing: str) -> Exception:
        """Never called: no broker is lost."""
        return KafkaUnavailableError(doing)


class RecordByRecord:
    """The policy of the test driver: each record is processed and committed by itself.

    Args:
        reader: hands them out.
    """

    is_record_by_record = True

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader

    def lags(self, running: RunningTask, intake: Intake) -> Mapping[TopicPartition, int]:
        """Say that nothing more is there: what waits here has a later timestamp."""
        del intake
        return dict.fromkeys(running.start, 0)

    def is_over(self, intake: Intake, now_ms: int) -> bool:
        """Whether no record can be processed."""
        return not self._reader.has_more and not any(
            owner.task.is_ready(now_ms) for owner in intake.owners.values()
        )
