"""Which StateUpdater does what: they are started for work, and end without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.native.messages import Stop
from headwater.service.decide.actions import StartUpdater, TellUpdater
from headwater.service.decide.values import UPDATER_IDLE_MS, SlotPhase, TaskPhase, Updater

if TYPE_CHECKING:
    from headwater.service.decide.actions import Action
    from headwater.service.decide.values import Table


def is_busy(table: Table, updater: Updater) -> bool:
    """Whether a StateUpdater has stores open, or was told to open them."""
    number = updater.number
    return any(task.on_updater and task.updater == number for task in table.tasks.values()) or any(
        copy.on_updater and copy.updater == number for copy in table.copies.values()
    )


def for_restore(table: Table, now_ms: int) -> tuple[Updater | None, list[Action]]:
    """Choose who restores: the one with the fewest restores; another is started while there may be.

    Returns:
        it, if one is able to, and what makes it so.
    """
    restores = dict.fromkeys(_usable(table), 0)
    for task in table.tasks.values():
        if task.on_updater and task.updater in restores:
            restores[task.updater] += 1
    if not restores or min(restores.values()) > 0:
        restores |= dict.fromkeys(_new(table), 0)
    return _first(table, restores, now_ms)


def be_ready(table: Table, now_ms: int) -> list[Action]:
    """Have a StateUpdater start beside the StreamThread whose tasks it will restore."""
    if any(updater.alive and not updater.stopping for updater in table.updaters.values()):
        return []
    return for_restore(table, now_ms)[1]


def _is_awaited(table: Table) -> bool:
    """Whether a task with state waits for its StreamThread to start."""
    return any(
        task.phase is TaskPhase.WAITING
        and task.stateful
        and (slot := table.slots.get(task.slot)) is not None
        and slot.alive
        and slot.phase is not SlotPhase.RUNNING
        for task in table.tasks.values()
    )


def for_copy(table: Table, now_ms: int) -> tuple[Updater | None, list[Action]]:
    """Choose who follows: the one with the fewest copies; one is started if there is none at all.

    Returns:
        it, if one is able to, and what makes it so.
    """
    copies = dict.fromkeys(_usable(table), 0)
    for copy in table.copies.values():
        if copy.on_updater and copy.updater in copies:
            copies[copy.updater] += 1
    living = {number: count for number, count in copies.items() if table.updaters[number].alive}
    return _first(table, living or copies or dict.fromkeys(_new(table), 0), now_ms)


def is_surplus(table: Table, number: int) -> bool:
    """Whether there are enough StateUpdaters without this one."""
    return number >= table.max_updaters


def _usable(table: Table) -> list[int]:
    return [
        updater.number
        for updater in table.updaters.values()
        if not updater.stopping and not is_surplus(table, updater.number)
    ]


def _new(table: Table) -> list[int]:
    """The number of one more StateUpdater, if there may be one."""
    free = [number for number in range(table.max_updaters) if number not in table.updaters]
    return free[:1]


def _first(table: Table, load: dict[int, int], now_ms: int) -> tuple[Updater | None, list[Action]]:
    for number in sorted(load, key=lambda number: (load[number], number)):
        updater = table.updaters.get(number)
        if updater is None:
            updater = table.updaters[number] = Updater(number=number)
        if updater.alive:
            return updater, []
        if now_ms >= updater.restart_ms:
            updater.alive = True
            updater.heard_ms = now_ms
            return updater, [StartUpdater(updater=number)]
    return None, []


def end_idle(table: Table, now_ms: int) -> list[Action]:
    """End StateUpdaters that have had nothing to do for a while.

    A copy that failed is tried again where it was, however long that takes.
    """
    actions: list[Action] = []
    is_awaited = _is_awaited(table)
    for updater in table.updaters.values():
        has_copies = any(copy.updater == updater.number for copy in table.copies.values())
        busy = has_copies or is_awaited or is_busy(table, updater)
        if busy or not updater.idle_since_ms:
            updater.idle_since_ms = now_ms
        idle = now_ms - updater.idle_since_ms >= UPDATER_IDLE_MS
        if updater.alive and not updater.stopping and not busy and idle:
            updater.stopping = True
            updater.heard_ms = now_ms
            actions.append(TellUpdater(updater=updater.number, message=Stop()))
    return actions
