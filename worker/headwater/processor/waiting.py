"""Records of a stream that wait for late updates of the versioned table they are joined with.

A record is let go, in the order of time, when stream time has moved past it by the grace period
(KIP-923, Kafka's ``RocksDBTimeOrderedKeyValueBuffer``). One that is later than that is not kept.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.ids import TopicPartition
from headwater.ports import WaitingRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Forward, Headers, KeyValueStore
    from headwater.processor.environment import Current

_NUMBER_MAX: Final = 0x7FFFFFFF


class _Waiting(NamedTuple):
    time: int
    key_bytes: bytes
    number: int
    key: Any
    record: WaitingRecord


class WaitingRecords:
    """The records that wait in one task; the store keeps them, and an index in memory their order.

    Args:
        store: keeps them over a restart.
        grace_ms: for how long a record waits, by the time of the stream's records.
        current: where the record under way was read.
        encode: from a key to its bytes, by which records of one time are ordered.
        join: joins a record and forwards the result.
    """

    def __init__(
        self,
        store: KeyValueStore,
        grace_ms: int,
        current: Current,
        encode: Callable[[Any], bytes],
        join: Forward,
    ) -> None:
        self._store = store
        self._grace_ms = grace_ms
        self._current = current
        self._encode = encode
        self._join = join
        self._order: list[_Waiting] = []
        self._time = self._number = -1

    def init(self) -> None:
        """Make the index of what the store holds."""
        encode = self._encode
        self._order = [
            _Waiting(time, encode(key), number, key, record)
            for (time, key, number), record, _ in self._store.range(None, None)
        ]
        heapify(self._order)
        self._time = max((found.time for found in self._order), default=-1)
        self._number = max((found.number for found in self._order), default=0)

    def close(self) -> None:
        """The store is closed like any other."""

    def renew(self) -> None:
        """Nothing: ``init`` reads the store again."""

    def take(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Keep a record, or join it if it is too late; then let go whose time has come.

        Raises:
            SerializationError: a serde does not take the key or the value.
        """
        self._time = max(self._time, timestamp)
        let_go = self._time - self._grace_ms
        if timestamp < let_go:
            self._join(key, value, timestamp, headers)
        else:
            self._keep(key, value, timestamp, headers)
        while self._order and self._order[0].time <= let_go:
            self._emit()

    def _keep(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        current = self._current
        topic, partition = current.source
        record = WaitingRecord(value, timestamp, current.offset, topic, partition, headers)
        self._number = (self._number + 1) & _NUMBER_MAX
        self._store.put((timestamp, key, self._number), record, timestamp)
        heappush(self._order, _Waiting(timestamp, self._encode(key), self._number, key, record))

    def _emit(self) -> None:
        """Join the first record as if it were under way, then forget it."""
        time, _, number, key, record = self._order[0]
        current = self._current
        before = current.record, current.source
        current.record = (record.offset, time, None, None, record.headers)
        current.source = TopicPartition(record.topic, record.partition)
        try:
            self._join(key, record.value, time, record.headers)
        finally:
            current.record, current.source = before
        heappop(self._order)
        self._store.put((time, key, number), None, time)
