"""Headers as a state store keeps them in front of a value (KIP-1271, ``HeadersSerializer``).

    size of what follows | count | each: length of its name | name | length of its value | value

All numbers are varints; a null value has the length -1. No headers are the size 0 alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headwater.errors import DeserializationError
from headwater.wire.varint import read_varint, write_varint

if TYPE_CHECKING:
    from headwater.ports import Headers

NO_HEADERS: Final = b"\x00"
_NULL: Final = b"\x01"
_TIMESTAMP: Final = struct.Struct(">q")


def encode_headers(headers: Headers) -> bytes:
    """Return the bytes of headers, their size in front."""
    if not headers:
        return NO_HEADERS
    parts = [write_varint(len(headers))]
    for name, value in headers:
        data = name.encode()
        parts += (write_varint(len(data)), data)
        parts += (_NULL,) if value is None else (write_varint(len(value)), value)
    block = b"".join(parts)
    return write_varint(len(block)) + block


def end_of_headers(data: bytes) -> int:
    """Return where the headers end with which ``data`` begins.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    if data[:1] == NO_HEADERS:
        return 1
    size, start = read_varint(data, 0)
    if not 0 <= size <= len(data) - start:
        raise DeserializationError(f"Headers of {size} bytes do not fit into {len(data)} bytes")
    return start + size


def decode_headers(data: bytes) -> Headers:
    """Return the headers with which ``data`` begins; ``None`` if it has none.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    end = end_of_headers(data)
    _, place = read_varint(data, 0)
    if place == end:
        return None
    count, place = read_varint(data, place)
    if count < 0:
        raise DeserializationError(f"There cannot be {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, place = _part(data, place, end)
        if name is None:
            raise DeserializationError(f"The header that ends at byte {place} has no name")
        value, place = _part(data, place, end)
        headers.append((_text(name), value))
    if place != end:
        raise DeserializationError(f"{count} headers end at byte {place}, and not at {end}")
    return headers


def insert_timestamp(data: bytes, timestamp: int) -> bytes:
    """Return headers, timestamp and value, where ``data`` is headers and value.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    end = end_of_headers(data)
    return b"".join((data[:end], _TIMESTAMP.pack(timestamp), data[end:]))


def take_timestamp(row: bytes) -> tuple[bytes, int]:
    """Return headers with value, and the timestamp, of what ``insert_timestamp`` has made.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    end = end_of_headers(row)
    if len(row) - end < _TIMESTAMP.size:
        raise DeserializationError(f"No timestamp fits into {len(row) - end} bytes behind headers")
    return row[:end] + row[end + _TIMESTAMP.size :], _TIMESTAMP.unpack_from(row, end)[0]


def _part(data: bytes, start: int, end: int) -> tuple[bytes | None, int]:
    """Return the bytes whose length is at ``start``, ``None`` if it is -1, and where they end."""
    size, place = read_varint(data, start)
    if size == -1:
        return None, place
    if not 0 <= size <= end - place:
        raise DeserializationError(f"{size} bytes of a header do not fit between {place} and {end}")
    return data[place : place + size], place + size


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise DeserializationError(f"The name {name!r:.80} of a header is no UTF-8") from error
