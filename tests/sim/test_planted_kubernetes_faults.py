"""A simulation that cannot fail proves nothing: each mistake planted in the operator is found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.sim.kubernetes.action_faults import (
    JobBesideWorkers,
    LostWithItsLeader,
    NobodyWaits,
    ResetsTwice,
    RestartsByName,
)
from tests.sim.kubernetes.autoscaling import ScalesWithoutWarmUp
from tests.sim.kubernetes.changes import GrownOnTheWrongWorker, LiveChangeRolls
from tests.sim.kubernetes.faults import (
    ActionBeforeIntent,
    ClaimLeft,
    EpochNotChecked,
    GrantBeforeFence,
    MoveOutsideAWindow,
    NeededMoveWaits,
    PausedTooEarly,
    ReadyTooEarly,
    VolumeOfALivingPod,
    WarmCopyGivenUp,
)
from tests.sim.kubernetes.run import simulate
from tests.sim.kubernetes.secret import NeverRollsOut, RollsOutAgain
from tests.sim.kubernetes.shards import EqualEpochs, KeepsWhatItHad
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from tests.sim.kubernetes.plan import Mistake

pytestmark = pytest.mark.slow

SEEDS = 200


def first_violation(mistake: type[Mistake], first: int, **users: bool) -> str:
    """The first sentence that a law says about a mistake, over many seeds.

    The search begins where it has ended before: as long as nothing has changed, it ends at once.
    """
    for number in range(first, first + SEEDS):
        try:
            simulate(f"planted-{number}", mistake=mistake(), **users)
        except ViolationError as violation:
            return f"{number}: {str(violation).splitlines()[0]}"
    pytest.fail(f"{mistake.__name__} was not found in {SEEDS} seeds")


@pytest.mark.parametrize(
    ("mistake", "first", "found"),
    [
        (GrantBeforeFence, 33, "can both commit|but the changelog says"),
        (VolumeOfALivingPod, 2, "attached to two living pods|can both commit"),
        (EpochNotChecked, 84, "epoch of .* goes down|is granted to|can both commit"),
        (WarmCopyGivenUp, 19, "only warm copy of .* is given up"),
        (ActionBeforeIntent, 0, "acts before its intent"),
        (PausedTooEarly, 10, "said to have paused, and .* has not"),
        (ReadyTooEarly, 2, "tools that wait go on"),
        (ClaimLeft, 23, "claims without a worker"),
        (MoveOutsideAWindow, 34, "moves from .* outside a window"),
        (NeededMoveWaits, 2, "not settled"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_planted_in_the_operator_is_found(mistake: type[Mistake], first: int, found: str):
    assert re.search(found, first_violation(mistake, first))


@pytest.mark.parametrize(
    ("mistake", "first", "found"),
    [
        (RestartsByName, 0, "more processes than before|is restarted"),
        (NobodyWaits, 0, "run at the same time"),
        (LostWithItsLeader, 0, "the action .* is Running"),
        (ResetsTwice, 0, "is reset once more"),
        (JobBesideWorkers, 0, "begins while .* can commit"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_about_actions_is_found(mistake: type[Mistake], first: int, found: str):
    assert re.search(found, first_violation(mistake, first, acts=True))


@pytest.mark.parametrize(
    ("mistake", "first", "found"),
    [
        (LiveChangeRolls, 0, "because of a live change|another revision|are rolled out"),
        (GrownOnTheWrongWorker, 0, "the volume of .* is too small"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_about_live_changes_is_found(mistake: type[Mistake], first: int, found: str):
    assert re.search(found, first_violation(mistake, first, changes=True))


def test_a_number_that_changes_without_a_warm_up_is_found():
    said = first_violation(ScalesWithoutWarmUp, 0, autoscales=True)

    assert re.search("where no warm-up can follow", said)


@pytest.mark.parametrize(
    ("mistake", "first", "found"),
    [
        (EqualEpochs, 0, "not settled|granted to|goes down"),
        (KeepsWhatItHad, 0, "that is another's"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_in_a_hand_over_between_operators_is_found(
    mistake: type[Mistake], first: int, found: str
):
    assert re.search(found, first_violation(mistake, first, shards=True))


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (NeverRollsOut, "not settled: .* runs with"),
        (RollsOutAgain, "changes are rolled out, and there were"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_about_a_secret_that_changes_is_found(mistake: type[Mistake], found: str):
    assert re.search(found, first_violation(mistake, 0, watches=True))
