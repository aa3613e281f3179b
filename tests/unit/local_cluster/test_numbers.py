"""What a worker serves is what the live view reads."""

from __future__ import annotations

import pytest

from headwater.ids import TaskId
from headwater.model.cluster import Role
from headwater.native.messages import Stats, TaskStats
from headwater.service.http import document
from headwater.service.view import TaskView, ThreadView, WorkerView
from headwater_operator.local.numbers import TaskNumbers, WorkerNumbers, fetch, parse

RUNNING, RESTORING, FOLLOWED = TaskId(0, 1), TaskId(1, 1), TaskId(1, 2)


def view() -> WorkerView:
    stats = TaskStats(
        task=RUNNING, processed=70, dropped=0, buffered=3, lag=12, stream_time=5, committed={}
    )
    thread = ThreadView(
        slot=0,
        state="RUNNING",
        pid=4711,
        restarts=0,
        records_per_s=7.0,
        stats=Stats(processed=70, commits=1, transaction_open=True, tasks=(stats,)),
        problem="",
    )
    running = TaskView(
        task=RUNNING,
        state="RUNNING",
        slot=0,
        records_per_s=7.0,
        stats=stats,
        restored=40,
        remaining=None,
    )
    restoring = TaskView(
        task=RESTORING,
        state="RESTORING",
        slot=0,
        records_per_s=0.0,
        stats=None,
        restored=30,
        remaining=60,
    )
    followed = TaskView(
        task=FOLLOWED,
        state="RUNNING",
        slot=0,
        records_per_s=0.0,
        stats=None,
        restored=0,
        remaining=1_203,
        role=Role.STANDBY,
    )
    return WorkerView(
        at_ms=1,
        application_id="app",
        worker="app-w-0",
        incarnation="i",
        epoch=7,
        has_lease=True,
        is_ready=False,
        is_stopping=False,
        threads=(thread,),
        tasks=(running, restoring, followed),
        restored_total=70,
    )


def test_the_numbers_of_a_worker_are_read_as_served() -> None:
    assert parse(document(view())) == WorkerNumbers(
        tasks={
            RUNNING: TaskNumbers(processed=70, lag=12, restored=40, remaining=None),
            RESTORING: TaskNumbers(processed=0, lag=None, restored=30, remaining=60),
            FOLLOWED: TaskNumbers(behind=1_203),
        },
        open_transactions=1,
        restored=70,
    )


@pytest.mark.parametrize("answer", [[], {}, {"tasks": 3}, {"tasks": [{"task": "x"}]}, None])
def test_another_answer_is_refused(answer: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse(answer)


def test_a_worker_that_does_not_answer_has_no_numbers() -> None:
    assert fetch("127.0.0.1:1") == WorkerNumbers()
