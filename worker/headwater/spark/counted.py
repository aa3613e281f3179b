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
"""At some hundred bytes each."""


class Counted:
    """Rows of one partition (``rows.schema_of``), merged as they come.

    Args:
        held_rows: so many may be held back.
    """

    def __init__(self, held_rows: int = _HELD_ROWS) -> None:
        self._held_rows = held_rows
        self._pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped
        self._compute: Any = importlib.import_module("pyarrow.compute")
        self._held: list[Any] = []
        self._rows = 0

    def add(self, batch: Any) -> Iterator[Any]:
        """Take in records; give rows when there are too many to be held back."""
        self._hold(self._merged(self._pa.Table.from_batches([batch])))
        if self._rows <= self._held_rows:
            return
        merged = self._take()
        if merged.num_rows > self._held_rows // 2:
            yield from merged.to_batches()
        else:
            self._hold(merged)

    def rest(self) -> Iterator[Any]:
        """Give what is held back."""
        if self._held:
            yield from self._take().to_batches()

    def _hold(self, table: Any) -> None:
        self._held.append(table)
        self._rows += table.num_rows

    def _take(self) -> Any:
        merged = self._merged(self._pa.concat_tables(self._held))
        self._held, self._rows = [], 0
        return merged

    def _merged(self, table: Any) -> Any:
        """One row for each key and whether there is a value: the latest time, how many records."""
        schema = table.schema
        there = self._compute.is_valid(table["value"])
        grouped = (
            table.drop_columns(["value"])
            .append_column("there", there)
            .group_by(["src", "part", "key", "there", "bad"], use_threads=False)
            .aggregate([("ts", "max"), ("off", "max"), ("m", "sum")])
            .rename_columns({"ts_max": "ts", "off_max": "off", "m_sum": "m"})
        )
        kind = schema.field("value").type
        some = 0 if self._pa.types.is_integer(kind) else b""
        present = self._pa.array([some]).cast(kind)[0]
        absent = self._pa.scalar(None, kind)
        value = self._compute.if_else(grouped["there"], present, absent)
        return grouped.append_column("value", value).select(schema.names).cast(schema)
