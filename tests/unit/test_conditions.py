"""Conditions: unknown at first, each with one meaning of True."""

from __future__ import annotations

from dataclasses import replace

from headwater.model.appstatus import AppStatus, ConditionStatus, ConditionType, TaskCounts
from headwater.model.lifecycle import ClientState
from headwater_operator.status import Facts, Problem, conditions, first_conditions

NOW, LATER = "2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"
RUNNING = AppStatus(
    state=ClientState.RUNNING,
    reason="all 8 tasks run",
    tasks=TaskCounts(total=8, running=8, standby=8, caught_up=8),
)


def test_all_conditions_are_unknown_at_first_and_have_reason_and_message() -> None:
    first = first_conditions(3, NOW)

    assert [each.type for each in first] == list(ConditionType)
    assert {each.status for each in first} == {ConditionStatus.UNKNOWN}
    assert all(each.reason and each.message and each.observed_generation == 3 for each in first)


def test_what_a_condition_says_when_all_is_well_is_what_the_reference_says() -> None:
    well = conditions(
        Facts(generation=3, decided=RUNNING, wanted=2), first_conditions(3, NOW), LATER
    )

    assert {each.type: each.status for each in well} == {
        kind: kind.when_well for kind in ConditionType
    }
    assert {each.last_transition_time for each in well} == {LATER}


def test_what_is_not_well_says_the_opposite() -> None:
    facts = Facts(
        generation=3,
        decided=AppStatus(tasks=TaskCounts(total=1, unassigned=1, restoring=1, standby=1)),
        wanted=2,
        is_suspended=True,
        is_paused=True,
        spec_problem=Problem(reason="InvalidSpec", message="no image; name one"),
    )

    well = {each.type for each in conditions(facts, (), NOW) if each.status is each.type.when_well}

    # What is stalled is not being reconciled.
    assert well == {ConditionType.RECONCILING}


def test_a_pause_holds_when_every_worker_has_committed_and_is_in_progress_until_then() -> None:
    facts = Facts(generation=3, decided=RUNNING, wanted=2, is_to_pause=True)
    assert _told(facts, ConditionType.PAUSED) == (ConditionStatus.FALSE, "Pausing")
    assert _told(facts, ConditionType.RECONCILING) == (ConditionStatus.TRUE, "Pausing")

    done = replace(facts, decided=replace(RUNNING, paused=True))
    assert _told(done, ConditionType.PAUSED) == (ConditionStatus.TRUE, "SpecPaused")
    assert _told(done, ConditionType.READY)[0] is ConditionStatus.TRUE
    assert _told(done, ConditionType.RECONCILING)[0] is ConditionStatus.FALSE
    # Of the operator's own pause there is more to say.
    both = replace(done, is_paused=True)
    assert _told(both, ConditionType.PAUSED) == (ConditionStatus.TRUE, "Annotation")


def test_a_warm_up_is_not_waited_for_and_hides_nothing_that_is() -> None:
    warming = replace(RUNNING, tasks=replace(RUNNING.tasks, warmup=1))
    facts = Facts(generation=3, decided=warming, wanted=3, unsettled="1 task is to move")
    absent = "app-w-2 has yet to join"

    assert _said(facts, ConditionType.RECONCILING)[0] is ConditionStatus.FALSE
    joining = replace(facts, unsettled=absent, waits_for=absent)
    assert _said(joining, ConditionType.RECONCILING) == (ConditionStatus.TRUE, absent)
    # All tasks run: scaling leaves it as it is.
    assert _said(joining, ConditionType.READY)[0] is ConditionStatus.TRUE
    growing = replace(facts, growing="app-w-0-state")
    assert _said(growing, ConditionType.RECONCILING)[0] is ConditionStatus.TRUE


def _told(facts: Facts, kind: ConditionType) -> tuple[ConditionStatus, str]:
    (found,) = (each for each in conditions(facts, (), NOW) if each.type is kind)
    return found.status, found.reason


def _said(facts: Facts, kind: ConditionType) -> tuple[ConditionStatus, str]:
    (found,) = (each for each in conditions(facts, (), NOW) if each.type is kind)
    return found.status, found.message
