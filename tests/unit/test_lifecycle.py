"""Legal moves of client, thread and task."""

from __future__ import annotations

import pytest

from headwater.model.lifecycle import (
    CLIENT_MOVES,
    TASK_MOVES,
    THREAD_MOVES,
    ClientState,
    IllegalTransitionError,
    TaskState,
    ThreadState,
    client_state_of,
    legal_moves,
    move,
)


def test_a_legal_move_returns_the_target():
    assert move(TaskState.CREATED, TaskState.RESTORING) is TaskState.RESTORING


def test_a_task_is_never_closed_without_being_suspended():
    with pytest.raises(IllegalTransitionError, match="task 0_1 cannot go from RUNNING to CLOSED"):
        move(TaskState.RUNNING, TaskState.CLOSED, subject="task 0_1")


def test_a_final_state_says_so():
    with pytest.raises(IllegalTransitionError, match="nothing: it is final"):
        move(ThreadState.DEAD, ThreadState.RUNNING)


@pytest.mark.parametrize(
    ("enum", "table"),
    [(ClientState, CLIENT_MOVES), (ThreadState, THREAD_MOVES), (TaskState, TASK_MOVES)],
    ids=["client", "thread", "task"],
)
def test_every_state_has_its_row_and_moves_stay_in_the_machine(enum, table):
    assert set(table) == set(enum)
    for state in enum:
        assert legal_moves(state) == table[state]
        assert all(type(target) is enum for target in table[state])


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        ([ThreadState.RUNNING, ThreadState.RUNNING], ClientState.RUNNING),
        ([ThreadState.RUNNING, ThreadState.PENDING_SHUTDOWN], ClientState.RUNNING),
        ([ThreadState.RUNNING, ThreadState.DEAD], ClientState.RUNNING),
        ([ThreadState.RUNNING, ThreadState.PARTITIONS_ASSIGNED], ClientState.REBALANCING),
        ([ThreadState.STARTING], ClientState.REBALANCING),
        ([], ClientState.REBALANCING),
    ],
)
def test_a_client_runs_when_all_its_live_threads_run(threads, expected):
    named = {f"t{index}": state for index, state in enumerate(threads)}

    assert client_state_of(named) is expected
