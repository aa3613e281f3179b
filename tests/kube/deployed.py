"""The operator as the chart installs it, on machines whose pods are processes.

It runs as the pods of its Deployment, with their token, variables and arguments; the chart's rights
and admission policy hold.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.failpoints import VARIABLE
from headwater_operator.kube.api import LEASES, PODS
from headwater_operator.kube.election import LEASE_NAME
from tests.kube import operator_entry
from tests.kube.installed import RELEASE, release
from tests.kube.kubelet.cluster import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.kube.fixtures import Command
    from tests.kube.journey import Journey
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.kubelet.container import Container
    from tests.kube.kubelet.runs import Run

OPERATOR: Final = "headwater-test/operator:1"
"""The image."""


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

    @contextmanager
    def installed(
        self, *more: str, replicas: int, lease_s: int, failpoints: str = ""
    ) -> Iterator[str]:
        """Have the chart installed, with so many operators for the user's namespace."""
        repository, _, tag = OPERATOR.partition(":")
        extra = [*operator_entry.variables(), {"name": VARIABLE, "value": failpoints}]
        values = {
            "replicas": replicas,
            "image": {"repository": repository, "tag": tag},
            "watchNamespaces": [self.journey.namespace],
            "worker": {"image": PYTHON},
            "leaderElection": {"leaseSeconds": lease_s},
            "extraEnv": extra,
        }
        options = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        with release(self.helm, *options, *more) as notes:
            yield notes

    # -- faults ----------------------------------------------------------------------------------

    def failpoints(self, steps: Iterable[str]) -> str:
        """A kill before each of these writes, at the first one after its file was removed."""
        for each in steps:
            (self.marks / each).touch()
        return ";".join(f"operator.{each}=kill!{self.marks / each}" for each in steps)

    def arm(self, steps: Iterable[str]) -> None:
        for each in steps:
            (self.marks / each).unlink()

    def are_killed(self, steps: Iterable[str]) -> bool:
        """Whether a process has come to each of them, and has ended there."""
        return all((self.marks / each).exists() for each in steps)


def pod_of(identity: str) -> str:
    return identity.partition("_")[0]
