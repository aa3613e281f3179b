"""Tasks of a worker change places by the time that they keep their StreamThreads busy."""

from __future__ import annotations

import random

import pytest

from headwater.assignor.threads import assign_to_slots
from headwater.ids import TaskId
from headwater.service.decide.balance import (
    BUSY,
    GAIN,
    PAUSE_MS,
    WINDOW_MS,
    Loads,
    better_places,
)


def tasks(count: int) -> list[TaskId]:
    return [TaskId(0, number) for number in range(count)]


def totals(loads: dict[TaskId, float], placed: dict[TaskId, int], slots: int) -> list[float]:
    return [sum(loads[t] for t, at in placed.items() if at == slot) for slot in range(slots)]


def test_heavy_tasks_of_one_slot_change_places_with_light_ones() -> None:
    a, b, c, d = tasks(4)
    placed = {a: 0, b: 0, c: 1, d: 1}
    loads = {a: 0.5, b: 0.45, c: 0.05, d: 0.02}

    moved = better_places(loads, placed, [0, 1], frozenset())

    assert sorted(moved.values()) == [0, 1]
    assert max(totals(loads, {**placed, **moved}, 2)) <= 0.55


def test_a_task_moves_alone_where_the_counts_allow_it() -> None:
    a, b, c = tasks(3)
    placed = {a: 0, b: 0, c: 1}

    moved = better_places({a: 0.6, b: 0.35, c: 0.1}, placed, [0, 1], frozenset())

    assert moved == {b: 1}


def test_one_heavy_task_stays_with_what_cannot_make_it_lighter() -> None:
    a, b, c, d = tasks(4)

    assert not better_places(
        {a: 0.95, b: 0.0, c: 0.0, d: 0.3}, {a: 0, b: 0, c: 1, d: 1}, [0, 1], frozenset()
    )


def test_nothing_changes_while_no_slot_is_busy_or_the_gain_is_small() -> None:
    a, b, c, d = tasks(4)
    placed = {a: 0, b: 0, c: 1, d: 1}

    idle = {a: 0.3, b: BUSY - 0.31, c: 0.0, d: 0.0}
    assert not better_places(idle, placed, [0, 1], frozenset())
    even = {a: 0.5, b: 0.4, c: 0.4, d: 0.4}
    assert not better_places(even, placed, [0, 1], frozenset())


def test_a_task_with_state_and_one_without_do_not_change_places() -> None:
    a, b, c, d = tasks(4)
    placed = {a: 0, b: 0, c: 1, d: 1}
    loads = {a: 0.5, b: 0.45, c: 0.05, d: 0.02}

    moved = better_places(loads, placed, [0, 1], frozenset({a, c}))

    assert set(moved) in ({a, c}, {b, d})


def test_a_task_with_a_store_in_memory_stays_where_it_is() -> None:
    a, b, c, d = tasks(4)
    placed = {a: 0, b: 0, c: 1, d: 1}
    loads = {a: 0.5, b: 0.45, c: 0.05, d: 0.02}

    moved = better_places(loads, placed, [0, 1], frozenset(), frozenset({a, d}))

    assert moved == {b: 1, c: 0}
    assert not better_places(loads, placed, [0, 1], frozenset(), frozenset(placed))


@pytest.mark.seeded(20, least=2)
def test_what_is_chosen_is_better_and_is_left_alone_by_the_assignor(seed: str) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        slots = draw.randint(2, 4)
        chosen = tasks(draw.randint(2, 12))
        stateless = frozenset(t for t in chosen if draw.random() < 0.3)
        loads = {t: draw.choice((0.0, 0.02, 0.1, 0.4, 0.9)) for t in chosen}
        placed = {
            t: slot
            for slot, its in assign_to_slots(
                chosen, slots=range(slots), owned={}, stateless=stateless
            ).items()
            for t in its
        }
        moved = better_places(loads, placed, range(slots), stateless)
        if not moved:
            continue
        after = {**placed, **moved}
        before_total, after_total = totals(loads, placed, slots), totals(loads, after, slots)
        busiest = max(before_total)
        touched = {placed[t] for t in moved} | set(moved.values())
        assert busiest - max(after_total[slot] for slot in touched) >= GAIN - 1e-9
        kept = assign_to_slots(chosen, slots=range(slots), owned=after, stateless=stateless)
        assert {t: slot for slot, its in kept.items() for t in its} == after


def test_loads_are_measured_over_a_window_and_changes_are_rare() -> None:
    a, b, c, d = tasks(4)
    loads, placed = Loads(), {a: 0, b: 0, c: 1, d: 1}
    now = PAUSE_MS
    loads.observe(0, {a: 10.0, b: 0.0}, now)
    loads.observe(1, {c: 0.0, d: 0.0}, now)
    loads.rebalance(placed, [0, 1], (), (), now)
    assert not loads.places, "nothing was measured yet"

    now += WINDOW_MS
    busy_s = WINDOW_MS / 1000 * 0.45
    loads.observe(0, {a: 10.0 + busy_s, b: busy_s}, now)
    loads.observe(1, {c: 0.0, d: 0.0}, now)
    loads.rebalance(placed, [0, 1], (), (), now)
    assert len(loads.places) == 2
    placed.update(loads.places)

    for _ in range(2):
        now += WINDOW_MS - 1_000
        loads.rebalance(placed, [0, 1], (), (), now)
    assert {t: placed[t] for t in loads.places} == loads.places, "no further change"


def test_nothing_is_balanced_while_tasks_run_in_a_slot_that_is_given_up() -> None:
    a, b, c, d = tasks(4)
    loads, placed = Loads(), {a: 0, b: 0, c: 1, d: 2}
    for now, busy_s in ((PAUSE_MS, 0.0), (PAUSE_MS + WINDOW_MS, WINDOW_MS / 1000 * 0.45)):
        loads.observe(0, {a: busy_s, b: busy_s}, now)
        loads.observe(1, {c: 0.0}, now)
        loads.observe(2, {d: 0.0}, now)

    loads.rebalance(placed, [0, 1], (), (), PAUSE_MS + WINDOW_MS)
    assert not loads.places
    loads.rebalance(placed, [0, 1, 2], (), (), PAUSE_MS + WINDOW_MS)
    assert loads.places


def test_a_place_is_forgotten_with_its_task_or_slot() -> None:
    a, b, *_ = tasks(2)
    loads = Loads(places={a: 0, b: 1})

    loads.forget_others({b}, [1])

    assert loads.places == {b: 1}
