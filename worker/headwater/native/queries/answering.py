"""Answers a request from the partitions of a store that this worker has, as Kafka Streams does.

Where the active task runs, what it committed last is read. A copy, or a task that is being
restored, answers with what it has, unless the request requires an active one.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import StateError
from headwater.ids import TaskId
from headwater.model.positions import Position
from headwater.model.queries import FailureReason
from headwater.native.queries.secondaries import NotOnDiskError
from headwater.native.queries.values import (
    AskTask,
    PartitionAnswer,
    Place,
    Placements,
    Standing,
)
from headwater.state.asks import AllWindows, Prefix, Range
from headwater.state.committed import answer, may_ask, row_key_of
from headwater.state.global_store import is_shared
from headwater.wire import positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headwater.model.stores import StoreSpec
    from headwater.native.queries.secondaries import Secondaries, SecondaryStore
    from headwater.native.queries.values import StoreRequest, TaskAnswered
    from headwater.ports import Position as StorePosition
    from headwater.state.asks import Ask, Found

_THREAD_S: Final = 10.0
"""So long a StreamThread may take for one round before a question to it is given up."""


class Held(NamedTuple):
    """A store with the sub-topology that has it; a global one has no task, and one partition."""

    subtopology: int
    spec: StoreSpec
    is_global: bool = False


class Answered(NamedTuple):
    """What a partition says, and what there is behind its first rows."""

    first: PartitionAnswer
    rest: Iterator[Found] | None = None


class _FailedError(Exception):
    """There is no answer."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TaskQuestions:
    """Puts questions to StreamThreads, through the worker's main process.

    Args:
        send: sends to main.
    """

    def __init__(self, send: Callable[[AskTask], None]) -> None:
        self._send = send
        self._numbers = itertools.count()
        self._open: dict[int, queue.SimpleQueue[TaskAnswered]] = {}
        self._guard = threading.Lock()

    def put(self, asked: AskTask) -> TaskAnswered | None:
        """Return the answer; ``None`` if there is none in time. ``id`` is chosen here."""
        number = next(self._numbers)
        answers: queue.SimpleQueue[TaskAnswered] = queue.SimpleQueue()
        self._open[number] = answers
        try:
            with self._guard:
                self._send(replace(asked, id=number))
            return answers.get(timeout=_THREAD_S)
        except queue.Empty:
            return None
        finally:
            del self._open[number]

    def take(self, answered: TaskAnswered) -> None:
        """Take in an answer; one that comes too late is dropped."""
        if (waiting := self._open.get(answered.id)) is not None:
            waiting.put(answered)


