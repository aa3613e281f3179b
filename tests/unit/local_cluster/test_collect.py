"""What the view makes of the files of an application: of this run, not of the one before."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from headwater.model.appstatus import AppStatus, EngineStatus, Failure
from headwater.model.cluster import StreamWorker, WorkerSpec
from headwater.model.lifecycle import ClientState, Engine
from headwater.model.streamapp import parse
from headwater_operator.local import control, files
from headwater_operator.local.collect import Collector, _driver_state
from headwater_operator.local.knocking import answers
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.pods import Phase, Pod, PodProcess, Wish
from headwater_operator.local.records import AppReport
from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.local.records import AppRecord

WORKER = "app-w-0"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDir:
    return ClusterDir(tmp_path / "home")


@pytest.fixture
def record(cluster: ClusterDir) -> AppRecord:
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "app"},
        "spec": {"topology": {"module": "app:build"}, "replicas": 1},
    }
    return control.apply(cluster, parse(document), import_path=())


def report(cluster: ClusterDir, status: AppStatus, applied: int) -> None:
    said = AppReport(status=status, applied=applied, generation=1)
    files.replace(cluster.app("app").status, said.to_dict())


def worker(cluster: ClusterDir, wish: Wish, exit_code: int, *, attempt: int = 1) -> None:
    """Leave a worker whose first attempt has ended."""
    directory = cluster.app("app").worker(WORKER)
    spec = StreamWorker(name=WORKER, spec=WorkerSpec(app="app"))
    ended = PodProcess(attempt=1, phase=Phase.ENDED, pid=1, started="s", exit_code=exit_code)
    files.replace(directory.spec, spec.to_dict())
    files.replace(directory.pod, Pod(attempt=attempt, wish=wish).to_dict())
    files.replace(directory.process, ended.to_dict())


@pytest.mark.parametrize(
    "left",
    [
        AppStatus(state=ClientState.RUNNING, reason="all 4 tasks run"),
        AppStatus(
            state=ClientState.ERROR,
            reason="no such module",
            failure=Failure(error="ImportPathError", message="no such module"),
        ),
        AppStatus(state=ClientState.RUNNING, engine=EngineStatus(name=Engine.SPARK, generation=5)),
    ],
)
def test_what_a_former_run_has_left_is_not_shown_as_if_it_were_now(
    cluster: ClusterDir, record: AppRecord, left: AppStatus
) -> None:
    report(cluster, left, record.applied - 1)
    worker(cluster, Wish.RUN, -signal.SIGKILL)

    shown = Collector(cluster, "app").collect()

    assert (shown.state, shown.reason, shown.failure) == ("starting", "", "")
    assert shown.workers == ()
    assert shown.driver is None


def test_what_was_decided_for_this_run_is_shown(cluster: ClusterDir, record: AppRecord) -> None:
    report(cluster, AppStatus(state=ClientState.RUNNING), record.applied)
    worker(cluster, Wish.RUN, -signal.SIGKILL)

    shown = Collector(cluster, "app").collect()

    assert shown.state == "RUNNING"
    assert [(row.state, row.problem) for row in shown.workers] == [("ended", "killed by SIGKILL")]


@pytest.mark.parametrize(
    ("wish", "exit_code", "shown"),
    [
        (Wish.STOP, 0, ("stopped", "")),
        (Wish.STOP, -signal.SIGTERM, ("stopped", "")),
        (Wish.STOP, -signal.SIGKILL, ("ended", "killed by SIGKILL")),
        (Wish.RUN, -signal.SIGTERM, ("ended", "killed by SIGTERM")),
    ],
)
def test_a_worker_that_was_to_stop_has_had_no_accident(
    cluster: ClusterDir, record: AppRecord, wish: Wish, exit_code: int, shown: tuple[str, str]
) -> None:
    report(cluster, AppStatus(state=ClientState.RUNNING), record.applied)
    worker(cluster, wish, exit_code)

    [row] = Collector(cluster, "app").collect().workers

    assert (row.state, row.problem) == shown


def test_a_driver_of_somebody_else_is_shown_with_the_generation_that_is_known(
    cluster: ClusterDir, record: AppRecord
) -> None:
    spark = EngineStatus(name=Engine.SPARK, generation=5)
    report(cluster, AppStatus(engine=spark), record.applied)

    row = Collector(cluster, "app").collect().driver

    assert row is not None
    assert (row.state, row.generation) == ("ended", 5)


def test_a_driver_runs_from_its_first_micro_batch_on() -> None:
    assert _driver_state(DriverAnswer(state="RUNNING")) == "STARTING"
    assert _driver_state(DriverAnswer(state="RUNNING", batches=1)) == "RUNNING"
    assert _driver_state(DriverAnswer(state="FAILED")) == "FAILED"
    assert _driver_state(DriverAnswer()) == "STARTING"


def test_whether_a_broker_listens_is_told_of_any_address() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not answers(f"127.0.0.1:{port}")
        server.listen()
        assert answers(f"127.0.0.1:1,PLAINTEXT://127.0.0.1:{port}")
    assert not answers("no address, [::1]:1")
