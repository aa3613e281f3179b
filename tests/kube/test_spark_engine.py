"""Spark's driver as a pod: an application handed over between workers and Spark, counted exactly.

The operator, the scheduler, rights and Kafka are real, and pods are processes. Once the driver's
tasks run in its own process, and once Spark makes executors through the API server.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater_operator.kube.api import PODS
from headwater_operator.manifests.names import (
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    component_of,
    driver_name,
)
from tests.kube.journey import SHORT_LEASE_S
from tests.kube.kubelet.cluster import PYTHON, Cluster, python_image
from tests.kube.kubelet.environment import Image
from tests.kube.story import APP, Counting, step, until_shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.journey import Installation, Journey

pytestmark = [
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

DRIVER = driver_name(APP)
WITHOUT_SPARK = "headwater-test/without-spark:1"
SPARK: dict[str, Any] = {
    "triggerInterval": "200ms",
    "config": {
        "spark.driver.memory": "512m",
        "spark.kubernetes.driver.request.cores": "100m",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.executor.memoryOverhead": "512m",
    },
}


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, admin: KubeClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Machines with an image whose ``headwater spark`` is a driver that does without Spark."""
    program = tmp_path_factory.mktemp("bin") / "headwater"
    program.write_text(
        f"""#!/bin/sh
[ "$1" = spark ] && exec {sys.executable} -m tests.support.driver "$@"
exec {sys.executable} -m headwater.cli.main "$@"
"""
    )
    program.chmod(0o755)
    real = python_image()
    path = os.pathsep.join([str(program.parent), real.environment["PATH"]])
    images = {PYTHON: real, WITHOUT_SPARK: Image(environment={**real.environment, "PATH": path})}
    # The path of a task host's socket is short, or it is none.
    with (
        tempfile.TemporaryDirectory(prefix="hk-", dir="/tmp") as directory,
        Cluster(control_plane, admin, Path(directory), images) as running,
    ):
        yield running


class Switching:
    """What a user does and sees who changes the engine of a StreamApp."""

    def __init__(self, journey: Journey, cluster: Cluster, operators: Installation) -> None:
        self.journey = journey
        self.cluster = cluster
        self.operators = operators
        self.seen: set[str] = set()
        operators.lease_s = SHORT_LEASE_S
        operators.process("first")

    def replace_operator(self) -> None:
        """Kill the operator, and wait until another leads."""
        self.operators.processes[-1].kill()
        self.operators.process("second")
        self.journey.until(lambda: self.operators.leader() == "second", "another operator")

    def pods(self, component: str) -> dict[str, str]:
        """Uid by name, of pods of a kind that run."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.journey.api.list(PODS, self.journey.namespace)
            if component_of(pod) == component
            and (pod.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

    @property
    def executors(self) -> list[str]:
        """The names of executors that run."""
        names = sorted(self.pods(EXECUTOR_COMPONENT))
        self.seen.update(names)
        return names

    @property
    def driver(self) -> str:
        """The uid of the driver's pod; empty if none runs."""
        return self.pods(DRIVER_COMPONENT).get(DRIVER, "")

    def engine(self) -> dict[str, Any]:
        found: dict[str, Any] = self.journey.status().get("engine") or {}
        return found

    def until_on_spark(self, *, but: str = "") -> None:
        """Wait until Spark runs everything, by another driver than ``but``, and no worker."""

        def is_so() -> bool:
            engine = self.engine()
            is_it = (engine.get("name"), engine.get("driver")) == ("Spark", "RUNNING")
            is_alone = not self.pods("worker") and self.driver not in ("", but)
            return is_it and is_alone and self.journey.condition("Ready")[:2] == ("True", "Running")

        self.journey.until(is_so, "Spark to run everything")

    def until_native(self, count: int) -> None:
        until_shared(self.journey, count)
        assert self.engine().get("name", "Native") == "Native"

    @property
    def said(self) -> str:
        """What all operators, drivers and executors have said."""
        operators = [
            f"== operator {each.place}\n{each.log[-12_000:]}" for each in self.operators.processes
        ]
        names = {DRIVER, *self.seen}
        pods = [
            f"== {name}\n{self.cluster.log(self.journey.namespace, name)[-12_000:]}"
            for name in sorted(names)
        ]
        return "\n".join([*operators, *pods])


