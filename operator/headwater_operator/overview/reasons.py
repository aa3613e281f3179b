"""Why a task is where it is, what it waits for, and what would move it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.ids import TaskId
from headwater.model.cluster import Role
from headwater_operator.overview.snapshot import TaskRow, WorkerRow
from headwater_operator.overview.texts import number
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from headwater_operator.overview.snapshot import CopyRow, Snapshot

UNASSIGNED: Final = "UNASSIGNED"
_UNKNOWN: Final = "not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is to be said of one task.

    Attributes:
        row: the task; of one that nobody holds, with the state UNASSIGNED.
        since_ms: when its worker was given it, in milliseconds since the epoch; ``None`` if no
            event tells it any more.
        why: the reason for its place.
        waits_for: what keeps it from running; empty if it runs.
        moves: what would move it, as a sentence.
        is_stateful: whether it has stores with changelogs; ``None`` if not known.
    """

    row: TaskRow
    since_ms: int | None
    why: str
    waits_for: str
    moves: str
    is_stateful: bool | None = None


def explain(snapshot: Snapshot, task: TaskId) -> Explanation:
    """Say of a task where it is and why.

    Raises:
        SpecError: the application has no such task.
    """
    row = next((each for each in snapshot.tasks if each.task == task), None)
    if row is None:
        _expect(snapshot, task)
        row = TaskRow(task=task, state=UNASSIGNED)
    holder = next((each for each in snapshot.workers if each.name == row.worker), None)
    is_stateful = _is_stateful(snapshot, task)
    return Explanation(
        row=row,
        since_ms=_since(snapshot, row),
        why=row.why or (_UNKNOWN if row.worker else "nobody holds it"),
        waits_for=_waits_for(snapshot, row, holder),
        moves=_moves(snapshot, row, holder, is_stateful=is_stateful),
        is_stateful=is_stateful,
    )


def task_named(text: str) -> TaskId:
    """Return a task by its id, such as ``0_3``.

    Raises:
        SpecError: the text is no task id.
    """
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise SpecError(
            f"{text!r} is no task: write sub-topology and partition, such as 0_3"
        ) from error


def _expect(snapshot: Snapshot, task: TaskId) -> None:
    """Refuse a task that there cannot be: with a sub-topology that is not, or if all have rows."""
    groups = () if snapshot.topology is None else snapshot.topology.subtopologies
    is_known = not groups or any(group.id == task.subtopology for group in groups)
    if snapshot.unassigned and is_known:
        return
    known = ", ".join(str(row.task) for row in snapshot.tasks) or "none yet"
    raise SpecError(f"{snapshot.app} has no task {task}; its tasks: {known}")


def _is_stateful(snapshot: Snapshot, task: TaskId) -> bool | None:
    if snapshot.topology is None:
        return None
    return any(
        group.id == task.subtopology and group.changelogs
        for group in snapshot.topology.subtopologies
    )


def _since(snapshot: Snapshot, row: TaskRow) -> int | None:
    times = [
        event.at_ms
        for event in snapshot.events
        if event.worker == row.worker and row.task in event.granted
    ]
    return max(times, default=None)


def _waits_for(snapshot: Snapshot, row: TaskRow, holder: WorkerRow | None) -> str:
    if snapshot.paused:
        return "the application to be resumed: it is paused"
    if row.state == "RUNNING":
        return ""
    if holder is None:
        return snapshot.failure or snapshot.reason or "a worker to hold it"
    if not holder.is_alive or holder.problem:
        said = f": {holder.problem}" if holder.problem else ""
        return f"{holder.name}, which is {holder.state}{said}"
    return _step_of(row, holder) or snapshot.reason or "its StreamThread to open it"


def _step_of(row: TaskRow, holder: WorkerRow) -> str:
    """Return what a task that a living worker has waits for before it runs."""
    if row.state == "REVOKING":
        return f"{holder.name} to commit and close it; then it is granted elsewhere"
    if row.remaining is not None:
        return f"{counted(row.remaining, 'changelog record')} to be restored"
    if holder.filling is not None:
        return f"{counted(holder.filling, 'record')} of global stores to be read"
    return f"{holder.name} to take notice of it" if row.state == "GRANTED" else ""


def _moves(
    snapshot: Snapshot, row: TaskRow, holder: WorkerRow | None, *, is_stateful: bool | None
) -> str:
    warmup = next((copy for copy in row.copies if copy.role is Role.WARMUP), None)
    standbys = [copy for copy in row.copies if copy.role is Role.STANDBY]
    if not row.worker:
        return "It goes to the worker with the nearest state as soon as one may take it."
    if warmup is not None:
        left = "" if warmup.behind is None else f": {_left(warmup)} left"
        return f"It moves to {warmup.worker} once the warm-up there has caught up{left}."
    if holder is not None and holder.state in {"fenced", "silent", "ended"}:
        return (
            f"It moves as soon as {holder.name} is known to be gone and its slots are fenced"
            f"{_to(standbys, snapshot)}."
        )
    cause = f"if {row.worker} is lost, drained or scaled away"
    if is_stateful is False:
        return f"It has no state: it moves at once {cause}, or to level the load."
    if standbys:
        return f"It moves {cause}{_to(standbys, snapshot)}, or behind a warm-up to level the load."
    return (
        f"It moves {cause}, and is then restored from its changelogs, or behind a warm-up to level "
        "the load."
    )


def _to(standbys: list[CopyRow], snapshot: Snapshot) -> str:
    alive = {row.name for row in snapshot.workers if row.is_alive}
    ready = [copy.worker for copy in standbys if copy.is_caught_up and copy.worker in alive]
    if ready:
        return f", at once to its standby on {ready[0]}"
    return f", to its standby on {standbys[0].worker} once it has caught up" if standbys else ""


def _left(copy: CopyRow) -> str:
    assert copy.behind is not None
    return f"{'up to ' if copy.is_rounded else ''}{number(copy.behind)} changelog records"
