"""The operator is killed right before each thing it writes; the next one goes on from there.

In every row: no task is ever held by two workers, everything converges within two rounds, no volume
that is to be kept is lost, and none that is to go is left behind.
"""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.support.kube_fakes import names
from tests.support.kube_life import whole_life
from tests.support.kube_rig import NAMESPACE, KubeRig

from headwater import failpoints
from headwater_operator.act.gate import STEPS
from headwater_operator.kube.api import CLAIMS, CONFIG_MAPS, LEASES, PODS, STREAM_WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    failpoints.disarm()


_ROUNDS_TO_CONVERGE = 2
"""After a kill, besides the round that was killed."""
_ANOTHER_RESET = 6
"""A kill between the duty and the end of a reset costs another one: nothing tells of it."""


@cache
def undisturbed() -> int:
    """How many rounds the same life takes when nobody is killed."""
    rig = KubeRig()
    whole_life(rig)
    return rig.turns


@pytest.mark.parametrize(
    "hit",
    [
        1,
        # All together take half a minute; the next test kills at any hit.
        pytest.param(2, marks=[pytest.mark.slow, pytest.mark.soak]),
        pytest.param(4, marks=[pytest.mark.slow, pytest.mark.soak]),
    ],
)
@pytest.mark.parametrize("step", STEPS)
def test_killed_right_before_a_write_the_next_operator_goes_on(step: str, hit: int) -> None:
    most = undisturbed() + 1 + _ROUNDS_TO_CONVERGE
    rig = KubeRig()
    failpoints.arm(f"operator.{step}=error@{hit}")

    whole_life(rig)

    assert rig.kills == 1 or hit > 1, f"{step} is never written"
    if rig.workers.of("wc").resets > 1:
        most += _ANOTHER_RESET
    assert rig.turns <= most, "it takes too long to get back to where it was"
    rig.turn(4)
    assert len(names(rig.api.list(CLAIMS, NAMESPACE))) == 1
    for resource in (PODS, STREAM_WORKERS, LEASES, CONFIG_MAPS):
        assert rig.names(resource) == [], resource.plural


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_it_still_gets_there(seed: int) -> None:
    rig = KubeRig()
    chance = random.Random(seed)
    left = 10

    def kill(verb: str, plural: str, name: str) -> None:
        nonlocal left
        if rig.is_operator_at_work and verb not in {"get", "list"}:
            left -= 1
            if left == 0:
                left = chance.randint(3, 40)
                raise failpoints.FailpointError(f"seed {seed}")

    rig.api.on_call = kill

    whole_life(rig)

    assert rig.kills > 5
