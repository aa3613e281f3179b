"""Table and time into actions. Level-triggered: what is not yet as it should be is acted on again.

The rules of fencing live here:

* a slot is told to go only after the own StreamWorker was read behind its ``init_transactions`` and
  grants what it granted before (``observe``);
* no task restores or is released while a slot that ended owes its fence: the next process of that
  slot initialises the transactional id, which aborts what the last one left open;
* tasks of a fenced slot start again only under a greater epoch;
* without a Lease nothing is accepted, started or initialised; under at-least-once, where no broker
  fences us, tasks are committed and given up before the Lease ends, and killed when it has ended.
"""

from __future__ import annotations

from typing import Final

from headwater.assignor.threads import assign_to_slots
from headwater.ids import TaskId
from headwater.native.messages import (
    AddTasks,
    CancelRestore,
    Go,
    LeaseRenewed,
    Pause,
    Restore,
    Resume,
    RevokeTasks,
    ShareCache,
    Stop,
)
from headwater.service.decide import copies, hanging, updaters
from headwater.service.decide.actions import (
    Action,
    ApplyLive,
    BeginDuty,
    End,
    KillThread,
    KillUpdater,
    LookAtGroup,
    ReadSpec,
    RememberEpoch,
    StartThread,
    TellThread,
    TellUpdater,
)
from headwater.service.decide.global_thread import (
    GlobalThread,
    allows_tasks,
    end_global_thread,
    keep_global_thread,
)
from headwater.service.decide.values import (
    DRAIN_LIMIT_MS,
    LEASE_LOST,
    START_LIMIT_MS,
    Slot,
    SlotPhase,
    Table,
    Task,
    TaskPhase,
    Updater,
)

FIRST_TASK: Final = TaskId(0, 0)
"""Every application with tasks has it, and one worker at a time holds it."""

_NOTHING_BEGUN: Final = "the worker stops, and this thread has nothing to commit yet"
_ASLEEP_MS: Final = 5_000
"""A gap between two ticks that means we did not run ourselves."""


def decide(table: Table, now_ms: int) -> list[Action]:
    """Return what to do now, and note in ``table`` that it is being done.

    Args:
        table: what is known; ``observe`` keeps it.
        now_ms: boot-time clock.
    """
    _forgive_own_sleep(table, now_ms)
    actions: list[Action] = []
    if table.highest_epoch > table.remembered_epoch:
        actions.append(RememberEpoch(epoch=table.highest_epoch))
        table.remembered_epoch = table.highest_epoch
    leased = table.has_lease(now_ms)
    reading = any(slot.phase is SlotPhase.READING for slot in table.slots.values())
    if leased and (table.must_read or reading):
        actions.append(ReadSpec())
    actions += _apply_live(table)
    actions += _keep_leases(table, now_ms)
    actions += _bury(table, now_ms)
    wanted = _wanted(table, now_ms)
    _place(table, wanted, now_ms)
    if leased:
        actions += _start_slots(table, wanted, now_ms)
    actions += keep_global_thread(table, now_ms, leased=leased)
    actions += _go(table)
    actions += _pause(table)
    actions += _release(table, wanted)
    actions += _advance(table, wanted, now_ms)
    actions += _fit_slots(table, now_ms)
    actions += copies.keep_copies(table, now_ms)
    actions += updaters.end_idle(table, now_ms)
    if leased and table.stopping_since_ms is None:
        actions += _duties(table)
        actions += _watch_group(table, now_ms)
    if table.stopping_since_ms is not None:
        actions += _leave(table, now_ms)
    return actions


def _forgive_own_sleep(table: Table, now_ms: int) -> None:
    """A worker that was frozen must not take its children, frozen with it, for hung."""
    gap = now_ms - table.last_tick_ms
    if table.last_tick_ms and gap > _ASLEEP_MS:
        for process in _processes(table):
            process.heard_ms = min(now_ms, process.heard_ms + gap)
    table.last_tick_ms = now_ms


def _processes(table: Table) -> list[Slot | Updater | GlobalThread]:
    alone = [] if table.global_thread is None else [table.global_thread]
    return [*table.slots.values(), *table.updaters.values(), *alone]


def _apply_live(table: Table) -> list[Action]:
    """Take over settings before any process is started that would not know them."""
    wanted = table.spec.live if table.spec is not None else None
    if wanted is None or wanted == table.live:
        return []
    table.live = wanted
    return [ApplyLive(settings=wanted)]


