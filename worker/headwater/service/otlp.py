"""Pushes a worker's metrics by OTLP over HTTP, as OpenTelemetry specifies it.

It runs in a thread of its own in the worker's main process. A receiver that does not answer costs
the thread a time-out and nobody else anything: numbers are cumulative, so the next push tells all.
The last push comes when the worker ends, and is given two seconds.
``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_RESOURCE_ATTRIBUTES`` are heeded.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from headwater.errors import ConfigError
from headwater.model.metrics import MetricType, Unit
from headwater.service.metrics import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.metrics_settings import MetricsSettings
    from headwater.model.metrics import Labels, Metric
    from headwater.service.view import WorkerView

log = logging.getLogger(__name__)

PATH: Final = "/v1/metrics"
_TIMEOUT_S: Final = 10.0
_LAST_TIMEOUT_S: Final = 2.0
_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
_RESOURCE: Final = "OTEL_RESOURCE_ATTRIBUTES"
_UNITS: Final = {
    Unit.NONE: "1",
    Unit.RECORDS: "{record}",
    Unit.BYTES: "By",
    Unit.RATIO: "1",
    Unit.PER_SECOND: "1/s",
    Unit.BYTES_PER_SECOND: "By/s",
}
"""Units as OpenTelemetry writes them, where it does so differently."""


class OtlpPusher:
    """Pushes what a worker shows, again and again, until it is closed; without an endpoint nothing.

    Args:
        settings: where to, and how often.
        view: returns the newest view.
        failed: called after each push that failed.

    Raises:
        ConfigError: the extra ``otlp`` is not installed.
    """

    def __init__(
        self,
        settings: MetricsSettings,
        view: Callable[[], WorkerView],
        failed: Callable[[], None],
    ) -> None:
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if not settings.otlp_endpoint:
            return
        self._address = settings.otlp_endpoint.removesuffix(PATH) + PATH
        self._interval_s = settings.otlp_interval_ms / 1000
        self._view = view
        self._failed = failed
        self._protocol = _protocol()
        self._began_ns = time.time_ns()
        self._counted: dict[tuple[str, Labels], tuple[int, float]] = {}
        """Of each counter: since when it counts, and what was pushed last."""
        self._is_refused = False
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Push once more, and wait for that for two seconds at most."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_LAST_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            self.push()
        self.push(_LAST_TIMEOUT_S)

    def push(self, timeout_s: float = _TIMEOUT_S) -> bool:
        """Push what is shown now; return whether it was taken. It never raises."""
        try:
            data = self._message(self._view()).SerializeToString()
            request = urllib.request.Request(  # noqa: S310 - the scheme was checked
                self._address,
                data,
                {"Content-Type": "application/x-protobuf", **_pairs(_HEADERS)},
            )
            with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310
                pass
        except Exception as error:  # noqa: BLE001 - a number that is not pushed ends nothing
            self._failed()
            if not self._is_refused:
                log.warning(
                    "metrics cannot be pushed to %s: %s; trying again every %g s",
                    self._address,
                    getattr(error, "reason", error) or error,
                    self._interval_s,
                )
            self._is_refused = True
            return False
        if self._is_refused:
            log.info("metrics are pushed to %s again", self._address)
        self._is_refused = False
        return True

    def _message(self, view: WorkerView) -> Any:
        service, protocol = self._protocol
        now_ns = time.time_ns()
        resource = {
            "service.name": view.application_id,
            "service.instance.id": view.worker,
            **_pairs(_RESOURCE),
        }
        shown = [
            self._metric(protocol, metric, rows, now_ns) for metric, rows in told(view) if rows
        ]
        scope = protocol.ScopeMetrics(metrics=shown)
        scope.scope.name = "headwater"
        of_worker = protocol.ResourceMetrics(scope_metrics=[scope])
        for name, value in resource.items():
            of_worker.resource.attributes.add(key=name).value.string_value = value
        return service.ExportMetricsServiceRequest(resource_metrics=[of_worker])

    def _metric(
        self, protocol: Any, metric: Metric, rows: Iterable[tuple[Labels, float]], now_ns: int
    ) -> Any:
        made = protocol.Metric(
            name=metric.sample_name,
            description=metric.help,
            unit=_UNITS.get(metric.unit, str(metric.unit)),
        )
        points = made.gauge.data_points
        if metric.type is MetricType.COUNTER:
            made.sum.is_monotonic = True
            made.sum.aggregation_temporality = protocol.AGGREGATION_TEMPORALITY_CUMULATIVE
            points = made.sum.data_points
        for labels, value in rows:
            point = points.add(time_unix_nano=now_ns, as_double=value)
            if metric.type is MetricType.COUNTER:
                point.start_time_unix_nano = self._since(metric.name, labels, value, now_ns)
            for name, text in zip(metric.labels, labels, strict=True):
                point.attributes.add(key=name).value.string_value = text
        return made

    def _since(self, name: str, labels: Labels, value: float, now_ns: int) -> int:
        """Return since when a counter counts: anew once it has fallen, as after a restart."""
        since, last = self._counted.get((name, labels), (self._began_ns, 0.0))
        if value < last:
            since = now_ns
        self._counted[name, labels] = since, value
        return since


def _protocol() -> tuple[Any, Any]:
    try:
        from opentelemetry.proto.collector.metrics.v1 import (  # noqa: PLC0415 - an extra
            metrics_service_pb2 as service,
        )
        from opentelemetry.proto.metrics.v1 import (  # noqa: PLC0415
            metrics_pb2 as protocol,
        )
    except ImportError as error:
        raise ConfigError(
            "metrics.otlp.endpoint needs a package that is not installed; "
            "run: pip install 'headwater[otlp]'"
        ) from error
    return service, protocol


def _pairs(variable: str) -> dict[str, str]:
    """Return what a variable of OpenTelemetry says: ``a=1,b=2``, percent-encoded."""
    found = (part.partition("=") for part in os.environ.get(variable, "").split(","))
    return {unquote(name.strip()): unquote(value.strip()) for name, sign, value in found if sign}
