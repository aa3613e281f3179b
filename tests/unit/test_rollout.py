"""Rolling changes: who is replaced next, what is waited for, when it halts, what fits together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.kube_fakes import topology

from headwater.model.topics import ChangelogKind, ChangelogTopic, RepartitionTopic
from headwater_operator.rollout import RollingWorker, difference, plan_roll

OLD, NEW = "aaaa", "bbbb"
MINUTE = 60_000


def worker(name: str, revision: str = OLD, **more: object) -> RollingWorker:
    return replace(RollingWorker(name=name, revision=revision, is_ready=True), **more)  # type: ignore[arg-type]


def test_nothing_is_replaced_when_nothing_has_changed() -> None:
    roll = plan_roll(OLD, [worker("w-0"), worker("w-1")], ready_timeout_ms=MINUTE)

    assert (roll.next, roll.outdated, roll.waits_for, roll.halted) == ("", (), "", "")


def test_the_first_outdated_worker_is_replaced_when_all_are_ready() -> None:
    roll = plan_roll(NEW, [worker("w-1"), worker("w-0")], ready_timeout_ms=MINUTE)

    assert roll.next == "w-1"
    assert roll.outdated == ("w-1", "w-0")


@pytest.mark.parametrize(
    "busy",
    [
        worker("w-0", NEW, is_ready=False, starting_ms=MINUTE - 1),
        worker("w-0", "", is_ready=False),
        worker("w-0", OLD, is_ready=False),
    ],
    ids=["the replaced one starts", "it has no process", "another one restores"],
)
def test_one_that_is_not_ready_is_waited_for(busy: RollingWorker) -> None:
    roll = plan_roll(NEW, [worker("w-1"), busy], ready_timeout_ms=MINUTE)

    assert roll.next == ""
    assert roll.waits_for == "w-0 is not ready yet"


def test_a_worker_whose_tasks_have_no_standby_waits_for_one_that_has() -> None:
    bare = worker("w-0", is_covered=False)

    assert plan_roll(NEW, [bare, worker("w-1")], ready_timeout_ms=MINUTE).next == "w-1"
    roll = plan_roll(NEW, [bare], ready_timeout_ms=MINUTE)
    assert (roll.next, roll.waits_for) == ("", "tasks of w-0 have no caught-up standby yet")


def test_a_new_revision_that_cannot_run_halts_the_change() -> None:
    broken = worker("w-1", NEW, is_ready=False, problem="ImportPathError: no module")

    roll = plan_roll(NEW, [worker("w-0"), broken], ready_timeout_ms=MINUTE)

    assert roll.next == ""
    assert roll.halted == "w-1: ImportPathError: no module"


def test_a_halted_roll_out_names_its_worker_once() -> None:
    workers = [worker("w-0"), worker("w-1", NEW, problem="w-1: ErrImagePull: not found")]

    roll = plan_roll(NEW, workers, ready_timeout_ms=MINUTE)

    assert roll.halted == "w-1: ErrImagePull: not found"


def test_a_new_revision_that_does_not_become_ready_in_time_halts_the_change() -> None:
    slow = worker("w-1", NEW, is_ready=False, starting_ms=MINUTE)

    roll = plan_roll(NEW, [worker("w-0"), slow], ready_timeout_ms=MINUTE)

    assert "w-1 did not become ready within 60 s" in roll.halted


def test_a_corrected_revision_replaces_the_broken_worker_first() -> None:
    broken = worker("w-1", "cccc", is_ready=False, problem="ImportPathError: no module")

    assert plan_roll(NEW, [worker("w-0"), broken], ready_timeout_ms=MINUTE).next == "w-1"


def test_going_back_to_the_old_revision_replaces_only_the_broken_worker() -> None:
    broken = worker("w-1", NEW, is_ready=False, problem="ImportPathError: no module")

    roll = plan_roll(OLD, [worker("w-0"), broken], ready_timeout_ms=MINUTE)

    assert (roll.next, roll.outdated) == ("w-1", ("w-1",))


def test_topologies_that_differ_in_between_can_share_tasks() -> None:
    one = topology("wc")

    assert difference(one, replace(one, hash="two", description="maps in another way")) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"source_topics": ("lines", "more")}, "its source topics gain 'more'"),
        ({"source_topics": ()}, "its source topics lose 'lines'"),
        (
            {"changelogs": (ChangelogTopic(name="wc-x-changelog", store="x"),), "stores": ("x",)},
            "its stores gain 'x'",
        ),
        (
            {"repartition_sources": (RepartitionTopic(name="wc-r-repartition"),)},
            "its repartition topics gain 'wc-r-repartition'",
        ),
    ],
)
def test_a_topology_with_other_inputs_or_state_is_refused_with_the_reason(
    change: dict[str, object], why: str
) -> None:
    one = topology("wc")
    first, second = one.subtopologies
    two = replace(one, subtopologies=(replace(first, **change), second))  # type: ignore[arg-type]

    assert difference(one, two) == f"sub-topology 0: {why}"


def test_a_store_of_another_kind_is_another_store() -> None:
    one = topology("wc")
    first, second = one.subtopologies
    windowed = replace(second.changelogs[0], kind=ChangelogKind.WINDOWED)
    two = replace(one, subtopologies=(first, replace(second, changelogs=(windowed,))))

    assert "sub-topology 1: its stores" in difference(one, two)


def test_sub_topologies_that_come_or_go_are_told() -> None:
    one = topology("wc")
    shorter = replace(one, subtopologies=one.subtopologies[:1])

    assert difference(one, shorter) == "sub-topology 1 is gone"
    assert difference(shorter, one) == "sub-topology 1 is new"


def test_the_canary_holds_when_a_second_worker_has_the_new_revision() -> None:
    young = worker("w-2", NEW, ready_for_ms=10)
    workers = [worker("w-0"), worker("w-1", NEW, ready_for_ms=1_000), young]

    found = plan_roll(NEW, workers, ready_timeout_ms=MINUTE, canary_ms=30_000)
    assert found.next == ""
    assert "30 s (spec.upgrade.canary)" in found.waits_for

    passed = [*workers[:1], worker("w-1", NEW, ready_for_ms=30_000), young]
    assert plan_roll(NEW, passed, ready_timeout_ms=MINUTE, canary_ms=30_000).next == "w-0"


@pytest.mark.parametrize(
    ("starting_ms", "other", "expected"),
    [(MINUTE, True, "w-0"), (MINUTE - 1, True, ""), (MINUTE, False, "")],
    ids=["it alone, for its time", "it alone, for less", "another one, too"],
)
def test_an_outdated_worker_that_alone_is_not_ready_in_time_is_replaced(
    starting_ms: int, other: bool, expected: str
) -> None:
    late = worker("w-0", OLD, is_ready=False, starting_ms=starting_ms)

    found = plan_roll(NEW, [late, worker("w-1", is_ready=other)], ready_timeout_ms=MINUTE)

    assert found.next == expected


@pytest.mark.parametrize("is_on_trial", [True, False])
def test_a_revision_on_trial_fails_even_if_every_worker_has_it(is_on_trial: bool) -> None:
    only = worker("w-0", NEW, is_ready=False, starting_ms=MINUTE)

    found = plan_roll(NEW, [only], ready_timeout_ms=MINUTE, is_on_trial=is_on_trial)

    assert ("w-0 did not become ready" in found.halted) == is_on_trial