def _wanted(table: Table, now_ms: int) -> frozenset[TaskId]:
    """Return the tasks to hold now."""
    if table.spec is None or table.stopping_since_ms is not None:
        return frozenset()
    if not table.exactly_once and not _is_safe_without_fence(table, now_ms):
        return frozenset()
    return frozenset(table.spec.active_for(table.incarnation)) - table.barred.keys()


def _is_safe_without_fence(table: Table, now_ms: int) -> bool:
    safe_ms = table.lease_limit_ms - table.lease_margin_ms
    return table.lease_ms is not None and now_ms - table.lease_ms < safe_ms


def _keep_leases(table: Table, now_ms: int) -> list[Action]:
    """Under at-least-once: pass renewals on, and kill whoever still has tasks without a Lease."""
    if table.exactly_once or table.lease_ms is None:
        return []
    if not table.has_lease(now_ms):
        table.doom_holders(LEASE_LOST)
        return []
    actions: list[Action] = []
    for slot in table.slots.values():
        if not slot.alive or slot.phase in (SlotPhase.STARTING, SlotPhase.FENCED) or slot.doomed:
            continue
        if slot.lease_told_ms != table.lease_ms:
            slot.lease_told_ms = table.lease_ms
            renewed = LeaseRenewed(until_boot_ms=table.lease_ms + table.lease_limit_ms)
            actions.append(TellThread(slot=slot.number, message=renewed))
    return actions


def _bury(table: Table, now_ms: int) -> list[Action]:
    """Kill what is hung or has failed."""
    actions: list[Action] = []
    for slot in table.slots.values():
        awaited = slot.phase not in (SlotPhase.READING, SlotPhase.CONFIRMED)
        patience_ms = table.hung_ms
        if slot.phase is SlotPhase.STARTING:
            patience_ms = max(patience_ms, table.import_timeout_ms, START_LIMIT_MS)
        is_watched = slot.alive and awaited and not slot.doomed
        if is_watched and now_ms - slot.heard_ms > patience_ms:
            is_hung = slot.phase is SlotPhase.RUNNING
            silent = f"no sign of life for {patience_ms / 1000:g} s"
            slot.doomed = hanging.note_hang(table, slot) if is_hung else silent
        elif is_watched:
            actions += hanging.ask(table, slot, now_ms)
        if slot.alive and slot.doomed:
            reason = "" if slot.failed == slot.doomed else slot.doomed
            slot.failed = slot.doomed
            shows_stacks = hanging.is_mute(slot)
            actions.append(KillThread(slot=slot.number, reason=reason, shows_stacks=shows_stacks))
    for updater in table.updaters.values():
        busy = updater.stopping or updaters.is_busy(table, updater)
        patience_ms = max(table.hung_ms, table.import_timeout_ms, START_LIMIT_MS)
        if updater.alive and busy and now_ms - updater.heard_ms > patience_ms:
            reason = f"no sign of life for {patience_ms / 1000:g} s"
            actions.append(KillUpdater(updater=updater.number, reason=reason))
    return actions


def _is_settled(task: Task) -> bool:
    return task.phase is TaskPhase.RUNNING and task.slot == task.goal


def _place(table: Table, wanted: frozenset[TaskId], now_ms: int) -> None:
    """Give every wanted task a slot; tasks stay where they are as long as that is balanced."""
    assert table.spec is not None or not wanted
    if table.spec is None or not wanted:
        return
    for number in table.spec.running_slots:
        table.slots.setdefault(number, Slot(number=number))
    usable = [
        number
        for number in table.spec.running_slots
        if table.slots[number].phase is not SlotPhase.FENCED
    ]
    if not usable:
        return
    current = {task.id: task.slot for task in table.tasks.values() if task.id in wanted}
    stateless = [task for task in wanted if task.subtopology not in table.stateful]
    table.loads.forget_others(wanted, usable)
    if wanted == current.keys() and all(map(_is_settled, table.tasks.values())):
        fixed = [task for task in wanted if task.subtopology in table.in_memory]
        table.loads.rebalance(current, usable, stateless, fixed, now_ms)
    placed = assign_to_slots(
        wanted, slots=usable, owned={**current, **table.loads.places}, stateless=stateless
    )
    for number, tasks in placed.items():
        for task_id in tasks:
            _put(table, task_id, number)


def _put(table: Table, task_id: TaskId, number: int) -> None:
    task = table.tasks.get(task_id)
    if task is None:
        stateful = task_id.subtopology in table.stateful
        table.tasks[task_id] = Task(id=task_id, slot=number, goal=number, stateful=stateful)
        table.released.pop(task_id, None)
        return
    task.goal = number
    if not task.on_thread and not task.dirty:
        task.slot = number


