"""How the versions of a key lie in bytes, and which of them nobody can ask for any more. Pure.

A row is one version: ``key length int32 ‖ key ‖ time int64`` leads to ``1 ‖ value``, or to ``0``
where the key was deleted. Rows of a key lie together, the oldest first. So a changelog can be
written down record by record, in any order, without reading anything (Kafka's layout differs).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LENGTH: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")
TIME_MAX: Final = 2**63 - 1

DELETED: Final = b"\x00"
_KEPT: Final = b"\x01"


def row_key(key: bytes, time: int) -> bytes:
    """Return the row of a key's version of ``time``, in milliseconds."""
    return _LENGTH.pack(len(key)) + key + _TIME.pack(time)


def time_of(row: bytes) -> int:
    """Return the time of a version from its row."""
    time: int = _TIME.unpack_from(row, len(row) - _TIME.size)[0]
    return time


def key_of(row: bytes) -> bytes:
    """Return the key of a version, with its length in front of it, from its row."""
    return row[: -_TIME.size]


def parts_of(row: bytes) -> tuple[bytes, int]:
    """Return key and time of a version from its row."""
    return row[_LENGTH.size : -_TIME.size], time_of(row)


def row_value(value: bytes | None) -> bytes:
    """Return what a version's row holds; ``None`` is a deletion."""
    return DELETED if value is None else _KEPT + value


def value_of(held: bytes) -> bytes | None:
    """Return the value in a version's row, ``None`` for a deletion."""
    return None if held == DELETED else held[1:]


def outlived(rows: Iterable[tuple[bytes, Any]], oldest_ms: int) -> Iterator[bytes]:
    """Return the rows of versions that had followers by ``oldest_ms``: nobody can ask for them.

    Args:
        rows: in order; a key's last row is never returned.
        oldest_ms: the oldest time that may be asked for.
    """
    before: bytes | None = None
    for row, _ in rows:
        if before is not None and key_of(before) == key_of(row) and time_of(row) <= oldest_ms:
            yield before
        before = row


class RestoredVersions:
    """From the records of a changelog to rows, as ``RocksDBVersionedStore`` restores.

    Args:
        retention_ms: history retention. What was older when it came has not got into the store.
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._stream_time = -1

    def rows(
        self, records: Iterable[tuple[bytes, int, bytes | None]]
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the rows of records ``(key, time, value)``, which come in order."""
        for key, time, value in records:
            self._stream_time = max(self._stream_time, time)
            if time >= self._stream_time - self._retention_ms:
                yield row_key(key, time), row_value(value)
