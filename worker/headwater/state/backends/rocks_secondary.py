"""A RocksDB database that another process writes, open for reading: a secondary instance.

It shows the database as it was when it was opened or caught up last, so reads between two calls of
``catch_up`` agree with each other. A catch-up costs about a millisecond, whether or not anything
was written: whoever can know that nothing was does well not to call it.

What the writer flushes is read from its tables, and a part of it may lie in the memory of a
secondary, too, from the log that is deleted then. RocksDB's ``get`` looks into memory first, and
returns that older part until the next write; an iterator compares both. So single keys are read by
iterators here.

It follows one writer. Each process that opens a database for writing begins a manifest, and puts
what its predecessor has left in a log into a table. A secondary that has read a part of that log
would go on showing that part, beside what the new process writes. So it is opened anew.
"""

from __future__ import annotations

import os
import shutil
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from rocksdict import AccessType, Rdict, ReadOptions

from headwater.errors import StateError
from headwater.state.backends.rocks import POSITION_KEY, RocksBackend, stored_key
from headwater.state.position import decode_position

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from headwater.ports import Position

_FEW: Final = 1_000
"""So many keys are counted one by one."""


class RocksSecondary(RocksBackend):
    """Reads the committed entries of a store that another process has open.

    It takes no lock, and neither the writer nor other readers notice it.

    Args:
        path: directory of the database, which must exist.
        scratch: a directory of its own, for RocksDB's log; deleted when it is closed.
        others: as of ``RocksBackend``.

    Raises:
        StateError: there is no database yet.
        StoreCorruptedError: it cannot be read.
    """

    writes = False

    def __init__(self, path: Path, scratch: Path, **others: Any) -> None:
        self._scratch = scratch
        if not (path / "CURRENT").exists():
            raise StateError(f"there is no database at {path} yet: its writer has not opened it")
        try:
            super().__init__(path, **others)
        except StateError:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        self._sequence: int = self._db.latest_sequence_number()

    def _opened(self) -> Any:
        self._built.create_if_missing(create_if_missing=False)
        # Tables stay open: the writer deletes what it has compacted, and does not know of us.
        self._built.set_max_open_files(-1)
        self._scratch.mkdir(parents=True, exist_ok=True)
        while True:
            self._begun = self.manifest()
            self._writer, _ = self._begun
            opened = Rdict(
                str(self.path),
                options=self._built,
                column_families=dict.fromkeys(self._families(), self._built),
                access_type=AccessType.secondary(str(self._scratch)),
            )
            if self._follows(opened):
                return opened
            opened.close()

    def catch_up(self) -> bool:
        """Show from now on what the writer has written up to now; return whether that is new.

        Ranges that are open go on showing what they showed.

        Raises:
            StateError: the database is to be opened anew: another process has begun to write it,
                or it cannot be followed. Until then, what is read may be of no commit.
        """
        try:
            is_followed = self._follows(self._db)
            sequence = self._db.latest_sequence_number()
            data = self._newest(POSITION_KEY)
        except Exception as error:
            raise self._explain(error, "followed") from error
        if not is_followed:
            is_other = self.manifest()[0] != self._writer
            why = "another process has begun to write it" if is_other else "it has other tables"
            raise StateError(f"store {self.name} at {self.path} cannot be followed: {why}")
        if sequence == self._sequence:
            return False
        self._sequence = sequence
        self._position = None if data is None else decode_position(data)
        return True

    def _newest(self, stored: bytes) -> bytes | None:
        """Return what is stored under a key, in memory or in a table, whichever is newer."""
        return value_at(self._db.iter(ReadOptions()), stored)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``.

        Raises:
            StoreCorruptedError: its block is damaged.
        """
        try:
            return self._newest(stored_key(key))
        except Exception as error:
            raise self._explain(error, "read") from error

    def _follows(self, db: Any) -> bool:
        """Catch up; return whether the process that writes is still the one of before."""
        # RocksDB reads the manifest first and then looks which logs there are. Of one that was
        # flushed and deleted in between it misses all, without a word. If one is deleted after it
        # has looked, it reads no log: then column families may be of different commits.
        after = self._writer, _size_of(self.path / self._writer)
        is_complete = False
        while not is_complete and after[0] == self._writer:
            before, logs = after, self._logs()
            db.try_catch_up_with_primary()
            after = self.manifest()
            is_complete = before == after and logs <= self._logs()
        return after[0] == self._writer

    def _logs(self) -> set[str]:
        """Return the names of the write-ahead logs."""
        return {found.name for found in os.scandir(self.path) if found.name.endswith(".log")}

    def manifest(self) -> tuple[str, int]:
        """Return name and size of what says which tables there are.

        It grows before a log is deleted, and has another name once another process writes. Where
        there is no database, the name is empty.
        """
        try:
            name = (self.path / "CURRENT").read_text().strip()
        except FileNotFoundError:
            return "", 0
        return name, _size_of(self.path / name)

    def approximate_num_entries(self) -> int:
        """How many keys there are; of more than a thousand RocksDB's estimate.

        The estimate counts what was overwritten or is no entry, until that is compacted.
        """
        rows = self.range(None, None)
        few = sum(1 for _ in islice(rows, _FEW + 1))
        if few <= _FEW:
            return few
        cast("Generator[Any, None, None]", rows).close()
        return max(few, super().approximate_num_entries())

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> NoReturn:
        """Refuse: one process writes.

        Raises:
            StateError: always.
        """
        del entries, position
        raise StateError(f"store {self.name} at {self.path} is open for reading only")

    def flush_later(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Release the files."""
        super().close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def value_at(cursor: Any, stored: bytes) -> bytes | None:
    """Return the value under a key, by a cursor of the database."""
    cursor.seek(stored)
    if not cursor.valid():
        cursor.status()
        return None
    value: bytes = cursor.value()
    return value if cursor.key() == stored else None


def _size_of(path: Path) -> int:
    """Return the size of a file; 0 if another process has replaced it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
