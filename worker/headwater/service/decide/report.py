"""The table as the status that the control loop reads, and as states for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import Role, TaskStatus, WorkerStatus
from headwater.model.lifecycle import ClientState, TaskState, ThreadState
from headwater.service.decide.values import SlotPhase, TaskPhase

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.hangs import Hang
    from headwater.service.decide.values import Slot, Table

_TASK_STATES: Final = {
    TaskPhase.WAITING: TaskState.CREATED,
    TaskPhase.RESTORING: TaskState.RESTORING,
    TaskPhase.CANCELLING: TaskState.RESTORING,
    TaskPhase.READY: TaskState.RESTORING,
    TaskPhase.STARTING: TaskState.RESTORING,
    TaskPhase.RUNNING: TaskState.RUNNING,
    TaskPhase.REVOKING: TaskState.SUSPENDED,
}

_THREAD_STATES: Final = {
    SlotPhase.ABSENT: ThreadState.CREATED,
    SlotPhase.STARTING: ThreadState.STARTING,
    SlotPhase.READING: ThreadState.STARTING,
    SlotPhase.CONFIRMED: ThreadState.STARTING,
    SlotPhase.STOPPING: ThreadState.PENDING_SHUTDOWN,
    SlotPhase.DEAD: ThreadState.DEAD,
    SlotPhase.FENCED: ThreadState.DEAD,
}


def status_of(table: Table) -> WorkerStatus:
    """Return what the worker reports now; equal tables give equal statuses."""
    held = table.held
    tasks = tuple(_task_status(table, task) for task in sorted(held))
    active = [task.state for task in tasks if task.role is Role.ACTIVE]
    copies = [task.caught_up for task in tasks if task.role is not Role.ACTIVE]
    running = active.count(TaskState.RUNNING)
    return WorkerStatus(
        incarnation=table.incarnation,
        acknowledged_epoch=table.epoch,
        tasks=tasks,
        released=tuple(table.released[task] for task in sorted(table.released)),
        stored=tuple(table.stored[task] for task in sorted(table.stored) if task not in held),
        fenced_slots=tuple(
            slot.number for slot in table.slots.values() if slot.phase is SlotPhase.FENCED
        ),
        group_in_use=table.group_in_use,
        hangs=_hangs(table),
        duty_results=tuple(table.duty_results[id_] for id_ in sorted(table.duty_results)),
        topology=table.topology,
        endpoint=table.endpoint,
        state=_client_state(table, is_running=running == len(active)),
        paused=has_paused(table),
        running=f"{running}/{len(active)}",
        copies=f"{sum(copies)}/{len(copies)}",
        roll_on=table.roll_on,
        error=table.error,
    )


def _hangs(table: Table) -> tuple[Hang, ...]:
    found = [table.hangs[task] for task in sorted(table.hangs) if task in table.tasks]
    thread = table.global_thread
    alone = [] if thread is None or thread.hang is None else [thread.hang]
    return (*found, *alone)


def _client_state(table: Table, *, is_running: bool) -> ClientState:
    """Return the state of the process, as ``KafkaStreams.state()`` of Java names it."""
    if table.error is not None:
        return ClientState.ERROR
    if table.stopping_since_ms is not None:
        return ClientState.PENDING_SHUTDOWN
    return ClientState.RUNNING if is_running else ClientState.REBALANCING


def has_paused(table: Table) -> bool:
    """Whether nothing is processed and nothing uncommitted, as the spec wants it."""
    if not table.is_to_pause:
        return False
    owned = {task.slot for task in table.tasks.values() if task.on_thread or task.dirty}
    return all(table.slots[slot].is_paused for slot in owned)


def _task_status(table: Table, task_id: TaskId) -> TaskStatus:
    """A task that is to become active counts as such, although it is followed for a while yet."""
    task = table.tasks.get(task_id)
    if task is not None:
        return TaskStatus(task=task_id, state=_TASK_STATES[task.phase], slot=task.slot)
    copy = table.copies[task_id]
    return TaskStatus(
        task=task_id,
        state=TaskState.RUNNING if copy.has_caught_up else TaskState.RESTORING,
        role=copy.role,
        lag=copy.told_lag,
        caught_up=copy.told_caught_up,
    )


def thread_state(table: Table, slot: Slot) -> ThreadState:
    """Return a slot's state in Kafka Streams' words."""
    if slot.phase is not SlotPhase.RUNNING:
        return _THREAD_STATES[slot.phase]
    phases = {task.phase for task in table.tasks.values() if task.slot == slot.number}
    if TaskPhase.REVOKING in phases:
        return ThreadState.PARTITIONS_REVOKED
    return ThreadState.RUNNING if phases <= {TaskPhase.RUNNING} else ThreadState.PARTITIONS_ASSIGNED


_IDLE_MS: Final = 10_000
"""What a worker that has just come is to have is granted within this."""


def is_ready(table: Table) -> bool:
    """Whether every task granted under the acknowledged epoch is processed (readiness).

    A worker that was granted nothing for a while is ready, too: there are fewer tasks than workers,
    and one that never were would let a PodDisruptionBudget drain none of the others.
    """
    if table.spec is None or table.error is not None or table.stopping_since_ms is not None:
        return False
    if table.idle_since_ms is not None:
        return not table.held and table.last_tick_ms - table.idle_since_ms >= _IDLE_MS
    if table.spec.incarnation != table.incarnation:
        return False
    running = {task.id for task in table.tasks.values() if task.phase is TaskPhase.RUNNING}
    return running >= set(table.spec.active_for(table.incarnation))
