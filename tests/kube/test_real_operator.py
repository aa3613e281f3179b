"""The operator as the chart installs it, killed, frozen and cut off while real workers count.

It runs as the pods of its Deployment, with their token, variables and arguments.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater.failpoints import VARIABLE
from headwater.model.cluster import generation_of
from headwater_operator.handlers.process import EXIT_LOST
from headwater_operator.kube.api import LEASES, PODS
from headwater_operator.kube.election import LEASE_NAME
from tests.conftest import seed_base
from tests.kube import operator_entry
from tests.kube.installed import RELEASE, forget_apps, namespaces, programs, release
from tests.kube.kubelet.cluster import PYTHON, Cluster, python_image
from tests.kube.story import APP, Counting, Workers, explained, step, until_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command
    from tests.kube.journey import Journey
    from tests.kube.kubelet.container import Container
    from tests.kube.kubelet.runs import Run

pytestmark = [
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

OPERATOR: Final = "headwater-test/operator:1"
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
KEYS: Final = [f"first-{number}" for number in range(2_000)]


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, admin: KubeClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Machines that run the operator, too."""
    images = {PYTHON: python_image(), OPERATOR: operator_entry.image()}
    with Cluster(control_plane, admin, tmp_path_factory.mktemp("cluster"), images) as running:
        yield running


@pytest.fixture
def operators(
    kube_api: ApiClient, kubeconfig: Path, journey: Journey, cluster: Cluster, tmp_path: Path
) -> Iterator[Operators]:
    """Not yet installed, in a namespace of their own."""
    with namespaces(kube_api, 1) as [home]:
        helm, kubectl = programs(kubeconfig, home)
        yield Operators(journey, cluster, helm, kubectl, tmp_path)
        forget_apps(kube_api, journey.namespace)


@dataclass
class Operators:
    """The pods of the operator's Deployment.

    Attributes:
        journey: of the user.
        cluster: where they run.
        helm: installs them.
        kubectl: works in their namespace.
        marks: a file for each fail point, which makes its kill the only one.
    """

    journey: Journey
    cluster: Cluster
    helm: Command
    kubectl: Command
    marks: Path

    @property
    def namespace(self) -> str:
        """Where they are."""
        return self.kubectl.namespace

    @property
    def log(self) -> str:
        """What those that are there have said, one after the other."""
        labels = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
        found = self.journey.api.list(PODS, self.namespace, labels=labels)
        names = sorted(each["metadata"]["name"] for each in found)
        return "\n".join(f"-- {each}\n{self.cluster.log(self.namespace, each)}" for each in names)

    def container(self, identity: str) -> Container:
        """The container of a process."""
        return self.cluster.container(self.namespace, pod_of(identity))

    def lease(self) -> dict[str, Any]:
        """What the Lease of the leader says."""
        found = self.journey.api.get(LEASES, self.namespace, LEASE_NAME) or {}
        spec: dict[str, Any] = found.get("spec") or {}
        return spec

    def leader(self) -> str:
        """The process that leads; empty if none does. Its name begins with that of its pod."""
        return str(self.lease().get("holderIdentity") or "")

    def run_of(self, identity: str) -> Run | None:
        """A process that has led; ``None`` if its pod's present one is another, or has ended."""
        container = self.container(identity)
        run = container.run
        if run is None or not container.log.exists():
            return None
        if f"operator {identity} leads" not in container.log.read_text():
            return None
        return None if run.exit_code is not None else run

    def last_exit(self, identity: str) -> int | None:
        """How the last process that has ended in a process's pod did so."""
        pod = self.journey.api.get(PODS, self.namespace, pod_of(identity)) or {}
        [container] = (pod.get("status") or {}).get("containerStatuses") or [{}]
        for state in ("state", "lastState"):
            if ended := (container.get(state) or {}).get("terminated"):
                return int(ended["exitCode"])
        return None

    # -- faults ----------------------------------------------------------------------------------

    def failpoints(self, steps: list[str]) -> str:
        """A kill before each of these writes, at the first one after its file was removed."""
        for each in steps:
            (self.marks / each).touch()
        return ";".join(f"operator.{each}=kill!{self.marks / each}" for each in steps)

    def arm(self, steps: list[str]) -> None:
        for each in steps:
            (self.marks / each).unlink()

    def are_killed(self, steps: list[str]) -> bool:
        """Whether a process has come to each of them, and has ended there."""
        return all((self.marks / each).exists() for each in steps)


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
    with (
        release(operators.helm, *installed(journey.namespace, operators.failpoints(steps))),
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
        journey.kubectl("delete", "sapp", APP, "--timeout=120s")
        counting.check_volumes(journey, cluster)


def installed(namespace: str, failpoints: str) -> list[str]:
    """How the chart is installed: two operators for one namespace."""
    repository, _, tag = OPERATOR.partition(":")
    extra = [*operator_entry.variables(), {"name": VARIABLE, "value": failpoints}]
    values = {
        "replicas": 2,
        "image": {"repository": repository, "tag": tag},
        "watchNamespaces": [namespace],
        "worker": {"image": PYTHON},
        "leaderElection": {"leaseSeconds": LEASE_S},
        "extraEnv": extra,
    }
    return [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]


def without_liveness(kubectl: Command) -> None:
    """Nobody ends a frozen process in the place of its Lease, however long it takes here."""
    path = "/spec/template/spec/containers/0/livenessProbe"
    change = json.dumps([{"op": "remove", "path": path}])
    name = f"deployment/{RELEASE}-operator"
    kubectl("patch", name, "--type=json", f"--patch={change}")
    kubectl("rollout", "status", name, "--timeout=110s")


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


def pod_of(identity: str) -> str:
    return identity.partition("_")[0]
