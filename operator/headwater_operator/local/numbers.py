"""The numbers that a worker serves by HTTP at ``/tasks``: lags, counts, restore progress."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.ids import TaskId
from headwater.model.cluster import Role

_TIMEOUT_S: Final = 0.5


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
        tasks: by task.
        open_transactions: StreamThreads with an open transaction.
        restored: changelog records applied by this process in all its restores.
    """

    tasks: Mapping[TaskId, TaskNumbers] = field(default_factory=dict)
    open_transactions: int = 0
    restored: int = 0


def fetch(endpoint: str) -> WorkerNumbers:
    """Ask the worker that listens at ``host:port``; no answer is an answer without numbers."""
    try:
        with urllib.request.urlopen(f"http://{endpoint}/tasks", timeout=_TIMEOUT_S) as answer:
            return parse(json.load(answer))
    except (OSError, ValueError, TypeError, KeyError, urllib.error.URLError):
        return WorkerNumbers()


def parse(data: object) -> WorkerNumbers:
    """Read the answer of ``/tasks``.

    Raises:
        ValueError: the answer is of another kind.
        KeyError: something is missing in it.
    """
    document = _Document(data)
    tasks: dict[TaskId, TaskNumbers] = {}
    for task in document.items("tasks"):
        is_active = task.text("role") == Role.ACTIVE
        is_restoring = is_active and task.text("state") == "RESTORING"
        tasks[TaskId.parse(task.text("task"))] = TaskNumbers(
            processed=task.number("processed"),
            lag=task.optional("lag"),
            restored=task.number("restored"),
            remaining=task.optional("remaining") if is_restoring else None,
            behind=None if is_active else task.optional("remaining"),
        )
    threads = document.items("threads")
    return WorkerNumbers(
        tasks=tasks,
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
