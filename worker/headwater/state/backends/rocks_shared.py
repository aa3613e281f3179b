"""A RocksDB database that one process writes and others read, each with a cache of its own.

Each batch also says which keys it changes, in one of a fixed number of rows that are used in turn.
A reader that has caught up knows from them what to take out of its cache. If it has missed too many
batches, or one was large, it learns that it must forget everything.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from headwater.state.backends.rocks import POSITION_KEY, RocksBackend
from headwater.state.backends.rocks_secondary import RocksSecondary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ports import Position

_BATCH_KEY: Final = POSITION_KEY + b"batch"
_CHANGED_KEY: Final = POSITION_KEY + b"changed"
_ROWS: Final = 256
_KEYS_MAX: Final = 2_000
_HEAD: Final = struct.Struct(">QI")
_BATCH: Final = struct.Struct(">Q")
_MANY: Final = 0xFFFFFFFF
_LENGTH: Final = struct.Struct(">I")


class SharedRocks(RocksBackend):
    """The writer's side.

    Attributes:
        batch: the number of the last batch; it goes on after a restart.
        tells: each batch says which keys it changes; while a store is filled nobody wants to know.
    """

    def __init__(self, *given: Any, **others: Any) -> None:
        super().__init__(*given, **others)
        self.batch = _batch_of(self._newest(_BATCH_KEY))
        self._changed: list[bytes] = []
        self.tells = True

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes and the position in one atomic batch, and say what changed.

        Raises:
            DiskFullError: nothing of the batch was applied.
        """
        rows = list(entries)
        self._changed = [key for key, _ in rows]
        self.batch += 1
        super().write(rows, position)

    def _complete(self, batch: Any) -> None:
        number, keys = self.batch, self._changed
        batch.put(_BATCH_KEY, _BATCH.pack(number))
        if not self.tells:
            return  # Readers find no row of this batch, which means the same as many keys.
        row = _HEAD.pack(number, len(keys) if len(keys) <= _KEYS_MAX else _MANY)
        if len(keys) <= _KEYS_MAX:
            row += b"".join(_LENGTH.pack(len(key)) + key for key in keys)
        batch.put(_changed_key(number), row)


class SharedRocksReader(RocksSecondary):
    """A reader's side.

    Attributes:
        batch: the last one that is seen.
    """

    def __init__(self, *given: Any, **others: Any) -> None:
        self.batch = 0
        super().__init__(*given, **others)
        self._note_batch()

    def _note_batch(self) -> None:
        newest = self._newest(_BATCH_KEY)
        self.batch = _batch_of(newest)
        # Each batch writes this row: if memory has an older one, ``get`` may return what is older.
        self._reads_old = self._db.get(_BATCH_KEY) != newest

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``; by RocksDB's ``get``, which takes less time, if it may be.

        Raises:
            StoreCorruptedError: its block is damaged.
        """
        return super().get(key) if self._reads_old else RocksBackend.get(self, key)

    def reopen(self) -> None:
        """Read the database that lies at the path now; ranges that are open end.

        Raises:
            StateError: there is none.
        """
        for iterator in list(self._iterators):
            iterator.close()
        self._db.close()
        try:
            self._db = self._opened()
            self._sequence = -1
            self.catch_up()
            self._note_batch()
        except Exception as error:
            raise self._explain(error, "opened") from error

    def changes(self) -> list[bytes] | None:
        """Catch up; return the keys that have changed, ``None`` if they are too many to tell.

        Raises:
            StateError: as ``catch_up``.
        """
        before = self.batch
        if not self.catch_up():
            return []
        self._note_batch()
        newest = self.batch
        if not before <= newest <= before + _ROWS:
            return None
        changed: list[bytes] = []
        for number in range(before + 1, newest + 1):
            found = _keys_in(self._newest(_changed_key(number)), number)
            if found is None:
                return None
            changed += found
        return changed


def _changed_key(batch: int) -> bytes:
    return _CHANGED_KEY + _BATCH.pack(batch % _ROWS)


def _batch_of(row: bytes | None) -> int:
    return 0 if row is None else int(_BATCH.unpack(row)[0])


def _keys_in(row: bytes | None, batch: int) -> list[bytes] | None:
    if row is None:
        return None
    number, count = _HEAD.unpack_from(row)
    if number != batch or count == _MANY:
        return None
    keys, at = [], _HEAD.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(row, at)
        at += _LENGTH.size
        keys.append(row[at : at + length])
        at += length
    return keys
