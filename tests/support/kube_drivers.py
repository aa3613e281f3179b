"""Players of Spark's driver: it makes its executors, and says of itself that it runs.

As :mod:`tests.support.kube_fakes`, through the operator's port. A driver's process is its pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.drivercontract import EXECUTOR
from headwater_operator.kube.api import PODS, KubeApi, Manifest
from headwater_operator.kube.errors import AlreadyExistsError
from headwater_operator.manifests.names import (
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    EXECUTORS_ANNOTATION,
    GENERATION_ANNOTATION,
    app_of,
    component_of,
    labels,
)
from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class FakeDrivers:
    """All drivers of a namespace.

    Attributes:
        silent: none of them answers.
        makes_executors: they have them in pods.
        state: what they say of themselves.
        batches: how many micro-batches they have done.
        answers: by endpoint.
    """

    api: KubeApi
    namespace: str
    silent: bool = False
    makes_executors: bool = True
    state: str = "RUNNING"
    batches: int = 8
    answers: dict[str, DriverAnswer] = field(default_factory=dict)

    def step(self) -> Mapping[str, DriverAnswer]:
        """Do what drivers do; return how those that can be asked would answer, by endpoint."""
        pods = self.api.list(PODS, self.namespace)
        drivers = [pod for pod in pods if component_of(pod) == DRIVER_COMPONENT]
        self.answers = {}
        for pod in drivers:
            status = pod.get("status") or {}
            if status.get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
                continue
            if self.makes_executors:
                self._make_executors(pod)
            if not self.silent:
                self.answers[f"{status['podIP']}:8080"] = self._answer(pod)
        return self.answers

    def _answer(self, pod: Manifest) -> DriverAnswer:
        generation = int(pod["metadata"]["annotations"][GENERATION_ANNOTATION])
        return DriverAnswer(
            state=self.state,
            generation=generation,
            batches=self.batches,
            last_batch=self.batches - 1,
            input_rows_per_second=120.4,
            processed_rows_per_second=240.6,
            tasks=("0_0", "0_1", "1_0", "1_1"),
        )

    def _make_executors(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        for number in range(int(metadata["annotations"][EXECUTORS_ANNOTATION])):
            made: Manifest = {
                "metadata": {
                    "name": f"{app_of(pod)}-{metadata['uid'][:8]}-exec-{number + 1}",
                    "namespace": self.namespace,
                    "labels": labels(app_of(pod), component=EXECUTOR_COMPONENT),
                    "ownerReferences": [owner],
                },
                "spec": {
                    "containers": [
                        {"name": EXECUTOR, "image": pod["spec"]["containers"][0]["image"]}
                    ]
                },
            }
            try:
                self.api.create(PODS, made)
            except AlreadyExistsError:
                continue


def executors(api: KubeApi, namespace: str) -> list[str]:
    """Names of the executors there are."""
    found = api.list(PODS, namespace)
    return sorted(
        pod["metadata"]["name"] for pod in found if component_of(pod) == EXECUTOR_COMPONENT
    )