class Answerer:
    """Answers requests, from any number of threads.

    Args:
        stores: the topology's, by name.
        secondaries: those on disk.
        questions: to those in memory.
    """

    def __init__(
        self,
        stores: Mapping[str, Held],
        secondaries: Secondaries,
        questions: TaskQuestions,
    ) -> None:
        self.stores = stores
        self.placements = Placements(tasks={})
        """The tasks of this worker; replaced as a whole."""
        self._secondaries = secondaries
        self._questions = questions

    def ask(self, request: StoreRequest) -> list[Answered]:
        """Answer for every partition that is here or is named, in their order."""
        held = self.stores[request.store]
        placements = self.placements
        found: dict[int, Answered] = {}
        tasks = placements.tasks
        if held.is_global:
            tasks = {TaskId(held.subtopology, 0): Place(Standing.RUNNING)}
        for task, place in sorted(tasks.items()):
            is_wanted = request.partitions is None or task.partition in request.partitions
            if task.subtopology == held.subtopology and is_wanted:
                found[task.partition] = self._of_partition(request, held, task, place)
        for partition in sorted((request.partitions or frozenset()) - found.keys()):
            found[partition] = _absent(request.store, held, partition, placements)
        return [found[partition] for partition in sorted(found)]

    def _of_partition(
        self, request: StoreRequest, held: Held, task: TaskId, place: Place
    ) -> Answered:
        began = time.perf_counter()
        try:
            position, rows, rest = self._read(request, held, task, place)
        except _FailedError as error:
            return _failure(task.partition, error.reason, str(error), began, place)
        except NotOnDiskError as error:
            text = f"{error}; try again in a moment"
            return _failure(task.partition, FailureReason.NOT_PRESENT, text, began, place)
        except StateError as error:
            reason = FailureReason.STORE_EXCEPTION
            return _failure(task.partition, reason, str(error), began, place)
        first = PartitionAnswer(
            partition=task.partition,
            standing=place.standing,
            position=position,
            rows=rows,
            more=rest is not None,
            seconds=time.perf_counter() - began,
        )
        return Answered(first, rest)

    def _read(
        self, request: StoreRequest, held: Held, task: TaskId, place: Place
    ) -> tuple[Position, list[Found], Iterator[Found] | None]:
        spec = held.spec
        if request.require_active and place.standing is not Standing.RUNNING:
            raise _FailedError(
                FailureReason.NOT_ACTIVE,
                f"task {task} is {place.standing} here, and an active, running one was required; "
                "try again, or allow stale reads",
            )
        ask = request.ask
        if ask is None or not may_ask(spec, ask):
            raise _FailedError(
                FailureReason.UNKNOWN_QUERY_TYPE,
                f"store {spec.name} ({_kind(spec)}) does not know such a query; ask it as its kind "
                "is asked",
            )
        if held.is_global:
            if not is_shared(spec):
                raise _FailedError(
                    FailureReason.STORE_EXCEPTION,
                    f"each StreamThread keeps global store {spec.name} ({_kind(spec)}) for itself; "
                    "only those of keys and values can be asked",
                )
            return self._from_disk(request, ask, spec, task, self._secondaries.of_all(spec))
        if not spec.persistent:
            return self._from_memory(request, ask, spec, task, place)
        return self._from_disk(request, ask, spec, task, self._secondaries.store(task, spec))

    # ---- on disk -------------------------------------------------------------------------------

    def _from_disk(
        self,
        request: StoreRequest,
        ask: Ask,
        spec: StoreSpec,
        task: TaskId,
        store: SecondaryStore,
    ) -> tuple[Position, list[Found], Iterator[Found] | None]:
        read, rows, found = _first_page(store, spec, ask, request.page, is_newest=False)
        if not read.reaches(request.bound, task.partition):
            read, rows, found = _first_page(store, spec, ask, request.page, is_newest=True)
        if not read.reaches(request.bound, task.partition):
            raise _not_up_to(task.partition, read, request.bound)
        if len(rows) < request.page:
            return read, rows, None
        if not isinstance(ask, AllWindows):
            return read, rows, found

        def page(ask: Ask, limit: int) -> list[Found]:
            with store.reading() as (backend, _):
                return list(islice(answer(spec, backend, ask), limit))

        return read, rows, _paged(page, spec, ask, rows[-1], request.page)

    # ---- in memory -----------------------------------------------------------------------------

    def _from_memory(
        self, request: StoreRequest, ask: Ask, spec: StoreSpec, task: TaskId, place: Place
    ) -> tuple[Position, list[Found], Iterator[Found] | None]:
        if place.standing is not Standing.RUNNING:
            raise _FailedError(
                FailureReason.NOT_PRESENT,
                f"store {spec.name} of task {task} is in memory, and its task does not run yet; "
                "try again in a moment",
            )

        def put(ask: Ask, limit: int | None) -> TaskAnswered:
            asked = AskTask(
                id=-1, task=task, slot=place.slot, store=spec.name, ask=ask, limit=limit
            )
            answered = self._questions.put(asked)
            if answered is None:
                raise _FailedError(
                    FailureReason.STORE_EXCEPTION,
                    f"the StreamThread of task {task} has not answered for {_THREAD_S:.0f} s: a "
                    "function of the topology takes that long; try again",
                )
            if not answered.is_here:
                raise _FailedError(
                    FailureReason.NOT_PRESENT, f"task {task} has just moved; try again"
                )
            if answered.problem:
                raise _FailedError(FailureReason.STORE_EXCEPTION, answered.problem)
            return answered

        # Rows of one key come at once, so that all are of one commit.
        is_paged = isinstance(ask, Range | Prefix | AllWindows)
        answered = put(ask, request.page if is_paged else None)
        read = positions.decode(answered.read)
        if not read.reaches(request.bound, task.partition):
            raise _not_up_to(task.partition, read, request.bound)
        rows = answered.rows
        if len(rows) < request.page:
            return read, rows, None
        if not isinstance(ask, Range | Prefix | AllWindows):
            return read, rows[: request.page], iter(rows[request.page :])
        rest = _paged(lambda a, n: put(a, n).rows, spec, ask, rows[-1], request.page)
        return read, rows, rest


