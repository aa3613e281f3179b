"""What the supervisor does next with a worker's process, and what the control loop makes of it."""

from __future__ import annotations

import pytest

from headwater_operator.decide.observed import ProcessState
from headwater_operator.local.observe import process_state
from headwater_operator.local.pods import Phase, Pod, PodProcess, Step, Wish, next_step

GRACE_MS = 1_000


def pod(attempt: int, wish: Wish = Wish.RUN) -> Pod:
    return Pod(attempt=attempt, wish=wish, command=("sleep", "60"), grace_ms=GRACE_MS)


def running(attempt: int) -> PodProcess:
    return PodProcess(attempt=attempt, phase=Phase.RUNNING, pid=100 + attempt, started="boot-1")


def ended(attempt: int) -> PodProcess:
    return PodProcess(attempt=attempt, phase=Phase.ENDED, pid=100 + attempt, started="boot-1")


@pytest.mark.parametrize(
    ("wanted", "process", "stopping_ms", "step"),
    [
        pytest.param(None, None, None, Step.NOTHING, id="nothing wanted, nothing there"),
        pytest.param(pod(1), None, None, Step.START, id="a new pod is started"),
        pytest.param(pod(1), running(1), None, Step.NOTHING, id="a running pod runs on"),
        pytest.param(pod(1), ended(1), None, Step.NOTHING, id="an attempt is started once only"),
        pytest.param(pod(2), ended(1), None, Step.START, id="the next attempt follows the end"),
        pytest.param(pod(2), running(1), None, Step.KILL, id="two attempts never run at once"),
        pytest.param(None, running(1), None, Step.KILL, id="a pod that is gone is killed"),
        pytest.param(pod(1, Wish.STOP), running(1), None, Step.TERMINATE, id="first it is asked"),
        pytest.param(pod(1, Wish.STOP), running(1), 999, Step.NOTHING, id="then it has its grace"),
        pytest.param(pod(1, Wish.STOP), running(1), 1_000, Step.KILL, id="then it is killed"),
        pytest.param(pod(1, Wish.KILL), running(1), None, Step.KILL, id="or killed at once"),
        pytest.param(pod(1, Wish.STOP), ended(1), None, Step.NOTHING, id="what ended stays ended"),
        pytest.param(
            pod(2, Wish.STOP), ended(1), None, Step.NEVER_START, id="stopped before it began"
        ),
    ],
)
def test_the_supervisor_does_what_the_pod_asks_for(
    wanted: Pod | None, process: PodProcess | None, stopping_ms: int | None, step: Step
) -> None:
    assert next_step(wanted, process, stopping_ms=stopping_ms) is step


@pytest.mark.parametrize(
    ("wanted", "process", "state"),
    [
        pytest.param(None, None, ProcessState.NONE, id="never started"),
        pytest.param(None, ended(1), ProcessState.NONE, id="ended and recorded"),
        pytest.param(None, running(1), ProcessState.RUNNING, id="gone from the wishes only"),
        pytest.param(pod(1), None, ProcessState.RUNNING, id="it may start at any moment"),
        pytest.param(pod(2), ended(1), ProcessState.RUNNING, id="so may the next attempt"),
        pytest.param(pod(2, Wish.STOP), ended(1), ProcessState.RUNNING, id="even when not wanted"),
        pytest.param(pod(1), running(1), ProcessState.RUNNING, id="running"),
        pytest.param(pod(1), ended(1), ProcessState.ENDED, id="ended"),
    ],
)
def test_only_the_end_of_the_latest_attempt_proves_a_death(
    wanted: Pod | None, process: PodProcess | None, state: ProcessState
) -> None:
    assert process_state(wanted, process) is state


def test_a_pod_and_its_process_survive_the_way_through_a_file() -> None:
    wanted = pod(7, Wish.STOP)
    process = PodProcess(attempt=7, phase=Phase.ENDED, pid=4711, started="boot-9", exit_code=-9)

    assert Pod.from_dict(wanted.to_dict(), path="pod.json") == wanted
    assert PodProcess.from_dict(process.to_dict(), path="process.json") == process
