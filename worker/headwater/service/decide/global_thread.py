"""The worker's GlobalStreamThread: started before any task, kept alive, ended last.

No task starts before it has filled the global stores once. If it ends after that, StreamThreads go
on with what they see, and its next process reads the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.native.messages import Stop
from headwater.service.decide.actions import KillGlobalThread, StartGlobalThread, TellGlobalThread
from headwater.service.decide.values import START_LIMIT_MS, pause_ms

if TYPE_CHECKING:
    from headwater.native.messages import GlobalProgress
    from headwater.service.decide.actions import Action
    from headwater.service.decide.values import Table

_HEALTHY_MS = 60_000
"""A process that ran this long counts as healthy when it ends."""


@dataclass(slots=True, kw_only=True)
class GlobalThread:
    """What is known of the process; a worker without global stores has none."""

    process: int = 0
    """How many processes there have been."""
    alive: bool = False
    """There is a process that was not awaited yet."""
    stopping: bool = False
    doomed: bool = False
    filled: bool = False
    """One of its processes has filled the stores: tasks may start."""
    records: int = 0
    remaining: int = 0
    problem: str = ""
    """What keeps the process from following, or why the last one ended, for people."""
    heard_ms: int = 0
    began_ms: int = 0
    failures: int = 0
    """Ends in a row without a longer run in between."""
    restart_ms: int = 0


def allows_tasks(table: Table) -> bool:
    """Whether a task may start, as far as global stores are concerned."""
    return table.global_thread is None or table.global_thread.filled


def note_progress(thread: GlobalThread, message: GlobalProgress) -> None:
    """Note how far the process is."""
    thread.records, thread.remaining = message.records, message.remaining
    thread.filled = thread.filled or message.filled
    if not thread.doomed:  # Why it is killed stays: this was sent before.
        thread.problem = message.problem


def note_end(thread: GlobalThread, now_ms: int) -> None:
    """Note that the process has ended; it is started again after a pause."""
    is_wanted = not thread.stopping
    thread.alive = thread.stopping = thread.doomed = False
    if is_wanted:
        was_healthy = now_ms - thread.began_ms > _HEALTHY_MS
        thread.failures = 1 if was_healthy else thread.failures + 1
        thread.restart_ms = now_ms + pause_ms(thread.failures)


def keep_global_thread(table: Table, now_ms: int, *, leased: bool) -> list[Action]:
    """Start the process for whoever has tasks or may soon have; kill one that is hung."""
    thread = table.global_thread
    if thread is None:
        return []
    if thread.alive:
        patience_ms = max(table.hung_ms, table.import_timeout_ms, START_LIMIT_MS)
        is_hung = now_ms - thread.heard_ms > patience_ms
        if not is_hung and not thread.doomed:
            return []
        reason = ""
        if is_hung:
            reason = f"no sign of life for {patience_ms / 1000:g} s"
            thread.problem, thread.doomed = reason, True
        return [KillGlobalThread(reason=reason)]
    is_needed = bool(table.held) and table.stopping_since_ms is None
    if not (is_needed and leased) or now_ms < thread.restart_ms:
        return []
    if not any(task.on_thread for task in table.tasks.values()):
        thread.filled = False  # Nobody reads the stores: whoever begins sees the end of the topics.
    thread.alive = True
    thread.process += 1
    thread.heard_ms = thread.began_ms = now_ms
    return [StartGlobalThread(number=thread.process - 1)]


def end_global_thread(table: Table, now_ms: int, *, overdue: bool) -> list[Action]:
    """Have the process end, once no StreamThread is left that reads its stores."""
    thread = table.global_thread
    if thread is None or not thread.alive or any(slot.alive for slot in table.slots.values()):
        return []
    if overdue:
        return [KillGlobalThread(reason="the drain took too long")]
    if thread.stopping:
        return []
    thread.stopping = True
    thread.heard_ms = now_ms
    return [TellGlobalThread(message=Stop())]
