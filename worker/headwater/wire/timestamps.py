"""Values with their timestamps in front, as a store that keeps timestamps has them on disk.

Kafka's ``ValueAndTimestampSerializer``; the changelog itself has the value alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Row: TypeAlias = "tuple[bytes, int, bytes | None]"
"""Key, timestamp and value of a change."""
Entry: TypeAlias = "tuple[bytes, bytes | None]"
"""Key and value as a store keeps them."""

_pack: Final = struct.Struct(">q").pack


def entries_of(rows: Iterable[Row], *, timestamped: bool) -> list[Entry]:
    """Return what a store keeps of changes.

    Args:
        rows: the changes.
        timestamped: the store keeps timestamps.
    """
    if timestamped:
        return [
            (key, None if value is None else _pack(timestamp) + value)
            for key, timestamp, value in rows
        ]
    return [(key, value) for key, _, value in rows]
