"""The chart installed, and real workers under load: scaled, given standbys, rolled out.

They come behind warm-ups, go by draining, and take their volumes up again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from headwater.assignor.refine import Why
from headwater.model.cluster import Role
from headwater.state.directory import StateDirectory
from headwater_operator.actions import StopHow
from headwater_operator.kube.api import CLAIMS, LEASES, PODS, STREAM_WORKERS
from headwater_operator.kube.election import LEASE_NAME
from headwater_operator.manifests.names import claim_name
from headwater_operator.observe.numbers import HttpNumbers
from headwater_operator.observe.pods import read_pod
from tests.kube.scraping import check_panels
from tests.kube.story import (
    APP,
    Counting,
    Workers,
    explained,
    one_at_a_time,
    step,
    until_shared,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.deployed import Operators
    from tests.kube.journey import Journey
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.story import Entry

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

W0, W1, W2, W3, W4 = EVERYBODY = [f"{APP}-w-{number}" for number in range(5)]
FIRST = [f"first-{number}" for number in range(6_000)]
"""So many keys that a store built anew would show: each partition has some hundreds of them."""
LEASE_S = 60
"""So long that the operator does not lose it because the machine is busy."""
TAIL = [f"key-{number}" for number in range(300)]


def test_workers_of_an_installed_chart_are_scaled_and_count_each_update_once(
    bootstrap_servers: str,
    unique_name: str,
    operators: Operators,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    journey, cluster = operators.journey, operators.cluster
    counting = Counting(bootstrap_servers, unique_name)
    workers = Workers(journey)
    with (
        operators.installed("--set=metrics.dashboards.create=true", replicas=1, lease_s=LEASE_S),
        explained(journey, operators, cluster),
    ):
        with step("two workers, not those with the lowest numbers"):
            # Else the volume with the most state would also be the one with the lowest number.
            policy = {"acceptableRecoveryLag": 500}
            gone = {"workersToRemove": [W0, W2]}
            journey.apply(counting.app(replicas=2, assignment=policy, scaleDown=gone))
            until_shared(journey, 2)
            assert sorted(journey.held()) == [W1, W3]
            journey.patch("/spec/scaleDown", {})
            counting.feed(FIRST)
        with counting.under_load():
            with step("from two to five"):
                journey.scale(5)
                until_shared(journey, 5)
                assert sorted(journey.held()) == EVERYBODY
                for name in (W0, W2, W4):
                    assert_warmed_up(workers, name)
                until_all_answer(journey, workers)
            with step("from five to two, one of them named"):
                less = {"/spec/replicas": 2, "/spec/scaleDown": {"workersToRemove": [W3]}}
                journey.patch_all(less)
                until_shared(journey, 2)
                assert_drained(operators, journey, workers, 3)
        counting.until_counted()
        with step("what is kept: workers, claims and Leases of all"):
            assert kept(journey) == (EVERYBODY, EVERYBODY, EVERYBODY)
        with step("from two to three: the volume with the most state, and only its tail"):
            # Then what a copy says when it has caught up is all it has read.
            journey.patch_all({"/spec/scaleDown": {}, "/spec/assignment/acceptableRecoveryLag": 0})
            counting.feed(TAIL)
            best = with_most_state(journey, workers)
            positions = {name: stored_positions(counting, journey, cluster, name) for name in best}
            before = journey.names(PODS)
            journey.scale(3)
            until_shared(journey, 3)
            [chosen] = set(journey.names(PODS)) - set(before)
            assert chosen in best
            with capsys.disabled():
                print(f"\n{adopted(counting, workers, chosen, positions[chosen])}")
            counting.feed(TAIL)
        give_standbys(journey, workers)
        show_everything(operators, tmp_path)
        with step("volumes are not kept any more"):
            journey.patch("/spec/state", {"retention": {"whenScaled": "Delete"}})
            present = sorted(journey.names(PODS))
            journey.until(lambda: kept(journey) == (present,) * 3, "what nobody uses to go")
            counting.feed(TAIL)
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        assert journey.names(CLAIMS) == [claim_name(name) for name in present]
        counting.check_volumes(journey, cluster)


@pytest.mark.soak(stays="tests/e2e/test_6_changing.py::test_another_tag_is_rolled_out")
def test_workers_of_an_installed_chart_are_rolled_one_at_a_time_and_count_each_update_once(
    bootstrap_servers: str, unique_name: str, operators: Operators
) -> None:
    journey, cluster = operators.journey, operators.cluster
    counting = Counting(bootstrap_servers, unique_name)
    with (
        operators.installed(replicas=1, lease_s=LEASE_S),
        explained(journey, operators, cluster),
    ):
        with step("three workers, and a standby of each task"):
            policy = {"standbyReplicas": 1, "acceptableRecoveryLag": 500}
            journey.apply(counting.app(replicas=3, assignment=policy))
            until_shared(journey, 3)
            counting.feed(FIRST)
        roll(counting, journey)
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


def give_standbys(journey: Journey, workers: Workers) -> None:
    """Ask for a standby of each task: they are there in time, and nobody starts anew."""

    def is_every_task_covered() -> bool:
        is_ready = journey.condition("StandbysReady")[:2] == ("True", "CaughtUp")
        return is_ready and sorted(workers.standbys()) == journey.tasks()

    with step("a standby of each task"):
        before = journey.uids(), journey.status()["revision"]
        policy = {"standbyReplicas": 1, "acceptableRecoveryLag": 500}
        journey.patch("/spec/assignment", policy)
        journey.until(is_every_task_covered, "a standby of every task")
        until_shared(journey, 3)
        assert (journey.uids(), journey.status()["revision"]) == before


def show_everything(operators: Operators, directory: Path) -> None:
    """Check the dashboards of the operator, with advice on how many workers there should be."""
    with step("each panel of the operator has data"):
        advice = {"minReplicas": 1, "maxReplicas": 5, "targetCatchUp": "30s"}
        operators.journey.patch("/spec/autoscaling", {"mode": "Advise", **advice})
        check_panels(operators, directory)


def roll(counting: Counting, journey: Journey) -> None:
    """Roll out a new revision under load: each update counts once, one worker is away at a time."""
    first = journey.status()["revision"]["current"]

    def are_new(count: int) -> bool:
        status = journey.status()
        return status["revision"]["update"] != first and status["updatedReplicas"] >= count

    with step("a new revision, under load, one worker at a time"):
        with counting.under_load(), one_at_a_time(journey):
            journey.patch("/spec/config/commit.interval.ms", 250)
            for number in (1, 2, 3):
                journey.until(partial(are_new, number), f"{number} workers to be new")
            until_shared(journey, 3)
        counting.until_counted()


def assert_warmed_up(workers: Workers, name: str) -> None:
    """Check that a new worker had restored its tasks before it got them."""
    spec = workers.all()[name].spec
    why = {task: placement.reason for placement in spec.why for task in placement.tasks}
    assert spec.active
    # By the time it was granted, a copy that had caught up may have fallen behind a little.
    assert {why[task] for task in spec.active} <= {str(Why.CAUGHT_UP), str(Why.NEAREST)}


def until_all_answer(journey: Journey, workers: Workers) -> None:
    """Wait until every worker has told the exact lags of its copies at its pod's address."""
    source = HttpNumbers(silence_ms=0)

    def do_all_answer() -> bool:
        pods = map(read_pod, journey.api.list(PODS, journey.namespace))
        answers = source.ask({pod.worker: pod.endpoint for pod in pods})
        processes = {name: worker.status.incarnation for name, worker in workers.all().items()}
        return {name: answer.incarnation for name, answer in answers.items()} == processes

    journey.until(do_all_answer, "every worker to answer")
    source.close()


