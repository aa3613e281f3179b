"""The assignor by example; its laws are in tests/property/test_assignor_laws.py."""

from __future__ import annotations

from tests.support.assignment_laws import breaches, moves, shared_tasks, standby_breaches

from headwater.assignor.group import Group, GroupAssignment, Member
from headwater.assignor.quota import Taker, keep, shares
from headwater.assignor.refine import Step, next_step
from headwater.assignor.sticky import assign
from headwater.assignor.threads import assign_to_slots
from headwater.ids import TaskId


def tasks(*names: str) -> frozenset[TaskId]:
    return frozenset(TaskId.parse(name) for name in names)


EIGHT = frozenset(TaskId(sub, part) for sub in (0, 1) for part in range(4))


def test_tasks_are_shared_out_by_threads():
    group = Group(
        members=(Member(name="big", threads=3), Member(name="small", threads=1)), stateful=EIGHT
    )

    assignment = assign(group)

    assert {name: len(its) for name, its in assignment.active.items()} == {"big": 6, "small": 2}


def test_each_worker_gets_an_even_mix_of_subtopologies():
    group = Group(
        members=(Member(name="a", threads=2), Member(name="b", threads=2)), stateful=EIGHT
    )

    assignment = assign(group)

    assert [str(task) for task in assignment.active["a"]] == ["0_0", "0_2", "1_0", "1_2"]


def test_an_even_mix_is_kept_when_a_worker_joins():
    group = Group(
        members=(Member(name="a", threads=2, active=EIGHT), Member(name="b", threads=2)),
        stateful=EIGHT,
    )

    assignment = assign(group)

    assert [str(task) for task in assignment.active["a"]] == ["0_0", "0_1", "1_0", "1_1"]


def test_a_task_goes_where_its_state_is_furthest():
    task = TaskId(0, 0)
    group = Group(
        members=(
            Member(name="a", threads=1),
            Member(name="b", threads=1, stored={task: 10_000}),
            Member(name="c", threads=1, stored={task: 20_000}),
        ),
        stateful=frozenset({task}),
    )

    assert assign(group).owners()[task] == "c"


def test_a_worker_that_comes_back_with_its_volume_gets_the_tasks_it_has_state_of():
    every = tasks("1_0", "1_1", "1_2", "1_3")
    group = Group(
        members=(
            Member(name="a", threads=1, active=every),
            Member(name="b", threads=1, stored={TaskId(1, 0): 50_000, TaskId(1, 2): 90_000}),
        ),
        stateful=every,
    )

    assert assign(group).active["b"] == (TaskId(1, 0), TaskId(1, 2))


def test_standbys_are_apart_first_and_level_second():
    every = tasks("1_0", "1_1", "1_2", "1_3")
    members = tuple(
        Member(name=name, threads=1, labels={"zone": zone})
        for name, zone in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"))
    )
    group = Group(
        members=members,
        stateful=every,
        can_stand_by=every,
        standby_replicas=1,
        topology_keys=("zone",),
    )

    found = assign(group)

    assert breaches(group, found) == ()
    assert sum(map(len, found.standby.values())) == 4
    assert len(found.standby["d"]) == 3


def test_a_standby_stays_where_its_copy_is():
    task = TaskId(1, 0)
    group = Group(
        members=(
            Member(name="a", threads=1, active=frozenset({task})),
            Member(name="b", threads=1),
            Member(name="c", threads=1, standby=frozenset({task}), lags={task: 70}),
        ),
        stateful=frozenset({task}),
        can_stand_by=frozenset({task}),
        standby_replicas=1,
    )

    assert assign(group).standby == {"a": (), "b": (), "c": (task,)}


def test_stateless_tasks_level_what_stateful_ones_left_uneven():
    group = Group(
        members=(Member(name="a", threads=1), Member(name="b", threads=1)),
        stateful=tasks("1_0", "1_1", "1_2"),
        stateless=tasks("0_0", "0_1", "0_2"),
    )

    assignment = assign(group)

    assert breaches(group, assignment) == ()
    assert {len(its) for its in assignment.active.values()} == {3}


def test_a_task_that_two_workers_claim_stays_with_the_first():
    shared = tasks("0_0")
    group = Group(
        members=(
            Member(name="a", threads=1, active=shared),
            Member(name="b", threads=1, active=shared),
        ),
        stateful=shared,
    )

    assert assign(group).active == {"a": (TaskId(0, 0),), "b": ()}


