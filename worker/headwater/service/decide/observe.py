"""Observation into table: what was read or heard, and what ended, becomes what the worker knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from headwater.ids import TopicPartition
from headwater.model.cluster import PartitionOffset, ReleasedTask
from headwater.native.messages import (
    Cancelled,
    Failed,
    Following,
    GlobalProgress,
    Initialized,
    Located,
    Paused,
    Released,
    Restored,
    RestoreProgress,
    Stats,
    Stopped,
    StoreRestore,
    TaskRunning,
    UpdaterStats,
)
from headwater.native.queries.values import TaskAnswered
from headwater.service.decide import copies, failing, hanging
from headwater.service.decide.global_thread import note_end, note_progress
from headwater.service.decide.observations import (
    DutyEnded,
    FilesSeen,
    GlobalThreadEnded,
    GlobalThreadSaid,
    GroupSeen,
    LeaseKept,
    Observation,
    SpecRead,
    StopAsked,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.decide.values import (
    LEASE_LOST,
    Slot,
    SlotPhase,
    Table,
    TaskPhase,
    pause_ms,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import WorkerSpec
    from headwater.model.uncaught import StreamThreadExceptionResponse as Response
    from headwater.native.messages import FromGlobals, FromThread, FromUpdater

_PATIENCE_MS: Final = 60_000
"""A process that ran this long counts as healthy when it ends."""


def observe(  # noqa: C901, PLR0912 - one case per observation
    table: Table, observation: Observation, now_ms: int
) -> None:
    """Note ``observation`` in ``table``."""
    match observation:
        case SpecRead(spec=spec):
            _spec_read(table, spec, now_ms)
        case LeaseKept(at_ms=at_ms):
            _lease_kept(table, at_ms, now_ms)
        case ThreadSaid(slot=slot, message=message, response=response):
            _thread_said(table, table.slots[slot], message, response, now_ms)
        case ThreadEnded(slot=slot):
            _thread_ended(table, table.slots[slot], now_ms)
        case UpdaterSaid(updater=updater, message=message, response=response):
            _updater_said(table, updater, message, response, now_ms)
        case UpdaterEnded(updater=updater):
            _updater_ended(table, updater, now_ms)
        case GlobalThreadSaid(message=message, response=response):
            _global_thread_said(table, message, response, now_ms)
        case GlobalThreadEnded() if table.global_thread is not None:
            note_end(table.global_thread, now_ms)
        case GlobalThreadEnded():
            pass
        case DutyEnded(id=duty_id, result=result):
            table.duty_begun = ""
            if result is not None:
                table.duty_results[duty_id] = result
        case GroupSeen(is_in_use=is_in_use):
            table.group_look_begun = False
            if is_in_use is not None:
                table.group_in_use = is_in_use
        case FilesSeen(roll_on=roll_on):
            table.roll_on = roll_on
        case StopAsked():
            failing.stop(table, now_ms)
        case _:
            assert_never(observation)


def _lease_kept(table: Table, at_ms: int, now_ms: int) -> None:
    """Note a renewal. One that comes too late is a new beginning, not the old Lease going on."""
    if not table.has_lease(now_ms):
        # What the control loop wrote meanwhile was passed over: read it now.
        table.must_read = True
        if not table.exactly_once and table.lease_ms is not None:
            table.doom_holders(LEASE_LOST)
    table.lease_ms = at_ms


def _spec_read(table: Table, spec: WorkerSpec | None, now_ms: int) -> None:
    if not table.has_lease(now_ms):
        return
    table.must_read = False
    if spec is None or spec.epoch < table.highest_epoch:
        return
    before, table.spec = table.spec, spec
    table.highest_epoch = spec.epoch
    if spec.incarnation or spec.is_fencing:
        table.idle_since_ms = None
    elif table.idle_since_ms is None:
        table.idle_since_ms = now_ms
    if before is not None and _grants_the_same(table, before, spec):
        # This read came after these slots had their ids, and nothing has changed: they may begin.
        for slot in table.slots.values():
            if slot.phase is SlotPhase.READING:
                slot.phase = SlotPhase.CONFIRMED
    standing = {duty.id for duty in spec.duties}
    table.duty_results = {
        id_: result for id_, result in table.duty_results.items() if id_ in standing
    }
    table.released = {
        task: released for task, released in table.released.items() if task in spec.revoking
    }
    for slot in table.slots.values():
        if slot.phase is SlotPhase.FENCED and spec.epoch > slot.fenced_epoch:
            slot.phase = SlotPhase.ABSENT
    table.barred = {task: epoch for task, epoch in table.barred.items() if epoch >= spec.epoch}
    if spec.drain:
        failing.stop(table, now_ms)


def _grants_the_same(table: Table, before: WorkerSpec, now: WorkerSpec) -> bool:
    mine = table.incarnation
    return before.epoch == now.epoch and before.active_for(mine) == now.active_for(mine)


def _thread_said(
    table: Table, slot: Slot, message: FromThread, response: Response | None, now_ms: int
) -> None:
    if isinstance(message, Located):
        slot.place = message if slot.asked_ms else None
        return
    slot.heard_ms = now_ms
    slot.asked_ms, slot.place = 0, None
    _note_answers(table, message, now_ms)
    match message:
        case Initialized():
            if slot.phase is SlotPhase.STARTING:
                slot.phase = SlotPhase.READING
                _clean(table, slot)
        case TaskRunning(task=task):
            if (held := table.tasks.get(task)) is not None and held.phase is TaskPhase.STARTING:
                held.phase = TaskPhase.RUNNING
        case Released(task=task, offsets=offsets, epoch=epoch):
            _released(table, task, offsets, epoch)
        case Paused():
            slot.is_paused = slot.is_told_to_pause
        case Failed():
            failing.thread_failed(table, slot, message, response, now_ms)
        case Stats():
            hanging.note_progress(table, slot, message, now_ms)
            table.loads.observe(slot.number, message.busy_s, now_ms)
        case Stopped() | TaskAnswered() | StoreRestore():
            pass
        case _:
            assert_never(message)


def _note_answers(table: Table, message: FromThread | FromUpdater, now_ms: int) -> None:
    """Note whether a broker answers, and if none does, since when."""
    match message:
        case Initialized() | TaskRunning() | Restored():
            table.unanswered_since_ms = 0
        case Following(problem=""):
            table.unanswered_since_ms = 0
        case Stats(committed=committed, problem=problem):
            if problem:
                table.unanswered_since_ms = table.unanswered_since_ms or now_ms
            elif committed:
                table.unanswered_since_ms = 0
        case _:
            pass


def _clean(table: Table, slot: Slot) -> None:
    """The slot's id was initialised: whatever its last process left open is aborted."""
    for task in table.tasks.values():
        if task.slot == slot.number:
            task.dirty = False


