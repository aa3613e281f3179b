"""Why a task is where it is, what it waits for, and what would move it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.errors import SpecError
from headwater.ids import TaskId
from headwater.model.appstatus import TaskCounts
from headwater.model.cluster import Role
from headwater.model.topics import ChangelogTopic, SubtopologyReport, TopologyReport
from headwater_operator.overview.events import Event, EventKind
from headwater_operator.overview.reasons import explain, task_named
from headwater_operator.overview.snapshot import CopyRow, Snapshot, TaskRow, WorkerRow

TASK = TaskId(1, 0)
STATEFUL = TopologyReport(
    hash="h",
    subtopologies=(
        SubtopologyReport(id=0),
        SubtopologyReport(id=1, changelogs=(ChangelogTopic(name="c", store="s"),)),
    ),
)
RUNNING = TaskRow(task=TASK, state="RUNNING", worker="w-0", slot=0, why="its state was here")
FIRST = WorkerRow(name="w-0", state="running", is_alive=True)
SECOND = WorkerRow(name="w-1", state="running", is_alive=True)
APP = Snapshot(
    app="app", state="RUNNING", workers=(FIRST, SECOND), tasks=(RUNNING,), topology=STATEFUL
)


def with_row(**fields: object) -> Snapshot:
    return replace(APP, tasks=(replace(RUNNING, **fields),))  # type: ignore[arg-type]  # its fields


def with_holder(**fields: object) -> Snapshot:
    app = with_row(state="GRANTED")
    holder = replace(FIRST, **fields)  # type: ignore[arg-type]  # its fields
    return replace(app, workers=(holder, SECOND))


def copy(role: Role, **fields: object) -> CopyRow:
    return CopyRow(worker="w-1", role=role, **fields)  # type: ignore[arg-type]  # its fields


def test_a_task_that_runs_waits_for_nothing_and_has_its_reason_and_its_time() -> None:
    granted = [
        Event(at_ms=at, kind=EventKind.TASKS, text="takes", worker=worker, granted=(TASK,))
        for at, worker in ((5, "w-0"), (7, "w-0"), (9, "w-1"))
    ]
    told = explain(replace(APP, events=tuple(granted)), TASK)

    assert (told.waits_for, told.why, told.since_ms) == ("", "its state was here", 7)
    assert told.is_stateful is True


@pytest.mark.parametrize(
    ("app", "waits_for"),
    [
        (replace(APP, paused="paused"), "the application to be resumed: it is paused"),
        (with_row(state="RESTORING", remaining=1_203), "1,203 changelog records to be restored"),
        (with_row(state="REVOKING"), "w-0 to commit and close it; then it is granted elsewhere"),
        (with_row(state="GRANTED"), "w-0 to take notice of it"),
        (with_holder(filling=500), "500 records of global stores to be read"),
        (
            with_holder(state="pending", is_alive=False, problem="a node"),
            "w-0, which is pending: a node",
        ),
        (with_holder(state="ended", is_alive=False), "w-0, which is ended"),
        (replace(with_row(worker=""), failure="no broker"), ""),
    ],
)
def test_what_a_task_waits_for_is_named(app: Snapshot, waits_for: str) -> None:
    assert explain(app, TASK).waits_for == waits_for


@pytest.mark.parametrize(
    ("app", "moves"),
    [
        (APP, "It moves if w-0 is lost, drained or scaled away, and is then restored from its"),
        (
            with_row(copies=(copy(Role.STANDBY, is_caught_up=True),)),
            "It moves if w-0 is lost, drained or scaled away, at once to its standby on w-1",
        ),
        (
            with_row(copies=(copy(Role.STANDBY),)),
            "It moves if w-0 is lost, drained or scaled away, to its standby on w-1 once it has",
        ),
        (
            with_row(copies=(copy(Role.WARMUP, behind=1_203),)),
            "It moves to w-1 once the warm-up there has caught up: 1,203 changelog records left.",
        ),
        (
            with_row(copies=(copy(Role.WARMUP, behind=10_000, is_rounded=True),)),
            "It moves to w-1 once the warm-up there has caught up: up to 10,000 changelog records",
        ),
        (with_holder(state="silent"), "It moves as soon as w-0 is known to be gone and its slots"),
    ],
)
def test_one_sentence_says_what_would_move_a_task(app: Snapshot, moves: str) -> None:
    assert explain(app, TASK).moves.startswith(moves)


def test_a_task_without_state_moves_at_once() -> None:
    row = replace(RUNNING, task=TaskId(0, 0))
    told = explain(replace(APP, tasks=(row,)), TaskId(0, 0))

    assert told.is_stateful is False
    assert told.moves.startswith("It has no state: it moves at once if w-0 is lost")


def test_a_task_that_nobody_holds_is_explained_and_one_that_there_is_not_is_refused() -> None:
    lost = replace(
        APP, tasks=(), counts=TaskCounts(total=1, unassigned=1), reason="waiting for w-0"
    )

    told = explain(lost, TASK)

    assert (told.row.state, told.why, told.waits_for) == (
        "UNASSIGNED",
        "nobody holds it",
        "waiting for w-0",
    )
    with pytest.raises(SpecError, match=r"app has no task 7_0; its tasks: none yet"):
        explain(lost, TaskId(7, 0))
    with pytest.raises(SpecError, match=r"app has no task 1_9; its tasks: 1_0"):
        explain(APP, TaskId(1, 9))


def test_a_word_that_is_no_task_is_refused() -> None:
    assert task_named("1_0") == TASK
    for text in ("1", "one_0", "1-0", ""):
        with pytest.raises(SpecError, match="is no task: write sub-topology and partition"):
            task_named(text)
