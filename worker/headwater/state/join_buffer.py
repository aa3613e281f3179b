"""Records that wait to be joined with a versioned table: Java's keys and values of their buffer.

A key is a zero byte, time, key and number: int64, the key's bytes, int32
(``TimeFirstWindowKeySchema``). A value is laid out as a change in the buffer of a suppression, of
which only the new value is there.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.ports import WaitingRecord
from headwater.serde.base import Serde
from headwater.wire.buffer import BufferValue, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

BufferedKey: TypeAlias = "tuple[int, Any, int]"
"""Time in milliseconds, key, number among those of one time and key."""

_TIME: Final = struct.Struct(">xq")
_NUMBER: Final = struct.Struct(">i")


class BufferedKeySerde(Serde[BufferedKey]):
    """Keys of records that wait.

    Args:
        key: of the stream's keys.
    """

    def __init__(self, key: Serde[Any]) -> None:
        self._key = key

    def serializer(self, topic: str) -> Callable[[BufferedKey], bytes]:
        """Return the encoder."""
        encode_key = self._key.serializer(topic)

        def serialize(key: BufferedKey) -> bytes:
            time, inner, number = key
            return _TIME.pack(time) + encode_key(inner) + _NUMBER.pack(number)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], BufferedKey]:
        """Return the decoder."""
        decode_key = self._key.deserializer(topic)

        def deserialize(data: bytes) -> BufferedKey:
            inner = decode_key(data[_TIME.size : -_NUMBER.size])
            (number,) = _NUMBER.unpack_from(data, len(data) - _NUMBER.size)
            return _TIME.unpack_from(data)[0], inner, number

        return deserialize


class BufferedSerde(Serde[WaitingRecord]):
    """Records that wait, under their keys.

    Args:
        value: of the stream's values.
    """

    def __init__(self, value: Serde[Any]) -> None:
        self._value = value

    def serializer(self, topic: str) -> Callable[[WaitingRecord], bytes]:
        """Return the encoder."""
        encode_value = self._value.serializer(topic)

        def serialize(record: WaitingRecord) -> bytes:
            return encode(
                BufferValue(
                    time=0,
                    prior=None,
                    old=None,
                    new=encode_value(record.value),
                    timestamp=record.timestamp,
                    offset=record.offset,
                    topic=record.topic,
                    partition=record.partition,
                    headers=record.headers,
                )
            )

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], WaitingRecord]:
        """Return the decoder."""
        decode_value = self._value.deserializer(topic)

        def deserialize(data: bytes) -> WaitingRecord:
            held = decode(data)
            return WaitingRecord(
                decode_value(held.new or b""),
                held.timestamp,
                held.offset,
                held.topic,
                held.partition,
                held.headers,
            )

        return deserialize
