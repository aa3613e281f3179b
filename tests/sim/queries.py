"""The query process of a worker in the model: what answers is the product's, the stores are not.

Real are routing, placements, positions, bounds and the choice of a commit: ``query_asking``,
``placements_of``, ``HttpAnswers``, ``Answerer`` and ``SecondaryStore``. The model has the disk,
what a secondary shows of it, and the way to a worker.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headwater.errors import StateError
from headwater.httpserver import parse
from headwater.native.queries.answering import Answerer, TaskQuestions
from headwater.native.queries.http import HttpAnswers
from headwater.native.queries.process import held_stores
from headwater.native.queries.secondaries import NotOnDiskError, Pace, Secondaries, SecondaryStore
from headwater.native.queries.values import Placements
from headwater.service.decide.placements import peers_of, placements_of
from tests.sim.calls import CONFIG, topology
from tests.sim.clients import ModelBackend
from tests.sim.world import PARTITIONS, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headwater.ids import TaskId
    from headwater.model.cluster import StreamWorker
    from headwater.model.stores import StoreSpec
    from headwater.native.queries.values import AskTask
    from headwater.state.backends.secondary import Mark
    from tests.sim.worker import Worker
    from tests.sim.world import Store, World


class ModelSecondary(ModelBackend):
    """A store as it was when this was opened or caught up last (``StoreSecondary``)."""

    may_be_read_meanwhile = True

    def __init__(self, store: Store, owner: ModelOpening) -> None:
        super().__init__(store.copy())
        self._primary = store
        self._owner = owner
        self._writer = store.writer

    def catch_up(self) -> bool:
        """Show what is written by now."""
        if self._primary.writer != self._writer:
            raise StateError("another process has begun to write it")
        is_new = self._store.written != self._primary.written
        self._store = self._primary.copy()
        return is_new

    def get(self, key: bytes) -> bytes | None:
        """Return a count; another thread may take in what was written in the middle of a read."""
        self._owner.may_catch_up()
        return super().get(key)

    def manifest(self) -> tuple[str, int]:
        """Return what grows now and then while the store is written."""
        return self._primary.writer, self._primary.written // 5

    def is_outgrown(self) -> bool:
        """There are no segments."""
        return False


class ModelOpening:
    """Finds and opens a store on the disk of a worker (``Opening``)."""

    secondary_type = ModelSecondary

    def __init__(self, process: QueryProcess, task: TaskId) -> None:
        self.name = "counts"
        self.store: SecondaryStore | None = None
        self._process = process
        self._task = task

    def look(self) -> Mark:
        """Return what changes whenever the store is written."""
        found = self._process.worker.disk.stores.get(self._task)
        if found is None or not found.writer:
            raise FileNotFoundError(self._task)
        return id(found), found.written

    def open(self) -> Any:
        """Open the store as it is now."""
        return self.secondary_type(self._process.worker.disk.stores[self._task], self)

    def may_catch_up(self) -> None:
        """Take in what was written, or not."""
        assert self.store is not None
        if self._process.world.rng.random() < 0.2:
            self.store.refresh()


class ModelSecondaries(Secondaries):
    """All stores on the disk of a worker."""

    def __init__(self, process: QueryProcess) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # ``_made`` needs neither
        self._process = process
        self.wanted: list[SecondaryStore] = []

    def _made(self, task: TaskId | None, spec: StoreSpec) -> SecondaryStore:
        assert task is not None, "there is no global store"
        opening = self._process.opening_type(self._process, task)
        world = self._process.world
        opening.store = SecondaryStore(
            opening, self.wanted.append, Pace(), lambda: world.now_ms / 1000
        )
        return opening.store


def not_in_memory(asked: AskTask) -> None:
    """No store is in memory."""
    raise AssertionError(asked)


class QueryProcess(Process):
    """The process; it answers as soon as it knows what its worker has."""

    opening_type = ModelOpening
    answers_type = HttpAnswers

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.inbox: deque[Placements] = deque()
        self.told: Placements | None = None
        self.secondaries = ModelSecondaries(self)
        stores = held_stores(topology("key"))
        self.answerer = Answerer(stores, self.secondaries, TaskQuestions(not_in_memory))
        self.answers = self.answers_type(self.answerer, CONFIG[True])
        self.is_ready = False
        super().__init__(worker.world, f"{worker.name}/queries")

    def run(self) -> Iterator[int]:
        yield self.world.rng.randint(50, 500)
        while True:
            while self.inbox:
                self.answerer.placements = self.inbox.popleft()
                self.secondaries.keep(frozenset(self.answerer.placements.tasks))
                self.is_ready = True
            wanted, self.secondaries.wanted[:] = [*self.secondaries.wanted], []
            for store in wanted:
                with suppress(NotOnDiskError):
                    store.refresh()
            yield 20

    def tell(self) -> None:
        """Tell it what has changed, as the main process does in each turn."""
        world = self.worker.world
        placements = Placements(
            tasks=placements_of(self.worker.table),
            is_stopping=self.worker.table.stopping_since_ms is not None,
            partitions={0: PARTITIONS, 1: PARTITIONS},
            peers=peers_of(world.statuses.values()),
        )
        if placements != self.told:
            self.told = placements
            self.inbox.append(placements)


class ModelWorkers:
    """The workers of the application as somebody has seen them, and the way to them (``Workers``).

    Args:
        world: where they are.
        seen: as they were a moment ago.
    """

    def __init__(self, world: World, seen: Sequence[StreamWorker]) -> None:
        self._world = world
        self._seen = seen

    def all(self) -> Sequence[StreamWorker]:
        """Return them as they were seen."""
        return self._seen

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Ask a worker; it is waited for in no time.

        Raises:
            OSError: it does not answer.
        """
        main: Any = self._world.mains.get(worker.name)
        if main is None or not main.alive:
            raise ConnectionRefusedError(worker.name)
        process: QueryProcess = main.queries_for_caller()
        for asked in (main, process):
            if asked.thaws_ms is not None or not process.is_ready:
                raise TimeoutError(f"{asked.name} does not answer")
        _, request = parse(f"GET {path} HTTP/1.1\r\n".encode())
        answer = process.answers.answer(request)
        return answer.status, json.loads(answer.body)
