"""The control loop on files: what it writes for workers, supervisor and people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater.model.cluster import (
    Lease,
    StreamWorker,
    WorkerError,
    WorkerSpec,
    WorkerStatus,
    generation_of,
)
from headwater.model.streamapp import parse
from headwater_operator.actions import DeleteWorker, Reason, WriteWorkerSpec
from headwater_operator.decide import Intent
from headwater_operator.local import control, files
from headwater_operator.local.act import Actor, OutdatedDecisionError
from headwater_operator.local.events import read_events
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.loop import ControlLoop
from headwater_operator.local.observe import read_process, read_record, read_report, read_worker
from headwater_operator.local.pods import Phase, PodProcess, Wish

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.local.records import AppRecord

WORKER = "app-w-0"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDir:
    return ClusterDir(tmp_path / "home")


def applied(cluster: ClusterDir, **spec: object) -> AppRecord:
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "app"},
        "spec": {
            "topology": {"module": "app:build"},
            "kafka": {"bootstrapServers": "broker:9092"},
            **spec,
        },
    }
    return control.apply(cluster, parse(document), import_path=())


def spec_of(cluster: ClusterDir) -> WorkerSpec:
    worker = read_worker(cluster.app("app").worker(WORKER))
    assert worker is not None
    return worker.spec


def run_process(cluster: ClusterDir, phase: Phase) -> None:
    """Be the supervisor: do what the pod says."""
    directory = cluster.app("app").worker(WORKER)
    pod, _ = read_process(directory)
    assert pod is not None
    process = PodProcess(attempt=pod.attempt, phase=phase, pid=1, started="s", exit_code=-9)
    files.replace(directory.process, process.to_dict())


def report(cluster: ClusterDir, status: WorkerStatus) -> None:
    """Be the worker: write status and Lease as its carrier does."""
    directory = cluster.app("app").worker(WORKER)
    resource = StreamWorker(name=WORKER, spec=WorkerSpec(app=""), status=status).to_dict()
    files.replace(directory.status, {**resource, "spec": {}})
    files.replace(directory.lease, Lease(worker=WORKER, holder=status.incarnation).to_dict())


def test_a_new_application_gets_its_resources_and_a_pod_for_each_worker(
    cluster: ClusterDir,
) -> None:
    applied(cluster, replicas=2)

    ControlLoop(cluster, 1).turn()

    app = cluster.app("app")
    assert parse(files.read(app.streamapp)).spec.replicas == 2
    assert [worker.name for worker in app.workers()] == ["app-w-0", "app-w-1"]
    pods = [read_process(worker)[0] for worker in app.workers()]
    assert [pod.wish if pod else None for pod in pods] == [Wish.RUN, Wish.RUN]
    assert generation_of(spec_of(cluster).epoch) == 1
    events, _ = read_events(app.events, since=0)
    assert [event.worker for event in events if event.kind == "Started"] == ["app-w-0", "app-w-1"]


def test_the_private_kafka_is_waited_for_and_its_address_handed_to_the_workers(
    cluster: ClusterDir,
) -> None:
    applied(cluster, kafka={})
    loop = ControlLoop(cluster, 1)

    loop.turn()

    app = cluster.app("app")
    assert read_report(app).status.reason == "waiting for the private Kafka"
    # What it says of the state, and of failures, is of what was applied before.
    assert read_report(app).applied < read_record(app).applied
    assert app.workers() == []
    kafka = {"bootstrapServers": "127.0.0.1:20000", "pid": 1}
    record = {"pid": 1, "started": "s", "phase": "Running", "kafka": kafka}
    files.replace(cluster.supervisor, record)
    loop.turn()
    assert parse(files.read(app.streamapp)).spec.kafka.bootstrap_servers == "127.0.0.1:20000"
    assert [worker.name for worker in app.workers()] == [WORKER]


def test_a_later_run_adopts_the_workers_under_its_own_generation(cluster: ClusterDir) -> None:
    applied(cluster)
    ControlLoop(cluster, 1).turn()
    run_process(cluster, Phase.RUNNING)
    report(cluster, WorkerStatus(incarnation="i", acknowledged_epoch=spec_of(cluster).epoch))
    before = read_process(cluster.app("app").worker(WORKER))

    ControlLoop(cluster, 2).turn()

    assert generation_of(spec_of(cluster).epoch) == 2
    assert read_process(cluster.app("app").worker(WORKER)) == before


def test_a_process_that_ended_is_replaced_and_its_end_is_told(cluster: ClusterDir) -> None:
    applied(cluster)
    loop = ControlLoop(cluster, 1)
    loop.turn()
    directory = cluster.app("app").worker(WORKER)
    first, _ = read_process(directory)
    run_process(cluster, Phase.RUNNING)
    loop.turn()

    run_process(cluster, Phase.ENDED)

    def has_next_attempt() -> bool:
        loop.turn()
        pod, _ = read_process(directory)
        assert pod is not None
        assert first is not None
        return pod.attempt > first.attempt

    wait_for(has_next_attempt, what="another attempt", every_s=0.01)
    events, _ = read_events(cluster.app("app").events, since=0)
    assert "killed by SIGKILL" in events[-1].text


def test_a_workers_damaged_status_is_no_reason_to_stop(cluster: ClusterDir) -> None:
    applied(cluster)
    loop = ControlLoop(cluster, 1)
    loop.turn()
    run_process(cluster, Phase.RUNNING)
    cluster.app("app").worker(WORKER).status.write_text("{")

    loop.turn()

    worker = read_worker(cluster.app("app").worker(WORKER))
    assert worker is not None
    assert worker.status == WorkerStatus()


def test_a_deleted_application_is_gone_when_its_workers_have_ended(cluster: ClusterDir) -> None:
    applied(cluster)
    loop = ControlLoop(cluster, 1)
    loop.turn()
    run_process(cluster, Phase.RUNNING)
    control.want(cluster, "app", Intent.DELETE)

    def is_gone() -> bool:
        if (cluster.app("app").worker(WORKER)).pod.exists():
            run_process(cluster, Phase.ENDED)
        loop.turn()
        return not cluster.app("app").app.exists()

    wait_for(is_gone, what="the end of the application", every_s=0.01)
    assert cluster.apps() == []


def test_what_a_worker_has_failed_with_before_is_not_held_against_the_next_run(
    cluster: ClusterDir,
) -> None:
    """Attached, ``headwater up`` ends at once for what only a person can mend."""
    applied(cluster)
    loop = ControlLoop(cluster, 1)
    loop.turn()
    run_process(cluster, Phase.RUNNING)
    error = WorkerError(error="BackfillUnfinishedError", message="finish it")
    report(cluster, WorkerStatus(incarnation="x", error=error))
    run_process(cluster, Phase.ENDED)
    loop.turn()
    former = read_report(cluster.app("app"))
    assert former.status.failure is not None

    record = applied(cluster)
    loop = ControlLoop(cluster, 2)
    for _ in range(2):
        loop.turn()
        loop._due_ms.clear()
        now = read_report(cluster.app("app"))
        assert (now.applied, now.status.failure) == (record.applied, None)

    # What the next process says counts.
    run_process(cluster, Phase.RUNNING)
    report(cluster, WorkerStatus(incarnation="y", error=error))
    loop.turn()
    assert read_report(cluster.app("app")).status.failure is not None


def test_a_decision_from_an_older_spec_is_not_carried_out(cluster: ClusterDir) -> None:
    record = applied(cluster)
    actor = Actor(cluster, record)
    first = WriteWorkerSpec(
        worker=WORKER,
        spec=WorkerSpec(app="app", epoch=5),
        replaces=0,
        reason=Reason.WORKER_CREATED,
    )
    actor.carry_out(first)

    with pytest.raises(OutdatedDecisionError):
        actor.carry_out(first)
    with pytest.raises(OutdatedDecisionError):
        actor.carry_out(
            DeleteWorker(worker=WORKER, delete_state=True, replaces=4, reason=Reason.NOT_WANTED)
        )

    assert spec_of(cluster).epoch == 5


def test_deleting_a_worker_takes_its_state_only_if_asked(cluster: ClusterDir) -> None:
    record = applied(cluster)
    actor = Actor(cluster, record)
    state = cluster.app("app").state(WORKER)
    for delete_state in (False, True):
        state.mkdir(parents=True, exist_ok=True)
        spec = WorkerSpec(app="app", epoch=5)
        create = WriteWorkerSpec(worker=WORKER, spec=spec, replaces=0, reason=Reason.WORKER_CREATED)
        actor.carry_out(create)

        actor.carry_out(
            DeleteWorker(
                worker=WORKER, delete_state=delete_state, replaces=5, reason=Reason.NOT_WANTED
            )
        )

        assert state.exists() is not delete_state
        assert read_worker(cluster.app("app").worker(WORKER)) is None
