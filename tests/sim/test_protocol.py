"""The protocol under kills, freezes, cut-off workers, replaced leaders and scaling."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.calling import Calling
from tests.sim.chaos import Chaos, Sleepers
from tests.sim.laws import simulate
from tests.sim.loop import Loop


@pytest.mark.seeded(30)
def test_exactly_once_counts_every_record_once(seed: str):
    simulate(seed, exactly_once=True)


@pytest.mark.seeded(20)
def test_copies_that_are_promoted_have_read_everything(seed: str):
    simulate(seed, exactly_once=True, standbys=1)


@pytest.mark.seeded(10)
def test_copies_of_at_least_once_lose_no_record(seed: str):
    simulate(seed, exactly_once=False, standbys=1)


@pytest.mark.seeded(10)
def test_machines_that_sleep_through_their_replacement_write_nothing(seed: str):
    simulate(seed, exactly_once=True, chaos_type=Sleepers)


@pytest.mark.seeded(10)
def test_at_least_once_loses_no_record(seed: str):
    simulate(seed, exactly_once=False)


@pytest.mark.seeded(10)
def test_at_least_once_loses_no_count_when_nothing_freezes(seed: str):
    simulate(seed, exactly_once=False, freezes=False)


@pytest.mark.seeded(10)
def test_tasks_read_a_global_table_that_is_filled_and_followed(seed: str):
    simulate(seed, exactly_once=True, standbys=len(seed) % 2, global_table=True)


@pytest.mark.seeded(5)
def test_a_global_table_of_at_least_once(seed: str):
    simulate(seed, exactly_once=False, global_table=True)


@pytest.mark.seeded(6)
def test_commits_cover_what_is_complete_while_functions_wait(seed: str):
    chaos_type = Random(seed).choice((Chaos, Sleepers))
    simulate(seed, exactly_once=True, standbys=1, loop_type=Calling, chaos_type=chaos_type)


@pytest.mark.seeded(3)
def test_functions_that_wait_lose_no_record_of_at_least_once(seed: str):
    simulate(seed, exactly_once=False, loop_type=Calling)


@pytest.mark.seeded(6)
def test_each_answer_is_one_that_the_store_had_at_some_commit(seed: str):
    draw = Random(seed)
    simulate(
        seed,
        exactly_once=True,
        standbys=draw.randrange(2),
        loop_type=draw.choice((Loop, Calling)),
        chaos_type=draw.choice((Chaos, Sleepers)),
        queries=True,
    )


@pytest.mark.parametrize("loop_type", [Loop, Calling])
def test_a_seed_decides_everything(loop_type: type[Loop]):
    first, second = (
        simulate("same", exactly_once=True, loop_type=loop_type, queries=True) for _ in range(2)
    )

    assert list(first.story) == list(second.story)
