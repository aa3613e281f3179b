"""The worker's GlobalStreamThread: started before any task, kept alive, ended last.

No task starts before it has filled the global stores once. If it ends after that, StreamThreads go
on with what they see, and its next process reads the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.native.messages import Locate, Stop
from headwater.service.decide import hanging
from headwater.service.decide.actions import KillGlobalThread, StartGlobalThread, TellGlobalThread
from headwater.service.decide.values import START_LIMIT_MS, pause_ms

if TYPE_CHECKING:
    from headwater.model.hangs import Hang
    from headwater.native.messages import GlobalProgress, Located
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
    follows: bool = False
    """The present process has."""
    records: int = 0
    remaining: int = 0
    problem: str = ""
    """What keeps the process from following, or why the last one ended, for people."""
    heard_ms: int = 0
    began_ms: int = 0
    failures: int = 0
    """Ends in a row without a longer run in between."""
    restart_ms: int = 0
    asked_ms: int = 0
    """When the process, silent for long, was asked where it is; 0 if it was not."""
    place: Located | None = None
    """What it has answered."""
    hang: Hang | None = None
    """Where a function has hung last, until a process has read on from there."""


def allows_tasks(table: Table) -> bool:
    """Whether a task may start, as far as global stores are concerned."""
    return table.global_thread is None or table.global_thread.filled


def note_progress(thread: GlobalThread, message: GlobalProgress) -> None:
    """Note how far the process is."""
    thread.records, thread.remaining = message.records, message.remaining
    thread.filled = thread.filled or message.filled
    if message.filled and not thread.doomed:
        # It has read everything up to the ends of the topics at its start.
        thread.follows, thread.hang = True, None
    if not thread.doomed:  # Why it is killed stays: this was sent before.
        thread.problem = message.problem


def note_end(thread: GlobalThread, now_ms: int) -> None:
    """Note that the process has ended; it is started again after a pause."""
    is_wanted = not thread.stopping
    thread.alive = thread.stopping = thread.doomed = thread.follows = False
    if is_wanted:
        was_healthy = now_ms - thread.began_ms > _HEALTHY_MS
        thread.failures = 1 if was_healthy else thread.failures + 1
        if thread.place is not None and thread.hang is not None:
            thread.failures = max(thread.failures, thread.hang.times)
        thread.restart_ms = now_ms + pause_ms(thread.failures)


def keep_global_thread(table: Table, now_ms: int, *, leased: bool) -> list[Action]:
    """Start the process for whoever has tasks or may soon have; kill one that is hung."""
    thread = table.global_thread
    if thread is None:
        return []
    if thread.alive:
        return _watch(table, thread, now_ms)
    is_needed = bool(table.held) and table.stopping_since_ms is None
    if not (is_needed and leased) or now_ms < thread.restart_ms:
        return []
    if not any(task.on_thread for task in table.tasks.values()):
        thread.filled = False  # Nobody reads the stores: whoever begins sees the end of the topics.
    thread.alive = True
    thread.process += 1
    thread.heard_ms = thread.began_ms = now_ms
    thread.asked_ms, thread.place = 0, None
    return [StartGlobalThread(number=thread.process - 1)]


def _watch(table: Table, thread: GlobalThread, now_ms: int) -> list[Action]:
    """Kill what has failed or hangs; ask it before where it is."""
    if thread.doomed:
        return [KillGlobalThread(reason="")]
    patience_ms = table.hung_ms
    if not thread.follows:
        patience_ms = max(patience_ms, table.import_timeout_ms, START_LIMIT_MS)
    if now_ms - thread.heard_ms > patience_ms:
        thread.hang = hanging.hang_at(thread.place, thread.hang)
        thread.problem = hanging.told(thread.place, thread.hang, patience_ms)
        thread.doomed = True
        is_mute = bool(thread.asked_ms) and thread.place is None
        return [KillGlobalThread(reason=thread.problem, shows_stacks=is_mute)]
    if hanging.is_to_ask(thread.asked_ms, thread.heard_ms, patience_ms, now_ms):
        thread.asked_ms = now_ms
        return [TellGlobalThread(message=Locate())]
    return []


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
