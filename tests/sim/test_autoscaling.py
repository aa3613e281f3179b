"""A day of varying load: the number of workers follows it, seldom, and only behind warm-ups."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.model.streamapp_autoscaling import (
    ScaleDownBehavior,
    ScaleUpBehavior,
    ScalingBehavior,
)
from headwater_operator.decide.autoscaling.verdict import (
    ScalingMemory,
    Seen,
    Verdict,
    Why,
    advise,
)
from tests.sim.autoscaling.__main__ import PICTURE, drawn
from tests.sim.autoscaling.day import simulate
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from headwater.model.streamapp_autoscaling import AutoscalingSpec
    from tests.sim.autoscaling.day import Advise

AT_ONCE = ScalingBehavior(
    scale_up=ScaleUpBehavior(stabilization_window_ms=0),
    scale_down=ScaleDownBehavior(stabilization_window_ms=0),
)


@pytest.mark.seeded(3)
def test_a_day_is_followed_seldom_and_only_where_a_warm_up_can_follow(seed: str) -> None:
    day = simulate(seed)

    print(f"seed {seed!r}: {len(day.moves)} changes of the number: {day.moves}")
    # What only this day has is seen: its schedule, its hot task, its way up and down.
    assert {Why.BOUNDS.name, Why.UP.name, Why.DOWN.name} <= {why for *_, why in day.moves}
    assert Why.HOT.name in {moment.why for moment in day.moments}
    # Twelve tasks spread evenly over six workers and over twelve; which it takes, the peak decides.
    assert max(moment.replicas for moment in day.moments) >= 6


def without_warm_ups(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> tuple[Verdict, ScalingMemory]:
    """Does not look whether tasks are where they are to be."""
    return advise(policy, replace(seen, unsettled=""), memory, now_ms)


def without_windows(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> tuple[Verdict, ScalingMemory]:
    """Takes what is right at this moment for what is right."""
    return advise(replace(policy, behavior=AT_ONCE), seen, memory, now_ms)


def without_bounds(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> tuple[Verdict, ScalingMemory]:
    """Passes over the schedule."""
    return advise(policy, replace(seen, bounds=(1, 12)), memory, now_ms)


def without_courage(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> tuple[Verdict, ScalingMemory]:
    """Adds no worker beyond the bounds, whatever waits."""
    verdict, memory = advise(policy, seen, memory, now_ms)
    if verdict.why is Why.UP:
        verdict = replace(verdict, replicas=seen.replicas)
    return verdict, memory


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (without_warm_ups, "where no warm-up can follow"),
        (without_windows, "within the stabilisation window|thrash"),
        (without_bounds, "outside 4 to 12"),
        (without_courage, "have waited beyond the target"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_planted_in_the_decision_is_found(mistake: Advise, found: str) -> None:
    with pytest.raises(ViolationError) as violation:
        simulate("planted", decide=mistake)

    assert re.search(found, str(violation.value))


def test_the_picture_of_the_page_is_that_of_a_day() -> None:
    assert PICTURE.read_text() == drawn()
    assert f"]({PICTURE.name})" in PICTURE.with_name("autoscaling.md").read_text()
