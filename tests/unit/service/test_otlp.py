"""Pushes by OTLP: what a receiver over HTTP decodes, and one that is down."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from tests.support.waiting import wait_for
from tests.unit.service.test_http import THREAD, VIEW

from headwater.metrics_settings import MetricsSettings
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.service.metrics import told
from headwater.service.otlp import OtlpPusher

if TYPE_CHECKING:
    from collections.abc import Iterator


class Receiver:
    """A receiver of OTLP over HTTP; what it answers is up to the test."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], ExportMetricsServiceRequest]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportMetricsServiceRequest.FromString(data)
                outer.received.append((self.path, dict(self.headers), request))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with closing(Receiver()) as made:
        yield made


class Pushed:
    """A pusher that pushes when it is told to, and its failures."""

    def __init__(self, address: str, interval_ms: int = 3_600_000) -> None:
        self.failures = 0
        self.view = VIEW
        settings = MetricsSettings(otlp_endpoint=address, otlp_interval_ms=interval_ms)
        self.pusher = OtlpPusher(settings, lambda: self.view, self._failed)

    def _failed(self) -> None:
        self.failures += 1

    def push(self) -> bool:
        return self.pusher.push()

    def close(self) -> None:
        self.pusher.close()


def attributes(found: Any) -> dict[str, str]:
    return {it.key: it.value.string_value for it in found.attributes}


def test_a_receiver_gets_every_number_under_the_names_of_prometheus(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret,x=1")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with closing(Pushed(receiver.address)) as pushed:
        assert pushed.push()

    (path, headers, request), last = receiver.received
    assert last[2].resource_metrics, "a worker that ends pushes once more"
    (of_worker,) = request.resource_metrics
    (scope,) = of_worker.scope_metrics
    shown = {metric.name: metric for metric in scope.metrics}
    assert path == "/v1/metrics"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["Api-Key"] == "a secret"
    assert attributes(of_worker.resource) == {
        "service.name": "orders",
        "service.instance.id": "orders-w-0",
        "deployment.environment": "test",
    }
    process = shown["stream_task_process_total"]
    (point,) = process.sum.data_points
    assert process.sum.is_monotonic
    assert process.sum.aggregation_temporality == 2  # cumulative
    assert process.unit == "{record}"
    assert point.as_double == 100
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano
    assert attributes(point) == {
        "application_id": "orders",
        "client_id": "orders-w-0",
        "thread_id": "orders-w-0-StreamThread-0",
        "task_id": "1_0",
    }
    assert shown.keys() == {metric.sample_name for metric, rows in told(VIEW) if rows}
    (ratio,) = shown["stream_thread_process_ratio"].gauge.data_points
    assert ratio.as_double == 0.5


def test_a_push_that_fails_is_counted_and_told_once(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    receiver.status = 503
    with closing(Pushed(receiver.address)) as pushed:
        assert [pushed.push() for _ in range(3)] == [False] * 3
        receiver.status = 200
        assert pushed.push()

        assert pushed.failures == 3
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "cannot be pushed to http://127.0.0.1" in caplog.records[0].message


def test_a_receiver_that_is_down_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Pushed("http://127.0.0.1:9", interval_ms=10)) as pushed:
        wait_for(lambda: pushed.failures >= 2, what="two pushes that failed")

    assert len(caplog.records) == 1


def test_a_receiver_that_never_answers_holds_up_the_end_for_a_moment_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pushed = Pushed(f"http://127.0.0.1:{silent.getsockname()[1]}")

        pushed.close()

        wait_for(lambda: pushed.failures == 1, what="the end of the last push")


def process_point(request: ExportMetricsServiceRequest) -> Any:
    (scope,) = request.resource_metrics[0].scope_metrics
    (process,) = (it for it in scope.metrics if it.name == "stream_thread_process_total")
    (point,) = process.sum.data_points
    return point


def test_a_counter_that_begins_again_has_a_new_start(receiver: Receiver) -> None:
    with closing(Pushed(receiver.address)) as pushed:
        for count in (100, 130, 7, 9):
            numbers = Snapshot.of({metrics.THREAD_PROCESS: count}, THREAD["thread_id"])
            pushed.view = replace(VIEW, numbers=numbers)
            assert pushed.push()

    points = [process_point(request) for _, _, request in receiver.received[:4]]
    starts = [point.start_time_unix_nano for point in points]
    assert [point.as_double for point in points] == [100, 130, 7, 9]
    assert starts[0] == starts[1] < starts[2] == starts[3]
    assert points[1].time_unix_nano < starts[2]


def test_it_pushes_again_and_again(receiver: Receiver) -> None:
    with closing(Pushed(receiver.address, interval_ms=10)):
        wait_for(lambda: len(receiver.received) >= 2, what="two pushes")
