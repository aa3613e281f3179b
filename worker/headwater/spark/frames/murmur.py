"""murmur2 of many keys at once, over the buffers of an Arrow array (``wire.partitioner``)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_MIX: Final = np.uint32(0x5BD1_E995)
_SEED: Final = np.uint32(0x9747_B28C)
_POSITIVE: Final = np.uint32(0x7FFF_FFFF)


def partitions_of(keys: Any, partitions: int) -> Any:
    """Return the partition of each key of a ``pyarrow`` binary array, as a numpy array.

    What it says of a null means nothing.
    """
    count = len(keys)
    if not count:
        return np.zeros(0, np.int32)
    keys = keys.cast("binary")  # Spark may be told to use the type with longer offsets
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    # Three more bytes, so that a tail is read as a whole block.
    hashes = _murmur2(np.append(data, np.zeros(4, np.uint8)), offsets)
    return ((hashes & _POSITIVE) % np.uint32(partitions)).astype(np.int32)


def _murmur2(data: Any, offsets: Any) -> Any:
    starts = offsets[:-1].astype(np.int64)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.uint32)
    value = _SEED ^ lengths
    blocks = lengths >> np.uint32(2)
    with np.errstate(over="ignore"):
        for number in range(int(blocks.max())):
            # Keys are of few lengths: those that are done are left out.
            at = np.flatnonzero(blocks > number)
            block = _block(data, starts[at] + 4 * number) * _MIX
            block = (block ^ (block >> np.uint32(24))) * _MIX
            value[at] = (value[at] * _MIX) ^ block
        tails = lengths & np.uint32(3)
        at = np.flatnonzero(tails)
        if len(at):
            ends = starts[at] + (blocks[at] << np.uint32(2)).astype(np.int64)
            mask = (np.uint32(1) << (tails[at] << np.uint32(3))) - np.uint32(1)
            value[at] = (value[at] ^ (_block(data, ends) & mask)) * _MIX
        value = (value ^ (value >> np.uint32(13))) * _MIX
    return value ^ (value >> np.uint32(15))


def _block(data: Any, at: Any) -> Any:
    """Four bytes from each place on, little-endian."""
    block = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        block |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return block
