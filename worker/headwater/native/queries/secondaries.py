"""The stores on disk that a query process reads, each as far as its primary has written.

    store = secondaries.store(task, spec)
    with store.reading() as backend:            at most a second behind the last commit
        ...

A look at two files says whether the primary has written since. If so, and if to take that in took
a moment the last time, whoever asks does it first. Else a thread of its own does, and whoever asks
meanwhile gets what was committed before. So a query waits for a large commit to be taken in only if
the store was not asked for a while, or if it names a bound.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headwater.errors import StateError
from headwater.state.backends.secondary import Mark, mark_of, open_secondary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.ids import TaskId
    from headwater.model.stores import StoreSpec
    from headwater.state import BlockCache
    from headwater.state.backends.secondary import StoreSecondary
    from headwater.state.directory import StateDirectory, StoreDirectory

log = logging.getLogger(__name__)

_IDLE_S: Final = 60.0
"""A store that nobody has asked for so long is closed."""
_SCRATCH: Final = "queries"


@dataclass(frozen=True, slots=True)
class Pace:
    """When what was written is taken in.

    Attributes:
        stale_s: an answer is at most so far behind the last commit.
        share: taking in leaves so many times as long for other work.
        quick_s: if it took no longer the last time, whoever asks waits for it.
    """

    stale_s: float = 1.0
    share: float = 6.0
    quick_s: float = 0.002


class NotOnDiskError(StateError):
    """There is no such store on this disk yet."""


def overlaps_one_refresh(before: int, now: int) -> bool:
    """Whether a read has overlapped one refresh at most, by the numbers before and after it.

    A number is odd while a refresh goes on, and even in between.
    """
    return (now - 1) // 2 <= before // 2


class Opening(Protocol):
    """How a store that another process writes is found and opened."""

    name: str

    def look(self) -> Mark:
        """Return what changes whenever the store is written.

        Raises:
            OSError: there is no such store.
        """
        ...

    def open(self) -> StoreSecondary:
        """Open it as it is now.

        Raises:
            NotOnDiskError: it is being made.
            StateError: it cannot be read.
        """
        ...


class DiskOpening:
    """Opens a store that lies on a disk (an ``Opening``).

    Args:
        spec: the store.
        directory: where it lies.
        blocks: shared by all stores of this process.
    """

    def __init__(self, spec: StoreSpec, directory: StoreDirectory, blocks: BlockCache) -> None:
        self.name = directory.name
        self._spec = spec
        self._directory = directory
        self._blocks = blocks
        self._opens = 0

    def look(self) -> Mark:
        """Return what changes whenever the store is written."""
        return mark_of(self._directory.database)

    def open(self) -> StoreSecondary:
        """Open it as it is now."""
        directory = self._directory
        if not (directory.database / "CURRENT").exists():
            raise NotOnDiskError(f"store {directory.name} is being made")
        if not self._opens:
            shutil.rmtree(directory.path / _SCRATCH, ignore_errors=True)  # of earlier processes
        self._opens += 1
        scratch = directory.path / _SCRATCH / str(self._opens)
        opened = open_secondary(
            self._spec, directory.database, scratch, name=directory.name, block_cache=self._blocks
        )
        # It is never closed: threads may read it. Once none does, it is released.
        weakref.finalize(opened, shutil.rmtree, scratch, ignore_errors=True)
        return opened


class SecondaryStore:
    """One store that another process of this worker writes.

    Args:
        opening: finds and opens it.
        want_refresh: has what was written taken in, when that need not be waited for.
        pace: when it is taken in.
        monotonic: seconds.
    """

    def __init__(
        self,
        opening: Opening,
        want_refresh: Callable[[SecondaryStore], None],
        pace: Pace,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opening = opening
        self._want_refresh = want_refresh
        self._pace = pace
        self._monotonic = monotonic
        self._backend: StoreSecondary | None = None
        self._mark: Mark = ()
        self._refreshes = 0
        self._manifest: tuple[str, int] = ("", 0)
        self._known_at = 0.0
        self._next_due = 0.0
        self._took = 0.0
        self._guard = threading.Lock()
        self._exclusive = threading.Lock()
        self.used_at = monotonic()
        """When it was asked last."""

    @contextmanager
    def reading(self, *, is_newest: bool = False) -> Iterator[tuple[StoreSecondary, int]]:
        """Give a backend to read from, not for long, and a number for ``is_whole``.

        What is read counts if ``is_whole`` says so afterwards, or it is one of windows.

        Args:
            is_newest: what is committed now, and not a moment ago.

        Raises:
            NotOnDiskError: there is no such store.
            StateError: it cannot be read.
        """
        backend = self._current(is_newest=is_newest)
        before = self._refreshes
        if backend.may_be_read_meanwhile:
            yield backend, before
            return
        with self._exclusive:
            # It may have been opened anew while this thread waited, or forgotten.
            if (current := self._backend) is None:
                raise NotOnDiskError(f"store {self._opening.name} is being opened anew")
            yield current, before

    def is_whole(self, backend: StoreSecondary, before: int) -> bool:
        """Whether what was read is of one commit, if the position was the same all the time.

        It is if nothing was taken in meanwhile. It is, too, if the manifest has not grown since
        that began: else RocksDB may show parts of commits, or one without the one before.

        Args:
            backend: which was read.
            before: the number that came with it.
        """
        if self._refreshes == before and before % 2 == 0:
            return True
        has_not_grown = backend.manifest() == self._manifest
        return has_not_grown and overlaps_one_refresh(before, self._refreshes)

    def _current(self, *, is_newest: bool) -> StoreSecondary:
        now = self.used_at = self._monotonic()
        mark = self._look()
        backend = self._backend
        if backend is not None and mark == self._mark:
            self._known_at = now
            return backend
        is_same = backend is not None and mark[0] == self._mark[0]
        if is_same and backend is not None and not is_newest and self._may_be_behind(now):
            if now < self._next_due or self._guard.locked():
                return backend
            if self._took <= self._pace.quick_s:
                return self.refresh()
            self._want_refresh(self)
            return backend
        return self.refresh()

    def _may_be_behind(self, now: float) -> bool:
        return now - self._known_at <= self._pace.stale_s

    def _look(self) -> Mark:
        try:
            return self._opening.look()
        except OSError as error:
            self._backend, self._mark = None, ()
            raise NotOnDiskError(f"store {self._opening.name} is not open yet") from error

    def refresh(self) -> StoreSecondary:
        """Take in what was written up to this call.

        Raises:
            NotOnDiskError: there is no such store.
            StateError: it cannot be read.
        """
        asked_at = self._monotonic()
        with self._guard:
            backend, mark = self._backend, self._look()
            if backend is not None and (mark == self._mark or self._known_at > asked_at):
                return backend
            began = self._monotonic()
            with self._exclusive:
                if backend is not None:
                    self._manifest = backend.manifest()
                self._refreshes += 1  # odd from now on
                try:
                    backend = self._backend = self._caught_up(backend, mark)
                except StateError:
                    # What could not be followed to the end may show parts of commits.
                    self._backend, self._mark = None, ()
                    raise
                finally:
                    self._refreshes += 1
            self._mark, self._known_at = mark, began
            ended = self._monotonic()
            self._took, pace = ended - began, self._pace
            self._next_due = ended + min(pace.stale_s / 4, pace.share * self._took)
            return backend

    def _caught_up(self, backend: StoreSecondary | None, mark: Mark) -> StoreSecondary:
        if backend is not None and mark[0] == self._mark[0]:
            try:
                backend.catch_up()
                if backend.may_be_read_meanwhile or not backend.is_outgrown():
                    return backend
            except StateError as error:
                log.info("%s; opening it again", error)
        return self._opening.open()

    def close(self) -> None:
        """Forget it; whoever reads goes on."""
        with self._guard:
            self._backend, self._mark = None, ()


class Refresher:
    """A thread that takes in what primaries have written, for stores that are asked often."""

    def __init__(self) -> None:
        self._wanted: dict[SecondaryStore, None] = {}
        self._wake = threading.Condition()
        threading.Thread(target=self._run, name="refresher", daemon=True).start()

    def want(self, store: SecondaryStore) -> None:
        """Have a store refreshed soon."""
        if store not in self._wanted:
            with self._wake:
                self._wanted[store] = None
                self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._wanted:
                    self._wake.wait()
                store = next(iter(self._wanted))
            try:
                store.refresh()
            except NotOnDiskError:
                pass  # whoever asks next is told
            except Exception:
                log.exception("cannot take in what was written")
            with self._wake:
                del self._wanted[store]


class Secondaries:
    """All stores on disk that are asked.

    Args:
        directory: the application's.
        blocks: shared by all stores of this process.
        pace: when what was written is taken in.
    """

    def __init__(
        self, directory: StateDirectory, blocks: BlockCache, pace: Pace | None = None
    ) -> None:
        self._directory = directory
        self._blocks = blocks
        self._refresher = Refresher()
        self._pace = pace or Pace()
        self._stores: dict[tuple[TaskId | None, str], SecondaryStore] = {}
        self._guard = threading.Lock()

    def store(self, task: TaskId, spec: StoreSpec) -> SecondaryStore:
        """Return the store of a task; it is opened when it is read."""
        return self._found(task, spec)

    def of_all(self, spec: StoreSpec) -> SecondaryStore:
        """Return a global store; it is opened when it is read."""
        return self._found(None, spec)

    def _found(self, task: TaskId | None, spec: StoreSpec) -> SecondaryStore:
        place = task, spec.name
        store = self._stores.get(place)
        if store is None:
            with self._guard:
                store = self._stores.setdefault(place, self._made(task, spec))
        return store

    def _made(self, task: TaskId | None, spec: StoreSpec) -> SecondaryStore:
        if task is None:
            directory = self._directory.global_store(spec.directory_name)
        else:
            directory = self._directory.store(task, spec.directory_name)
        opening = DiskOpening(spec, directory, self._blocks)
        return SecondaryStore(opening, self._refresher.want, self._pace)

    def close_idle(self) -> None:
        """Close the stores that nobody has asked for a while."""
        limit = time.monotonic() - _IDLE_S
        with self._guard:
            for place, store in list(self._stores.items()):
                if store.used_at < limit:
                    store.close()
                    del self._stores[place]

    def keep(self, tasks: frozenset[TaskId]) -> None:
        """Close the stores of all other tasks."""
        with self._guard:
            for place, store in list(self._stores.items()):
                if place[0] is not None and place[0] not in tasks:
                    store.close()
                    del self._stores[place]