@pytest.fixture
def switching(
    journey: Journey, own_installation: Installation, cluster: Cluster
) -> Iterator[Switching]:
    # On a busy machine a JVM alone takes a minute to start, and there are three in a row.
    journey.patience_s = 600
    made = Switching(journey, cluster, own_installation)
    try:
        yield made
    finally:
        print(made.said)  # shown if the test fails


def under_spark(switching: Switching) -> None:
    """The driver is adopted by another operator, and ends."""
    with step("another operator adopts the driver"):
        driver = switching.driver
        switching.replace_operator()
        switching.until_on_spark()
        assert switching.driver == driver
    with step("the driver's process is killed"):
        switching.cluster.kill(switching.journey.namespace, DRIVER)
        switching.until_on_spark(but=driver)


def back_to_workers(switching: Switching, count: int) -> None:
    journey = switching.journey
    with step("back to workers, by an edit"):
        journey.patch("/spec/engine", "Native")
        switching.until_native(count)
        journey.until(lambda: not switching.pods(DRIVER_COMPONENT), "the driver to be gone")


def begin_on_spark(counting: Counting, switching: Switching) -> None:
    """Two workers, then a driver that does without Spark, so there are no executors."""
    journey = switching.journey
    # A master of the user's own: the operator's would ask for executors.
    spark = {**SPARK, "master": "local[1]"}
    with step("two workers"):
        journey.apply(counting.app(replicas=2, image=WITHOUT_SPARK, spark=spark))
        switching.until_native(2)
    with step("to Spark, by an edit"):
        journey.patch("/spec/engine", "Spark")
        switching.until_on_spark()


@pytest.mark.sampled
def test_an_application_goes_to_spark_and_back_and_counts_each_record_once(
    bootstrap_servers: str, unique_name: str, switching: Switching
) -> None:
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    with counting.under_load():
        begin_on_spark(counting, switching)
        under_spark(switching)
        back_to_workers(switching, 2)
    counting.until_counted()


@pytest.mark.soak(
    stays="tests/unit/decide/test_engines.py::test_what_a_driver_is_started_from_has_changed_so_another_is_started"
)
def test_another_driver_takes_over_from_one_that_is_deleted_or_changed_or_scaled(
    bootstrap_servers: str, unique_name: str, switching: Switching
) -> None:
    journey, counting = switching.journey, Counting(bootstrap_servers, unique_name, partitions=4)
    with counting.under_load():
        begin_on_spark(counting, switching)
        with step("the driver's pod is deleted"):
            driver = switching.driver
            journey.api.delete(PODS, journey.namespace, DRIVER, grace_s=1)
            switching.until_on_spark(but=driver)
        with step("another trigger interval"):
            driver = switching.driver
            journey.patch("/spec/spark/triggerInterval", "300ms")
            switching.until_on_spark(but=driver)
        with step("scaled to three"):
            driver = switching.driver
            journey.scale(3)
            switching.until_on_spark(but=driver)
            counts = ("replicas", "readyReplicas", "updatedReplicas")
            journey.until(
                lambda: [journey.status()[name] for name in counts] == [3, 3, 3], "three executors"
            )
        back_to_workers(switching, 3)
    counting.until_counted()


@pytest.mark.soak(stays="tests/e2e/test_6_changing.py::test_it_goes_to_spark_and_back")
@pytest.mark.spark
def test_executors_are_pods_of_the_driver_and_counts_stay_exact_when_they_go(
    bootstrap_servers: str, unique_name: str, switching: Switching
) -> None:
    journey, counting = switching.journey, Counting(bootstrap_servers, unique_name, partitions=4)
    with counting.under_load():
        with step("on Spark from the start, with two executors"):
            journey.apply(counting.app(replicas=2, engine="Spark", spark=SPARK))
            switching.until_on_spark()
            journey.until(lambda: len(switching.executors) == 2, "two executors")
            journey.until(lambda: journey.status().get("readyReplicas") == 2, "both to be told")
            counting.until_more()
        with step("an executor is deleted"):
            before = switching.executors
            journey.api.delete(PODS, journey.namespace, before[0], grace_s=1)
            journey.until(
                lambda: len(set(switching.executors) - {before[0]}) == 2, "another executor"
            )
            counting.until_more()
        back_to_workers(switching, 2)
        journey.until(lambda: not switching.executors, "executors to be gone")
    counting.until_counted()
