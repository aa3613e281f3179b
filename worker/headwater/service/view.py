"""What a worker shows by HTTP, as values: built by the main loop, read by the HTTP threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater.native.messages import Following, Restored, RestoreProgress, Stats
from headwater.service.decide.report import is_ready, status_of, thread_state
from headwater.service.decide.values import (
    SlotPhase,
    TaskPhase,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import TaskStatus
    from headwater.native.messages import TaskStats
    from headwater.service.children import Children
    from headwater.service.decide.values import Copy, Observation, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """One StreamThread."""

    slot: int
    state: str
    pid: int | None
    restarts: int
    records_per_s: float
    stats: Stats | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task. ``restored`` and ``remaining`` count changelog records while it restores.

    Of a standby or warm-up task ``remaining`` is its exact lag, ``None`` while it is unknown.
    """

    task: TaskId
    state: str
    slot: int
    records_per_s: float
    stats: TaskStats | None
    restored: int
    remaining: int | None
    role: Role = Role.ACTIVE
    updater: int | None = None
    """The StateUpdater that restores or follows it."""
    caught_up: bool = False
    """Of a standby or warm-up task: whether its lag is acceptable."""
    problem: str = ""
    """What keeps a standby or warm-up task from following."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """The worker at one moment.

    Attributes:
        at_ms: boot-time clock; a main loop that hangs is seen by it.
        restored_total: changelog records applied in restores since the worker started.
        followed_total: changelog records applied to standby and warm-up tasks, likewise.
    """

    at_ms: int
    application_id: str
    worker: str
    incarnation: str
    epoch: int
    has_lease: bool
    is_ready: bool
    is_stopping: bool
    threads: tuple[ThreadView, ...] = ()
    updaters: Mapping[int, int] = field(default_factory=dict)
    """Process id by number."""
    tasks: tuple[TaskView, ...] = ()
    failed_threads: int = 0
    restored_total: int = 0
    followed_total: int = 0
    problem: str = ""


class Numbers:
    """Keeps the newest counters of the children, and their rates."""

    def __init__(self) -> None:
        self._stats: dict[int, tuple[int, Stats]] = {}
        self._rates: dict[int, float] = {}
        self._task_rates: dict[TaskId, float] = {}
        self._restoring: dict[TaskId, int] = {}
        self._restored = 0
        self._following: dict[int, int] = {}
        self._followed = 0

    def take(self, observation: Observation, now_ms: int) -> None:
        """Note counters, pass over everything else."""
        match observation:
            case ThreadSaid(slot=slot, message=Stats() as stats):
                self._take_stats(slot, stats, now_ms)
            case UpdaterSaid(message=RestoreProgress(task=task, restored=restored)):
                before = self._restoring.get(task, 0)
                if restored < before:
                    self._restored += before  # That restore was cut short; another one began.
                self._restoring[task] = restored
            case UpdaterSaid(message=Restored(task=task, records=records)):
                self._restoring.pop(task, None)
                self._restored += records
            case UpdaterSaid(updater=number, message=Following(applied=applied)):
                self._following[number] = applied
            case UpdaterEnded(updater=number):
                self._followed += self._following.pop(number, 0)
            case _:
                pass

    def _take_stats(self, slot: int, stats: Stats, now_ms: int) -> None:
        before = self._stats.get(slot)
        self._stats[slot] = (now_ms, stats)
        if before is None or before[1].processed > stats.processed or now_ms <= before[0]:
            return
        seconds = (now_ms - before[0]) / 1000
        self._rates[slot] = (stats.processed - before[1].processed) / seconds
        counts = {task.task: task.processed for task in before[1].tasks}
        for task in stats.tasks:
            moved = task.processed - counts.get(task.task, 0)
            self._task_rates[task.task] = max(0, moved) / seconds

    def view(
        self, table: Table, children: Children, application_id: str, now_ms: int
    ) -> WorkerView:
        """Return what there is to see now."""
        status = status_of(table)
        of_task = {
            task.task: task
            for slot, (_, stats) in self._stats.items()
            for task in stats.tasks
            if (slot_ := table.slots.get(slot)) is not None and slot_.alive
        }
        return WorkerView(
            at_ms=now_ms,
            application_id=application_id,
            worker=table.worker,
            incarnation=table.incarnation,
            epoch=table.epoch,
            has_lease=table.has_lease(now_ms),
            is_ready=is_ready(table),
            is_stopping=table.stopping_since_ms is not None,
            threads=tuple(self._thread(table, children, slot) for slot in sorted(table.slots)),
            updaters={
                number: pid
                for number in sorted(table.updaters)
                if (pid := children.pid_of_updater(number)) is not None
            },
            tasks=tuple(
                self._task(table, of_task, task.task, task.state)
                if task.role is Role.ACTIVE
                else _copy(table.copies[task.task], task)
                for task in status.tasks
            ),
            failed_threads=table.replaced
            + sum(max(0, slot.process - 1) for slot in table.slots.values()),
            restored_total=self._restored + sum(self._restoring.values()),
            followed_total=self._followed + sum(self._following.values()),
            problem="" if table.error is None else table.error.message,
        )

    def _thread(self, table: Table, children: Children, number: int) -> ThreadView:
        slot = table.slots[number]
        _, stats = self._stats.get(number, (0, None))
        alive = slot.alive and slot.phase is SlotPhase.RUNNING
        return ThreadView(
            slot=number,
            state=thread_state(table, slot),
            pid=children.pid_of_thread(number),
            restarts=max(0, slot.process - 1),
            records_per_s=self._rates.get(number, 0.0) if alive else 0.0,
            stats=stats,
            problem=slot.failed if not alive else stats.problem if stats is not None else "",
        )

    def _task(
        self, table: Table, of_task: Mapping[TaskId, TaskStats], task_id: TaskId, state: str
    ) -> TaskView:
        task = table.tasks[task_id]
        restoring = task.phase in (TaskPhase.RESTORING, TaskPhase.CANCELLING)
        running = task.phase in (TaskPhase.RUNNING, TaskPhase.REVOKING)
        return TaskView(
            task=task_id,
            state=state,
            slot=task.slot,
            records_per_s=self._task_rates.get(task_id, 0.0) if running else 0.0,
            stats=of_task.get(task_id) if running else None,
            restored=task.restored,
            remaining=task.remaining if restoring else None,
            updater=task.updater if restoring else None,
        )


def _copy(copy: Copy, status: TaskStatus) -> TaskView:
    return TaskView(
        task=copy.id,
        state=status.state,
        slot=status.slot,
        records_per_s=0.0,
        stats=None,
        restored=0,
        remaining=None if copy.lag == LAG_UNKNOWN else copy.lag,
        role=copy.role,
        updater=copy.updater if copy.on_updater else None,
        caught_up=status.caught_up,
        problem=copy.problem,
    )
