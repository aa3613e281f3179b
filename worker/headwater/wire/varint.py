"""Kafka's signed whole numbers of varying length: zig-zag, seven bits to a byte, lowest first."""

from __future__ import annotations

from typing import Final

from headwater.errors import DeserializationError

_BYTES_MAX: Final = 5
_MORE: Final = 0x80


def write_varint(value: int) -> bytes:
    """Return the bytes of a number within 32 bits (``ByteUtils.writeVarint``)."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    if value < _MORE:
        return bytes((value,))
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value & 0x7F | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number that begins at ``start``, and where it ends (``ByteUtils.readVarint``).

    Raises:
        DeserializationError: the data ends, or the number is longer than five bytes.
    """
    value = 0
    for count, position in enumerate(range(start, min(len(data), start + _BYTES_MAX))):
        byte = data[position]
        value |= (byte & 0x7F) << 7 * count
        if byte < _MORE:
            return (value >> 1) ^ -(value & 1), position + 1
    raise DeserializationError(f"No whole number of varying length begins at byte {start}")