def assert_drained(operators: Operators, journey: Journey, workers: Workers, count: int) -> None:
    """Check that so many workers had released all before they ended, and that nobody was lost.

    Whoever is told to drain ends by itself, maybe before the operator stops it. The operator's log
    is looked at, because an Event that cannot be posted is only logged.
    """
    left, said = workers.all(), operators.log
    gone = set(EVERYBODY) - set(journey.names(PODS))
    assert len(gone) == count
    assert [name for name in gone if not left[name].spec.drain or left[name].status.tasks] == []
    assert [name for name in gone if f"{name}: stop {StopHow.AT_ONCE.value}" in said] == []
    assert "WorkerLost" not in said


def kept(journey: Journey) -> tuple[list[str], list[str], list[str]]:
    """StreamWorkers, the workers that have a claim, and those that have a Lease."""
    names = journey.names(STREAM_WORKERS)
    claims = journey.names(CLAIMS)
    leases = [name for name in journey.names(LEASES) if name != LEASE_NAME]
    return names, [name for name in EVERYBODY if claim_name(name) in claims], leases


def with_most_state(journey: Journey, workers: Workers) -> list[str]:
    """The workers without a pod that have state of the most tasks; as a rule, the one named."""
    pods = journey.names(PODS)
    counts = {
        name: len(worker.status.stored)
        for name, worker in workers.all().items()
        if name not in pods
    }
    return [name for name, count in counts.items() if count == max(counts.values())]


def stored_positions(
    counting: Counting, journey: Journey, cluster: Cluster, name: str
) -> dict[str, int]:
    """How far the state of each task reaches on the volume of a worker that does not run."""
    claim = journey.api.get(CLAIMS, journey.namespace, claim_name(name))
    assert claim is not None
    volume = cluster.storage.path(claim["spec"]["volumeName"])
    found = {
        str(stored.task): stored.position.offset
        for stored in StateDirectory(volume, counting.prefix).stored()
        if stored.position is not None
    }
    assert found
    return found


def adopted(counting: Counting, workers: Workers, name: str, positions: dict[str, int]) -> str:
    """Check that a worker has read only what its volume lacked; return what it came to.

    Nothing is sent meanwhile.
    """
    said = workers.tasks(name)
    changelog = counting.changelog()
    lacked = {
        task: [entry for entry in entries if entry.offset >= positions.get(task, 0)]
        for task, entries in changelog.items()
    }
    tasks = {each["task"] for each in said["tasks"] if each["role"] == Role.ACTIVE}
    assert tasks & positions.keys()
    needed = [entry for task in tasks for entry in lacked[task]]
    # It may have begun with another one of which it has state.
    most = sum(len(lacked[task]) for task in tasks | positions.keys())
    read = said["restoredTotal"] + said["followedTotal"]
    assert 0 < len(needed) <= read <= most
    whole = [entry for task in tasks for entry in changelog[task]]
    return (
        f"{name}: {read} records read for {len(tasks)} tasks, {len(tasks & positions.keys())} of "
        f"them on its volume, which lacked {len(needed)} ({size(needed)} bytes) of {len(whole)} "
        f"({size(whole)} bytes)"
    )


def size(entries: list[Entry]) -> int:
    return sum(entry.size for entry in entries)
