"""The metadata string that Kafka Streams commits beside an offset: partition time and more.

    base64( magic int8 = 2 | partition time int64
            | [ count int32 | { length int32 | key UTF-8 | value int64 }* ] )

The bracketed part is absent when there is no processor metadata. Magic 1 ends before it.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_TIME: Final = -1
"""Partition time of a partition from which nothing was processed yet."""

_MAGIC: Final = 2
_HEAD = struct.Struct(">bq")
_COUNT = struct.Struct(">i")
_VALUE = struct.Struct(">q")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMetadata:
    """What a task remembers of one input partition (Kafka's ``TopicPartitionMetadata``)."""

    partition_time: int = UNKNOWN_TIME
    """Largest timestamp processed from the partition, in milliseconds; -1 if unknown."""
    processor: Mapping[str, int] = field(default_factory=dict)
    """Values that processors keep across restarts, by key."""


def encode(metadata: OffsetMetadata) -> str:
    """Return the text to commit with the offset."""
    parts = [_HEAD.pack(_MAGIC, metadata.partition_time)]
    if metadata.processor:
        parts.append(_COUNT.pack(len(metadata.processor)))
        for key, value in metadata.processor.items():
            name = key.encode()
            parts += [_COUNT.pack(len(name)), name, _VALUE.pack(value)]
    return base64.b64encode(b"".join(parts)).decode()


def decode(text: str | None) -> OffsetMetadata:
    """Read what was committed; what is unreadable or newer gives unknown times, as in Java."""
    try:
        data = base64.b64decode(text or "", validate=True)
        magic, partition_time = _HEAD.unpack_from(data)
        if magic not in {1, _MAGIC}:
            return OffsetMetadata()
        rest = data[_HEAD.size :] if magic == _MAGIC else b""
        return OffsetMetadata(partition_time=partition_time, processor=_decode_processor(rest))
    except (binascii.Error, struct.error, ValueError):
        return OffsetMetadata()


def without_remains(text: str) -> str:
    """Return committed text without what lies behind its end.

    librdkafka copies it without a terminating zero, so what a client reads may go on with any
    bytes that were in memory. What is no metadata of Kafka Streams is left as it is.
    """
    data = base64.b64decode(_BASE64.match(text)[0])  # type: ignore[index]  # it always matches
    if len(data) < _HEAD.size or data[0] not in {1, _MAGIC}:
        return text
    return base64.b64encode(data[: _end(data)]).decode()


def _end(data: bytes) -> int:
    """Where the processor metadata ends; if there is none, the head."""
    if data[0] != _MAGIC:
        return _HEAD.size
    try:
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
        at = _HEAD.size + _COUNT.size
        for _ in range(count):
            (length,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            data[at : at + length].decode()
            _VALUE.unpack_from(data, at + length)
            at += length + _VALUE.size
    except (struct.error, UnicodeDecodeError):
        return _HEAD.size
    return at if count > 0 else _HEAD.size


def _decode_processor(data: bytes) -> dict[str, int]:
    processor: dict[str, int] = {}
    if not data:
        return processor
    (count,) = _COUNT.unpack_from(data)
    at = _COUNT.size
    for _ in range(count):
        (length,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        key = data[at : at + length].decode()
        (processor[key],) = _VALUE.unpack_from(data, at + length)
        at += length + _VALUE.size
    return processor
