"""A model of an Apache Kafka broker: what the protocol relies on, and nothing else.

Transactional ids with epochs, transactions that end with a marker in every partition they touched,
offsets committed with or without a transaction, readers that see committed records only. The
contract suite (``tests/contract/test_broker_model.py``) runs on it and on a real broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSACTION_TIMEOUT_MS = 10_000


class ProducerFencedError(Exception):
    """The producer's transactional id was initialised by somebody else, or its time was up."""


class Fate(Enum):
    """What became of the transaction a record was sent in."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Record(NamedTuple):
    """One record as a reader sees it."""

    offset: int
    key: object
    value: object


@dataclass
class Transaction:
    """One transaction, open or ended."""

    began_ms: int
    fate: Fate = Fate.OPEN
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where its first record is."""
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


@dataclass
class Entry:
    """One place in a partition: a record, or the marker that ends a transaction."""

    key: object
    value: object
    transaction: Transaction | None
    is_marker: bool = False


@dataclass
class TransactionalId:
    """What the coordinator knows of a transactional id."""

    epoch: int = 0
    open: Transaction | None = None


class ModelBroker:
    """Partitions, transactions and committed offsets."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.logs: dict[TopicPartition, list[Entry]] = {}
        self.ids: dict[str, TransactionalId] = {}
        self.offsets: dict[tuple[str, TopicPartition], int] = {}
        self.every_offset: dict[tuple[str, TopicPartition], set[int]] = {}
        """All that were ever committed."""
        self.partitions: dict[str, int] = {}

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic unless it exists."""
        self.partitions.setdefault(name, partitions)

    def append(
        self, partition: TopicPartition, key: object, value: object, within: Transaction | None
    ) -> int:
        """Append a record; return its offset."""
        log = self.logs.setdefault(partition, [])
        log.append(Entry(key, value, within))
        return len(log) - 1

    def end_offset(self, partition: TopicPartition) -> int:
        """The offset after the last entry, committed or not (the high watermark)."""
        return len(self.logs.get(partition, []))

    def stable_offset(self, partition: TopicPartition) -> int:
        """The offset of the first record of an open transaction (the last stable offset)."""
        first = (
            state.open.partitions[partition]
            for state in self.ids.values()
            if state.open is not None and partition in state.open.partitions
        )
        return min(first, default=self.end_offset(partition))

    def read_committed(
        self, partition: TopicPartition, start: int, count: int = 1 << 30
    ) -> tuple[list[Record], int]:
        """Read from ``start`` up to the last stable offset.

        Returns:
            Up to ``count`` committed records, and the offset to go on from.
        """
        records: list[Record] = []
        position = start
        for offset in range(start, self.stable_offset(partition)):
            if len(records) == count:
                break
            entry = self.logs[partition][offset]
            position = offset + 1
            is_aborted = entry.transaction is not None and entry.transaction.fate is Fate.ABORTED
            if not entry.is_marker and not is_aborted:
                records.append(Record(offset, entry.key, entry.value))
        return records, position

    def every_committed(self, topic: str) -> Iterator[tuple[TopicPartition, Record]]:
        """Yield every record of a topic that a read_committed reader sees."""
        for partition in range(self.partitions[topic]):
            tp = TopicPartition(topic, partition)
            for record in self.read_committed(tp, 0)[0]:
                yield tp, record

    def committed_offset(self, group: str, partition: TopicPartition) -> int | None:
        """The committed offset; ``None`` if there is none.

        Raises:
            BlockingIOError: an open transaction is about to change it: ask again.
        """
        for state in self.ids.values():
            if state.open is not None and (group, partition) in state.open.offsets:
                raise BlockingIOError(partition)
        return self.offsets.get((group, partition))

    def commit_offsets(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """Commit offsets without a transaction (at-least-once)."""
        self._commit({(group, partition): at for partition, at in offsets.items()})

    def _commit(self, offsets: dict[tuple[str, TopicPartition], int]) -> None:
        self.offsets.update(offsets)
        for place, offset in offsets.items():
            self.every_offset.setdefault(place, set()).add(offset)

    def end(self, state: TransactionalId, fate: Fate) -> None:
        """End the open transaction of a transactional id."""
        transaction, state.open = state.open, None
        assert transaction is not None
        transaction.fate = fate
        if fate is Fate.COMMITTED:
            self._commit(transaction.offsets)
        for partition in sorted(transaction.partitions):
            self.logs[partition].append(Entry(None, None, transaction, is_marker=True))

    def advance(self, now_ms: int) -> None:
        """Let time pass: abort, and fence, what has been open for too long."""
        self.now_ms = now_ms
        for state in self.ids.values():
            if state.open is not None and now_ms - state.open.began_ms > TRANSACTION_TIMEOUT_MS:
                self.end(state, Fate.ABORTED)
                state.epoch += 1


class ModelProducer:
    """One producer; without a transactional id it is merely idempotent."""

    def __init__(self, broker: ModelBroker, transactional_id: str | None) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.epoch = -1
        self._open: Transaction | None = None

    def init(self) -> None:
        """Take the transactional id: abort what is open under it, fence whoever had it."""
        if self.transactional_id is None:
            return
        state = self.broker.ids.setdefault(self.transactional_id, TransactionalId())
        if state.open is not None:
            self.broker.end(state, Fate.ABORTED)
        state.epoch += 1
        self.epoch = state.epoch
        self._open = None

    @property
    def is_fenced(self) -> bool:
        """Whether nothing this producer sends can become visible any more."""
        if self.transactional_id is None:
            return False
        state = self.broker.ids.get(self.transactional_id)
        return state is None or state.epoch != self.epoch

    @property
    def is_open(self) -> bool:
        """Whether it believes that a transaction is open."""
        return self._open is not None

    def begin(self) -> None:
        """Begin a transaction; the broker hears of it with the first record."""
        assert self._open is None
        self._open = Transaction(began_ms=self.broker.now_ms)

    def send(self, partition: TopicPartition, key: object, value: object) -> int:
        """Send a record; return its offset.

        Raises:
            ProducerFencedError: somebody else has the transactional id.
        """
        if self.transactional_id is None:
            return self.broker.append(partition, key, value, None)
        transaction = self._join()
        offset = self.broker.append(partition, key, value, transaction)
        transaction.partitions.setdefault(partition, offset)
        return offset

    def send_offsets(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """Make offsets part of the transaction.

        Raises:
            ProducerFencedError: somebody else has the transactional id.
        """
        if self.transactional_id is None:
            self.broker.commit_offsets(group, offsets)
            return
        self._join().offsets.update({(group, tp): offset for tp, offset in offsets.items()})

    def commit(self) -> None:
        """Commit the open transaction.

        Raises:
            ProducerFencedError: somebody else has the transactional id; nothing was committed.
        """
        if self.transactional_id is None:
            return
        if self._join().partitions or self._join().offsets:
            self.broker.end(self._state(), Fate.COMMITTED)
        else:
            self._state().open = None
        self._open = None

    def abort(self) -> None:
        """Abort the open transaction.

        Raises:
            ProducerFencedError: somebody else has the transactional id.
        """
        if self.transactional_id is None:
            return
        self._join()
        self.broker.end(self._state(), Fate.ABORTED)
        self._open = None

    def _state(self) -> TransactionalId:
        assert self.transactional_id is not None
        state = self.broker.ids[self.transactional_id]
        if state.epoch != self.epoch:
            raise ProducerFencedError(self.transactional_id)
        return state

    def _join(self) -> Transaction:
        """Return the open transaction, made known to the coordinator."""
        state = self._state()
        assert self._open is not None, "no transaction was begun"
        if state.open is None:
            state.open = self._open
        assert state.open is self._open
        return self._open
