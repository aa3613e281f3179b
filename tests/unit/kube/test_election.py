"""One leader among several operators, on the model API server with clocks turned by hand."""

from __future__ import annotations

import pytest
from tests.support.kube_model import KubeModel, unavailable

from headwater_operator.kube.api import LEASES
from headwater_operator.kube.election import Election, NotLeadingError, Standing
from headwater_operator.kube.errors import ApiUnavailableError

LEASE = "headwater-operator"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def api() -> KubeModel:
    return KubeModel()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def operator(api: KubeModel, clock: Clock, place: str = "") -> Election:
    return Election(api, "default", place=place, now_ms=clock)


def transitions(api: KubeModel) -> int:
    lease = api.get(LEASES, "default", LEASE)
    assert lease is not None
    return int(lease["spec"]["leaseTransitions"])


def test_the_first_operator_leads_at_once_and_the_second_waits(
    api: KubeModel, clock: Clock
) -> None:
    first, second = operator(api, clock), operator(api, clock)

    assert first.step() is Standing.LEADING
    assert second.step() is Standing.WAITING
    assert first.generation == 1
    with pytest.raises(NotLeadingError):
        second.require()


def test_a_leader_that_renews_is_never_replaced(api: KubeModel, clock: Clock) -> None:
    first, second = operator(api, clock), operator(api, clock)
    for _ in range(50):
        assert first.step() is Standing.LEADING
        assert second.step() is Standing.WAITING
        clock.now += 2_000

    assert transitions(api) == 1


def test_a_silent_leader_is_replaced_after_its_lease_and_the_generation_grows(
    api: KubeModel, clock: Clock
) -> None:
    first, second = operator(api, clock), operator(api, clock)
    first.step()
    second.step()
    clock.now += 14_999
    assert second.step() is Standing.WAITING

    clock.now += 1

    assert second.step() is Standing.LEADING
    assert (first.generation, second.generation) == (1, 2)


def test_a_leader_stops_before_its_lease_ends(api: KubeModel, clock: Clock) -> None:
    first = operator(api, clock)
    first.step()
    api.on_call = unavailable
    clock.now += 9_999
    with pytest.raises(ApiUnavailableError):
        first.step()
    first.require()

    clock.now += 1

    with pytest.raises(NotLeadingError):
        first.require()
    api.on_call = lambda *_: None
    assert first.step() is Standing.LOST


def test_what_counts_is_when_a_renewal_was_begun(api: KubeModel, clock: Clock) -> None:
    first = operator(api, clock)
    first.step()

    def slow(verb: str, plural: str, name: str) -> None:
        clock.now += 10_000

    api.on_call = slow

    assert first.step() is Standing.LOST


def test_a_new_operator_watches_a_lease_for_its_whole_duration_before_it_takes_it(
    api: KubeModel, clock: Clock
) -> None:
    operator(api, clock).step()
    clock.now += 3_600_000

    late = operator(api, clock)

    assert late.step() is Standing.WAITING
    clock.now += 15_000
    assert late.step() is Standing.LEADING


def test_a_lease_given_back_is_taken_at_once(api: KubeModel, clock: Clock) -> None:
    first, second = operator(api, clock), operator(api, clock)
    first.step()
    second.step()

    first.release()

    assert first.standing is Standing.LOST
    assert second.step() is Standing.LEADING
    assert second.generation == 2


def test_the_next_container_of_the_same_pod_need_not_wait(api: KubeModel, clock: Clock) -> None:
    operator(api, clock, place="pod-1").step()

    assert operator(api, clock, place="pod-2").step() is Standing.WAITING
    assert operator(api, clock, place="pod-1").step() is Standing.LEADING


def test_a_deleted_lease_ends_the_leadership(api: KubeModel, clock: Clock) -> None:
    first = operator(api, clock)
    first.step()
    api.delete(LEASES, "default", LEASE)

    first.step()

    assert first.step() is Standing.LOST
    with pytest.raises(NotLeadingError):
        first.require()


def test_a_lease_taken_by_hand_ends_the_leadership(api: KubeModel, clock: Clock) -> None:
    first = operator(api, clock)
    first.step()
    taken = [{"op": "replace", "path": "/spec/holderIdentity", "value": "somebody"}]
    api.patch(LEASES, "default", LEASE, taken)

    first.step()

    assert first.step() is Standing.LOST
    assert "somebody" in first.why_lost


def test_an_answer_that_was_lost_does_not_cost_the_lease(api: KubeModel, clock: Clock) -> None:
    first = operator(api, clock)
    lease = {"metadata": {"name": LEASE, "namespace": "default"}, "spec": {}}

    def lost(verb: str, plural: str, name: str) -> None:
        if verb == "create":
            api.on_call = lambda *_: None
            spec = {"holderIdentity": first.identity, "leaseTransitions": 1}
            api.create(LEASES, {**lease, "spec": spec})
            unavailable()

    api.on_call = lost
    with pytest.raises(ApiUnavailableError):
        first.step()

    assert first.step() is Standing.LEADING


def test_the_generation_can_be_raised_above_what_was_seen(api: KubeModel, clock: Clock) -> None:
    first, second = operator(api, clock), operator(api, clock)
    first.step()

    assert first.raise_generation(41) == 42
    assert first.raise_generation(7) == 42
    assert first.step() is Standing.LEADING
    assert transitions(api) == 42
    first.release()
    second.step()
    assert second.generation == 43


def test_who_does_not_lead_cannot_raise_the_generation(api: KubeModel, clock: Clock) -> None:
    first, second = operator(api, clock), operator(api, clock)
    first.step()
    second.step()

    with pytest.raises(NotLeadingError):
        second.raise_generation(5)

    assert transitions(api) == 1
