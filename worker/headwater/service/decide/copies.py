"""Standby and warm-up tasks: copies of stores that a StateUpdater keeps up with their changelogs.

A copy needs no transactional id and owns nothing, so it is taken on and given up at once. One that
becomes active is followed on until its restore may begin; that restore goes on from where it is.
A copy that cannot be kept up is tried again for as long as it is wanted: it ends no worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import LAG_UNKNOWN, lag_bucket
from headwater.native.messages import CancelRestore, Follow, Restore
from headwater.service.decide import updaters
from headwater.service.decide.actions import TellUpdater
from headwater.service.decide.values import Copy, CopyPhase, TaskPhase, pause_ms

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.cluster import Role
    from headwater.native.messages import Failed, Following
    from headwater.service.decide.actions import Action
    from headwater.service.decide.values import Table, Task

_LAG_HELD_MS: Final = 10_000
"""The status shows a smaller lag only once it has been smaller for so long: it comes and goes."""
_LITTLE: Final = lag_bucket(1)
"""Beyond twice what is acceptable, but at least beyond this, a copy has fallen behind at once."""
_RETRY_MS: Final = 1_000


# -- decide --------------------------------------------------------------------------------------


def keep_copies(table: Table, now_ms: int) -> list[Action]:
    """Give up copies that are not wanted, take on those that are, and begin to follow them."""
    wanted = _wanted(table)
    actions: list[Action] = []
    for copy in list(table.copies.values()):
        role = wanted.pop(copy.id, None)
        if role is not None:
            copy.role = role
        elif copy.id not in table.tasks:
            actions += _give_up(table, copy)
    if not table.has_lease(now_ms):
        return actions
    for task, role in wanted.items():
        if task not in table.tasks:
            table.copies[task] = Copy(id=task, role=role)
    for copy in sorted(table.copies.values(), key=lambda copy: copy.id):
        if copy.phase is CopyPhase.WAITING and now_ms >= copy.retry_ms:
            actions += _begin(table, copy, now_ms)
        elif updaters.is_surplus(table, copy.updater) and copy.id not in table.tasks:
            actions += _hand_on(copy)
    return actions


def promote(table: Table, task: Task) -> list[Action] | None:
    """Begin the restore of a task of which there is a copy.

    Returns:
        what to do now, nothing if the copy has to be closed before; ``None`` if there is no copy
        that anybody has open.
    """
    copy = table.copies.get(task.id)
    if copy is None or copy.phase is CopyPhase.CLOSING:
        return None if copy is None else []
    del table.copies[task.id]
    if copy.phase is CopyPhase.WAITING:
        return None
    task.phase = TaskPhase.RESTORING
    task.updater = copy.updater
    task.restored = task.remaining = 0
    message = Restore(task=task.id, epoch=table.epoch)
    return [TellUpdater(updater=copy.updater, message=message)]


def _wanted(table: Table) -> dict[TaskId, Role]:
    if table.spec is None or table.stopping_since_ms is not None:
        return {}
    return table.spec.copies_for(table.incarnation)


def _hand_on(copy: Copy) -> list[Action]:
    """Have a copy closed where it is followed; another StateUpdater goes on with it."""
    if copy.phase is not CopyPhase.FOLLOWING:
        return []
    copy.phase = CopyPhase.CLOSING
    return [TellUpdater(updater=copy.updater, message=CancelRestore(task=copy.id))]


def _give_up(table: Table, copy: Copy) -> list[Action]:
    if copy.phase is CopyPhase.WAITING:
        del table.copies[copy.id]
        return []
    return _hand_on(copy)


def _begin(table: Table, copy: Copy, now_ms: int) -> list[Action]:
    if copy.id.subtopology not in table.stateful:
        # Its stores are in memory, or it has none: there is nothing that could be kept up.
        _note_lag(table, copy, 0, now_ms)
        return []
    updater, actions = updaters.for_copy(table, now_ms)
    if updater is None:
        return []
    copy.phase = CopyPhase.FOLLOWING
    copy.updater = updater.number
    message = Follow(task=copy.id, epoch=table.epoch)
    return [*actions, TellUpdater(updater=updater.number, message=message)]


# -- observe -------------------------------------------------------------------------------------


def note_following(table: Table, number: int, said: Following, now_ms: int) -> None:
    """Note how far the copies of a StateUpdater are."""
    for task, lag in said.lags.items():
        copy = table.copies.get(task)
        if copy is None or copy.updater != number or copy.phase is not CopyPhase.FOLLOWING:
            continue
        copy.failures = 0
        copy.problem = said.problem
        _note_lag(table, copy, lag, now_ms)


def note_closed(table: Table, task: TaskId) -> None:
    """Note that the stores of a copy are closed, if that is what was asked for."""
    copy = table.copies.get(task)
    if copy is None or copy.phase is not CopyPhase.CLOSING:
        return
    if task in _wanted(table):
        copy.phase = CopyPhase.WAITING  # Another StateUpdater goes on with it, from where it is.
    else:
        del table.copies[task]


def note_failure(table: Table, number: int, failure: Failed, now_ms: int) -> None:
    """Note that a copy cannot be kept up; it is tried again."""
    copy = table.copies.get(failure.task) if failure.task is not None else None
    if copy is None or copy.updater != number or copy.phase is not CopyPhase.FOLLOWING:
        return
    copy.phase = CopyPhase.WAITING
    copy.lag = LAG_UNKNOWN
    copy.failures += 1
    copy.retry_ms = now_ms + max(_RETRY_MS, pause_ms(copy.failures))
    copy.problem = f"{failure.error}: {failure.message}"
    _tell(table, copy, now_ms)


def note_updater_ended(table: Table, number: int, now_ms: int) -> None:
    """Note that a StateUpdater is gone: its copies are closed, wherever they were."""
    for copy in list(table.copies.values()):
        if copy.updater != number or not copy.on_updater:
            continue
        if copy.phase is CopyPhase.CLOSING:
            del table.copies[copy.id]
        else:
            copy.phase = CopyPhase.WAITING
            copy.lag = LAG_UNKNOWN
            _tell(table, copy, now_ms)


def _note_lag(table: Table, copy: Copy, lag: int, now_ms: int) -> None:
    copy.lag = lag
    _tell(table, copy, now_ms)


def _tell(table: Table, copy: Copy, now_ms: int) -> None:
    """Keep what the status shows: a greater bucket at once, a smaller one only later.

    That a copy has caught up is shown at once, that it no longer has only later: others wait for
    the first, and a lag that swings around the limit is not worth a write each time.
    """
    bucket = lag_bucket(copy.lag)
    is_first = copy.told_lag == LAG_UNKNOWN
    if bucket >= copy.told_lag or is_first or now_ms - copy.told_ms >= _LAG_HELD_MS:
        copy.told_lag = bucket
        copy.told_ms = now_ms
    acceptable = table.spec.acceptable_lag if table.spec is not None else -1
    if copy.lag <= acceptable:
        copy.has_caught_up = copy.told_caught_up = True
        copy.caught_up_ms = now_ms
    elif copy.lag > max(2 * acceptable, _LITTLE) or now_ms - copy.caught_up_ms >= _LAG_HELD_MS:
        copy.told_caught_up = False