def _released(table: Table, task: TaskId, offsets: Mapping[str, int], epoch: int) -> None:
    left = table.tasks.pop(task, None)
    if left is None:
        return
    if table.spec is not None and task in table.spec.active_for(table.incarnation):
        if left.goal != left.slot:
            # It changes its slot: its stores are closed at what was committed, so nothing is
            # restored.
            phase = TaskPhase.READY
            table.tasks[task] = replace(left, slot=left.goal, phase=phase, updater=-1)
        return
    table.released[task] = ReleasedTask(task=task, epoch=epoch, offsets=_offsets(offsets))


def _offsets(offsets: Mapping[str, int]) -> tuple[PartitionOffset, ...]:
    found = []
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition("-")
        found.append(
            PartitionOffset(partition=TopicPartition(topic, int(partition)), offset=offset)
        )
    return tuple(sorted(found, key=lambda item: item.partition))


def _thread_ended(table: Table, slot: Slot, now_ms: int) -> None:
    slot.alive = False
    slot.doomed = ""
    if slot.phase is SlotPhase.FENCED:
        return  # Its id belongs to somebody else: there is nothing of ours left to abort.
    stopped = slot.phase is SlotPhase.STOPPING
    slot.phase = SlotPhase.ABSENT if stopped and not _tasks_of(table, slot) else SlotPhase.DEAD
    slot.failures = 1 if now_ms - slot.began_ms > _PATIENCE_MS else slot.failures + 1
    slot.failures = max(slot.failures, hanging.failures_of(table, slot))
    slot.restart_ms = now_ms + pause_ms(slot.failures)
    for task in _tasks_of(table, slot):
        if table.tasks[task].on_thread:
            table.tasks[task].phase = TaskPhase.WAITING
            table.tasks[task].dirty = True


def _tasks_of(table: Table, slot: Slot) -> list[TaskId]:
    return [task.id for task in table.tasks.values() if task.slot == slot.number]


def _updater_said(
    table: Table, number: int, message: FromUpdater, response: Response | None, now_ms: int
) -> None:
    updater = table.updaters[number]
    updater.heard_ms = now_ms
    _note_answers(table, message, now_ms)
    match message:
        case RestoreProgress(task=task_id, restored=restored, remaining=remaining):
            if (task := table.tasks.get(task_id)) is not None:
                task.restored, task.remaining = restored, remaining
        case Restored(task=task_id, records=records):
            updater.failures = 0
            task = table.tasks.get(task_id)
            if task is not None and task.on_updater and task.updater == number:
                task.phase = TaskPhase.READY
                task.failures = 0
                task.restored, task.remaining = records, 0
        case Following():
            updater.failures = 0
            copies.note_following(table, number, message, now_ms)
        case Cancelled(task=task_id):
            copies.note_closed(table, task_id)
            task = table.tasks.get(task_id)
            if task is not None and task.phase is TaskPhase.CANCELLING:
                task.phase = TaskPhase.WAITING
        case Failed(following=True):
            copies.note_failure(table, number, message, now_ms)
        case Failed():
            failing.restore_failed(table, number, message, response, now_ms)
        case UpdaterStats() | StoreRestore() | Stopped():
            pass
        case _:
            assert_never(message)


def _updater_ended(table: Table, number: int, now_ms: int) -> None:
    updater = table.updaters[number]
    if not updater.stopping:
        updater.failures += 1
        updater.restart_ms = now_ms + pause_ms(updater.failures)
    updater.alive = updater.stopping = False
    copies.note_updater_ended(table, number, now_ms)
    for task in table.tasks.values():
        if task.updater == number and task.on_updater:
            task.phase = TaskPhase.WAITING


def _global_thread_said(
    table: Table, message: FromGlobals, response: Response | None, now_ms: int
) -> None:
    thread = table.global_thread
    if thread is None:
        return
    if isinstance(message, Located):
        thread.place = message if thread.asked_ms else None
        return
    thread.heard_ms = now_ms
    thread.asked_ms, thread.place = 0, None
    match message:
        case GlobalProgress():
            note_progress(thread, message)
        case Failed():
            failing.global_thread_failed(table, thread, message, response, now_ms)
        case StoreRestore() | Stopped():
            pass
        case _:
            assert_never(message)
