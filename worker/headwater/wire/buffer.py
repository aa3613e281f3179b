"""A change that waits in the buffer of a suppression, as its changelog has it (version 3).

    context    timestamp int64 | offset int64 | topic | partition int32 | count of headers int32 |
               name and value of each header
    values     prior | old | new
    time       int64, by which the buffer is ordered

Topics, names and values come after their length, int32; -1 is null. An old value that is the prior
one has the length -2 and no bytes. Records before version 3, of Kafka Streams before 2.4, are not
read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import DeserializationError

if TYPE_CHECKING:
    from headwater.ports import Headers

CHANGELOG_HEADERS: Final[list[tuple[str, bytes | None]]] = [("v", b"\x03")]
"""What each record of such a changelog has, but for tombstones."""

_CONTEXT: Final = struct.Struct(">qqi")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_NULL: Final = b"\xff\xff\xff\xff"
_AS_PRIOR: Final = b"\xff\xff\xff\xfe"
_SAME: Final = -2
_FIXED_BYTES: Final = 8 + 8 + 8 + 4
"""Of a change's time, timestamp, offset and partition."""


class BufferValue(NamedTuple):
    """A change that waits (Kafka's ``BufferValue`` with its ``ProcessorRecordContext``).

    Attributes:
        time: its place in the buffer, in milliseconds.
        prior: what the key had before its first change that waits.
        old: what it had before this one.
        new: what it has now; ``None`` if it is deleted.
        timestamp: of the change.
        offset: where the record was read that made it.
        topic: likewise.
        partition: likewise.
        headers: of the change.
    """

    time: int
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers


def size_bytes(key: bytes, value: BufferValue) -> int:
    """Return what a change counts for the bounds of its buffer, as in Kafka Streams."""
    prior, old, new = value.prior, value.old, value.new
    size = _FIXED_BYTES + len(key) + len(value.topic)
    if prior is not None:
        size += len(prior)
    if old is not None and old != prior:
        size += len(old)
    if new is not None:
        size += len(new)
    for name, data in value.headers or ():
        size += len(name) + len(data or b"")
    return size


def encode(value: BufferValue) -> bytes:
    """Return the record value of a change that waits."""
    topic = value.topic.encode()
    headers = value.headers or ()
    parts = [
        _CONTEXT.pack(value.timestamp, value.offset, len(topic)),
        topic,
        _INT.pack(value.partition),
        _INT.pack(len(headers)),
    ]
    for name, data in headers:
        parts += _sized(name.encode()), _sized(data)
    old = value.old
    parts += (
        _sized(value.prior),
        _AS_PRIOR if old is not None and old == value.prior else _sized(old),
        _sized(value.new),
        _LONG.pack(value.time),
    )
    return b"".join(parts)


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT.pack(len(data)) + data


def decode(data: bytes) -> BufferValue:
    """Return the change in a record value.

    Raises:
        DeserializationError: the bytes are none of version 3.
    """
    try:
        return _decoded(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DeserializationError(
            f"{len(data)} bytes are no change in a buffer of version 3: was the changelog written "
            "by Kafka Streams before 2.4?"
        ) from error


def _decoded(data: bytes) -> BufferValue:
    timestamp, offset, length = _CONTEXT.unpack_from(data)
    at = _CONTEXT.size + length
    topic = data[_CONTEXT.size : at].decode()
    partition, count = _INT.unpack_from(data, at)[0], _INT.unpack_from(data, at + 4)[0]
    at += 8
    headers = []
    for _ in range(count):
        name, at = _part(data, at)
        value, at = _part(data, at)
        headers.append(((name or b"").decode(), value))
    prior, at = _part(data, at)
    if _INT.unpack_from(data, at)[0] == _SAME:
        old, at = prior, at + 4
    else:
        old, at = _part(data, at)
    new, at = _part(data, at)
    if at + _LONG.size != len(data):
        raise IndexError(at)
    time = _LONG.unpack_from(data, at)[0]
    return BufferValue(time, prior, old, new, timestamp, offset, topic, partition, headers or None)


def _part(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(data, at)
    at += _INT.size
    if length < 0:
        return None, at
    if at + length > len(data):
        raise IndexError(at)
    return data[at : at + length], at + length
