"""Where stores lie on disk, who may open them, and which format they have.

    <state dir>/<application id>/<task id>/rocksdb/<store>/     of a task
    <state dir>/<application id>/global/rocksdb/<store>/        a global one
        lock     held (flock) by the process that has the store open; its text names the holder
        format   the version of this layout; a newer one is refused
        db/      the RocksDB database
        damaged  there if the store was found damaged, with the reason: it is replaced when it is
                 opened next
        db.set-aside-<n>/  a database that was replaced but not deleted: nobody reads it any more,
                 and whoever gave it up deletes it; renamed back to db/ it is the store again

The kernel drops the lock when its holder ends, however it ends, so no lock is ever stale.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater import failpoints, privatefiles
from headwater.errors import DiskFullError, StateError, StoreFormatError, StoreLockedError
from headwater.files import replace_file, sync_directory
from headwater.ids import TaskId
from headwater.privatefiles import NotOursError
from headwater.state.backends.rocks import read_position
from headwater.state.diskfull import is_disk_full
from headwater.state.position import RebuildReason

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from headwater.ports import Position

STORE_FORMAT: Final = 1

_LOCK: Final = "lock"
_FORMAT: Final = "format"
_DATABASE: Final = "db"
_DISCARDED: Final = "db.discarded"
_SET_ASIDE: Final = "db.set-aside-"
_DAMAGED: Final = "damaged"
_ROCKSDB: Final = "rocksdb"
_GLOBAL: Final = "global"
_THREADS: Final = 8
"""So many wait for the disk at once."""


@dataclass(frozen=True, slots=True)
class StoredStore:
    """One store found on disk; its ``position`` is ``None`` if it never committed."""

    task: TaskId
    store: str
    position: Position | None


class Room(NamedTuple):
    """Of a file system, in bytes."""

    size: int
    available: int


class StateDirectory:
    """The state of one application on one machine or volume.

    Args:
        root: the configured ``state_dir``.
        application_id: the application; each has a directory of its own.
    """

    def __init__(self, root: Path, application_id: str) -> None:
        self._root = root
        self.path = root / application_id

    def own(self) -> None:
        """Make the directory if need be.

        Raises:
            StateError: it cannot be made, or somebody else could change what lies there.
        """
        try:
            privatefiles.own(self._root, self.path.name)
        except NotOursError as error:
            raise StateError(f"state.dir: {error}") from error
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(
                    f"the disk that holds {self.path} is full; free space or enlarge the volume, "
                    "then start again: nothing committed is lost"
                ) from error
            raise StateError(
                f"state.dir: {self.path} cannot be made: {error.strerror}; name a directory in "
                "which this user may write"
            ) from error

    def room(self) -> Room | None:
        """Return how large the file system below is, and how much of it is available.

        ``None`` if it cannot be said.
        """
        try:
            found = os.statvfs(self.path)
        except OSError:
            return None
        return Room(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def store(self, task: TaskId, name: str) -> StoreDirectory:
        """Return the directory of one store; nothing is touched yet."""
        path = self.path / str(task) / _ROCKSDB / name
        return StoreDirectory(path, f"{name} of task {task}", root=self._root)

    def global_store(self, name: str) -> StoreDirectory:
        """Return the directory of a global store; nothing is touched yet."""
        path = self.path / _GLOBAL / _ROCKSDB / name
        return StoreDirectory(path, f"{name}, which is global,", root=self._root)

    def clean(self, *, holder: str) -> None:
        """Delete every store; what else lies in the directory stays.

        Args:
            holder: who asks, for the message that somebody else may get meanwhile.

        Raises:
            StoreLockedError: a store is in use; nothing was deleted.
            StateError: what lies there belongs to somebody else, or leads elsewhere.
        """
        if not self.path.exists():
            return
        self.own()
        places = [place for place in sorted(self.path.iterdir()) if _holds_stores(place.name)]
        with ExitStack() as locked:
            for place in places:
                for path in sorted(place.glob(f"{_ROCKSDB}/*/")):
                    name = f"{path.name} of {place.name}"
                    directory = StoreDirectory(path, name, root=self._root)
                    directory.lock(holder)
                    locked.callback(directory.release)
            for place in places:
                try:
                    shutil.rmtree(place)
                except OSError as error:
                    raise StateError(
                        f"state.dir: {place} cannot be deleted: {error}; see what is in the way, "
                        "then try again"
                    ) from error

    def stored(self, tasks: Collection[TaskId] | None = None) -> list[StoredStore]:
        """Return every store on disk with its position, whether or not somebody has it open.

        Args:
            tasks: look at the stores of these alone; each costs some milliseconds.
        """
        found = []
        for database in sorted(self.path.glob(f"*/{_ROCKSDB}/*/{_DATABASE}")):
            if any(place.is_symlink() for place in (database, *database.parents[:3])):
                continue
            try:
                task = TaskId.parse(database.parents[2].name)
            except ValueError:
                continue
            if tasks is None or task in tasks:
                found.append(StoredStore(task, database.parent.name, read_position(database)))
        return found


class StoreDirectory:
    """The directory of one store: lock it, check its format, open what is in ``database``.

    Args:
        path: ``.../rocksdb/<store>``.
        name: what messages call the store.
        root: directories below it are ours, and no links; unless given, ``path`` alone.
    """

    def __init__(self, path: Path, name: str, *, root: Path | None = None) -> None:
        self.path = path
        self._root = root or path.parent
        self.name = name
        self._lock: int | None = None
        self.damage: RebuildReason | None = None
        """Why the database must be replaced, if it was found damaged; known once acquired."""

    @property
    def database(self) -> Path:
        """Where the backend's files go."""
        return self.path / _DATABASE

    def acquire(self, *, holder: str, is_logged: bool = True) -> None:
        """Make the directory if need be, lock it and check its format.

        Args:
            holder: who asks, for the message that somebody else may get: ``"StreamThread w-0-1"``.
            is_logged: the store can be rebuilt from its changelog.

        Raises:
            StoreLockedError: another process, or another part of this one, has the store open.
            StoreFormatError: a newer version wrote it; or its format cannot be told, and it cannot
                be rebuilt.
            StateError: it belongs to somebody else, or leads elsewhere.
            DiskFullError: there is no room for the directory.
        """
        assert self._lock is None, f"store {self.name} is acquired already"
        try:
            self._own()
            self._lock = self._locked(holder)
            self._check_format(is_logged=is_logged)
            self.damage = self._read_damage()
            shutil.rmtree(self.path / _DISCARDED, ignore_errors=True)
        except OSError as error:
            self.release()
            raise self._explain(error) from error
        except StateError:
            self.release()
            raise

    def lock(self, holder: str) -> None:
        """Lock it, whatever it holds, to delete it.

        Args:
            holder: who asks.

        Raises:
            StoreLockedError: the store is in use.
            StateError: it belongs to somebody else, or leads elsewhere.
        """
        try:
            self._own()
            self._lock = self._locked(holder)
        except OSError as error:
            raise self._explain(error) from error

    def mark_damaged(self) -> None:
        """Remember that the database is damaged: opening it again need not show it."""
        with suppress(OSError):
            replace_file(self.path / _DAMAGED, RebuildReason.DAMAGED.name + "\n")

    def _read_damage(self) -> RebuildReason | None:
        try:
            text = (self.path / _DAMAGED).read_bytes().decode(errors="replace").strip()
        except FileNotFoundError:
            return None
        is_format = text == RebuildReason.UNREADABLE_FORMAT.name
        return RebuildReason.UNREADABLE_FORMAT if is_format else RebuildReason.DAMAGED

    def release(self) -> None:
        """Let the next one in; the backend must be closed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def wipe(self) -> None:
        """Delete the database but keep the lock: the store starts empty."""
        assert self._lock is not None, f"store {self.name} is not acquired"
        # Renamed first: a database that is half deleted could not be told from a damaged one.
        old = self.path / _DISCARDED
        shutil.rmtree(old, ignore_errors=True)
        if self.database.exists():
            self.database.rename(old)
        (self.path / _DAMAGED).unlink(missing_ok=True)
        failpoints.hit("directory.wiping")
        shutil.rmtree(old, ignore_errors=True)

    def set_aside(self) -> Path | None:
        """Put the database where nobody opens it, and keep the lock: the store starts empty.

        Returns:
            where it lies now; ``None`` if there was none.
        """
        assert self._lock is not None, f"store {self.name} is not acquired"
        aside = next(
            path
            for number in itertools.count(1)
            if not (path := self.path / f"{_SET_ASIDE}{number}").exists()
        )
        is_there = self.database.exists()
        if is_there:
            self.database.rename(aside)
            sync_directory(self.path)
        (self.path / _DAMAGED).unlink(missing_ok=True)
        return aside if is_there else None

    def _own(self) -> None:
        try:
            privatefiles.own(self._root, *self.path.relative_to(self._root).parts)
            for place in (self.database, self.path / _DISCARDED):
                privatefiles.check_no_link(place)
        except NotOursError as error:
            raise StateError(f"store {self.name}: {error}") from error

    def _locked(self, holder: str) -> int:
        descriptor = privatefiles.open_lock(self.path / _LOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = os.pread(descriptor, 512, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreLockedError(
                f"store {self.name} at {self.path} is in use by {other or 'another process'}; "
                f"stop it, or give each worker a state_dir of its own"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder} (process {os.getpid()})\n".encode(), 0)
        return descriptor

    def _check_format(self, *, is_logged: bool) -> None:
        try:
            text = (self.path / _FORMAT).read_bytes()
        except FileNotFoundError:
            text = b""
            if not self.database.exists():
                self._write_format()
                return
        found = _format_in(text)
        if found is None:
            # It is written before the database is made: whoever wrote what lies there is unknown.
            if not is_logged:
                raise StoreFormatError(
                    f"store {self.name} at {self.path}: the file {_FORMAT} cannot be read, and the "
                    f"store has no changelog from which it could be rebuilt; write "
                    f'{{"format": {STORE_FORMAT}}} into it if this version wrote the store, or '
                    "delete the directory to begin with an empty store"
                )
            replace_file(self.path / _DAMAGED, RebuildReason.UNREADABLE_FORMAT.name + "\n")
            self._write_format()
        elif found > STORE_FORMAT:
            raise StoreFormatError(
                f"store {self.name} at {self.path} has format {found}, written by a newer version; "
                f"this one reads up to {STORE_FORMAT}: run the newer version again, or delete the "
                f"directory, and the store is rebuilt from its changelog"
            )

    def _write_format(self) -> None:
        replace_file(self.path / _FORMAT, json.dumps({"format": STORE_FORMAT}) + "\n")

    def _explain(self, error: OSError) -> StateError:
        if is_disk_full(error):
            return DiskFullError(
                f"store {self.name}: the disk that holds {self.path} is full; free space or "
                f"enlarge the volume, then start again: nothing committed is lost"
            )
        return StateError(
            f"store {self.name}: {self.path} cannot be used: {error}; check state_dir and its owner"
        )


def prepare(directories: Collection[StoreDirectory], *, holder: str) -> None:
    """Make directories of stores that are opened next: all wait for the disk at the same time.

    Whatever is in the way is left to whoever acquires them.

    Args:
        directories: of stores; those that are there are passed over.
        holder: who opens the stores next.
    """

    def make(directory: StoreDirectory) -> None:
        with suppress(StateError):
            directory.acquire(holder=holder)
            directory.release()

    missing = [found for found in directories if not (found.path / _FORMAT).exists()]
    if len(missing) > 1:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="prepare") as pool:
            list(pool.map(make, missing))


def _holds_stores(name: str) -> bool:
    """Whether a directory of this name is a task's, or that of the global stores."""
    try:
        TaskId.parse(name)
    except ValueError:
        return name == _GLOBAL
    return True


def _format_in(text: bytes) -> int | None:
    """Return the version in a format file; ``None`` if it is damaged."""
    try:
        found = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError):
        return None
    is_version = isinstance(found, int) and not isinstance(found, bool) and found >= 1
    return found if is_version else None
