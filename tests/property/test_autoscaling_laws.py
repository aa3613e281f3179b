"""What holds of every decision about the number of workers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.ids import TaskId
from headwater.model.streamapp_autoscaling import AutoscalingMode, AutoscalingSpec
from headwater_operator.decide.autoscaling import sizing
from headwater_operator.decide.autoscaling.load import Load, Reading
from headwater_operator.decide.autoscaling.sizing import Shape
from headwater_operator.decide.autoscaling.verdict import (
    ScalingMemory,
    Seen,
    Why,
    advise,
    sample_every_ms,
)
from headwater_operator.decide.autoscaling.windows import Window

rates = st.floats(min_value=0, max_value=1e6)
shapes = st.builds(
    Shape,
    tasks=st.integers(1, 40),
    threads=st.integers(1, 4),
    state=st.integers(0, 10**9),
)
bounds = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))
numbers = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 50_000)), max_size=5)
samples = st.lists(numbers, max_size=25)
policies = st.one_of(
    st.builds(
        AutoscalingSpec,
        mode=st.sampled_from(AutoscalingMode),
        max_replicas=st.just(9),
        target_catch_up_ms=st.integers(0, 600_000),
    ),
    st.builds(AutoscalingSpec, max_replicas=st.just(9), target_lag=st.integers(1, 100_000)),
)


def readings_of(told: list[tuple[int, int]], done: dict[int, int]) -> dict[TaskId, Reading]:
    """What workers tell after each task has processed so many more and has such a lag."""
    for task, (processed, _) in enumerate(told):
        done[task] = done.get(task, 0) + processed
    return {
        TaskId(0, task): Reading(thread=f"w-{task % 2}", processed=done[task], lag=lag, busy=0.5)
        for task, (_, lag) in enumerate(told)
    }


@given(policies, shapes, bounds, st.integers(1, 9), samples, st.data())
def test_the_number_is_within_its_bounds_and_changes_only_while_all_is_settled(
    policy: AutoscalingSpec,
    shape: Shape,
    within: tuple[int, int],
    replicas: int,
    told: list[list[tuple[int, int]]],
    data: st.DataObject,
) -> None:
    memory, done, every_ms = ScalingMemory(), dict[int, int](), sample_every_ms(policy)
    for count, each in enumerate(told, 1):
        unsettled, unread = (
            data.draw(st.sampled_from(["", "a move"])),
            data.draw(st.sampled_from(["", "", "w-0 does not answer"])),
        )
        seen = Seen(
            replicas=replicas,
            shape=shape,
            readings=readings_of(each, done),
            unsettled=unsettled,
            unread=unread,
            bounds=within,
        )
        verdict, after = advise(policy, seen, memory, count * every_ms)
        # Asked again about the same, it says the same.
        assert advise(policy, seen, memory, count * every_ms) == (verdict, after)
        memory = after
        assert within[0] <= verdict.replicas <= within[1]
        if within[0] <= replicas <= within[1] and unsettled:
            assert (verdict.replicas, verdict.why) == (replicas, Why.UNSETTLED)
        if verdict.replicas > replicas and verdict.why is not Why.BOUNDS:
            assert verdict.replicas <= max(within[0], shape.most_useful)
        assert verdict.reason
        replicas = verdict.replicas


@given(shapes, rates, rates, st.floats(min_value=0.1, max_value=1e6))
def test_the_fewest_workers_that_can_process_a_rate_are_wanted(
    shape: Shape, rate: float, more: float, capacity: float
) -> None:
    load = Load(capacity=capacity, is_measured=True)
    count = sizing.wanted(rate, load, shape, margin=1.0)

    assert 1 <= count <= shape.most_useful
    assert count <= sizing.wanted(rate + more, load, shape, margin=1.0)
    assert count <= sizing.wanted(rate, load, shape, margin=sizing.DOWN_MARGIN)
    if count < shape.most_useful:
        assert sizing.throughput(load, shape, count) >= rate * (1 - 1e-9)
    if count > 1:
        assert sizing.throughput(load, shape, count - 1) <= rate * (1 + 1e-9)
    assert shape.fullest(shape.useful(count)) == shape.fullest(count)


@given(st.integers(2, 20), st.floats(1, 1e5), st.floats(1, 50))
def test_what_no_worker_can_help_asks_for_none(tasks: int, capacity: float, times: float) -> None:
    policy = AutoscalingSpec(max_replicas=9, target_lag=1)
    arrivals = {TaskId(0, number): capacity / 10 for number in range(tasks)}
    one = replace(
        Load(capacity=capacity, is_measured=True), arrivals={**arrivals, TaskId(0, 0): capacity}
    )
    more = replace(one, arrivals={**arrivals, TaskId(0, 0): capacity * times})

    assert sizing.demand(policy, more) == sizing.demand(policy, one)
    assert sizing.hot(more) == [TaskId(0, 0)]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1), st.integers(0, 60))
def test_a_window_has_the_worst_number_of_its_time_and_none_before_it_is_full(
    steps: list[tuple[int, int]], length_ms: int
) -> None:
    window, now_ms, seen = Window(), 0, list[tuple[int, int]]()
    for step_ms, number in steps:
        now_ms += step_ms
        seen.append((now_ms, number))
        window = window.with_number(now_ms, number, length_ms, min)
    told = window.number(now_ms, length_ms, min)

    if now_ms - seen[0][0] < length_ms:
        assert told is None
    else:
        inside = [number for at_ms, number in seen if at_ms >= now_ms - length_ms]
        assert told == min(inside)
    assert window.number(now_ms + length_ms + 1, length_ms, min) is None
    assert len(window.entries) <= 62