def _start_slots(table: Table, wanted: frozenset[TaskId], now_ms: int) -> list[Action]:
    """Start the processes of slots that have work, may soon have, or owe a fence first."""
    actions: list[Action] = []
    needed = {task.slot for task in table.tasks.values() if task.id in wanted or task.dirty}
    if needed:
        # Nothing restores before they are clean, those included that have no task any more.
        needed |= {slot.number for slot in table.slots.values() if slot.owes_fence}
    if table.copies and table.spec is not None:
        # A task that moves to its copy does not wait until a process has started.
        for number in table.spec.running_slots:
            table.slots.setdefault(number, Slot(number=number))
            needed.add(number)
    for slot in table.slots.values():
        idle = slot.phase in (SlotPhase.ABSENT, SlotPhase.DEAD) and not slot.alive
        if not idle or now_ms < slot.restart_ms or slot.number not in needed:
            continue
        if table.stopping_since_ms is not None:
            continue
        slot.phase = SlotPhase.STARTING
        slot.process += 1
        slot.alive = True
        slot.heard_ms = slot.began_ms = now_ms
        slot.lease_told_ms = 0
        slot.asked_ms, slot.place = 0, None
        slot.is_told_to_pause = slot.is_paused = False
        slot.sharers = table.threads
        actions.append(StartThread(slot=slot.number))
    return actions


def _go(table: Table) -> list[Action]:
    actions: list[Action] = []
    for slot in table.slots.values():
        if slot.phase is SlotPhase.CONFIRMED:
            slot.phase = SlotPhase.RUNNING
            actions.append(TellThread(slot=slot.number, message=Go(epoch=table.epoch)))
    return actions


def _pause(table: Table) -> list[Action]:
    """Have StreamThreads pause or go on, before they are given any task."""
    actions: list[Action] = []
    for slot in table.slots.values():
        if slot.phase is not SlotPhase.RUNNING or slot.is_told_to_pause == table.is_to_pause:
            continue
        slot.is_told_to_pause = table.is_to_pause
        slot.is_paused = False
        message = Pause() if table.is_to_pause else Resume()
        actions.append(TellThread(slot=slot.number, message=message))
    return actions


def _release(table: Table, wanted: frozenset[TaskId]) -> list[Action]:
    """Take back what is not wanted any more, or wanted in another slot."""
    actions: list[Action] = []
    revoked: dict[int, list[TaskId]] = {}
    for task in list(table.tasks.values()):
        moves = task.id in wanted and task.goal != task.slot
        slot = table.slots[task.slot]
        if (task.id in wanted and not moves) or (slot.alive and slot.doomed):
            continue
        match task.phase:
            case TaskPhase.WAITING | TaskPhase.READY if not moves and not task.dirty:
                del table.tasks[task.id]
            case TaskPhase.RESTORING if not moves:
                task.phase = TaskPhase.CANCELLING
                message = CancelRestore(task=task.id)
                actions.append(TellUpdater(updater=task.updater, message=message))
            case TaskPhase.STARTING | TaskPhase.RUNNING:
                task.phase = TaskPhase.REVOKING
                revoked.setdefault(task.slot, []).append(task.id)
            case _:
                pass  # Under way already, or waiting for its slot to be clean.
    for number, tasks in revoked.items():
        order = RevokeTasks(tasks=tuple(sorted(tasks)), epoch=table.epoch)
        actions.append(TellThread(slot=number, message=order))
    return actions


def _advance(table: Table, wanted: frozenset[TaskId], now_ms: int) -> list[Action]:
    """Bring wanted tasks one step further: restore, then hand over to their thread."""
    actions: list[Action] = []
    owed = any(slot.owes_fence for slot in table.slots.values())
    ready: dict[int, list[TaskId]] = {}
    for task in sorted(table.tasks.values(), key=lambda task: task.id):
        slot = table.slots.get(task.slot)
        if task.id not in wanted or slot is None:
            continue
        if slot.phase is not SlotPhase.RUNNING:
            is_starting = slot.alive and not slot.doomed
            if is_starting and task.phase is TaskPhase.WAITING and task.stateful:
                actions += updaters.be_ready(table, now_ms)
            continue
        if task.phase is TaskPhase.WAITING and not owed and now_ms >= task.retry_ms:
            if task.stateful:
                actions += _restore(table, task, now_ms)
            else:
                table.copies.pop(task.id, None)
                task.phase = TaskPhase.READY
        if task.phase is TaskPhase.READY and allows_tasks(table):
            task.phase = TaskPhase.STARTING
            ready.setdefault(task.slot, []).append(task.id)
    for number, tasks in ready.items():
        message = AddTasks(tasks=tuple(tasks), epoch=table.epoch)
        actions.append(TellThread(slot=number, message=message))
    return actions


