"""The bytes of a ``Position`` (Kafka Streams' ``PositionSerde``): of the input behind a store.

version int8 = 0 ‖ topics int32 ‖ { length int32 ‖ topic ‖ partitions int32 ‖
{ partition int32 ‖ offset int64 } }
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headwater.model.positions import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ids import TopicPartition

_VERSION: Final = 0
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">iq")


def encode_read(read: Iterable[tuple[TopicPartition, int]]) -> bytes:
    """Return the bytes of the position at which the input was read so far.

    Args:
        read: the next offset of each partition; one of which nothing was read is left out.
    """
    return encode(Position.of((p.topic, p.partition, n - 1) for p, n in read if n > 0))


def encode(position: Position) -> bytes:
    """Return the bytes of a position."""
    topics = position.to_map()
    parts = [bytes([_VERSION]), _INT.pack(len(topics))]
    for topic, offsets in topics.items():
        name = topic.encode()
        parts += [_INT.pack(len(name)), name, _INT.pack(len(offsets))]
        parts += [_PAIR.pack(partition, offset) for partition, offset in offsets.items()]
    return b"".join(parts)


def decode(data: bytes) -> Position:
    """Return the position of ``encode``'s bytes; an empty one of none, or of another version."""
    if not data or data[0] != _VERSION:
        return Position()
    found: dict[str, dict[int, int]] = {}
    at = 1 + _INT.size
    for _ in range(_INT.unpack_from(data, 1)[0]):
        length = _INT.unpack_from(data, at)[0]
        topic = data[at + _INT.size : at + _INT.size + length].decode()
        at += _INT.size + length
        pairs = _INT.unpack_from(data, at)[0]
        at += _INT.size
        found[topic] = dict(
            _PAIR.unpack_from(data, at + index * _PAIR.size) for index in range(pairs)
        )
        at += pairs * _PAIR.size
    return Position(found)
