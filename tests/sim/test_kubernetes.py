"""A cluster under kills, pauses, lost machines, lost watches, and users who change their minds."""

from __future__ import annotations

import pytest

from tests.sim.kubernetes.run import simulate


@pytest.mark.slow
@pytest.mark.seeded(900, most=10)
def test_a_cluster_counts_every_record_once_and_comes_to_rest(seed: str):
    simulate(seed)


@pytest.mark.slow
@pytest.mark.seeded(300, most=4)
def test_actions_are_carried_out_once_and_end_whoever_leads(seed: str):
    simulate(seed, acts=True)


@pytest.mark.slow
@pytest.mark.seeded(200, most=4)
def test_live_changes_replace_no_process_and_volumes_grow_where_they_are_to(seed: str):
    simulate(seed, changes=True)


@pytest.mark.slow
@pytest.mark.seeded(200, most=4)
def test_the_load_changes_the_number_of_workers_only_where_a_warm_up_can_follow(seed: str):
    simulate(seed, autoscales=True)


@pytest.mark.slow
@pytest.mark.seeded(200, most=4)
def test_a_namespace_goes_from_one_operator_to_another_and_no_record_is_lost(seed: str):
    simulate(seed, shards=True)


@pytest.mark.slow
@pytest.mark.seeded(200, most=4)
def test_a_secret_that_changes_is_rolled_out_once_whoever_leads(seed: str):
    simulate(seed, watches=True)


@pytest.mark.slow
def test_copies_come_to_rest_while_moves_wait_for_a_window():
    """Copies for the time after the moves once drew other tasks to them, round after round."""
    simulate("cce193ae395e228779ee985072f647f9db1363ad:5", autoscales=True)


@pytest.mark.slow
def test_a_reset_that_is_too_late_for_its_action_is_carried_out_once():
    """A worker had the duty when the time of the action was over, and nothing was given to it."""
    simulate("c2beed33f2cb50e81550c4874696b5cc3fb8277a:2", acts=True)


@pytest.mark.slow
@pytest.mark.seeded(100, most=2)
def test_a_cluster_loses_no_record_at_least_once(seed: str):
    simulate(seed, exactly_once=False)


def test_a_seed_decides_everything_on_a_cluster():
    first, second = (simulate("same") for _ in range(2))

    assert list(first.story) == list(second.story)


def test_configmaps_that_a_former_leader_wrote_late_are_deleted():
    simulate("0794f937a88d09279f5298c1e503aaef2a7c7021:35")


def test_a_claim_of_a_pod_that_never_came_to_a_node_is_kept_without_a_volume():
    simulate("80a61ae4b7ca84833ed18e4a2ef255f3de6aadcd:37")


def test_a_claim_that_was_given_to_a_pod_is_not_deleted_by_who_decided_so_before():
    simulate("42fda66d88f4117a8568ce41b0e24ca88912cf09:39")


def test_a_claim_that_has_grown_is_not_made_smaller_by_who_decided_so_before():
    simulate("fca96bab9c6ae366d6b140d0877ee7192fab9f06:5", changes=True)
