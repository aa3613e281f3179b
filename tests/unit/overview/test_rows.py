"""The rows of an overview, from what was found out about the workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import (
    LAG_UNKNOWN,
    Placement,
    Role,
    StoredTask,
    StreamWorker,
    TaskStatus,
    WorkerSpec,
    WorkerStatus,
)
from headwater.model.lifecycle import TaskState
from headwater.model.metrics import Snapshot as Numbers
from headwater.model.streamapp import parse
from headwater_operator.decide.observed import ProcessState
from headwater_operator.overview.application import snapshot_of
from headwater_operator.overview.rates import Rates
from headwater_operator.overview.rows import task_rows, worker_rows
from headwater_operator.overview.seen import SeenWorker

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
NEAREST, LEVEL = "its state here was the nearest", "the load is level so"


def first(**fields: Any) -> SeenWorker:
    """The worker with the active tasks, which has told its numbers."""
    spec = WorkerSpec(
        app="app",
        active=(TASK,),
        revoking=(OTHER,),
        why=(Placement(reason=NEAREST, tasks=(TASK,)),),
    )
    status = WorkerStatus(
        incarnation="i",
        endpoint="w:8080",
        tasks=(TaskStatus(task=TASK, state=TaskState.RUNNING, slot=1),),
    )
    counts = {metrics.TASK_PROCESS: 70, metrics.TASK_PROCESS_RATE: 7.0, metrics.RECORDS_LAG: 12}
    seen = SeenWorker(
        worker=StreamWorker(name="app-w-0", spec=spec, status=status),
        process=ProcessState.RUNNING,
        lease_age_s=1.0,
        has_told=True,
        numbers=Numbers.of(counts, str(TASK)),
        committed={TASK: {"orders-0": 7}},
        state_bytes={TASK: 4_096},
    )
    return replace(seen, **fields)


def second(lag: int, *, has_told: bool = False) -> SeenWorker:
    """The worker with a standby of it, whose status has its lag rounded."""
    spec = WorkerSpec(
        app="app", standby=(TASK,), why=(Placement(reason=LEVEL, tasks=(TASK, OTHER)),)
    )
    held = TaskStatus(task=TASK, state=TaskState.RUNNING, role=Role.STANDBY, lag=lag)
    stored = StoredTask(task=OTHER, offset_bucket=20_000)
    status = WorkerStatus(incarnation="j", endpoint="v:8080", tasks=(held,), stored=(stored,))
    return SeenWorker(
        worker=StreamWorker(name="app-w-1", spec=spec, status=status),
        process=ProcessState.RUNNING,
        lease_age_s=1.0,
        has_told=has_told,
        numbers=Numbers.of({metrics.STANDBY_RECORDS_LAG: 1_203}, str(TASK))
        if has_told
        else Numbers(),
    )


def rate(_key: tuple[str, TaskId], _count: int) -> float | None:
    return None


def test_a_row_of_a_task_has_what_status_and_numbers_tell_of_it() -> None:
    row, revoked = task_rows([first(), second(10_000)], rate)

    assert (row.task, row.state, row.worker, row.slot) == (TASK, "RUNNING", "app-w-0", 1)
    assert (row.lag, row.records_per_s, row.processed) == (12, 7.0, 70)
    assert (row.why, row.committed, row.state_bytes) == (NEAREST, {"orders-0": 7}, 4_096)
    assert (revoked.task, revoked.state, revoked.stored) == (OTHER, "REVOKING", {"app-w-1": 20_000})


def test_a_copy_has_the_exact_lag_where_its_worker_tells_it_and_else_the_rounded_one() -> None:
    [exact] = task_rows([first(), second(10_000, has_told=True)], rate)[0].copies
    [rounded] = task_rows([first(), second(10_000)], rate)[0].copies
    [unknown] = task_rows([first(), second(LAG_UNKNOWN)], rate)[0].copies

    assert (exact.behind, exact.is_rounded, exact.why) == (1_203, False, LEVEL)
    assert (rounded.behind, rounded.is_rounded) == (10_000, True)
    assert (unknown.behind, unknown.is_rounded) == (None, False)


def test_the_status_of_a_process_that_has_ended_counts_no_more() -> None:
    gone = first(process=ProcessState.ENDED, ended="killed by SIGKILL")
    [row, _] = task_rows([gone], rate)

    assert (row.state, row.why) == ("GRANTED", NEAREST)
    [worker] = worker_rows([gone], [row])
    assert (worker.state, worker.problem, worker.is_alive) == ("ended", "killed by SIGKILL", False)


def test_a_worker_is_called_by_what_is_known_of_its_process() -> None:
    def state(**fields: Any) -> str:
        return worker_rows([first(**fields)], [])[0].state

    assert state() == "running"
    assert state(lease_age_s=31.0) == "silent"
    assert state(lease_age_s=None) == "starting"
    assert state(lease_age_s=None, is_ready=True) == "running"
    assert state(waits_for="a node") == "pending"
    assert state(is_stopping=True) == "stopping"
    assert state(process=ProcessState.UNKNOWN) == "silent"
    assert state(process=ProcessState.NONE, was_stopped=True) == "stopped"


def test_an_overview_says_of_whom_no_exact_numbers_are_known() -> None:
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "app"},
        "spec": {"topology": {"module": "a:b"}, "replicas": 2},
    }
    seen = [first(), second(10_000)]
    found = snapshot_of(parse(document), AppStatus(), seen, rate=rate, why_silent="not allowed")
    exact = snapshot_of(parse(document), AppStatus(), seen[:1], rate=rate)

    assert found.inexact.startswith("no exact numbers of app-w-1: not allowed;")
    assert (exact.inexact, exact.lag, exact.records_per_s) == ("", 12, 7.0)


def test_a_rate_is_known_from_the_second_look_on() -> None:
    times = iter([0.0, 2.0, 3.0])
    rates = Rates(lambda: next(times))

    assert [rates.add("a", count) for count in (10, 30, 50)] == [None, 10.0, pytest.approx(40 / 3)]


def test_a_worker_that_counts_as_running_and_does_not_answer_is_silent() -> None:
    def is_silent(one: SeenWorker, **how: bool) -> bool:
        [row] = worker_rows([one], (), **how)
        return row.is_silent

    deaf = first(has_told=False)

    assert is_silent(deaf)
    assert not is_silent(first())
    # Nobody may ask, it is on its way out, it waits, or it is known to have ended.
    assert not is_silent(deaf, may_ask=False)
    for fields in (
        {"is_stopping": True},
        {"waits_for": "an image"},
        {"process": ProcessState.ENDED},
    ):
        assert not is_silent(replace(deaf, **fields))  # type: ignore[arg-type]
