"""StreamActions among real workers under load: each update is counted once, whatever is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater_operator.kube.api import PODS, STREAM_ACTIONS
from tests.kube.story import APP, Counting, explained, one_at_a_time, step, until_shared

if TYPE_CHECKING:
    from tests.kube.deployed import Operators
    from tests.kube.journey import Journey

pytestmark = [
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

W0, W1 = f"{APP}-w-0", f"{APP}-w-1"
LEASE_S = 6
KILLS = ("write_action", "write_spec")
WAIT = "--timeout=280s"


def test_workers_under_load_are_restarted_and_drained_and_a_task_moves(
    bootstrap_servers: str, unique_name: str, operators: Operators
) -> None:
    journey, cluster = operators.journey, operators.cluster
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    failpoints = operators.failpoints(KILLS)
    with (
        operators.installed(replicas=2, lease_s=LEASE_S, failpoints=failpoints),
        explained(journey, operators, cluster),
    ):
        with step("two workers"):
            policy = {"acceptableRecoveryLag": 500}
            journey.apply(counting.app(replicas=2, assignment=policy))
            until_shared(journey, 2)
            counting.feed(f"first-{number}" for number in range(500))
        with counting.under_load():
            with step("every process is replaced, one at a time"), one_at_a_time(journey):
                create(journey, "restart", type="Restart")
                complete(journey, "restart")
            until_shared(journey, 2)
            with step("a worker is drained, the operator killed twice meanwhile"):
                before = journey.uids()
                operators.arm(KILLS)
                create(journey, "drain", type="DrainWorker", drainWorker={"worker": W1})
                complete(journey, "drain")
                assert operators.are_killed(KILLS)
                now = journey.uids()
                assert now[W0] == before[W0]
                assert now[W1] != before[W1]
                until_shared(journey, 2)
            with step("a task moves, and stays where it is to be"):
                task = journey.held()[W0][0]
                create(journey, "move", type="MoveTask", moveTask={"task": task, "worker": W1})
                complete(journey, "move")
                assert task in journey.held()[W1]
                until_shared(journey, 2)
                assert task in journey.held()[W1]
        counting.until_counted()
        with step("what cannot be done says so"):
            create(journey, "unknown", type="DrainWorker", drainWorker={"worker": f"{APP}-w-7"})
            journey.kubectl("wait", "sact/unknown", "--for=condition=Failed", WAIT)
            said = journey.kubectl("get", "sact", "--output=wide")
            assert "UnknownWorker" in said
            assert f"its workers are {W0} {W1}" in said
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)
        assert journey.names(PODS) == []


def create(journey: Journey, name: str, **spec: object) -> None:
    """Create a StreamAction as a user does."""
    manifest = {
        "apiVersion": STREAM_ACTIONS.api_version,
        "kind": STREAM_ACTIONS.kind,
        "metadata": {"name": name},
        "spec": {"app": APP, **spec},
    }
    journey.kubectl("create", "--filename=-", stdin=json.dumps(manifest))


def complete(journey: Journey, name: str) -> None:
    """Wait as a user's script does."""
    journey.kubectl("wait", f"sact/{name}", "--for=condition=Complete", WAIT)
