"""The rows of workers, tasks and copies, from what was found out about the workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model import metrics
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater_operator.decide.observed import ProcessState
from headwater_operator.overview.snapshot import CopyRow, TaskRow, WorkerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.ids import TaskId
    from headwater.model.cluster import TaskStatus
    from headwater_operator.overview.seen import SeenWorker

    RateOf = Callable[[tuple[str, TaskId], int], float | None]

_SILENT_S: Final = 30.0


def task_rows(seen: Sequence[SeenWorker], rate: RateOf) -> tuple[TaskRow, ...]:
    """Return a row for each task that a worker holds or is to hold, by task.

    Args:
        seen: all workers of an application.
        rate: turns a task's count of records into a rate, ``None`` if it cannot yet: then the rate
            that the worker itself has told is shown.
    """
    rows: dict[TaskId, TaskRow] = {}
    for one in seen:
        spec, name = one.worker.spec, one.worker.name
        why = _reasons(one)
        for task in spec.active:
            row = TaskRow(task=task, state="GRANTED", worker=name, why=why.get(task, ""))
            rows.setdefault(task, row)
        for task in spec.revoking:
            rows.setdefault(task, TaskRow(task=task, state="REVOKING", worker=name))
        if not one.is_alive or not one.has_reported:
            continue
        for held in one.worker.status.tasks:
            if held.role is Role.ACTIVE:
                rows[held.task] = _held_row(one, held, why.get(held.task, ""), rate)
    copies, stored = _copies(seen), _stored(seen)
    return tuple(
        replace(rows[task], copies=copies.get(task, ()), stored=stored.get(task, {}))
        for task in sorted(rows)
    )


def worker_rows(
    seen: Sequence[SeenWorker], tasks: Sequence[TaskRow], *, may_ask: bool = True
) -> tuple[WorkerRow, ...]:
    """Return a row for each worker, in their order.

    Args:
        seen: all workers of an application.
        tasks: its tasks.
        may_ask: whether workers may be asked for their numbers; else none is silent.
    """
    held: dict[str, list[TaskRow]] = {}
    for row in tasks:
        held.setdefault(row.worker, []).append(row)
    return tuple(_worker_row(one, held.get(one.worker.name, []), may_ask=may_ask) for one in seen)


def _held_row(one: SeenWorker, held: TaskStatus, why: str, rate: RateOf) -> TaskRow:
    numbers, task, name = one.numbers, held.task, str(held.task)
    row = TaskRow(task=task, state=str(held.state), worker=one.worker.name, slot=held.slot, why=why)
    processed = numbers.count(metrics.TASK_PROCESS, name)
    if processed is None:
        return row
    per_s = rate((one.worker.name, task), processed)
    if per_s is None:
        per_s = numbers.value(metrics.TASK_PROCESS_RATE, name) or 0.0
    return replace(
        row,
        processed=processed,
        lag=numbers.count(metrics.RECORDS_LAG, name),
        records_per_s=per_s,
        restored=numbers.count(metrics.LAST_RESTORED_RECORDS, name) or 0,
        remaining=numbers.count(metrics.RESTORE_REMAINING_RECORDS, name),
        committed=one.committed.get(task, {}),
        state_bytes=one.state_bytes.get(task),
    )


def _copies(seen: Sequence[SeenWorker]) -> dict[TaskId, tuple[CopyRow, ...]]:
    """Return the standby and warm-up tasks there are to be, with what is known of each."""
    found: dict[TaskId, tuple[CopyRow, ...]] = {}
    for one in seen:
        is_known = one.is_alive and one.has_reported
        said = {held.task: held for held in one.worker.status.tasks} if is_known else {}
        why = _reasons(one)
        for role in (Role.STANDBY, Role.WARMUP):
            for task in one.worker.spec.tasks_of(role):
                known = said.get(task)
                behind, is_rounded = _behind(one, known, task)
                row = CopyRow(
                    worker=one.worker.name,
                    role=role,
                    behind=behind,
                    is_rounded=is_rounded,
                    is_caught_up=known is not None and known.caught_up,
                    why=why.get(task, ""),
                )
                found[task] = (*found.get(task, ()), row)
    return found


def _behind(one: SeenWorker, known: TaskStatus | None, task: TaskId) -> tuple[int | None, bool]:
    """Return how far a copy is behind, and whether that is the rounded lag of the status."""
    exact = one.numbers.count(metrics.STANDBY_RECORDS_LAG, str(task))
    if exact is not None or one.has_told:
        return exact, False
    if known is None or known.role is Role.ACTIVE or known.lag >= LAG_UNKNOWN:
        return None, False
    return known.lag, True


def _stored(seen: Sequence[SeenWorker]) -> dict[TaskId, dict[str, int]]:
    found: dict[TaskId, dict[str, int]] = {}
    for one in seen:
        for stored in one.worker.status.stored:
            found.setdefault(stored.task, {})[one.worker.name] = stored.offset_bucket
    return found


def _reasons(one: SeenWorker) -> Mapping[TaskId, str]:
    return {task: place.reason for place in one.worker.spec.why for task in place.tasks}


def _worker_row(one: SeenWorker, own: Sequence[TaskRow], *, may_ask: bool) -> WorkerRow:
    spec, error = one.worker.spec, one.worker.status.error
    return WorkerRow(
        name=one.worker.name,
        state=_worker_state(one),
        pid=one.pid if one.is_alive else 0,
        is_alive=one.is_alive and not one.waits_for,
        node=one.node,
        revision=one.revision,
        lease_age_s=one.lease_age_s if one.is_alive else None,
        tasks=len(own),
        copies=len(spec.standby) + len(spec.warmup),
        records_per_s=sum(row.records_per_s for row in own),
        open_transactions=one.numbers.total(metrics.TRANSACTION_OPEN),
        restored=one.numbers.count(metrics.RESTORE_RECORDS) or 0,
        filling=one.numbers.count(metrics.GLOBAL_REMAINING),
        problem=error.message if error is not None else one.ended or one.waits_for,
        is_silent=may_ask and _is_silent(one),
    )


def _is_silent(one: SeenWorker) -> bool:
    is_running = one.is_alive and not one.waits_for and not one.is_stopping
    return is_running and bool(one.worker.status.endpoint) and not one.has_told


def _worker_state(one: SeenWorker) -> str:
    if one.process is ProcessState.UNKNOWN:
        return "silent"
    if not one.is_alive:
        return "stopped" if one.was_stopped else "ended"
    return "stopping" if one.is_stopping else _state_of_a_process(one)


def _state_of_a_process(one: SeenWorker) -> str:
    if one.worker.spec.is_fencing:
        return "fenced"
    if one.waits_for:
        return "pending"
    if one.lease_age_s is None:
        return "running" if one.is_ready else "starting"
    if not one.worker.status.endpoint and not one.is_ready:
        return "starting"
    return "silent" if one.lease_age_s > _SILENT_S else "running"
