"""StreamActions among real workers under load: each update is counted once, whatever is done."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from headwater_operator.kube.api import CLAIMS, JOBS, PODS, VOLUME_SNAPSHOTS
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.kubelet.snapshots import Snapshots
from tests.kube.shell import Shell
from tests.kube.story import APP, Counting, explained, one_at_a_time, step, until_shared
from tests.kube.streamactions import (
    complete,
    create,
    failure,
    has_begun,
    standing,
    suspended_job,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.deployed import Operators
    from tests.kube.journey import Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

W0, W1 = f"{APP}-w-0", f"{APP}-w-1"
LEASE_S = 6
"""Of operators, which are killed."""
LEASE_MS = 1_800_000
"""Of workers: a silent one is taken for dead when its process has ended, and not before."""
KILLS = ("write_action", "write_spec")


def test_each_kind_of_action_is_carried_out_under_load(
    bootstrap_servers: str, unique_name: str, operators: Operators, tmp_path: Path
) -> None:
    journey, cluster = operators.journey, operators.cluster
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    failpoints = operators.failpoints(KILLS)
    with (
        operators.installed(replicas=2, lease_s=LEASE_S, failpoints=failpoints),
        Snapshots(journey.api, cluster.storage) as snapshots,
        explained(journey, operators, cluster),
    ):
        with step("two workers"):
            create(journey, "lost", app="nobody", type="Restart")
            policy = {"acceptableRecoveryLag": 500}
            config = {"session.timeout.ms": LEASE_MS, "max.poll.interval.ms": LEASE_MS}
            journey.apply(counting.app(replicas=2, assignment=policy, config=config))
            until_shared(journey, 2)
            counting.feed(f"first-{number}" for number in range(500))
        with counting.under_load():
            replace_processes(journey, operators)
            move_a_task(journey)
            drain_a_silent_worker(journey, cluster)
        counting.until_counted()
        with step("what its pods have printed is shown, and is in a report"):
            show_logs(journey, tmp_path / "report.zip")
        copy_and_restore(journey, snapshots)
        counting.feed(f"restored-{number}" for number in range(100))
        let_a_job_run(journey, tmp_path / "computed")
        counting.feed(f"computed-{number}" for number in range(100))
        with step("the application is reset"):
            claims = {each: journey.uid(CLAIMS, each) for each in journey.names(CLAIMS)}
            create(journey, "anew", type="Reset", reset={"to": "latest"})
            complete(journey, "anew")
            until_shared(journey, 2)
            assert all(journey.uid(CLAIMS, each) != uid for each, uid in claims.items())
            counting.feed(f"anew-{number}" for number in range(100))
            assert sum(map(len, counting.changelog().values())) == 100
        with step("what cannot be done says so"):
            create(journey, "unknown", type="DrainWorker", drainWorker={"worker": f"{APP}-w-7"})
            reason, message = failure(journey, "unknown")
            assert reason == "UnknownWorker"
            assert f"its workers are {W0} {W1}" in message
            reason, message = failure(journey, "lost")
            assert reason == "ApplicationNotFound"
            assert "there is no StreamApp nobody in this namespace" in message
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)
        assert journey.names(PODS) == []


def show_logs(journey: Journey, file: Path) -> None:
    """Read logs by ``kubectl headwater``."""
    shell = Shell(journey, journey.kubectl.kubeconfig)
    logged = shell.run(f"logs {APP} --tail 3").splitlines()
    assert {line.partition(" | ")[0] for line in logged} == {W0, W1}
    assert len(logged) == 6
    shell.run(f"report {APP} --file {file}")
    with zipfile.ZipFile(file) as archive:
        assert b"StreamThread" in archive.read(f"logs/{W0}.log")


def replace_processes(journey: Journey, operators: Operators) -> None:
    """Restart all and drain one, which waits for the first; the operator is killed twice."""
    with step("every process is replaced, then a worker is drained"), one_at_a_time(journey):
        operators.arm(KILLS)
        create(journey, "all-anew", type="Restart")
        create(journey, "drain", type="DrainWorker", drainWorker={"worker": W1})
        journey.until(
            lambda: standing(journey, "drain", "Waiting")[1].startswith(
                "it waits for all-anew (Restart)"
            ),
            "the drain to wait for the restart",
        )
        complete(journey, "all-anew")
        before = journey.uids()
        complete(journey, "drain")
        assert operators.are_killed(KILLS)
        now = journey.uids()
        assert now[W0] == before[W0]
        assert now[W1] != before[W1]


def move_a_task(journey: Journey) -> None:
    until_shared(journey, 2)
    with step("a task moves, and stays where it is to be"):
        copied = {"worker": W1}
        create(journey, "late-copy", type="SnapshotVolume", snapshotVolume=copied, timeout="20s")
        task = journey.held()[W0][0]
        create(journey, "move", type="MoveTask", moveTask={"task": task, "worker": W1})
        complete(journey, "move")
        assert task in journey.held()[W1]
        until_shared(journey, 2)
        assert task in journey.held()[W1]


def drain_a_silent_worker(journey: Journey, cluster: Cluster) -> None:
    """A silent worker keeps its tasks for as long as its Lease lasts, or until its process ends.

    So one drain runs out of time, one is cancelled half-way, and one goes on when the process ends.
    """
    before, silent = journey.uids(), {"worker": W1}
    with step("a worker that does not answer keeps its tasks, whatever becomes of a drain"):
        cluster.freeze(journey.namespace, W1, is_noticed=False)
        held = set(journey.held()[W1])
        create(journey, "late", type="DrainWorker", drainWorker=silent, timeout="5s")
        reason, message = failure(journey, "late")
        assert reason == "DeadlineExceeded"
        assert f"leave {W1}" in message
        create(journey, "stopped", type="DrainWorker", drainWorker=silent)
        journey.until(lambda: standing(journey, "stopped", "Running")[0] == "Draining", "a drain")
        journey.kubectl("patch", "sact/stopped", "--type=merge", '--patch={"spec":{"cancel":true}}')
        reason, message = failure(journey, "stopped")
        assert reason == "Cancelled"
        assert f"leave {W1}" in message
        # Asked back or not: as long as it may hold them, nobody else has them.
        assert not held & set(journey.held()[W0])
        cluster.thaw(journey.namespace, W1)
        until_shared(journey, 2)
        assert journey.uids() == before
    with step("the drain of one that has ended meanwhile is completed"):
        cluster.freeze(journey.namespace, W1, is_noticed=False)
        create(journey, "ended", type="DrainWorker", drainWorker=silent)
        journey.until(lambda: standing(journey, "ended", "Running")[0] == "Draining", "a drain")
        cluster.kill(journey.namespace, W1)
        complete(journey, "ended")
        now = journey.uids()
        assert now[W0] == before[W0]
        assert now[W1] != before[W1]
    reason, message = failure(journey, "late-copy")
    assert reason == "DeadlineExceeded"
    assert "the VolumeSnapshot late-copy is not ready to use yet" in message
    until_shared(journey, 2)


def copy_and_restore(journey: Journey, snapshots: Snapshots) -> None:
    """A volume is copied, and a worker runs on another one made from the copy."""
    with step("a volume is copied, and brought back"):
        create(journey, "copy", type="SnapshotVolume", snapshotVolume={"worker": W0})
        journey.until(
            lambda: standing(journey, "copy", "Running")[1].endswith("not ready to use yet"),
            "a VolumeSnapshot",
        )
        [made] = [
            each
            for each in journey.api.list(VOLUME_SNAPSHOTS, journey.namespace)
            if each["metadata"]["name"] == "copy"
        ]
        assert made["spec"] == {"source": {"persistentVolumeClaimName": f"{W0}-state"}}
        assert "ownerReferences" not in made["metadata"]
        snapshots.take(journey.namespace, "copy")
        complete(journey, "copy")
        restore = {"worker": W0, "snapshot": "copy"}
        create(journey, "back", type="RestoreVolume", restoreVolume=restore)
        complete(journey, "back")
        claim = journey.api.get(CLAIMS, journey.namespace, f"{W0}-state")
        assert claim is not None
        assert claim["spec"]["dataSource"]["name"] == "copy"
    until_shared(journey, 2)


def let_a_job_run(journey: Journey, computed: Path) -> None:
    """A suspended Job runs while there is no worker, and they go on when it has ended."""
    with step("workers are stopped while a Job runs"):
        until_computed = f"until test -e {computed}; do sleep 0.2; done"
        command = ["sh", "-c", until_computed]
        container = {"name": "driver", "image": PYTHON, "command": command}
        journey.api.create(JOBS, suspended_job(journey, "compute", container))
        create(journey, "backfill", type="Backfill", backfill={"job": "compute"})
        journey.until(lambda: has_begun(journey, "compute"), "the Job to begin")
        running = {
            each["metadata"]["name"]
            for each in journey.api.list(PODS, journey.namespace)
            if each["status"]["phase"] == "Running"
        }
        assert not {W0, W1} & running
        computed.touch()
        complete(journey, "backfill")
        journey.kubectl("delete", "job", "compute", "--cascade=foreground")
    until_shared(journey, 2)
