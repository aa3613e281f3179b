"""The operator as the chart installs it, killed, frozen and cut off while real workers count.

It runs as the pods of its Deployment, with their token, variables and arguments.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Final

import pytest

from headwater.model.cluster import generation_of
from headwater_operator.handlers.process import EXIT_LOST
from headwater_operator.kube.api import CLAIMS
from tests.conftest import seed_base
from tests.kube.installed import RELEASE
from tests.kube.story import APP, Counting, Workers, explained, step, until_shared

if TYPE_CHECKING:
    from tests.kube.control_plane import ControlPlane
    from tests.kube.deployed import Operators
    from tests.kube.fixtures import Command
    from tests.kube.kubelet.runs import Run

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

LEASE_S: Final = 6
GROWING: Final = (
    "create_claim",
    "create_lease",
    "create_pod",
    "create_worker",
    "write_spec",
    "write_status",
)
"""What is written whenever there is to be one more worker, which is told its tasks."""
SHRINKING: Final = ("delete_claim", "delete_pod", "delete_worker")
"""What is deleted when there is to be one worker less, and its volume is not to be kept."""
LAST: Final = "remove_finalizer"
KEYS: Final = [f"first-{number}" for number in range(2_000)]


def test_counts_stay_exact_while_the_operator_is_killed_frozen_and_cut_off(
    bootstrap_servers: str,
    unique_name: str,
    operators: Operators,
    control_plane: ControlPlane,
    pytestconfig: pytest.Config,
) -> None:
    journey, cluster = operators.journey, operators.cluster
    steps = sorted(random.Random(seed_base(pytestconfig)).sample(GROWING, 2))
    print("seed", seed_base(pytestconfig), "kills before", *steps)
    counting = Counting(bootstrap_servers, unique_name)
    failpoints = operators.failpoints([*steps, *SHRINKING, LAST])
    with (
        operators.installed(replicas=2, lease_s=LEASE_S, failpoints=failpoints),
        explained(journey, operators, cluster),
    ):
        with step("two operators, two workers"):
            without_liveness(operators.kubectl)
            journey.until(operators.leader, "an operator to lead")
            journey.apply(counting.app(replicas=2))
            until_shared(journey, 2)
            counting.feed(KEYS)
        with counting.under_load():
            with step("from two to three, the operator killed twice"):
                operators.arm(steps)
                journey.scale(3)
                journey.until(lambda: operators.are_killed(steps), f"kills before {steps}")
                until_shared(journey, 3)
            with step("from three to two, the operator frozen past its Lease"):
                freeze_the_leader(operators)
            with step("from two to three, the API server gone and its past forgotten"):
                journey.scale(3)
                control_plane.compact()
                control_plane.restart_api_server()
                until_shared(journey, 3)
        counting.until_counted()
        with step("from three to two, the operator killed before each deletion"):
            journey.patch("/spec/state", {"retention": {"whenScaled": "Delete"}})
            operators.arm(SHRINKING)
            journey.scale(2)
            journey.until(lambda: operators.are_killed(SHRINKING), f"kills before {SHRINKING}")
            journey.until(lambda: len(journey.names(CLAIMS)) == 2, "its volume to go")
            until_shared(journey, 2)
            counting.feed(KEYS)
        with step("it is deleted, the operator killed once more"):
            operators.arm([LAST])
            journey.kubectl("delete", "sapp", APP, "--timeout=220s")
            assert operators.are_killed([LAST])
        counting.check_volumes(journey, cluster)


def without_liveness(kubectl: Command) -> None:
    """Nobody ends a frozen process in the place of its Lease, however long it takes here."""
    path = "/spec/template/spec/containers/0/livenessProbe"
    change = json.dumps([{"op": "remove", "path": path}])
    name = f"deployment/{RELEASE}-operator"
    kubectl("patch", name, "--type=json", f"--patch={change}")
    kubectl("rollout", "status", name, "--timeout=220s")


def freeze_the_leader(operators: Operators) -> None:
    """Freeze it when there is something to do, until another one leads; it must then do nothing."""
    journey = operators.journey
    old, run = frozen_leader(operators)
    container = operators.container(old)
    log = container.log
    try:
        journey.scale(2)
        journey.until(lambda: operators.leader() not in ("", old), "another operator to lead")
        generation = int(operators.lease()["leaseTransitions"])
        said = len(log.read_text().splitlines())
    finally:
        run.thaw()
    journey.until(lambda: container.run is not run, "the one that was frozen to end")
    journey.until(lambda: operators.last_exit(old) == EXIT_LOST, "it to be told how")
    assert not [line for line in log.read_text().splitlines()[said:] if "act.events" in line]
    until_shared(journey, 2)
    specs = [worker.spec for worker in Workers(journey).all().values()]
    assert min(generation_of(spec.epoch) for spec in specs if spec.active) >= generation


def frozen_leader(operators: Operators) -> tuple[str, Run]:
    """Freeze the process that leads; return its name, and the process."""
    found: list[tuple[str, Run]] = []

    def is_frozen() -> bool:
        leader = operators.leader()
        run = operators.run_of(leader) if leader else None
        if run is None:
            return False
        run.freeze()
        is_leading = False
        try:
            # It may have lost its Lease a moment before.
            is_leading = operators.leader() == leader
        finally:
            if not is_leading:
                run.thaw()
        found.append((leader, run))
        return is_leading

    operators.journey.until(is_frozen, "the leader to be frozen")
    return found[-1]
