"""The numbers that workers serve by HTTP at ``/tasks``: exact lags, counts, restore progress.

And those of a driver of Spark, at ``/status``.

Nothing is decided by the absence of an answer: whoever asks goes on with what the status says. A
worker runs code that is not ours (``asking``).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.ids import SlotId, TaskId
from headwater.model import metrics
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater.model.metrics import Scope, Snapshot
from headwater_operator.decide.autoscaling.load import Reading
from headwater_operator.kube.clock import boot_ms
from headwater_operator.observe import driver
from headwater_operator.observe.asking import Question
from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater_operator.overview.seen import SeenWorker

_TIMEOUT_S: Final = 0.5
_AT_ONCE: Final = 32
_SILENCE_MS: Final = 10_000
_BUSY: Final = ("process", "punctuate", "commit")
"""What a StreamThread spends its time on when it does not wait for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    """What a worker has told; empty if it does not answer.

    Attributes:
        incarnation: of the process that has answered.
        worker: its name.
        numbers: of the worker, its StreamThreads and its tasks.
        copies: its standby and warm-up tasks.
        committed: of its active tasks, while a StreamThread has them: the next offset to read of
            each input partition, by ``topic-partition``.
        state_bytes: of its active tasks: the size of their stores.
        slots: of its active tasks that a StreamThread has.
    """

    incarnation: str = ""
    worker: str = ""
    numbers: Snapshot = field(default_factory=Snapshot)
    copies: frozenset[TaskId] = frozenset()
    committed: Mapping[TaskId, Mapping[str, int]] = field(default_factory=dict)
    state_bytes: Mapping[TaskId, int] = field(default_factory=dict)
    slots: Mapping[TaskId, int] = field(default_factory=dict)

    def told_by(self, one: SeenWorker) -> SeenWorker:
        """Return what was found out about a worker, with the numbers of this answer."""
        return replace(
            one,
            has_told=True,
            numbers=self.numbers,
            committed=self.committed,
            state_bytes=self.state_bytes,
        )

    @property
    def readings(self) -> Mapping[TaskId, Reading]:
        """What its StreamThreads process, by task."""
        return {task: self._reading(task, slot) for task, slot in self.slots.items()}

    def _reading(self, task: TaskId, slot: int) -> Reading:
        thread = SlotId(self.worker, slot).thread_id
        shares = [self.numbers.value(metrics.RATIOS[part], thread) for part in _BUSY]
        known = [share for share in shares if share is not None]
        return Reading(
            thread=f"{self.incarnation}/{slot}",
            processed=self.numbers.count(metrics.TASK_PROCESS, str(task)) or 0,
            lag=self.numbers.count(metrics.RECORDS_LAG, str(task)),
            busy=sum(known) if known else None,
        )

    @property
    def lags(self) -> Mapping[TaskId, int]:
        """Changelog offsets that its copies have still to read, or ``LAG_UNKNOWN``."""
        lags = {
            task: self.numbers.count(metrics.STANDBY_RECORDS_LAG, str(task)) for task in self.copies
        }
        return {task: LAG_UNKNOWN if lag is None else lag for task, lag in lags.items()}


