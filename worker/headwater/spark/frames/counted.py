"""Makes one row of the records that have the same key, of which only a count is wanted.

Spark would do that, too, but every row has to be brought to it from Python, with its value. Whether
there is a value is kept: what is dropped for want of one is counted by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELD_ROWS: Final = 200_000
"""At some tens of bytes each. Merging many at once takes a third of what merging few often does."""

_HELD_BYTES: Final = 32 << 20

COUNTED: Final = ("key", "there", "ts", "m")
"""The key, whether there is a value, the latest timestamp, how many records."""


class Counted:
    """Rows of one partition, batches with the columns ``COUNTED``, merged when many have come.

    Args:
        held_rows: so many may be held back.
        held_bytes: so many bytes of them may.
    """

    def __init__(self, held_rows: int = _HELD_ROWS, held_bytes: int = _HELD_BYTES) -> None:
        self._held_rows = held_rows
        self._held_bytes = held_bytes
        self._pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, batch: Any) -> Iterator[Any]:
        """Take in records; give rows when there are too many to be held back."""
        self._hold(batch)
        if self._rows <= self._held_rows and self._bytes <= self._held_bytes:
            return
        merged = self._take()
        if merged.num_rows > self._held_rows // 2 or merged.nbytes > self._held_bytes // 2:
            yield from merged.to_batches()
        else:
            for rows in merged.to_batches():
                self._hold(rows)

    def rest(self) -> Iterator[Any]:
        """Give what is held back."""
        if self._held:
            yield from self._take().to_batches()

    def _hold(self, batch: Any) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def _take(self) -> Any:
        merged = self._merged(self._pa.Table.from_batches(self._held))
        self._held, self._rows, self._bytes = [], 0, 0
        return merged

    def _merged(self, table: Any) -> Any:
        """One row for each key and whether there is a value."""
        grouped = table.group_by(["key", "there"], use_threads=False)
        merged = grouped.aggregate([("ts", "max"), ("m", "sum")])
        return merged.rename_columns({"ts_max": "ts", "m_sum": "m"}).select(list(COUNTED))
