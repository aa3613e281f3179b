"""The numbers that workers serve by HTTP at ``/tasks``: exact lags, counts, restore progress.

And those of a driver of Spark, at ``/status``.

Nothing is decided by the absence of an answer: whoever asks goes on with what the status says. A
worker runs code that is not ours (``asking``).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from headwater.ids import TaskId
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater_operator.kube.clock import boot_ms
from headwater_operator.observe import driver
from headwater_operator.observe.asking import Question
from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_TIMEOUT_S: Final = 0.5
_AT_ONCE: Final = 32
_SILENCE_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNumbers:
    """One task.

    Attributes:
        processed: records since its StreamThread took it.
        lag: records of its input not processed; ``None`` if not known.
        restored: changelog records applied in the restore under way.
        remaining: changelog offsets still to read; ``None`` if it does not restore.
        behind: of a standby or warm-up task: changelog offsets still to read; ``None`` if that is
            not known, or of another task.
    """

    processed: int = 0
    lag: int | None = None
    restored: int = 0
    remaining: int | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNumbers:
    """One worker; empty if it does not answer.

    Attributes:
        incarnation: of the process that has answered.
        tasks: by task.
        lags: of its standby and warm-up tasks: ``behind``, or ``LAG_UNKNOWN``.
        open_transactions: StreamThreads with an open transaction.
        restored: changelog records applied by this process in all its restores.
    """

    incarnation: str = ""
    tasks: Mapping[TaskId, TaskNumbers] = field(default_factory=dict)
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    open_transactions: int = 0
    restored: int = 0


class NumbersSource(Protocol):
    """Workers that can be asked. Calls may come from several threads."""

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerNumbers]:
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
        now_ms: a clock that never goes back.
    """

    def __init__(
        self,
        *,
        silence_ms: int = _SILENCE_MS,
        count: Callable[[str], None] | None = None,
        now_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._silence_ms = silence_ms
        self._count = count
        self._now_ms = now_ms
        self._guard = threading.Lock()
        self._silent_until: dict[str, int] = {}
        # One thread for each that is asked: one that hangs must not hold up the others.
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask")

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerNumbers]:
        """Ask workers at the same time."""
        calls = {
            name: Question(endpoint, "/tasks", parse, WorkerNumbers(), timeout_s=_TIMEOUT_S)
            for name, endpoint in endpoints.items()
            if not self._is_silent(endpoint)
        }
        futures = {name: self._pool.submit(call.answer) for name, call in calls.items()}
        wait(futures.values(), _TIMEOUT_S)
        found: dict[str, WorkerNumbers] = {}
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


def parse(data: object) -> WorkerNumbers:
    """Read the answer of ``/tasks``.

    Raises:
        ValueError: the answer is of another kind.
        KeyError: something is missing in it.
    """
    document = _Document(data)
    tasks: dict[TaskId, TaskNumbers] = {}
    lags: dict[TaskId, int] = {}
    for task in document.items("tasks"):
        is_active = task.text("role") == Role.ACTIVE
        is_restoring = is_active and task.text("state") == "RESTORING"
        task_id, remaining = TaskId.parse(task.text("task")), task.optional("remaining")
        tasks[task_id] = TaskNumbers(
            processed=task.number("processed"),
            lag=task.optional("lag"),
            restored=task.number("restored"),
            remaining=remaining if is_restoring else None,
            behind=None if is_active else remaining,
        )
        if not is_active:
            lags[task_id] = LAG_UNKNOWN if remaining is None else remaining
    threads = document.items("threads")
    return WorkerNumbers(
        incarnation=document.text("incarnation"),
        tasks=tasks,
        lags=lags,
        open_transactions=sum(thread.flag("transactionOpen") for thread in threads),
        restored=document.number("restoredTotal"),
    )


class _Document:
    """One JSON object of the answer."""

    def __init__(self, data: object) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"expected an object, got {data!r:.80}")  # noqa: TRY004  # bad data
        self._data = data

    def items(self, name: str) -> list[_Document]:
        return [_Document(item) for item in self._data[name]]

    def text(self, name: str) -> str:
        return str(self._data[name])

    def number(self, name: str) -> int:
        return int(self._data[name])

    def optional(self, name: str) -> int | None:
        return None if self._data[name] is None else int(self._data[name])

    def flag(self, name: str) -> bool:
        return bool(self._data[name])
