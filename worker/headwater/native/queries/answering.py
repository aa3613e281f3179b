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
_AGAIN_S: Final = 1.0
"""So long it is waited for after that, until it has answered."""


class Held(NamedTuple):
    """A store with the sub-topology that has it; a global one has no task, and one partition."""

    subtopology: int
    spec: StoreSpec
    is_global: bool = False


class Answered(NamedTuple):
    """What a partition says, and what there is behind its first rows."""

    first: PartitionAnswer
    rest: Iterator[Found] | None = None


class _Contents(NamedTuple):
    """What a partition held: its positions, the first rows, and those behind them."""

    position: Position
    changelog_offset: int
    rows: list[Found]
    rest: Iterator[Found] | None


class _FailedError(Exception):
    """There is no answer."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TaskQuestions:
    """Puts questions to StreamThreads, through the worker's main process.

    A StreamThread that has not answered in time is waited for briefly, until it says something.

    Args:
        send: sends to main.
        patience_s: so long a StreamThread may take for one round.
    """

    def __init__(self, send: Callable[[AskTask], None], patience_s: float = _THREAD_S) -> None:
        self._send = send
        self._patience_s = patience_s
        self._numbers = itertools.count()
        self._open: dict[int, queue.SimpleQueue[TaskAnswered]] = {}
        self._late: dict[int, int] = {}
        """Slots by the questions that were given up."""
        self._guard = threading.Lock()

    def patience_s(self, slot: int) -> float:
        """Return how long the StreamThread of a slot is waited for now."""
        is_late = slot in self._late.values()
        return min(_AGAIN_S, self._patience_s) if is_late else self._patience_s

    def put(self, asked: AskTask) -> TaskAnswered | None:
        """Return the answer; ``None`` if there is none in time. ``id`` is chosen here."""
        number = next(self._numbers)
        answers: queue.SimpleQueue[TaskAnswered] = queue.SimpleQueue()
        with self._guard:
            self._open[number] = answers
            patience_s = self.patience_s(asked.slot)
            self._send(replace(asked, id=number))
        try:
            answered = answers.get(timeout=patience_s)
        except queue.Empty:
            answered = None
        with self._guard:
            del self._open[number]
            self._late = {n: slot for n, slot in self._late.items() if slot != asked.slot}
            if answered is None:
                self._late[number] = asked.slot
        return answered

    def take(self, answered: TaskAnswered) -> None:
        """Take in an answer; one that comes too late only says that its StreamThread goes on."""
        if (waiting := self._open.get(answered.id)) is not None:
            waiting.put(answered)
        elif answered.id in self._late:
            with self._guard:
                self._late.pop(answered.id, None)


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
            found = self._read(request, held, task, place)
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
            position=found.position,
            changelog_offset=found.changelog_offset,
            rows=found.rows,
            more=found.rest is not None,
            seconds=time.perf_counter() - began,
        )
        return Answered(first, found.rest)

    def _read(self, request: StoreRequest, held: Held, task: TaskId, place: Place) -> _Contents:
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
                f"store {spec.name} ({spec.kind.described}) does not know such a query; ask it as "
                "its kind is asked",
            )
        if held.is_global:
            if not is_shared(spec):
                raise _FailedError(
                    FailureReason.STORE_EXCEPTION,
                    f"each StreamThread keeps global store {spec.name} ({spec.kind.described}) for "
                    "itself; only those of keys and values can be asked",
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
    ) -> _Contents:
        found = _first_page(store, spec, ask, request.page, is_newest=False)
        if not found.position.reaches(request.bound, task.partition):
            found = _first_page(store, spec, ask, request.page, is_newest=True)
        if not found.position.reaches(request.bound, task.partition):
            raise _not_up_to(task.partition, found.position, request.bound)
        if len(found.rows) < request.page:
            return found._replace(rest=None)
        if not isinstance(ask, AllWindows):
            return found

        def page(ask: Ask, limit: int) -> list[Found]:
            with store.reading() as (backend, _):
                return list(islice(answer(spec, backend, ask), limit))

        return found._replace(rest=_paged(page, spec, ask, found.rows[-1], request.page))

    # ---- in memory -----------------------------------------------------------------------------

    def _from_memory(
        self, request: StoreRequest, ask: Ask, spec: StoreSpec, task: TaskId, place: Place
    ) -> _Contents:
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
                    f"the StreamThread of task {task} does not answer: a function of the topology "
                    f"takes {_THREAD_S:.0f} s and more; try again",
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
        rows, at = answered.rows, answered.changelog_offset
        if len(rows) < request.page:
            return _Contents(read, at, rows, None)
        if not isinstance(ask, Range | Prefix | AllWindows):
            return _Contents(read, at, rows[: request.page], iter(rows[request.page :]))
        rest = _paged(lambda a, n: put(a, n).rows, spec, ask, rows[-1], request.page)
        return _Contents(read, at, rows, rest)


def _first_page(
    store: SecondaryStore, spec: StoreSpec, ask: Ask, limit: int, *, is_newest: bool
) -> _Contents:
    """Return what a store held at one commit."""
    while True:
        with store.reading(is_newest=is_newest) as (backend, before):
            position = backend.position()
            found = answer(spec, backend, ask)
            if not backend.may_be_read_meanwhile:  # nobody writes now
                return _contents(position, found, limit)
            if not isinstance(ask, Range | Prefix):  # which are fixed when they begin
                found = iter(list(found))
            is_one = backend.position() == position and store.is_whole(backend, before)
        if is_one:
            return _contents(position, found, limit)
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


def _contents(position: StorePosition | None, found: Iterator[Found], limit: int) -> _Contents:
    rows = list(islice(found, limit))
    if position is None:
        return _Contents(Position(), -1, rows, found)
    return _Contents(positions.decode(position.read), position.offset, rows, found)


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