def test_ties_go_to_whoever_owns_more():
    takers = [Taker("a", 1, 0, 1), Taker("b", 1, 0, 2)]

    assert shares(3, takers) == {"a": 1, "b": 2}


def test_the_most_frequent_subtopology_is_given_up_first():
    kept = keep(tasks("0_0", "1_0", "1_1", "1_2"), 2)

    assert kept == (TaskId(0, 0), TaskId(1, 0))


def test_tasks_stay_in_their_slot():
    owned = {TaskId(0, 0): 1, TaskId(0, 1): 0}

    assert assign_to_slots(tasks("0_0", "0_1"), slots=[0, 1], owned=owned) == {
        0: (TaskId(0, 1),),
        1: (TaskId(0, 0),),
    }


def test_a_slot_that_is_gone_gives_its_tasks_to_the_others():
    owned = {TaskId(0, 0): 2, TaskId(0, 1): 0}

    assert assign_to_slots(tasks("0_0", "0_1"), slots=[0, 1], owned=owned) == {
        0: (TaskId(0, 1),),
        1: (TaskId(0, 0),),
    }


def test_a_task_is_granted_only_when_nobody_holds_it():
    target = GroupAssignment(active={"a": (), "b": (TaskId(0, 0), TaskId(0, 1))})

    steps = next_step(target, {"a": tasks("0_0")}, {})

    assert steps["a"] == Step(revoked=(TaskId(0, 0),))
    assert steps["b"] == Step(
        hold=(TaskId(0, 1),), granted=(TaskId(0, 1),), waiting=(TaskId(0, 0),)
    )


def test_a_task_asked_back_is_not_kept_when_the_target_changes_its_mind():
    target = GroupAssignment(active={"a": (TaskId(0, 0),)})

    steps = next_step(target, {"a": tasks("0_0")}, {"a": tasks("0_0")})

    assert steps["a"] == Step(revoked=(TaskId(0, 0),), waiting=(TaskId(0, 0),))


def test_every_breach_is_named():
    group = Group(
        members=(Member(name="a", threads=1), Member(name="b", threads=1)),
        stateful=tasks("0_0", "0_1", "0_2"),
    )
    assignment = GroupAssignment(
        active={
            "a": (TaskId(0, 0), TaskId(0, 1), TaskId(9, 9)),
            "c": (TaskId(0, 1),),
        }
    )

    assert breaches(group, assignment) == (
        "task 0_2 is given to nobody",
        "task 0_1 is active on a and c",
        "c is no member",
        "task 9_9 does not exist",
        "a has 2 stateful tasks for 1 threads, b has 0 for 1",
        "a has 2 tasks for 1 threads, b has 0 for 1",
    )


def test_every_breach_about_standbys_is_named():
    members = tuple(
        Member(name=name, threads=1, labels={"zone": zone})
        for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    group = Group(
        members=members,
        stateful=tasks("0_0", "0_1", "0_2"),
        can_stand_by=tasks("0_0", "0_1"),
        standby_replicas=1,
        topology_keys=("zone",),
    )
    active = {"a": (TaskId(0, 0),), "b": (TaskId(0, 1),), "c": (TaskId(0, 2),)}
    wrong = GroupAssignment(active=active, standby={"a": (TaskId(0, 0), TaskId(0, 2))})
    near = GroupAssignment(active=active, standby={"a": (TaskId(0, 1),), "b": (TaskId(0, 0),)})

    assert standby_breaches(group, wrong) == (
        "task 0_2 cannot have a standby, a has one",
        "two copies of task 0_0 are on one of a, ['a']",
        "task 0_1 has 0 standbys instead of 1",
    )
    assert standby_breaches(group, near) == (
        "the standby of 0_0 on b were further apart on c",
        "the standby of 0_1 on a were further apart on c",
    )


def test_a_task_held_twice_is_named():
    assert shared_tasks({"b": tasks("0_0"), "a": tasks("0_0")}) == (
        "task 0_0 is active on a and b",
    )


def test_moves_counts_tasks_that_change_their_owner():
    after = GroupAssignment(active={"a": (TaskId(0, 0),), "b": (TaskId(0, 1), TaskId(0, 2))})

    assert moves({"a": tasks("0_0", "0_1")}, after) == 1
