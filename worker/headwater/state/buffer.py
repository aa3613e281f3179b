"""The buffer of a suppression: a store in memory whose entries leave in the order of time.

What is committed and sent is kept by the layers of any store, so a commit, an abort and a restore
need nothing of their own. Above them lies an index by time, made from what the store holds.

    buffer -> index -> write-back layer -> changelog -> memory
    first, remove_first: by time, then by the bytes of the key
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from headwater.ids import TopicPartition
from headwater.model.durations import LONG_MAX
from headwater.serde.base import Serde
from headwater.state.store import LayeredStore
from headwater.wire.buffer import BufferValue, decode, encode, size_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import StoreSpec
    from headwater.ports import ChangeContext
    from headwater.state.layers.writeback import WriteBack


class BufferSerde(Serde[BufferValue]):
    """What the layers below keep of a change."""

    immutable = True

    def serializer(self, topic: str) -> Callable[[BufferValue], bytes]:
        """Return the encoder."""
        del topic
        return encode

    def deserializer(self, topic: str) -> Callable[[bytes], BufferValue]:
        """Return the decoder."""
        del topic
        return decode


class SuppressionBuffer(LayeredStore):
    """Kafka's ``InMemoryTimeOrderedKeyValueChangeBuffer``, the ``TimeOrderedBuffer`` of ``ports``.

    Args:
        spec: the store.
        below: its write-back layer, of a ``BufferSerde``.
        value_serde: of the table's values.
        topic: the changelog, to which serializers are bound.
    """

    def __init__(
        self, spec: StoreSpec, below: WriteBack, value_serde: Serde[Any], topic: str
    ) -> None:
        super().__init__(spec, below, None)
        self._encode: Callable[[Any], bytes] = value_serde.serializer(topic)
        self._decode: Callable[[bytes], Any] = value_serde.deserializer(topic)
        self._held: dict[bytes, BufferValue] = {}
        self._order: list[tuple[int, bytes]] = []
        self.min_time = LONG_MAX
        self.size_bytes = 0

    @property
    def count(self) -> int:
        """How many keys have a change that waits."""
        return len(self._held)

    def load(self) -> None:
        """Make the index of what the store holds."""
        keys = self._keys
        self._held = {
            keys.bytes_of(keys.identity(key)): value for key, value, _ in self.range(None, None)
        }
        self._order = [(value.time, key) for key, value in self._held.items()]
        heapify(self._order)
        self.min_time = self._order[0][0] if self._order else LONG_MAX
        self.size_bytes = sum(size_bytes(key, value) for key, value in self._held.items())

    def buffer(self, time: int, key: Any, change: tuple[Any, Any], context: ChangeContext) -> None:
        """Take in a change; one that waits already keeps its place.

        Raises:
            SerializationError: a serde does not take the key.
        """
        identity = self._keys.identity(key)
        data = self._keys.bytes_of(identity)
        new, old = (None if part is None else self._encode(part) for part in change)
        timestamp, offset, (topic, partition), headers = context
        waiting = self._held.get(data)
        if waiting is None:
            heappush(self._order, (time, data))
            self.min_time = min(self.min_time, time)
            prior = old
        else:
            time, prior = waiting.time, waiting.prior
            self.size_bytes -= size_bytes(data, waiting)
        value = BufferValue(time, prior, old, new, timestamp, offset, topic, partition, headers)
        self._held[data] = value
        self.size_bytes += size_bytes(data, value)
        self._below.put(identity, value, timestamp)

    def first(self) -> tuple[Any, tuple[Any, Any], ChangeContext]:
        """Return key, change and context of what leaves next."""
        data = self._order[0][1]
        held = self._held[data]
        decode_value = self._decode
        new = None if held.new is None else decode_value(held.new)
        old = None if held.old is None else decode_value(held.old)
        source = TopicPartition(held.topic, held.partition)
        context = held.timestamp, held.offset, source, held.headers
        return self._keys.decode(data), (new, old), context

    def remove_first(self) -> None:
        """Take out what ``first`` has returned."""
        data = heappop(self._order)[1]
        held = self._held.pop(data)
        self.min_time = self._order[0][0] if self._order else LONG_MAX
        self.size_bytes -= size_bytes(data, held)
        identity = self._keys.decode(data) if self._keys.is_identity else data
        self._below.put(identity, None, held.timestamp)

    def prior(self, key: Any) -> tuple[bool, Any]:
        """Return whether a change of ``key`` waits, and the value from before its first one."""
        held = self._held.get(self._keys.bytes_of(self._keys.identity(key)))
        if held is None:
            return False, None
        return True, None if held.prior is None else self._decode(held.prior)
