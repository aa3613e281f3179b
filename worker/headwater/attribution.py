"""Which task the code that runs now belongs to: for log lines, and for errors that end a thread.

A StreamThread sets it before it works for a task, a function that waits while it is called. Each
thread, and each coroutine, has its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headwater.ids import TaskId

TASK: Final[ContextVar[TaskId | None]] = ContextVar("task", default=None)
"""The task, or ``None``."""
