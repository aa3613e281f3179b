"""From the target to what each worker may hold now.

Two things keep the target from being carried out at once. A task is active on at most one worker at
any time, so it moves in two phases (``next_step``):

    held = everything anybody may hold at this moment, whatever the target says
    keep = held and targeted             stays
    revoke = held and not targeted       is asked back; still counts as held until it is
    acknowledged grant = targeted and held by nobody  is given

And a task with state moves only to where its state is (``staging``): until then it stays, or goes
to whoever has a caught-up copy, while a warm-up task is restored where it is to be in the end.
Asked again whenever a copy has caught up, so a warm-up is promoted at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.assignor.group import CAUGHT_UP, NOWHERE, GroupAssignment
from headwater.assignor.staging import Holder, Rules, Why, copies, stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.ids import TaskId

__all__ = ["Holder", "Rules", "Step", "Why", "next_step", "refine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one worker may hold now, and what changes.

    Attributes:
        hold: the tasks it may hold from now on: those it keeps and those it is granted, sorted.
        granted: the new ones among them, sorted.
        revoked: tasks it holds and has to release, sorted.
        waiting: tasks meant for it that it cannot have yet, sorted.
        standby: tasks of which it is to keep a standby, sorted.
        warmup: tasks it is to restore in order to take them over, sorted.
        why: of every task that is new here in its role.
    """

    hold: tuple[TaskId, ...] = ()
    granted: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    waiting: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    warmup: tuple[TaskId, ...] = ()
    why: Mapping[TaskId, Why] = field(default_factory=dict)


def refine(target: GroupAssignment, holders: Sequence[Holder], rules: Rules) -> dict[str, Step]:
    """Decide what each worker may hold now.

    Args:
        target: the assignment to arrive at.
        holders: every worker there is, lost and leaving ones too.
        rules: which tasks move behind warm-ups, and how many at a time.

    Returns:
        A step for every worker.
    """
    workers = {holder.name: holder for holder in holders}
    staged = stage(target, workers, rules)
    steps = next_step(
        GroupAssignment(active=staged),
        {name: holder.held for name, holder in workers.items()},
        {name: holder.releasing for name, holder in workers.items()},
    )
    steps = {
        name: _only_what_it_can_take(workers[name], steps.get(name, Step())) for name in workers
    }
    hold = {name: frozenset(step.hold) for name, step in steps.items()}
    placed = copies(target, staged, hold, workers, rules)
    return {
        name: replace(
            step,
            standby=tuple(sorted(placed.standby.get(name, ()))),
            warmup=tuple(sorted(placed.warmup.get(name, ()))),
            why={**_why_granted(workers[name], step, rules), **placed.why.get(name, {})},
        )
        for name, step in steps.items()
    }


def next_step(
    target: GroupAssignment,
    held: Mapping[str, frozenset[TaskId]],
    releasing: Mapping[str, frozenset[TaskId]],
) -> dict[str, Step]:
    """Decide what each worker may hold now if tasks move at once.

    Args:
        target: the assignment to arrive at.
        held: by worker, every task it may hold at this moment, in whatever state; lost and leaving
            workers too.
        releasing: by worker, those of its held tasks that were asked back already. Such a task is
            not simply kept when the target changes its mind: it is granted afresh once it is
            released.

    Returns:
        A step for every worker that is in the target or holds something.
    """
    holders: dict[TaskId, set[str]] = {}
    for name, tasks in held.items():
        for task in tasks:
            holders.setdefault(task, set()).add(name)
    steps: dict[str, Step] = {}
    for name in sorted({*target.active, *held}):
        wanted = frozenset(target.active.get(name, ()))
        mine = held.get(name, frozenset())
        kept = (mine & wanted) - releasing.get(name, frozenset())
        granted = frozenset(task for task in wanted if task not in holders)
        steps[name] = Step(
            hold=tuple(sorted(kept | granted)),
            granted=tuple(sorted(granted)),
            revoked=tuple(sorted(mine - kept)),
            waiting=tuple(sorted(wanted - kept - granted)),
        )
    return steps


def _only_what_it_can_take(worker: Holder, step: Step) -> Step:
    if not step.granted or worker.can_take:
        return step
    kept: tuple[TaskId, ...] = tuple(task for task in step.hold if task not in step.granted)
    return Step(
        hold=kept, revoked=step.revoked, waiting=tuple(sorted({*step.waiting, *step.granted}))
    )


def _why_granted(worker: Holder, step: Step, rules: Rules) -> dict[TaskId, Why]:
    found: dict[TaskId, Why] = {}
    for task in step.granted:
        near = worker.near.get(task, NOWHERE)
        if task not in rules.movable or near == NOWHERE:
            found[task] = Why.LEVEL
        else:
            found[task] = Why.CAUGHT_UP if near == CAUGHT_UP else Why.NEAREST
    return found
