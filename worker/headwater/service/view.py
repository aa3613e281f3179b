"""What a worker shows by HTTP, as values: built by the main loop, read by the HTTP threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.ids import SlotId
from headwater.measuring.windows import Rates
from headwater.metrics_settings import MetricsSettings, RecordingLevel
from headwater.model import metrics
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater.model.lifecycle import ClientState, TaskState, ThreadState, client_state_of
from headwater.model.metrics import Snapshot
from headwater.native.messages import (
    Following,
    GlobalProgress,
    Restored,
    RestoreProgress,
    Stats,
    UpdaterStats,
)
from headwater.service import global_view
from headwater.service.decide.observations import (
    GlobalThreadEnded,
    GlobalThreadSaid,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.decide.report import is_ready, status_of, thread_state
from headwater.service.decide.values import SlotPhase, TaskPhase
from headwater.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import TaskStatus
    from headwater.model.metrics import Metric
    from headwater.service.children import Children
    from headwater.service.decide.observations import Observation
    from headwater.service.decide.values import Copy, Slot, Table
    from headwater.service.global_view import GlobalThreadView
    from headwater.state.directory import Room

_COUNTED: Final = (metrics.RESTORE_RECORDS, metrics.TASK_RESTORED, metrics.RESTORE_CALLS)
_COUNTED_HERE: Final = {metric.name for metric in _COUNTED}
_RATES_HERE: Final = [metric for metric in metrics.RATES if metric.rate_of in _COUNTED_HERE]
"""Rates of what the main process counts; StreamThreads make all others."""
_STATE_SIZE: Final = tuple(
    metrics.ROCKSDB_PROPERTIES[name] for name in ("total-sst-files-size", "cur-size-all-mem-tables")
)
_ROOM_INTERVAL_MS: Final = 5_000
_ON_THREAD: Final = (TaskPhase.RUNNING, TaskPhase.REVOKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """One StreamThread."""

    slot: int
    state: str
    pid: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task."""

    task: TaskId
    state: str
    slot: int
    role: Role = Role.ACTIVE
    updater: int | None = None
    """The StateUpdater that restores or follows it."""
    caught_up: bool = False
    """Of a standby or warm-up task: whether its lag is acceptable."""
    committed: Mapping[str, int] = field(default_factory=dict)
    """By ``topic-partition``, while a StreamThread has it."""
    problem: str = ""
    """What keeps a standby or warm-up task from following."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """The worker at one moment.

    Attributes:
        at_ms: boot-time clock; a main loop that hangs is seen by it.
        numbers: of the worker, its StreamThreads and its tasks.
        trees: of nodes, topics and stores, and of the user's sensors, by StreamThread.
    """

    at_ms: int
    application_id: str
    worker: str
    incarnation: str
    is_stopping: bool
    numbers: Snapshot
    trees: Mapping[int, Snapshot] = field(default_factory=dict)
    threads: tuple[ThreadView, ...] = ()
    updaters: Mapping[int, int] = field(default_factory=dict)
    """Process id by number."""
    tasks: tuple[TaskView, ...] = ()
    global_thread: GlobalThreadView | None = None
    """Of an application with global stores."""
    global_tree: Snapshot = field(default_factory=Snapshot)
    """Numbers of what the GlobalStreamThread keeps."""
    problem: str = ""

    @property
    def epoch(self) -> int:
        """The acknowledged epoch; 0 before the first."""
        return self.numbers.count(metrics.ASSIGNMENT_EPOCH) or 0

    def all_numbers(self) -> Snapshot:
        """Return the trees, too, of the tasks that their StreamThreads have still."""
        parts = [self.numbers, self.global_tree]
        for slot, tree in self.trees.items():
            tasks = {str(it.task) for it in self.tasks if _is_run_by(it, slot)}
            parts.append(tree.of_things({*tasks, SlotId(self.worker, slot).thread_id}))
        return Snapshot.merged(parts)

    def state_bytes_of(self, task: TaskView) -> int | None:
        """Return the size of a task's stores, tables and write buffers; ``None`` if not known.

        It is known of a task that a StreamThread has and measures, at the metrics level INFO.
        """
        tree = self.trees.get(task.slot) if _is_run_by(task, task.slot) else None
        if tree is None:
            return None
        found = tree.of_things({str(task.task)})
        sizes = [found.rows(metric) for metric in _STATE_SIZE]
        return sum(found.total(metric) for metric in _STATE_SIZE) if any(sizes) else None

    @property
    def is_ready(self) -> bool:
        """Whether every granted task is processed."""
        return bool(self.numbers.value(metrics.READY))


def _is_run_by(task: TaskView, slot: int) -> bool:
    return task.role is Role.ACTIVE and task.slot == slot and task.updater is None


class Numbers:
    """Keeps the newest counters of the children, and their rates.

    Args:
        settings: what is measured.
        revision: of the specification that the worker was started from; empty if there is none.
        room: asks how much room the stores have.
        refused: asks how many callers by HTTP were refused, by reason.
    """

    def __init__(
        self,
        settings: MetricsSettings | None = None,
        revision: str = "",
        room: Callable[[], Room | None] = lambda: None,
        refused: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._settings = settings = settings or MetricsSettings()
        self._revision = revision
        self._room = room
        self._refused = refused
        self._room_due_ms = 0
        self._room_numbers = Snapshot()
        self._rates_here = Rates(settings.samples, settings.window_ms / 1000, _RATES_HERE)
        self._trees: dict[int, Snapshot] = {}
        self._failed_pushes = 0
        self._stats: dict[int, tuple[int, Stats]] = {}
        self._rates: dict[int, float] = {}
        self._task_rates: dict[TaskId, float] = {}
        self._restoring: dict[TaskId, int] = {}
        self._restored = 0
        self._following: dict[int, int] = {}
        self._followed = 0
        self._updaters: dict[int, Snapshot] = {}
        self._global_tree = Snapshot()

    def configure(self, settings: MetricsSettings) -> None:
        """Show what is measured at another level."""
        if settings.level is not self._settings.level:
            self._trees.clear()
            self._global_tree = Snapshot()
        self._settings = settings

    def push_failed(self) -> None:
        """Count a push by OTLP that failed; called from its thread."""
        self._failed_pushes += 1

    def take(self, observation: Observation, now_ms: int) -> None:
        """Note counters, pass over everything else."""
        match observation:
            case ThreadSaid(slot=slot, message=Stats() as stats):
                self._take_stats(slot, stats, now_ms)
            case ThreadEnded(slot=slot):
                self._trees.pop(slot, None)
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
            case UpdaterSaid(updater=number, message=UpdaterStats(numbers=numbers)):
                self._updaters[number] = numbers
            case GlobalThreadSaid(message=GlobalProgress(tree=Snapshot() as tree)):
                self._global_tree = tree
            case GlobalThreadEnded():
                self._global_tree = Snapshot()
            case UpdaterEnded(updater=number):
                self._updaters.pop(number, None)
                self._followed += self._following.pop(number, 0)
            case _:
                pass

    def _take_stats(self, slot: int, stats: Stats, now_ms: int) -> None:
        before = self._stats.get(slot)
        self._stats[slot] = (now_ms, stats)
        if stats.tree is not None and self._settings.level.records(RecordingLevel.INFO):
            self._trees[slot] = stats.tree
        if before is None or now_ms <= before[0]:
            return
        seconds, then = (now_ms - before[0]) / 1000, before[1].numbers
        moved = stats.numbers.total(metrics.THREAD_PROCESS) - then.total(metrics.THREAD_PROCESS)
        if moved < 0:
            return
        self._rates[slot] = round(moved / seconds, 1)
        for task in stats.committed:
            count = stats.numbers.count(metrics.TASK_PROCESS, str(task)) or 0
            moved = count - (then.count(metrics.TASK_PROCESS, str(task)) or 0)
            self._task_rates[task] = round(max(0, moved) / seconds, 1)

    def view(
        self, table: Table, children: Children, application_id: str, now_ms: int
    ) -> WorkerView:
        """Return what there is to see now."""
        threads = tuple(self._thread(table, children, slot) for slot in sorted(table.slots))
        tasks = tuple(self._task(table, task) for task in status_of(table).tasks)
        numbers = [
            self._client_numbers(table, threads, tasks, now_ms),
            *(self._thread_numbers(table, thread) for thread in threads),
            *(self._task_numbers(table, task) for task in tasks),
            *self._updaters.values(),
        ]
        found = Snapshot.merged(numbers)
        if self._settings.level.records(RecordingLevel.INFO):
            rates = self._rates_here.of(found, now_ms / 1000)
            found = Snapshot.merged([found, rates])
        return WorkerView(
            at_ms=now_ms,
            application_id=application_id,
            worker=table.worker,
            incarnation=table.incarnation,
            is_stopping=table.stopping_since_ms is not None,
            numbers=found,
            trees=dict(self._trees),
            threads=threads,
            updaters={
                number: pid
                for number in sorted(table.updaters)
                if (pid := children.pid_of_updater(number)) is not None
            },
            tasks=tasks,
            global_thread=global_view.view_of(table, children),
            global_tree=self._global_tree,
            problem="" if table.error is None else table.error.message,
        )

    def _client_numbers(
        self, table: Table, threads: Iterable[ThreadView], tasks: Iterable[TaskView], now_ms: int
    ) -> Snapshot:
        copies = [task for task in tasks if task.role is not Role.ACTIVE]
        restarts = sum(max(0, slot.process - 1) for slot in table.slots.values())
        state = _client_state(table, threads)
        found = Snapshot.of(
            {
                metrics.RECORDING_LEVEL: self._settings.level.number,
                metrics.CLIENT_STATE: list(ClientState).index(state),
                metrics.OTLP_FAILED_PUSHES: self._failed_pushes,
                metrics.ALIVE_STREAM_THREADS: sum(thread.pid is not None for thread in threads),
                metrics.READY: is_ready(table),
                metrics.PAUSED: table.is_to_pause,
                metrics.LEASE_HELD: table.has_lease(now_ms),
                metrics.ASSIGNMENT_EPOCH: table.epoch,
                metrics.ACTIVE_RESTORING_TASKS: sum(t.on_updater for t in table.tasks.values()),
                metrics.STANDBY_UPDATING_TASKS: sum(task.updater is not None for task in copies),
                metrics.STANDBY_CAUGHT_UP_TASKS: sum(task.caught_up for task in copies),
                metrics.FAILED_STREAM_THREADS: table.replaced + restarts,
                metrics.RESTORE_RECORDS: self._restored + sum(self._restoring.values()),
                metrics.GLOBAL_REMAINING: global_view.remaining(table),
                metrics.STANDBY_UPDATE_RECORDS: self._followed + sum(self._following.values()),
            }
        )
        told = [found, Snapshot.of({metrics.STATE: 1}, state)]
        for reason, count in self._refused().items():
            told.append(Snapshot.of({metrics.HTTP_REFUSED_REQUESTS: count}, reason))
        if self._settings.level.records(RecordingLevel.INFO):
            told.append(Snapshot.of({metrics.VERSION: 1}, VERSION))
            told.append(self._room_told(now_ms))
            if self._revision:
                told.append(Snapshot.of({metrics.REVISION: 1}, self._revision))
        return Snapshot.merged(told)

    def _room_told(self, now_ms: int) -> Snapshot:
        if now_ms >= self._room_due_ms:
            self._room_due_ms = now_ms + _ROOM_INTERVAL_MS
            room = self._room()
            told = (
                {metrics.STATE_DIR_SIZE: room.size, metrics.STATE_DIR_AVAILABLE: room.available}
                if room
                else {}
            )
            self._room_numbers = Snapshot.of(told)
        return self._room_numbers

    def _thread(self, table: Table, children: Children, number: int) -> ThreadView:
        slot, stats = table.slots[number], self._stats_of(number)
        problem = "" if stats is None else stats.problem
        return ThreadView(
            slot=number,
            state=thread_state(table, slot),
            pid=children.pid_of_thread(number),
            problem=problem if _is_running(slot) else slot.failed,
        )

    def _thread_numbers(self, table: Table, thread: ThreadView) -> Snapshot:
        slot, stats = table.slots[thread.slot], self._stats_of(thread.slot)
        name = SlotId(table.worker, thread.slot).thread_id
        told = Snapshot() if stats is None else stats.numbers.only(name)
        ours: dict[Metric, float] = {metrics.THREAD_RESTARTS: max(0, slot.process - 1)}
        if _is_running(slot):
            ours[metrics.THREAD_PROCESS_RATE] = self._rates.get(thread.slot, 0.0)
        if stats is not None and thread.pid is None:
            ours[metrics.TRANSACTION_OPEN] = False
        ours[metrics.THREAD_STATE_NUMBER] = list(ThreadState).index(ThreadState(thread.state))
        state = Snapshot.of({metrics.THREAD_STATE: True}, name, thread.state)
        return Snapshot.merged([told, Snapshot.of(ours, name), state])

    def _task(self, table: Table, status: TaskStatus) -> TaskView:
        if status.role is not Role.ACTIVE:
            return _copy(table.copies[status.task], status)
        task, stats = table.tasks[status.task], self._stats_of_task(table, status.task)
        return TaskView(
            task=task.id,
            state=status.state,
            slot=task.slot,
            updater=task.updater if task.on_updater else None,
            committed={} if stats is None else stats.committed[task.id],
        )

    def _task_numbers(self, table: Table, shown: TaskView) -> Snapshot:
        name = str(shown.task)
        number = list(TaskState).index(TaskState(shown.state))
        state = Snapshot.merged(
            [
                Snapshot.of({metrics.TASK_STATE: True}, name, shown.state),
                Snapshot.of({metrics.TASK_STATE_NUMBER: number}, name),
            ]
        )
        if shown.role is not Role.ACTIVE:
            lag = table.copies[shown.task].lag
            known = None if lag == LAG_UNKNOWN else lag
            return Snapshot.merged([Snapshot.of({metrics.STANDBY_RECORDS_LAG: known}, name), state])
        task, stats = table.tasks[shown.task], self._stats_of_task(table, shown.task)
        told = Snapshot() if stats is None else stats.numbers.only(name)
        ours: dict[Metric, float] = {
            metrics.LAST_RESTORED_RECORDS: task.restored,
            metrics.TASK_RESTORED: task.restored,
        }
        if task.on_updater:
            ours[metrics.RESTORED_RECORDS] = task.restored
            ours[metrics.RESTORE_REMAINING_RECORDS] = task.remaining
        if task.phase in _ON_THREAD:
            ours[metrics.TASK_PROCESS_RATE] = self._task_rates.get(task.id, 0.0)
        return Snapshot.merged([told, Snapshot.of(ours, name), state])

    def _stats_of(self, slot: int) -> Stats | None:
        return self._stats[slot][1] if slot in self._stats else None

    def _stats_of_task(self, table: Table, task_id: TaskId) -> Stats | None:
        """Return what the StreamThread that runs the task has said of it."""
        task = table.tasks[task_id]
        slot, stats = table.slots.get(task.slot), self._stats_of(task.slot)
        if stats is None or task_id not in stats.committed or task.phase not in _ON_THREAD:
            return None
        return stats if slot is not None and slot.alive else None


def _client_state(table: Table, threads: Iterable[ThreadView]) -> ClientState:
    if table.error is not None:
        return ClientState.PENDING_ERROR
    if table.stopping_since_ms is not None:
        return ClientState.PENDING_SHUTDOWN
    states = {str(thread.slot): ThreadState(thread.state) for thread in threads}
    return client_state_of(states) if states else ClientState.REBALANCING


def _is_running(slot: Slot) -> bool:
    return slot.alive and slot.phase is SlotPhase.RUNNING


def _copy(copy: Copy, status: TaskStatus) -> TaskView:
    return TaskView(
        task=copy.id,
        state=status.state,
        slot=status.slot,
        role=copy.role,
        updater=copy.updater if copy.on_updater else None,
        caught_up=status.caught_up,
        problem=copy.problem,
    )
