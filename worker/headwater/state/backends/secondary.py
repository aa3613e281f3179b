"""A store that another process writes, opened for reading: a RocksDB secondary.

It sees what was committed up to its last ``catch_up``, each commit as a whole. Catching up takes
about as long as the primary took to write; threads of this process read meanwhile.

    secondary = open_secondary(spec, directory.database, place)
    if secondary.mark() != mark:      the primary has written since
        secondary.catch_up()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from rocksdict import AccessType, Rdict, ReadOptions

from headwater.state.backends.rocks import POSITION_KEY, BlockCache, RocksBackend
from headwater.state.backends.segments import STREAM_TIME_KEY, SegmentedRocksBackend, stream_time_of
from headwater.state.expiry import Expiry
from headwater.state.keys import suffix_bytes_of
from headwater.state.position import decode_position

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.stores import StoreSpec
    from headwater.ports import Position

Mark: TypeAlias = "tuple[int, ...]"
"""Changes whenever the primary has written; the first number is that of the database itself."""


class SecondaryRocksBackend(RocksBackend):
    """The committed entries of one store, read beside the process that writes them.

    Any number of threads may read; one at a time may call ``catch_up``.

    Args:
        path: directory of the database.
        place: a directory for RocksDB's own notes; made if missing.
        others: as of ``RocksBackend``.

    Raises:
        StateError: there is no such database, or it cannot be read.
    """

    may_be_read_meanwhile = True
    """Reading while ``catch_up`` goes on sees one commit or the other."""

    def __init__(self, path: Path, place: Path, **others: Any) -> None:
        self._place = place
        super().__init__(path, **others)

    def _opened(self) -> Any:
        self._built.create_if_missing(create_if_missing=False)
        # A file that the primary deletes can be read as long as it is open.
        self._built.set_max_open_files(-1)
        self._place.mkdir(parents=True, exist_ok=True)
        return Rdict(
            str(self.path),
            options=self._built,
            column_families=dict.fromkeys(self._families(), self._built),
            access_type=AccessType.secondary(str(self._place)),
        )

    def catch_up(self) -> bool:
        """Take in what the primary has committed; return whether it must be opened anew.

        Raises:
            StateError: the database cannot be read any more.
        """
        try:
            self._db.try_catch_up_with_primary()
        except Exception as error:
            raise self._explain(error, "read") from error
        return False

    def position(self) -> Position | None:
        """Return the position of the commit that is read now."""
        data: bytes | None = self._db.get(POSITION_KEY)
        return None if data is None else decode_position(data)

    def close(self) -> None:
        """Forget the database: it is released once nobody reads it any more."""
        self._db = None


class SecondarySegmentedBackend(SecondaryRocksBackend, SegmentedRocksBackend):
    """The committed windows or sessions of one store, read beside the process that writes them.

    A segment that the primary makes is seen when the store is opened anew, so nobody may read while
    ``catch_up`` goes on, and until then.
    """

    may_be_read_meanwhile = False

    def catch_up(self) -> bool:
        """Take in what the primary has committed; return whether it must be opened anew."""
        super().catch_up()
        data: bytes | None = self._db.get(STREAM_TIME_KEY)
        self.stream_time = stream_time_of(data)
        known = {*self._found}
        return known != {*self._families()[1:]}

    def _cursor(self, segment: int) -> Any:
        """Return a cursor of its own: several threads read, and each sees the newest commit."""
        return self._segments[segment].iter(ReadOptions())


def open_secondary(
    spec: StoreSpec, path: Path, place: Path, *, name: str, block_cache: BlockCache | None = None
) -> SecondaryRocksBackend:
    """Open the database of a persistent store for reading.

    Args:
        spec: the store.
        path: directory of the database.
        place: a directory for RocksDB's own notes, of this process alone.
        name: what messages call the store.
        block_cache: the process' shared one.

    Raises:
        StateError: there is no such database, or it cannot be read.
    """
    others = {"name": name, "store_name": spec.name, "block_cache": block_cache}
    if not spec.kind.expires:
        return SecondaryRocksBackend(path, place, **others)
    return SecondarySegmentedBackend(
        path,
        place,
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
    log = _newest_log(path, found.st_mtime_ns)
    try:
        size = os.stat(log).st_size if log else 0  # noqa: PTH116
    except FileNotFoundError:
        size = -1  # a newer one is there: the directory has changed
    return found.st_ino, found.st_mtime_ns, size


_newest: dict[str, tuple[int, str]] = {}


def _newest_log(path: Path, changed_ns: int) -> str:
    """Return the log that the primary writes, remembered until the directory changes."""
    key = str(path)
    known = _newest.get(key)
    if known is not None and known[0] == changed_ns:
        return known[1]
    logs = [entry for entry in os.listdir(path) if entry.endswith(".log")]  # noqa: PTH208
    newest = max(logs, default="")
    log = os.path.join(key, newest) if newest else ""  # noqa: PTH118
    _newest[key] = (changed_ns, log)
    return log
