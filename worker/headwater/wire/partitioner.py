"""Which partition a key goes to: murmur2, as Kafka's default partitioner.

librdkafka computes the same under the name ``murmur2_random``; this one serves where no producer
does: the test driver, Spark, and looking up a key's task. A record without a key has no partition
of its own.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFF_FFFF
_MIX: Final = 0x5BD1_E995
_SEED: Final = 0x9747_B28C


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of ``data`` as an unsigned number."""
    length = len(data)
    tail = length & 3
    value = (_SEED ^ length) & _MASK
    for position in range(0, length - tail, 4):
        block = int.from_bytes(data[position : position + 4], "little") * _MIX & _MASK
        block = (block ^ block >> 24) * _MIX & _MASK
        value = value * _MIX & _MASK ^ block
    if tail:
        value = (value ^ int.from_bytes(data[length - tail :], "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition, from 0, of the serialized ``key`` in a topic with ``partitions``."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
