"""Spark's driver on one machine: a pod of its own, asked for what it does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater.model.streamapp import parse
from headwater_operator.actions import Reason, StartDriver, StopDriver, StopHow
from headwater_operator.decide import DriverView, ProcessState
from headwater_operator.local import control, files
from headwater_operator.local.collect import Collector
from headwater_operator.local.driver import observe_driver, start_driver, stop_driver
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import observe, read_process
from headwater_operator.local.pods import Phase, PodProcess, Wish
from headwater_operator.observe.driver_told import DriverTold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater_operator.local.layout import AppDir
    from headwater_operator.local.records import AppRecord

START = StartDriver(generation=3, executors=2, reason=Reason.ENGINE_TAKEN)
STATUS = {
    "state": "RUNNING",
    "generation": 3,
    "batches": 8,
    "lastBatch": {"id": 7, "inputRows": 100, "durationMs": 250, "at": 0},
    "inputRowsPerSecond": 99.6,
    "processedRowsPerSecond": 400.2,
    "tasks": {"0_0": {"offsets": {}}, "0_1": {"offsets": {}}},
    "error": None,
}


@pytest.fixture
def record(tmp_path: Path) -> AppRecord:
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "app"},
        "spec": {"topology": {"module": "app:build"}, "engine": "Spark"},
    }
    return control.apply(ClusterDir(tmp_path), parse(document), import_path=[tmp_path / "code"])


@pytest.fixture
def app(tmp_path: Path, record: AppRecord) -> AppDir:
    return ClusterDir(tmp_path).app(record.app.name)


def run(app: AppDir, phase: Phase, exit_code: int = 0) -> None:
    """Be the supervisor."""
    pod, _ = read_process(app.driver)
    assert pod is not None
    process = PodProcess(
        attempt=pod.attempt, phase=phase, pid=4711, started="s", exit_code=exit_code
    )
    files.replace(app.driver.process, process.to_dict())


def look(app: AppDir, told: DriverTold | None = None) -> DriverView:
    return observe_driver(app, told or DriverTold(shown_for_ms=0), 1_000)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A driver's HTTP service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(STATUS).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_without_one_there_is_nothing_to_see(app: AppDir) -> None:
    assert look(app) == DriverView()
    assert app.programs() == []


def test_a_driver_is_wished_for_once_with_its_generation(app: AppDir, record: AppRecord) -> None:
    said = start_driver(app, record, START)

    assert said is not None
    assert "generation 3" in said.text
    pod, _ = read_process(app.driver)
    assert pod is not None
    command = " ".join(pod.command)
    assert f"spark -f {app.streamapp} --generation 3" in command
    assert f"--state-dir {app.driver_state}" in command
    assert f"--import-path {record.import_path[0]}" in command
    assert [found.name for found in app.programs()] == ["driver"]
    assert start_driver(app, record, START) is None
    view = look(app)
    assert (view.process, view.generation, view.executors) == (ProcessState.RUNNING, 3, 2)


def test_a_driver_tells_what_it_does(app: AppDir, record: AppRecord, endpoint: str) -> None:
    start_driver(app, record, START)
    run(app, Phase.RUNNING)
    files.replace(app.driver_address, {"pid": 4711, "http": endpoint, "generation": 3})

    def answered() -> DriverView | None:
        view = look(app)
        return view if view.has_answered else None

    # On a busy machine it may not answer in time.
    view = wait_for(answered, what="an answer")

    assert view.is_running
    assert (view.last_batch, view.batches, view.tasks) == (7, 8, 2)
    assert (view.input_rows_per_second, view.processed_rows_per_second) == (100, 400)


def test_a_driver_that_misses_an_answer_is_shown_as_it_was(
    tmp_path: Path, app: AppDir, record: AppRecord, endpoint: str
) -> None:
    start_driver(app, record, START)
    run(app, Phase.RUNNING)
    told, collector = DriverTold(shown_for_ms=0), Collector(ClusterDir(tmp_path), record.app.name)
    files.replace(app.driver_address, {"pid": 4711, "http": endpoint, "generation": 3})

    def both() -> tuple[bool, int | None]:
        row = collector.collect().driver
        return look(app, told).has_answered, None if row is None else row.last_batch

    wait_for(lambda: both() == (True, 7), what="an answer")
    files.replace(app.driver_address, {"pid": 4711, "http": "127.0.0.1:1", "generation": 3})

    view, row = look(app, told), collector.collect().driver

    assert not view.has_answered
    assert view.is_processing
    assert (view.last_batch, view.tasks) == (7, 2)
    assert row is not None
    assert (row.state, row.last_batch, row.tasks) == ("RUNNING", 7, 2)
    # Another one has said nothing yet.
    run(app, Phase.ENDED, 1)
    start_driver(app, record, START)
    view, row = look(app, told), collector.collect().driver
    assert (view.state, view.last_batch, view.tasks) == ("", -1, 0)
    assert row is not None
    assert row.state == "STARTING"
    collector.close()


def test_the_log_of_a_driver_that_was_killed_is_here(app: AppDir, record: AppRecord) -> None:
    said = observe(app, record, generation=1).driver_log

    assert "`headwater logs app --worker driver`" in said


@pytest.mark.parametrize("pid", [4711, 1])
def test_who_does_not_answer_or_was_the_driver_before_is_not_heard(
    app: AppDir, record: AppRecord, endpoint: str, pid: int
) -> None:
    start_driver(app, record, START)
    run(app, Phase.RUNNING)
    address = "127.0.0.1:1" if pid == 4711 else endpoint
    files.replace(app.driver_address, {"pid": pid, "http": address, "generation": 3})

    view = look(app)

    assert not view.has_answered
    assert view.process is ProcessState.RUNNING


def test_a_driver_is_told_to_stop_once_and_may_be_killed_then(
    app: AppDir, record: AppRecord
) -> None:
    gently = StopDriver(how=StopHow.GRACEFULLY, reason=Reason.ENGINE_LEAVES)
    assert stop_driver(app, gently) is None
    start_driver(app, record, START)
    run(app, Phase.RUNNING)

    assert stop_driver(app, gently) is not None
    assert stop_driver(app, gently) is None
    assert look(app).is_stopping
    at_once = StopDriver(how=StopHow.AT_ONCE, reason=Reason.DRIVER_SILENT)
    assert stop_driver(app, at_once) is not None
    pod, _ = read_process(app.driver)
    assert pod is not None
    assert pod.wish is Wish.KILL


@pytest.mark.parametrize(
    ("code", "is_fenced", "is_hopeless"),
    [(1, False, False), (2, False, True), (5, True, False), (-9, False, False)],
)
def test_the_end_of_a_driver_says_what_to_do_about_it(
    app: AppDir, record: AppRecord, code: int, is_fenced: bool, is_hopeless: bool
) -> None:
    start_driver(app, record, START)
    app.driver.log.write_text("many words\nerror: no such topic\n")
    run(app, Phase.ENDED, code)

    view = look(app)

    assert view.process is ProcessState.ENDED
    assert view.error == ""
    assert (view.is_fenced, view.is_hopeless) == (is_fenced, is_hopeless)
    assert ("SIGKILL" if code < 0 else "error: no such topic") in view.end
    assert start_driver(app, record, START) is not None


@pytest.mark.parametrize(
    ("pid", "code", "is_told"),
    [(4711, 3, True), (1, 3, False), (4711, -9, False)],
    ids=["its own", "of the one before", "it was killed meanwhile"],
)
def test_what_a_driver_has_left_says_better_than_its_log_why_it_ended(
    app: AppDir, record: AppRecord, pid: int, code: int, is_told: bool
) -> None:
    start_driver(app, record, START)
    app.driver.log.write_text("error: no broker\nINFO ShutdownHookManager: deleting /tmp/x\n")
    end = {"pid": pid, "error": "KafkaUnavailableError", "message": "no broker answers"}
    files.replace(app.driver_end, end)
    run(app, Phase.ENDED, code)

    view = look(app)

    assert view.error == ("KafkaUnavailableError" if is_told else "")
    assert (view.end == "no broker answers") is is_told
    assert view.end != ""
