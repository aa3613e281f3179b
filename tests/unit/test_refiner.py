"""The refiner by example; its laws are in tests/property/test_refiner_laws.py."""

from __future__ import annotations

from tests.support.assignment_laws import given_up

from headwater.assignor.group import CAUGHT_UP, GroupAssignment
from headwater.assignor.refine import Holder, Rules, Step, Why, refine
from headwater.ids import TaskId

T0, T1, T2 = (TaskId(0, number) for number in range(3))
RULES = Rules(movable=frozenset({T0, T1, T2}), replicas=0, max_warmups=1)


def target(**active: tuple[TaskId, ...]) -> GroupAssignment:
    return GroupAssignment(active=active)


def holder(name: str, *held: TaskId, **more: object) -> Holder:
    its = frozenset(held)
    return Holder(name=name, held=its, running=its, **more)  # type: ignore[arg-type]  # by field


def test_a_task_stays_until_its_warm_up_has_caught_up():
    steps = refine(target(a=(), b=(T0,)), [holder("a", T0), holder("b")], RULES)

    assert steps["a"] == Step(hold=(T0,))
    assert steps["b"] == Step(warmup=(T0,), why={T0: Why.WARMUP})


def test_a_task_is_asked_back_the_moment_its_warm_up_has_caught_up():
    warm = holder("b", warmup=frozenset({T0}), near={T0: CAUGHT_UP})

    steps = refine(target(a=(), b=(T0,)), [holder("a", T0), warm], RULES)

    assert steps["a"] == Step(revoked=(T0,))
    assert steps["b"] == Step(waiting=(T0,), warmup=(T0,))


def test_a_released_task_is_granted_where_its_warm_up_is():
    warm = holder("b", warmup=frozenset({T0}), near={T0: CAUGHT_UP})

    steps = refine(target(a=(), b=(T0,)), [holder("a"), warm], RULES)

    assert steps["b"] == Step(hold=(T0,), granted=(T0,), why={T0: Why.CAUGHT_UP})


def test_a_warm_copy_stays_while_its_worker_cannot_take_the_task():
    warm = holder("b", warmup=frozenset({T0}), near={T0: CAUGHT_UP}, can_take=False)

    steps = refine(target(a=(), b=(T0,)), [holder("a"), warm], RULES)

    assert steps["b"] == Step(waiting=(T0,), warmup=(T0,))


def test_there_are_no_more_warm_ups_than_allowed():
    steps = refine(target(a=(), b=(T0, T1)), [holder("a", T0, T1), holder("b")], RULES)

    assert steps["a"].hold == (T0, T1)
    assert steps["b"].warmup == (T0,)


def test_a_warm_up_without_progress_leaves_its_place_to_another():
    stuck = holder("b", warmup=frozenset({T0}), stalled=frozenset({T0}), near={T0: 5})

    steps = refine(target(a=(), b=(T0, T1)), [holder("a", T0, T1), stuck], RULES)

    assert steps["a"].hold == (T0, T1)
    assert steps["b"].warmup == (T1,)


def test_what_leaves_is_warmed_up_first():
    workers = [holder("a", T0), holder("b", T1, is_leaving=True), holder("c")]

    steps = refine(target(a=(), c=(T0, T1)), workers, RULES)

    assert steps["c"].warmup == (T1,)


def test_who_is_late_in_leaving_gives_its_tasks_up_at_once():
    workers = [holder("a"), holder("b", T1, is_leaving=True, is_late=True)]

    steps = refine(target(a=(T1,)), workers, RULES)

    assert steps["b"] == Step(revoked=(T1,))


def test_the_standby_of_a_lost_worker_is_promoted_wherever_the_task_is_to_be_in_the_end():
    rules = Rules(movable=RULES.movable, replicas=1)
    warm = holder("b", standby=frozenset({T0}), near={T0: CAUGHT_UP})
    wanted = GroupAssignment(active={"b": (), "c": (T0,)}, standby={"b": (T0,), "c": ()})

    steps = refine(wanted, [warm, holder("c")], rules)

    assert steps["b"] == Step(hold=(T0,), granted=(T0,), why={T0: Why.CAUGHT_UP})
    assert steps["c"] == Step(standby=(T0,), why={T0: Why.STANDBY})


def test_a_standby_that_moves_stays_until_the_new_one_has_caught_up():
    rules = Rules(movable=RULES.movable, replicas=1)
    wanted = GroupAssignment(active={"a": (T0,), "b": (), "c": ()}, standby={"c": (T0,)})
    old = holder("b", standby=frozenset({T0}), near={T0: CAUGHT_UP})
    new = holder("c", warmup=frozenset({T0}), near={T0: CAUGHT_UP})

    before = refine(wanted, [holder("a", T0), old, holder("c")], rules)
    after = refine(wanted, [holder("a", T0), old, new], rules)

    assert (before["b"].standby, before["c"].warmup) == ((T0,), (T0,))
    assert before["c"].why == {T0: Why.STANDBY_MOVES}
    assert (after["b"].standby, after["c"].standby) == ((), (T0,))


def test_a_task_that_nobody_has_goes_where_its_state_is_nearest():
    workers = [holder("a", near={T0: 90_000}), holder("b", near={T0: 10_000})]

    steps = refine(target(a=(), b=(T0,)), workers, RULES)

    assert steps["a"] == Step(hold=(T0,), granted=(T0,), why={T0: Why.NEAREST})
    assert steps["b"] == Step(warmup=(T0,), why={T0: Why.WARMUP})


def test_the_task_of_a_worker_that_is_expected_back_waits_for_it():
    away = holder("b", is_live=False, can_take=False, near={T0: 90_000})

    steps = refine(target(a=(), b=(T0,)), [holder("a"), away], RULES)

    assert steps["a"] == Step()
    assert steps["b"] == Step(waiting=(T0,))


def test_what_is_in_memory_only_moves_at_once():
    rules = Rules(movable=frozenset())

    steps = refine(target(a=(), b=(T0,)), [holder("a", T0), holder("b")], rules)

    assert steps["a"] == Step(revoked=(T0,))
    assert steps["b"] == Step(waiting=(T0,))


def test_the_loss_of_the_only_warm_copy_is_named():
    warm = holder("b", standby=frozenset({T0}), near={T0: CAUGHT_UP})

    assert given_up([warm], {"b": Step()}, {T0}) == (
        "the only warm copy of task 0_0, on b, is given up",
    )
    assert given_up([warm], {"b": Step(hold=(T0,))}, {T0}) == ()


def test_whoever_merely_lists_a_task_does_not_take_it_from_its_holder():
    listing = holder("b", T0, releasing=frozenset({T0}))

    steps = refine(target(a=(), b=(T0,)), [holder("a", T0), listing], RULES)

    assert steps["a"].hold == (T0,)
    assert steps["b"].revoked == (T0,)
