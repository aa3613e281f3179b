"""Rows of a store in the order of their keys' bytes: what is committed, under what is not yet.

What is written after a call is not seen by what it returned.
"""

from __future__ import annotations

from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.state.codec import StoreCodec
    from headwater.state.layers.keys import Written, WrittenKeys
    from headwater.state.layers.writeback import WriteBack


def scan_range(
    codec: StoreCodec,
    below: WriteBack,
    written: WrittenKeys,
    low: bytes | None,
    high: bytes | None,
    *,
    reverse: bool,
) -> Iterator[tuple[Any, Any, int]]:
    """Iterate ``(key, value, timestamp)`` from ``low`` to ``high``, both inclusive.

    ``None`` leaves a side open. The timestamp is -1 in a store without them.
    """
    committed = below.backend.range(low, high, reverse=reverse)
    return _merged(codec, written.between(low, high), committed, reverse=reverse)


def scan_prefix(
    codec: StoreCodec, below: WriteBack, written: WrittenKeys, prefix: bytes
) -> Iterator[tuple[Any, Any, int]]:
    """Iterate ``(key, value, timestamp)`` of the keys whose bytes begin with ``prefix``."""
    end = _behind(prefix)
    # Both bounds are inclusive, and the upper one is the only key between them that is not wanted.
    begun = written.between(prefix, end)
    if end is not None:
        begun.pop(end, None)
    committed = (row for row in below.backend.range(prefix, end, reverse=False) if row[0] != end)
    return _merged(codec, begun, committed, reverse=False)


def _behind(prefix: bytes) -> bytes | None:
    """Return the smallest key behind all that begin with ``prefix``, ``None`` if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def _merged(
    codec: StoreCodec,
    written: Written,
    committed: Iterator[tuple[bytes, bytes]],
    *,
    reverse: bool,
) -> Iterator[tuple[Any, Any, int]]:
    rest = ((key, codec.from_row(row)) for key, row in committed if key not in written)
    newer = reversed(written.items()) if reverse else written.items()
    decode = codec.keys.decode
    for key, (stored, timestamp) in merge(newer, rest, key=itemgetter(0), reverse=reverse):
        if stored is not None:
            yield decode(key), codec.to_value(stored), timestamp if codec.timestamped else -1