def _first_page(
    store: SecondaryStore, spec: StoreSpec, ask: Ask, limit: int, *, is_newest: bool
) -> tuple[Position, list[Found], Iterator[Found]]:
    """Return a position, the first rows that a store held at it, and those behind."""
    while True:
        with store.reading(is_newest=is_newest) as (backend, before):
            position = backend.position()
            found = answer(spec, backend, ask)
            if not backend.may_be_read_meanwhile:  # nobody writes now
                rows = list(islice(found, limit))
                return _read(position), rows, found
            if not isinstance(ask, Range | Prefix):  # which are fixed when they begin
                found = iter(list(found))
            is_one = backend.position() == position and store.is_whole(backend, before)
        if is_one:
            return _read(position), list(islice(found, limit)), found
        # A commit is being taken in: what is there is neither the one before nor this one.
        store.refresh()


def _paged(
    page: Callable[[Ask, int], list[Found]],
    spec: StoreSpec,
    ask: Range | Prefix | AllWindows,
    last: Found,
    limit: int,
) -> Iterator[Found]:
    """Iterate what comes behind a row, some at a time, each of the commit of its moment."""
    while True:
        rows = page(replace(ask, after=row_key_of(spec, last)), limit)
        yield from rows
        if len(rows) < limit:
            return
        last = rows[-1]


def _read(position: StorePosition | None) -> Position:
    return Position() if position is None else positions.decode(position.read)


def _kind(spec: StoreSpec) -> str:
    return f"{spec.kind.key_layout}{', with timestamps' if spec.kind.timestamped else ''}"


def _not_up_to(partition: int, read: Position, bound: Position) -> _FailedError:
    return _FailedError(
        FailureReason.NOT_UP_TO_BOUND,
        f"partition {partition} has reached {read.to_map()}, and not the bound {bound.to_map()}; "
        "try again after the next commit",
    )


def _failure(
    partition: int, reason: FailureReason, message: str, began: float, place: Place | None = None
) -> Answered:
    return Answered(
        PartitionAnswer(
            partition=partition,
            standing=None if place is None else place.standing,
            failure=reason,
            message=message,
            position=Position(),
            seconds=time.perf_counter() - began,
        )
    )


def _absent(store: str, held: Held, partition: int, placements: Placements) -> Answered:
    count = placements.partitions.get(held.subtopology)
    now = time.perf_counter()
    if count is not None and partition >= count:
        text = f"store {store} has partitions 0 to {count - 1}, and not {partition}"
        return _failure(partition, FailureReason.DOES_NOT_EXIST, text, now)
    peer = placements.peers.get(TaskId(held.subtopology, partition))
    where = "another worker has it" if peer is None else f"{peer} has it"
    text = f"partition {partition} of store {store} is not on this worker: {where}"
    return _failure(partition, FailureReason.NOT_PRESENT, text, now)
