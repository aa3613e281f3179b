"""What a store of windows or sessions has forgotten, by stream time. Pure.

Rows lie in *segments*, spans of time of equal length, which expire as a whole. In memory a row is
forgotten once it is older than the retention, on disk once its segment is; what is older than the
retention is never read. So Kafka Streams' stores do (``AbstractRocksDBSegmentedBytesStore``,
``InMemoryWindowStore``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.model.stores import KeyLayout

if TYPE_CHECKING:
    from headwater.model.stores import StoreSpec

_TIME: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """How long rows are kept.

    Attributes:
        retention_ms: what is so old is not read any more.
        segment_ms: how much time a segment spans.
        persistent: rows are forgotten segment by segment.
        slack_ms: so much more than the retention is read.
    """

    retention_ms: int
    segment_ms: int
    persistent: bool
    slack_ms: int = 0

    @classmethod
    def of(cls, spec: StoreSpec) -> Expiry:
        """Return how long the rows of a store are kept."""
        return cls(
            retention_ms=spec.retention_ms,
            segment_ms=spec.segment_interval_ms,
            persistent=spec.persistent,
            # Off by one in Kafka Streams' stores of windows that are ordered by time.
            slack_ms=int(spec.time_ordered and spec.kind.key_layout is KeyLayout.WINDOW)
            if spec.persistent
            else 0,
        )

    def oldest_read(self, stream_time: int) -> int:
        """Return the oldest time that is read, in milliseconds."""
        return stream_time - self.retention_ms + 1 - self.slack_ms

    def oldest_kept(self, stream_time: int) -> int:
        """Return the oldest time that is kept; a put of an older row is dropped."""
        if not self.persistent:
            return stream_time - self.retention_ms + 1
        return (stream_time - self.retention_ms) // self.segment_ms * self.segment_ms

    def order(self, row_key: bytes, suffix_bytes: int) -> tuple[int, bytes, bytes]:
        """Return by what the rows of all keys are ordered: on disk by segment, in memory by time.

        Args:
            row_key: the bytes of key and time.
            suffix_bytes: how many lie behind the key itself.
        """
        time = time_at(row_key, suffix_bytes)
        if self.persistent:
            return time // self.segment_ms, row_key, b""
        return time, row_key[:-suffix_bytes], row_key[-suffix_bytes:]


def time_at(row_key: bytes, suffix_bytes: int) -> int:
    """Return the time in a key of so many bytes behind the key itself."""
    time: int = _TIME.unpack_from(row_key, len(row_key) - suffix_bytes)[0]
    return time


def bounds(key: bytes, first: int, last: int, suffix_bytes: int) -> tuple[bytes, bytes]:
    """Return the lowest and the highest row of ``key`` from time ``first`` to ``last``."""
    rest = suffix_bytes - _TIME.size
    return (
        key + _TIME.pack(max(0, first)) + bytes(rest),
        key + _TIME.pack(max(0, last)) + b"\xff" * rest,
    )


def upper_bound(key: bytes, last: int, suffix_bytes: int) -> bytes:
    """Return what no row of ``key``, or of a lower key, up to time ``last`` lies above.

    A shorter key sorts by its time where a longer one has its next byte, so each beginning of
    ``key`` counts. Kafka's ``OrderedBytes`` misses some of them.
    """
    suffix = _TIME.pack(max(0, last)) + b"\xff" * (suffix_bytes - _TIME.size)
    return max(key[:length] + suffix for length in range(len(key) + 1))
