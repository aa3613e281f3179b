"""A table's change in a repartition topic: new and old value in one record (KIP-904).

    old only:  old | 0          new only:  new | 1
    both:      length of new, zig-zag varint | new | old | 2

The flag stands last, so that readers before KIP-904, which know 0 and 1 only, find it. Flags 3 to 5
are 0 to 2 with one more byte before the flag; one release wrote them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import DeserializationError, SerializationError
from headwater.wire.varint import write_varint

if TYPE_CHECKING:
    from collections.abc import Callable

Change: TypeAlias = "tuple[Any, Any]"
"""``(new, old)``; at most one of them is ``None`` on a topic."""

_OLD_ONLY: Final = 0
_NEW_ONLY: Final = 1
_BOTH: Final = 2
_WITH_LATEST: Final = 3


def encode_change(new: bytes | None, old: bytes | None) -> bytes:
    """Return the record value for a change.

    Raises:
        SerializationError: there is neither a new nor an old value.
    """
    if new is not None and old is not None:
        return b"".join((write_varint(len(new)), new, old, b"\x02"))
    if new is not None:
        return new + b"\x01"
    if old is not None:
        return old + b"\x00"
    raise SerializationError("A change without new and old value cannot be written: filter it out")


def decode_change(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the new and the old value of a record value.

    Raises:
        DeserializationError: the bytes are not a change.
    """
    if not data:
        raise DeserializationError("An empty value is not a change: was the topic written by hand?")
    flag = data[-1]
    end = len(data) - 1
    if flag >= _WITH_LATEST:
        flag -= _WITH_LATEST
        end -= 1
    if flag > _BOTH or end < 0:
        raise DeserializationError(
            f"A change cannot end in the byte {data[-1]}: was it written by hand?"
        )
    if flag == _NEW_ONLY:
        return data[:end], None
    if flag == _OLD_ONLY:
        return None, data[:end]
    length, start = _read_varint(data, end)
    if start + length > end:
        raise DeserializationError(f"A change of {len(data)} bytes cannot hold a value of {length}")
    return data[start : start + length], data[start + length : end]


def change_serializer(serialize: Callable[[Any], bytes]) -> Callable[[Change], bytes]:
    """Return the serializer of changes whose values ``serialize`` encodes."""

    def serialize_change(change: Change) -> bytes:
        new, old = change
        return encode_change(
            None if new is None else serialize(new), None if old is None else serialize(old)
        )

    return serialize_change


def change_deserializer(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Change]:
    """Return the deserializer of changes whose values ``deserialize`` decodes."""

    def deserialize_change(data: bytes) -> Change:
        new, old = decode_change(data)
        return None if new is None else deserialize(new), None if old is None else deserialize(old)

    return deserialize_change


def _read_varint(data: bytes, end: int) -> tuple[int, int]:
    value = 0
    for position in range(min(end, 5)):
        byte = data[position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            if value & 1:
                break
            return value >> 1, position + 1
    raise DeserializationError("A change does not begin with the length of its new value")
