"""The only warm copy of a task is never given up; and what forgets that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState
from headwater_operator.actions import Reason, WriteWorkerSpec
from headwater_operator.decide import Intent
from headwater_operator.decide.judge import judge
from tests.sim.loop import Loop
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ids import TaskId
    from headwater_operator.decide import Decision, Memory, Observed, WorkerView


def no_warm_copy_is_given_up(observed: Observed, decision: Decision, now_ms: int) -> None:
    """A decision leaves every task at least one of the places where it could go on at once.

    But for an application that is to stop: that gives up everything.
    """
    is_given_up = decision.status.failure is not None and decision.status.failure.is_final
    if observed.app.wanted_workers == 0 or observed.intent is not Intent.RUN or is_given_up:
        return
    writes = {
        action.worker: action for action in decision.actions if isinstance(action, WriteWorkerSpec)
    }
    warm: dict[TaskId, list[str]] = {}
    kept: set[TaskId] = set()
    for view in observed.workers:
        name = view.worker.name
        write = writes.get(name)
        is_lost = write is not None and write.reason is Reason.WORKER_LOST
        is_live = judge(view, decision.memory.of(name), now_ms).is_live
        if is_lost or not is_live or view.worker.spec.is_fencing:
            continue
        if has_waited(observed, decision, name, now_ms):
            continue
        spec = write.spec if write is not None else view.worker.spec
        stays = {*spec.active, *spec.standby, *spec.warmup}
        for task in warm_tasks(view):
            warm.setdefault(task, []).append(name)
            if task in stays:
                kept.add(task)
    for task, names in sorted(warm.items()):
        if task not in kept:
            raise ViolationError(f"the only warm copy of {task}, on {names}, is given up")


def has_waited(observed: Observed, decision: Decision, worker: str, now_ms: int) -> bool:
    """Whether a worker that is to go has waited for as long as the StreamApp allows."""
    since_ms = decision.memory.of(worker).leaving_ms
    limit_ms = observed.app.spec.scale_down.drain_timeout_ms
    return since_ms is not None and now_ms - since_ms >= limit_ms


def warm_tasks(view: WorkerView) -> Iterator[TaskId]:
    """Yield the tasks with state that a worker processes, or of which its copy has caught up."""
    spec, status = view.worker.spec, view.worker.status
    if spec.incarnation != status.incarnation:
        return
    for said in status.tasks:
        if said.task.subtopology == 0:
            continue
        if said.role is Role.ACTIVE:
            is_warm = said.state is TaskState.RUNNING and said.task in spec.active
        else:
            lag = view.lags.get(said.task)
            has_caught_up = said.caught_up if lag is None else lag <= spec.acceptable_lag
            is_warm = has_caught_up and said.task in {*spec.standby, *spec.warmup}
        if is_warm:
            yield said.task


class WarmCopyGivenUp(Loop):
    """Places copies anew after every loss, and takes them away until then."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        return without_copies(observed, super().decide(observed, memory, now_ms))


def without_copies(observed: Observed, decision: Decision) -> Decision:
    """A decision that takes all copies away for as long as any worker is being fenced."""
    if not any(view.worker.spec.is_fencing for view in observed.workers):
        return decision
    actions = tuple(
        replace(action, spec=replace(action.spec, standby=(), warmup=()))
        if isinstance(action, WriteWorkerSpec)
        else action
        for action in decision.actions
    )
    return replace(decision, actions=actions)
