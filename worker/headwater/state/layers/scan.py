"""Rows of a store in the order of their keys' bytes: what is committed, under what is not yet.

What is written after a call is not seen by what it returned.
"""

from __future__ import annotations

from heapq import merge
from itertools import chain, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.state.codec import StoreCodec
    from headwater.state.layers.cache import RecordCache
    from headwater.state.layers.writeback import WriteBack


def scan_range(
    below: WriteBack,
    cache: RecordCache | None,
    low: bytes | None,
    high: bytes | None,
    *,
    reverse: bool,
) -> Iterator[tuple[Any, Any, int]]:
    """Iterate ``(key, value, timestamp)`` from ``low`` to ``high``, both inclusive.

    ``None`` leaves a side open. The timestamp is -1 in a store without them.
    """
    written = _written(below, cache, low, high)
    committed = below.backend.range(low, high, reverse=reverse)
    return _merged(below.codec, written, committed, reverse=reverse)


def scan_prefix(
    below: WriteBack, cache: RecordCache | None, prefix: bytes
) -> Iterator[tuple[Any, Any, int]]:
    """Iterate ``(key, value, timestamp)`` of the keys whose bytes begin with ``prefix``."""
    written = {
        key: found
        for key, found in _written(below, cache, prefix, None).items()
        if key.startswith(prefix)
    }
    committed = below.backend.range(prefix, None, reverse=False)
    begun = takewhile(lambda row: row[0].startswith(prefix), committed)
    return _merged(below.codec, written, begun, reverse=False)


def _written(
    below: WriteBack, cache: RecordCache | None, low: bytes | None, high: bytes | None
) -> dict[bytes, tuple[Any, int]]:
    bytes_of = below.codec.keys.bytes_of
    found: dict[bytes, tuple[Any, int]] = {}
    for entry in chain(below.written(), () if cache is None else cache.dirty()):
        key = bytes_of(entry.identity)
        if (low is None or key >= low) and (high is None or key <= high):
            found[key] = entry.stored, entry.timestamp
    return found


def _merged(
    codec: StoreCodec,
    written: dict[bytes, tuple[Any, int]],
    committed: Iterator[tuple[bytes, bytes]],
    *,
    reverse: bool,
) -> Iterator[tuple[Any, Any, int]]:
    rows = sorted(written.items(), key=itemgetter(0), reverse=reverse)
    rest = ((key, codec.from_row(row)) for key, row in committed if key not in written)
    decode = codec.keys.decode
    for key, (stored, timestamp) in merge(rows, rest, key=itemgetter(0), reverse=reverse):
        if stored is not None:
            yield decode(key), codec.to_value(stored), timestamp if codec.timestamped else -1
