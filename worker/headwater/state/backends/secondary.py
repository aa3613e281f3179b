"""A store that another process writes, opened for reading whatever its kind.

Catching up takes about as long as the primary took to write; threads of this process read
meanwhile. ``mark_of`` says for some microseconds whether there is anything to catch up with.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rocksdict import ReadOptions

from headwater.state.backends.rocks import POSITION_KEY
from headwater.state.backends.rocks_secondary import RocksSecondary, value_at
from headwater.state.backends.segments import STREAM_TIME_KEY, SegmentedRocksBackend, stream_time_of
from headwater.state.expiry import Expiry, time_at
from headwater.state.keys import suffix_bytes_of
from headwater.state.position import decode_position

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.stores import StoreSpec
    from headwater.ports import Position
    from headwater.state.backends.rocks import BlockCache

_TICKS_NS: Final = 100_000_000

Mark: TypeAlias = "tuple[int, ...]"
"""Changes whenever the primary has written; the first number is that of the database itself."""


class StoreSecondary(RocksSecondary):
    """The committed entries of one store, read beside the process that writes them.

    Any number of threads may read while one calls ``catch_up``. What they see meanwhile counts if
    it has the position of before, or if the manifest has not grown since: only then may RocksDB
    show a newer commit without the one that it follows, whose log was deleted under its hands.
    """

    may_be_read_meanwhile = True

    def position(self) -> Position | None:
        """Return the position of the commit that is read at this moment."""
        data = self._newest(POSITION_KEY)
        return None if data is None else decode_position(data)

    def is_outgrown(self) -> bool:
        """Whether the primary has made what is only seen when the store is opened anew."""
        return False


class SegmentedSecondary(StoreSecondary, SegmentedRocksBackend):
    """The committed windows or sessions of one store, read beside the process that writes them.

    A segment that the primary makes is seen when the store is opened anew, so nobody may read while
    ``catch_up`` goes on, and until then.
    """

    may_be_read_meanwhile = False

    def catch_up(self) -> bool:
        """As ``RocksSecondary``; what has expired since then is not shown any more."""
        is_new = super().catch_up()
        self.stream_time = stream_time_of(self._newest(STREAM_TIME_KEY))
        return is_new

    def get(self, key: bytes) -> bytes | None:
        """Return the row of ``key``.

        Raises:
            StoreCorruptedError: its block is damaged.
        """
        try:
            time = time_at(key, self._suffix_bytes)
            segment = time // self._expiry.segment_ms
            if time > self.stream_time or segment not in self._segments:
                return None
            return value_at(self._cursor(segment), key)
        except Exception as error:
            raise self._explain(error, "read") from error

    def _follows(self, db: Any) -> bool:
        """As ``RocksSecondary``, and whether the tables are still those of when it was opened.

        RocksDB takes in what was flushed segment by segment. Where it was flushed in between, one
        may show a commit that another does not, for as long as nothing is written.
        """
        return super()._follows(db) and self.manifest() == self._begun

    def is_outgrown(self) -> bool:
        """Whether the primary has made or dropped segments."""
        known = {*self._found}
        return known != {*self._families()[1:]}

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate of the number of rows of all segments, which hold nothing else."""
        return SegmentedRocksBackend.approximate_num_entries(self)

    def _cursor(self, segment: int) -> Any:
        """Return a cursor of its own: several threads read, and each sees the newest commit."""
        return self._segments[segment].iter(ReadOptions())


def open_secondary(
    spec: StoreSpec, path: Path, scratch: Path, *, name: str, block_cache: BlockCache | None = None
) -> StoreSecondary:
    """Open the database of a persistent store for reading.

    Args:
        spec: the store.
        path: directory of the database.
        scratch: a directory of its own, for RocksDB's log.
        name: what messages call the store.
        block_cache: the process' shared one.

    Raises:
        StateError: there is no such database, or it cannot be read.
    """
    others = {"name": name, "store_name": spec.name, "block_cache": block_cache}
    if not spec.kind.expires:
        return StoreSecondary(path, scratch, **others)
    return SegmentedSecondary(
        path,
        scratch,
        expiry=Expiry.of(spec),
        suffix_bytes=suffix_bytes_of(spec),
        by_time=spec.time_ordered,
        **others,
    )


def mark_of(path: Path) -> Mark:
    """Return what changes whenever a process writes to the database at ``path``.

    It costs some microseconds: the directory changes with each new file, and else the newest
    write-ahead log grows.

    Raises:
        OSError: there is no database.
    """
    found = os.stat(path)  # noqa: PTH116 - of a hot path
    log = _newest_log(str(path), found.st_mtime_ns)
    try:
        size = os.stat(log).st_size if log else 0  # noqa: PTH116
    except FileNotFoundError:
        size = -1  # a newer one is there: the directory has changed
    return found.st_ino, found.st_mtime_ns, hash(log), size


_newest: dict[str, tuple[int, str]] = {}


def _newest_log(path: str, changed_ns: int) -> str:
    """Return the log that the primary writes, remembered until the directory changes."""
    known = _newest.get(path)
    if known is not None and known[0] == changed_ns:
        return known[1]
    logs = [entry for entry in os.listdir(path) if entry.endswith(".log")]  # noqa: PTH208
    newest = max(logs, default="")
    log = os.path.join(path, newest) if newest else ""  # noqa: PTH118
    # A directory may change twice within one tick of its clock.
    if time.time_ns() - changed_ns > _TICKS_NS:
        _newest[path] = (changed_ns, log)
    return log