class NumbersSource(Protocol):
    """Workers that can be asked. Calls may come from several threads."""

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Ask workers at the same time; soon return the answers of those that have answered.

        Args:
            endpoints: ``host:port`` by worker.
        """
        ...

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        """Ask a driver of Spark at ``host:port``; an empty answer if it does not soon answer."""
        ...


class HttpNumbers:
    """Workers asked by HTTP.

    Args:
        silence_ms: one that does not answer is not asked again for so long.
        count: told ``"answered"`` or ``"silent"`` of every question.
        token: what workers are shown that ask for a token; empty if there is none.
        now_ms: a clock that never goes back.
    """

    def __init__(
        self,
        *,
        silence_ms: int = _SILENCE_MS,
        count: Callable[[str], None] | None = None,
        now_ms: Callable[[], int] = boot_ms,
        token: Callable[[], str] = str,
    ) -> None:
        self._token = token
        self._silence_ms = silence_ms
        self._count = count
        self._now_ms = now_ms
        self._guard = threading.Lock()
        self._silent_until: dict[str, int] = {}
        # One thread for each that is asked: one that hangs must not hold up the others.
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask")

    def ask(
        self, endpoints: Mapping[str, str], token: Callable[[], str] | None = None
    ) -> Mapping[str, WorkerAnswer]:
        """Ask workers at the same time.

        Args:
            endpoints: ``host:port`` by worker.
            token: in place of the one that was given at the start.
        """
        calls = {
            name: Question(
                endpoint,
                "/tasks",
                parse,
                WorkerAnswer(),
                timeout_s=_TIMEOUT_S,
                token=token or self._token,
            )
            for name, endpoint in endpoints.items()
            if not self._is_silent(endpoint)
        }
        futures = {name: self._pool.submit(call.answer) for name, call in calls.items()}
        wait(futures.values(), _TIMEOUT_S)
        found: dict[str, WorkerAnswer] = {}
        for name, future in futures.items():
            if future.cancel():
                del calls[name]  # there was nobody who could have asked
            elif future.done() and (answer := future.result()).incarnation:
                found[name] = answer
            else:
                calls[name].break_off()
        self._note({name: endpoints[name] for name in calls}, found)
        return found

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        """Ask a driver of Spark."""
        if self._is_silent(endpoint):
            return DriverAnswer()
        call = driver.question(endpoint, timeout_s=_TIMEOUT_S)
        future = self._pool.submit(call.answer)
        wait([future], _TIMEOUT_S)
        if not future.done() and not future.cancel():
            call.break_off()
        answer = future.result() if future.done() and not future.cancelled() else DriverAnswer()
        self._note({endpoint: endpoint}, {endpoint} if answer.state else set())
        return answer

    @property
    def refused(self) -> str:
        """Why nobody may be asked: nobody forbids it here."""
        return ""

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_silent(self, endpoint: str) -> bool:
        with self._guard:
            return self._now_ms() < self._silent_until.get(endpoint, 0)

    def _note(self, asked: Mapping[str, str], found: Collection[str]) -> None:
        now_ms = self._now_ms()
        with self._guard:
            # Addresses of pods that are gone do not stay here for ever.
            kept = {each: at_ms for each, at_ms in self._silent_until.items() if at_ms > now_ms}
            silent = {asked[name]: now_ms + self._silence_ms for name in asked.keys() - set(found)}
            self._silent_until = kept | silent
        if self._count is not None:
            for name in asked:
                self._count("answered" if name in found else "silent")


def by_namespace(
    numbers: HttpNumbers, tokens: Callable[[str], str]
) -> Callable[[str], NumbersSource]:
    """Return how the workers of a namespace are asked: they are shown its own token.

    Args:
        numbers: ask the workers of all namespaces.
        tokens: returns the token of a namespace; empty if there is none.
    """
    return lambda namespace: _OfNamespace(numbers, partial(tokens, namespace))


class _OfNamespace:
    def __init__(self, numbers: HttpNumbers, token: Callable[[], str]) -> None:
        self._numbers = numbers
        self._token = token

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        return self._numbers.ask(endpoints, self._token)

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        return self._numbers.ask_driver(endpoint)


def parse(data: object) -> WorkerAnswer:
    """Read the answer of ``/tasks``.

    Raises:
        ValueError: the answer is of another kind.
        KeyError: something is missing in it.
    """
    document = _object(data)
    worker, copies, slots = str(document["worker"]), set[TaskId](), dict[TaskId, int]()
    committed: dict[TaskId, Mapping[str, int]] = {}
    state_bytes: dict[TaskId, int] = {}
    parts = [Snapshot.read(document, Scope.CLIENT)]
    for thread in map(_object, document["threads"]):
        name = SlotId(worker, int(thread["slot"])).thread_id
        parts.append(Snapshot.read(thread, Scope.THREAD, name))
    for task in map(_object, document["tasks"]):
        task_id, role = TaskId.parse(str(task["task"])), Role(task["role"])
        parts.append(Snapshot.read(task, Scope.TASK, str(task_id), role=role))
        if role is not Role.ACTIVE:
            copies.add(task_id)
            continue
        if task.get("slot") is not None:
            slots[task_id] = int(task["slot"])
        offsets = _object(task.get("committed") or {})
        committed[task_id] = {str(name): int(offset) for name, offset in offsets.items()}
        if (size := task.get("stateBytes")) is not None:
            state_bytes[task_id] = int(size)
    return WorkerAnswer(
        incarnation=str(document["incarnation"]),
        worker=worker,
        numbers=Snapshot.merged(parts),
        copies=frozenset(copies),
        committed=committed,
        state_bytes=state_bytes,
        slots=slots,
    )


def _object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {data!r:.80}")  # noqa: TRY004  # bad data
    return data
