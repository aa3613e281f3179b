"""How many workers a load needs, and when another one would come too late."""

from __future__ import annotations

from dataclasses import replace

from headwater.ids import TaskId
from headwater.model.streamapp_autoscaling import (
    AutoscalingSpec,
    ScaleUpBehavior,
    ScalingBehavior,
)
from headwater_operator.decide.autoscaling import sizing
from headwater_operator.decide.autoscaling.load import Load, Reading, learn
from headwater_operator.decide.autoscaling.sizing import Shape
from headwater_operator.decide.autoscaling.verdict import (
    ScalingMemory,
    Seen,
    Verdict,
    Why,
    advise,
    sample_every_ms,
)

POLICY = AutoscalingSpec(
    max_replicas=9,
    target_catch_up_ms=30_000,
    behavior=ScalingBehavior(scale_up=ScaleUpBehavior(stabilization_window_ms=10_000)),
)
TASKS = [TaskId(0, number) for number in range(6)]


def readings(processed: int, lag: int, busy: float | None = 1.0) -> dict[TaskId, Reading]:
    """What two workers with one StreamThread each tell."""
    return {
        task: Reading(thread=f"w-{number % 2}", processed=processed, lag=lag, busy=busy)
        for number, task in enumerate(TASKS)
    }


def after(state: int, *, rate: int, lags: list[int]) -> Verdict:
    """The verdict on two workers once a number has been right during the window.

    Args:
        state: changelog records.
        rate: records per second that each task processes.
        lags: of each task, sample by sample.
    """
    memory, every_ms = ScalingMemory(), sample_every_ms(POLICY)
    for number, lag in enumerate(lags):
        seen = Seen(
            replicas=2,
            shape=Shape(tasks=6, threads=1, state=state),
            readings=readings(rate * every_ms * number // 1000, lag),
            bounds=(1, 9),
        )
        verdict, memory = advise(POLICY, seen, memory, 1 + number * every_ms)
        if verdict.why in (Why.UP, Why.GONE_BEFORE):
            return verdict
    raise AssertionError(verdict)


FALLING = [20_000 - number * 200 for number in range(12)]
"""Two workers work it off, not within the target."""


def test_no_worker_is_added_that_would_have_warmed_up_when_the_lag_is_gone():
    assert after(10**6, rate=400, lags=FALLING).why is Why.UP
    late = after(10**9, rate=400, lags=FALLING)

    assert (late.why, late.replicas) == (Why.GONE_BEFORE, 2)
    assert "before another one has warmed up" in late.reason


def test_one_is_added_whatever_it_costs_when_the_lag_would_never_go():
    growing = [20_000 + number * 300 for number in range(12)]

    assert after(10**9, rate=400, lags=growing).why is Why.UP


def test_a_target_in_records_counts_what_is_beyond_half_of_it():
    load = Load(readings=readings(0, 100), capacity=100, is_measured=True)
    policy = AutoscalingSpec(max_replicas=9, target_lag=1_200)

    assert sum(sizing.backlog(policy, load).values()) == 0
    more = replace(load, readings=readings(0, 300))
    assert round(sum(sizing.backlog(policy, more).values())) == round((1_800 - 600) / 120)


def test_a_guessed_capacity_is_less_than_what_the_busy_share_says():
    first = learn(Load(), readings(0, 0, busy=0.5), 0, is_calm=True)
    guessed = learn(first, readings(1_000, 0, busy=0.5), 10_000, is_calm=True)

    # Three tasks of a thread, 100 records per second each, in half of its time.
    assert (guessed.is_measured, round(guessed.capacity)) == (False, 480)
    assert round(guessed.arrival) == 600


def test_a_capacity_is_measured_behind_and_not_while_tasks_move():
    first = learn(Load(), readings(0, 9_000), 0, is_calm=True)
    moving = learn(first, readings(1_000, 9_000), 10_000, is_calm=False)
    behind = learn(first, readings(1_000, 9_000), 10_000, is_calm=True)

    assert moving.capacity == 0
    assert (behind.is_measured, round(behind.capacity)) == (True, 300)


def test_a_task_that_has_another_stream_thread_is_counted_from_its_next_sample():
    first = learn(Load(), readings(5_000, 0), 0, is_calm=True)
    moved = {task: replace(each, thread="w-2") for task, each in readings(10, 0).items()}

    assert learn(first, moved, 10_000, is_calm=True).processed == 0


def test_without_a_share_of_its_time_nothing_is_guessed():
    first = learn(Load(), readings(0, 0, busy=None), 0, is_calm=True)

    assert learn(first, readings(1_000, 0, busy=None), 10_000, is_calm=True).capacity == 0
