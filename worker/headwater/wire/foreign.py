"""Keys of a subscription store and hashes of values: two layouts of a join by foreign key.

CombinedKey   length of the foreign key, int32 | foreign key | primary key
hash          murmur3 with 128 bits, as two int64, the seed that of Apache Hive
"""

from __future__ import annotations

import struct
from typing import Final

import mmh3

_LENGTH: Final = struct.Struct(">i")
_SEED: Final = 104_729
_HASH: Final = struct.Struct(">QQ")


def key_prefix(foreign_key: bytes) -> bytes:
    """Return what all combined keys of a foreign key begin with, and no others."""
    return _LENGTH.pack(len(foreign_key)) + foreign_key


def combined_key(foreign_key: bytes, primary_key: bytes) -> bytes:
    """Return the key of a subscription in its store (Kafka's ``CombinedKeySchema``)."""
    return _LENGTH.pack(len(foreign_key)) + foreign_key + primary_key


def primary_key(combined: bytes) -> bytes:
    """Return the primary key in a combined key."""
    return combined[_LENGTH.size + _LENGTH.unpack_from(combined)[0] :]


def murmur3_128(data: bytes) -> bytes:
    """Return the 128-bit murmur3 hash of ``data`` (Kafka's ``Murmur3.hash128``) as 16 bytes."""
    return _HASH.pack(*mmh3.hash64(data, _SEED, x64arch=True, signed=False))
