"""Several operators, killed and frozen ones, an API server that goes away: nothing is lost."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from headwater.model.cluster import generation_of
from headwater_operator.act.gate import STEPS
from headwater_operator.handlers.process import EXIT_LOST
from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    PODS,
    STREAM_ACTIONS,
    STREAM_APPS,
    STREAM_WORKERS,
    VOLUME_SNAPSHOTS,
)
from headwater_operator.manifests.names import RESET_ANNOTATION, Owner, metadata
from tests.kube.journey import SHORT_LEASE_S, TASKS, streamapp
from tests.kube.kubelet.snapshots import Snapshots
from tests.kube.streamactions import create, standing, suspended_job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kube.control_plane import ControlPlane
    from tests.kube.journey import Installation, Journey, OperatorProcess

KILLED = 9


def generations(user: Journey) -> set[int]:
    found = user.api.list(STREAM_WORKERS, user.namespace)
    return {generation_of(int(each["spec"]["epoch"])) for each in found}


@pytest.mark.soak(
    stays="tests/kube/test_real_operator.py::test_counts_stay_exact_while_the_operator_is_killed_frozen_and_cut_off"
)
def test_of_two_operators_one_leads_and_the_other_takes_over_when_it_is_killed(
    own_installation: Installation, user: Journey
) -> None:
    own_installation.lease_s = SHORT_LEASE_S
    operators = {name: own_installation.process(name) for name in ("one", "two")}
    user.begin()
    leader = own_installation.leader()
    (other,) = operators.keys() - {leader}
    assert "leads" in operators[leader].log
    assert "leads" not in operators[other].log
    assert "wc" not in operators[other].log
    first = own_installation.generation()

    operators[leader].kill()
    user.scale(3)

    user.until(lambda: own_installation.leader() == other, "the other one to lead")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "the third worker")
    assert own_installation.generation() > first
    assert generations(user) == {own_installation.generation()}
    operators[other].stop()
    assert operators[other].exit_status == 0
    assert own_installation.leader() == ""


@pytest.mark.soak(
    stays="tests/kube/test_real_operator.py::test_counts_stay_exact_while_the_operator_is_killed_frozen_and_cut_off"
)
def test_a_leader_that_was_frozen_past_its_lease_ends_without_a_word(
    own_installation: Installation, user: Journey
) -> None:
    own_installation.lease_s = SHORT_LEASE_S
    old = own_installation.process("old")
    user.begin()
    old.freeze()
    # Something is to do when it wakes up.
    user.scale(3)
    new = own_installation.process("new")
    user.until(lambda: own_installation.leader() == "new", "the other one to lead")
    user.until(user.is_settled, "the third worker")
    before = {each["metadata"]["uid"] for each in user.api.list(PODS, user.namespace)}
    said = len(old.log.splitlines())

    old.thaw()

    user.until(lambda: old.exit_status is not None, "the old one to end")
    assert old.exit_status == EXIT_LOST
    assert not [line for line in old.log.splitlines()[said:] if "act.events" in line]
    assert generations(user) == {own_installation.generation()}
    assert {each["metadata"]["uid"] for each in user.api.list(PODS, user.namespace)} == before
    assert new.exit_status is None


@pytest.mark.soak(
    stays="tests/kube/test_real_operator.py::test_counts_stay_exact_while_the_operator_is_killed_frozen_and_cut_off"
)
def test_an_operator_goes_on_when_the_api_server_comes_back(
    own_installation: Installation, user: Journey, control_plane: ControlPlane
) -> None:
    operator = own_installation.process("only")
    user.begin()
    workers = user.workers.of("wc")
    pods = {each["metadata"]["uid"] for each in user.api.list(PODS, user.namespace)}

    control_plane.compact()
    control_plane.restart_api_server()

    user.scale(3)
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "the third worker")
    assert operator.exit_status is None
    # Nobody could renew a Lease for a while, and nobody was taken for dead.
    assert workers.fenced == []
    assert pods < {each["metadata"]["uid"] for each in user.api.list(PODS, user.namespace)}


def test_an_operator_whose_watch_of_pods_is_dead_says_so_and_goes_on(
    own_installation: Installation, user: Journey
) -> None:
    own_installation.sweep_s = 5
    operator = own_installation.process("deaf", "operator.hears_pods=error@1+")
    user.begin()

    user.until(
        lambda: re.fullmatch(r"watches are deaf: pods for \d+ s\n", operator.ask("/readyz")),
        "it to find out",
    )

    assert "the watch of pods is deaf" in operator.log
    # For as long as a new connection may mend it, nobody has to start it again.
    assert operator.ask("/healthz") == "ok\n"
    user.scale(3)
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "the third worker")


class Immortal:
    """An operator that is started again whenever it was killed, until the test ends.

    Each of ``steps`` kills one process, right before its first such write.
    """

    def __init__(self, installation: Installation, directory: Path, steps: Sequence[str]) -> None:
        self._installation = installation
        self._marks = directory / "killed"
        self._marks.mkdir()
        self._failpoints = ";".join(f"operator.{step}=kill!{self._marks / step}" for step in steps)
        self._stop = threading.Event()
        self.statuses: list[int] = []
        self.process: OperatorProcess = self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self) -> OperatorProcess:
        # In the same place, as a container that is started again: its Lease is its own.
        return self._installation.process("only", self._failpoints)

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            status = self.process.exit_status
            if status is not None:
                self.statuses.append(status)
                self.process = self._start()

    def killed(self) -> set[str]:
        """The steps that were come to."""
        return {path.name for path in self._marks.iterdir()}

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.process.kill()


@pytest.mark.soak(
    stays="tests/kube/test_real_operator.py::test_counts_stay_exact_while_the_operator_is_killed_frozen_and_cut_off"
)
@pytest.mark.timeout(1200)
def test_an_operator_that_is_killed_before_every_kind_of_write_is_followed_by_one_that_goes_on(
    own_installation: Installation, user: Journey, tmp_path: Path
) -> None:
    # Each one that is killed has a successor that has to start, on a machine that may be busy.
    user.patience_s += 30 * len(STEPS)
    immortal = Immortal(own_installation, tmp_path, STEPS)

    try:
        whole_life(user)
        user.until(lambda: immortal.killed() == set(STEPS), f"all of {STEPS} to be come to")
    finally:
        immortal.stop()
    assert immortal.statuses == [KILLED] * len(STEPS)
    user.until(lambda: len(user.names(CLAIMS)) == 1, "the claims that were not to be kept to go")
    for resource in (PODS, STREAM_WORKERS, LEASES):
        left = [name for name in user.names(resource) if name != "headwater-operator"]
        assert left == [], resource.plural
    user.until(lambda: user.names(CONFIG_MAPS) == ["kube-root-ca.crt"], "ConfigMaps to go")


def is_resetting(user: Journey) -> bool:
    found = user.api.get(STREAM_APPS, user.namespace, "wc")
    assert found is not None
    return RESET_ANNOTATION in (found["metadata"].get("annotations") or {})


def whole_life(user: Journey) -> None:
    """Everything that is ever written, at least once."""
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    user.apply(streamapp(replicas=3, state={"retention": policy}))
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "the workers to run")
    pod = user.uid(PODS, "wc-w-1")
    user.stage.end(user.namespace, "wc-w-1")
    user.until(lambda: user.uid(PODS, "wc-w-1") not in ("", pod), "another process")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "its tasks to run")
    stray_pod(user)
    user.api.delete(LEASES, user.namespace, "wc-w-0")
    user.scale(1)
    left = (CLAIMS, PODS, STREAM_WORKERS)
    user.until(lambda: all(len(user.names(kind)) == 1 for kind in left), "two workers to go")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "one to run everything")
    to_spark_and_back(user)
    actions(user)
    # The class of its volume cannot do that.
    user.patch("/spec/state", {"retention": {"whenDeleted": "Retain"}, "size": "2Ti"})
    user.until(lambda: user.condition("Degraded")[1] == "VolumeTooSmall", "it to be refused")
    user.patch("/spec/state", {"retention": {"whenDeleted": "Retain"}})
    user.patch("/spec/suspend", True)
    user.until(lambda: not user.names(PODS), "it to be suspended")
    user.patch("/spec/config", {"commit.interval.ms": 200})
    user.patch("/spec/suspend", False)
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "it to go on")
    user.until(lambda: len(user.names(CONFIG_MAPS)) == 2, "the old revision to be forgotten")
    user.until(lambda: not is_owned(user), "the claim to stay on its own")
    user.kubectl("annotate", "sapp", "wc", f"{RESET_ANNOTATION}=now")
    user.until(lambda: not is_resetting(user), "it to be reset")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "it to begin anew")
    user.kubectl("delete", "sapp", "wc", "--wait=false")
    user.until(lambda: not user.names(STREAM_APPS), "the StreamApp to go")


def to_spark_and_back(user: Journey) -> None:
    """Hand the StreamApp over to Spark, whose driver never speaks and ends once, and back."""

    def is_there(*, but: str) -> bool:
        pod = user.api.get(PODS, user.namespace, "wc-driver") or {}
        is_running = (pod.get("status") or {}).get("phase") == "Running"
        return is_running and pod["metadata"]["uid"] != but and user.names(PODS) == ["wc-driver"]

    user.patch("/spec/engine", "Spark")
    user.until(lambda: is_there(but=""), "the driver to be there alone")
    pod = user.uid(PODS, "wc-driver")
    user.stage.end(user.namespace, "wc-driver")
    user.until(lambda: is_there(but=pod), "another driver")
    user.patch("/spec/engine", "Native")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "a worker to run everything")
    user.until(lambda: "wc-driver" not in user.names(PODS), "the driver to go")


def actions(user: Journey) -> None:
    """Copy a volume, let a Job run, and restart the processes by an action that goes by itself."""

    def has_ended(name: str) -> bool:
        return standing(user, name, "Complete") != ("", "")

    with Snapshots(user.api) as snapshots:
        create(user, "copy", type="SnapshotVolume", snapshotVolume={"worker": "wc-w-0"})
        user.until(lambda: user.names(VOLUME_SNAPSHOTS) == ["copy"], "a VolumeSnapshot")
        snapshots.take(user.namespace, "copy")
        user.until(lambda: has_ended("copy"), "the copy to be seen")
    container = {"name": "driver", "image": "example/driver:1"}
    user.api.create(JOBS, suspended_job(user, "compute", container))
    create(user, "backfill", type="Backfill", backfill={"job": "compute"})
    user.until(lambda: user.names(PODS) == [pod_of_job(user)], "the Job to run alone")
    user.stage.end(user.namespace, pod_of_job(user), exit_code=0)
    user.until(lambda: has_ended("backfill"), "the Job to be seen to have ended")
    user.kubectl("delete", "job", "compute", "--cascade=foreground")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "a worker to run everything")
    create(user, "restart", type="Restart", ttlSecondsAfterFinished=0)
    user.until(lambda: "restart" not in user.names(STREAM_ACTIONS), "the action to go")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "another process")


def pod_of_job(user: Journey) -> str:
    """The name of the Job's pod; empty before there is one."""
    names = [name for name in user.names(PODS) if name.startswith("compute-")]
    return names[0] if names else ""


def is_owned(user: Journey) -> bool:
    (claim,) = user.api.list(CLAIMS, user.namespace)
    return bool(claim["metadata"].get("ownerReferences"))


def stray_pod(user: Journey) -> None:
    """What an operator leaves behind that was frozen while another one deleted the worker."""
    owner = Owner(name="wc", namespace=user.namespace, uid="somebody")
    made = metadata(owner, "wc-w-9", worker="wc-w-9", is_owned=False)
    spec = {"containers": [{"name": "worker", "image": "headwater-test/worker:1"}]}
    user.api.create(PODS, {"metadata": made, "spec": spec})
