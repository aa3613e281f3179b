"""The backend of versions in a store of the user's own (``VersionedBytesStoreSupplier.get``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.state.backends.custom import OwnStoreBackend
from headwater.state.versions import parts_of, row_key, row_value, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.model.custom_stores import VersionedBytesStore
    from headwater.ports import Position


class CustomVersionBackend(OwnStoreBackend["VersionedBytesStore"]):
    """Hands committed versions to a store of the user's own.

    Args:
        name: of the store.
        store: what the supplier made.

    Raises:
        StateError: it lacks a method.
    """

    def __init__(self, name: str, store: VersionedBytesStore) -> None:
        super().__init__(name, store, "VersionedBytesStore", "fetch", "all", "forget")

    def get(self, key: bytes) -> bytes | None:
        """Return the row of a version."""
        key, time = parts_of(key)
        found = next(iter(self._store.fetch(key, time, time)), None)
        return None if found is None else row_value(found[1])

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in the order of rows.

        Versions of one key are asked for one after the other, the newest first.
        """
        if start is not None and end is not None:
            (key, first), (other, last) = parts_of(start), parts_of(end)
            if key == other:
                found = (
                    (row_key(key, time), row_value(value))
                    for time, value in self._store.fetch(key, first, last)
                )
                return found if reverse else iter(list(found)[::-1])
        rows = ((row_key(key, time), row_value(value)) for key, time, value in self._store.all())
        wanted = (
            row
            for row in rows
            if (start is None or row[0] >= start) and (end is None or row[0] <= end)
        )
        return iter(sorted(wanted, reverse=reverse))

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Add versions, forget those whose row is ``None``, and keep the position."""
        put, forget, written = self._store.put, self._store.forget, list(entries)
        with self._writing(position):
            for row, held in written:
                key, time = parts_of(row)
                if held is None:
                    forget(key, time)
                else:
                    put(key, value_of(held), time)