def _fit_slots(table: Table, now_ms: int) -> list[Action]:
    """End surplus slots that no task is in any more; let the others share the record cache anew."""
    if table.spec is None:
        return []
    actions: list[Action] = []
    busy = {task.slot for task in table.tasks.values()}
    for slot in list(table.slots.values()):
        runs = slot.phase is SlotPhase.RUNNING and not slot.doomed
        if slot.number in table.spec.running_slots:
            if runs and slot.sharers != table.threads:
                slot.sharers = table.threads
                message = ShareCache(threads=table.threads)
                actions.append(TellThread(slot=slot.number, message=message))
        elif slot.number in busy:
            continue
        elif runs:
            actions.append(_stop(slot, now_ms))
        elif slot.phase is SlotPhase.ABSENT and not slot.alive:
            table.replaced += max(0, slot.process - 1)
            del table.slots[slot.number]
    return actions


def _stop(slot: Slot, now_ms: int) -> Action:
    slot.phase = SlotPhase.STOPPING
    slot.heard_ms = now_ms
    return TellThread(slot=slot.number, message=Stop())


def _restore(table: Table, task: Task, now_ms: int) -> list[Action]:
    """Give a task to the StateUpdater that follows it already, else to the one with least work."""
    promoted = copies.promote(table, task)
    if promoted is not None:
        return promoted
    updater, actions = updaters.for_restore(table, now_ms)
    if updater is None:
        return []
    task.phase = TaskPhase.RESTORING
    task.updater = updater.number
    task.restored = task.remaining = 0
    message = Restore(task=task.id, epoch=table.epoch)
    return [*actions, TellUpdater(updater=updater.number, message=message)]


def _duties(table: Table) -> list[Action]:
    """Begin the next duty: one at a time, because the spec is read again right before each."""
    if table.spec is None or table.duty_begun:
        return []
    for duty in table.spec.duties:
        if duty.id not in table.duty_results:
            table.duty_begun = duty.id
            return [BeginDuty(duty=duty)]
    return []


def _watch_group(table: Table, now_ms: int) -> list[Action]:
    """Look for strangers now and then, on behalf of the application: one worker does."""
    if table.group_watch_ms == 0 or FIRST_TASK not in table.tasks:
        table.group_in_use = False
        return []
    looked_ms = table.group_looked_ms
    is_due = looked_ms is None or now_ms - looked_ms >= table.group_watch_ms
    if table.group_look_begun or not is_due:
        return []
    table.group_look_begun = True
    table.group_looked_ms = now_ms
    return [LookAtGroup()]


def _leave(table: Table, now_ms: int) -> list[Action]:
    """Stop the processes once their tasks are released; end when none is left."""
    assert table.stopping_since_ms is not None
    overdue = now_ms - table.stopping_since_ms > DRAIN_LIMIT_MS
    actions: list[Action] = []
    for slot in table.slots.values():
        if not slot.alive:
            continue
        held = any(task.slot == slot.number and task.on_thread for task in table.tasks.values())
        if overdue or slot.phase in (SlotPhase.STARTING, SlotPhase.READING, SlotPhase.CONFIRMED):
            # Before Go there is nothing to commit.
            reason = "the drain took too long" if overdue else _NOTHING_BEGUN
            actions.append(KillThread(slot=slot.number, reason=reason, is_failure=overdue))
        elif slot.phase is SlotPhase.RUNNING and not held:
            actions.append(_stop(slot, now_ms))
    for updater in table.updaters.values():
        if updater.alive and overdue:
            actions.append(KillUpdater(updater=updater.number, reason="the drain took too long"))
        elif updater.alive and not updater.stopping and not updaters.is_busy(table, updater):
            updater.stopping = True
            actions.append(TellUpdater(updater=updater.number, message=Stop()))
    actions += end_global_thread(table, now_ms, overdue=overdue)
    if not any(process.alive for process in _processes(table)):
        unclean = any(task.dirty for task in table.tasks.values())
        actions.append(End(exit_code=table.exit_code or int(unclean)))
    return actions
