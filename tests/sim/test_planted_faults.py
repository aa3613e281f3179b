"""A simulation that cannot fail proves nothing: each planted mistake must be found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.sim.calling_faults import (
    CallsOfAbortedKept,
    CallsOverlap,
    CommitBeforeCalls,
    CommitOfFetched,
    CommitOnceAnySettled,
    OrderForgotten,
)
from tests.sim.chaos import Chaos, Sleepers
from tests.sim.faults import (
    DuplicateAfterInit,
    GlobalTableTorn,
    GlobalTailSkipped,
    GrantBeforeFence,
    InitWithoutReading,
    PauseForgotten,
    PauseWithoutCommit,
    PositionAhead,
    PromotedWithoutTail,
    ReleasedTooEarly,
    RestoreStopsEarly,
    SkippedCommit,
    TasksBeforeTheTable,
)
from tests.sim.laws import simulate
from tests.sim.query_faults import (
    BoundForgotten,
    CommitTorn,
    OldPlacesKept,
    UncommittedShown,
    WritersMixed,
)
from tests.sim.warm import WarmCopyGivenUp
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from tests.sim.loop import Loop

pytestmark = pytest.mark.slow

SEEDS = 60


def first_violation(loop_type: type[Loop], first: int, **given: bool) -> str:
    """The first sentence that a law says about a fault, over many seeds.

    The search begins where it has ended before: as long as nothing has changed, it ends at once.
    """
    for number in range(first, first + SEEDS):
        try:
            simulate(
                f"planted-{number}",
                exactly_once=True,
                loop_type=loop_type,
                chaos_type=(Chaos, Sleepers)[number % 2],
                standbys=number // 2 % 2,
                **given,
            )
        except ViolationError as violation:
            return f"{number}: {str(violation).splitlines()[0]}"
    pytest.fail(f"{loop_type.__name__} was not found in {SEEDS} seeds")


@pytest.mark.parametrize(
    ("fault", "first", "found"),
    [
        (GrantBeforeFence, 17, "can both commit"),
        (InitWithoutReading, 1, "can both commit|is committed"),
        (SkippedCommit, 4, "is committed|more than once|but the changelog says"),
        (PauseWithoutCommit, 4, "has paused with a transaction open"),
        (PauseForgotten, 20, "has paused with a transaction open"),
        (ReleasedTooEarly, 14, "opens .*, which .* has open"),
        (DuplicateAfterInit, 0, "can both commit|is committed|but the changelog says"),
        (RestoreStopsEarly, 19, "but the changelog says"),
        (PositionAhead, 3, "but the changelog says"),
        (PromotedWithoutTail, 9, "but the changelog says"),
        (WarmCopyGivenUp, 22, "only warm copy of .* is given up"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_found(fault: type[Loop], first: int, found: str):
    assert re.search(found, first_violation(fault, first))


@pytest.mark.parametrize(
    ("fault", "first", "found"),
    [
        (TasksBeforeTheTable, 0, "rows that were there when its worker began"),
        (GlobalTableTorn, 0, "that is not its topic up to its end"),
        (GlobalTailSkipped, 0, "that is not its topic up to its end"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_of_the_global_table_is_found(fault: type[Loop], first: int, found: str):
    assert re.search(found, first_violation(fault, first, global_table=True))


@pytest.mark.parametrize(
    ("fault", "first", "found"),
    [
        (CommitBeforeCalls, 0, "without their results"),
        (CommitOfFetched, 0, "without their results"),
        (CommitOnceAnySettled, 0, "records wait inside the task"),
        (OrderForgotten, 0, "comes after|goes from"),
        (CallsOverlap, 0, "two calls for .* are in flight"),
        (CallsOfAbortedKept, 0, "without inputs"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_of_functions_that_wait_is_found(fault: type[Loop], first: int, found: str):
    assert re.search(found, first_violation(fault, first))


@pytest.mark.parametrize(
    ("fault", "first", "found"),
    [
        (BoundForgotten, 0, "without a position, and has a bound|goes back"),
        (OldPlacesKept, 0, "is asked for and not found"),
        (CommitTorn, 0, "where it was"),
        (WritersMixed, 0, "where it was"),
        (UncommittedShown, 0, "where nobody has committed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_of_queries_is_found(fault: type[Loop], first: int, found: str):
    assert re.search(found, first_violation(fault, first, queries=True))
