"""What the driver says of itself: one value, changed as it comes on, served by HTTP."""

from __future__ import annotations

import json
import os
import threading
import time
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from headwater.files import replace_file
from headwater.httpserver import JSON, Answer, HttpServer, Request
from headwater.model import metrics
from headwater.model.metrics import METRICS, Scope, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headwater.spark.turns.messages import TurnDone

_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_SMOOTHING: Final = 0.3
"""Weight of the newest micro-batch in the rates."""


class State(StrEnum):
    """Where the driver is."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    FAILED = "FAILED"


class DriverStatus:
    """How the driver comes on. Threads may share it.

    Args:
        application_id: whose driver it is.
    """

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self.generation = 0
        """Under which the driver runs; 0 until it is known."""
        self._state = State.STARTING
        self._error: str | None = None
        self._doing = ""
        self._lock = threading.Lock()
        self._last: dict[str, object] | None = None
        self._last_at: float | None = None
        self._busy_since: float | None = None
        self._tasks: dict[str, dict[str, object]] = {}
        self.batches = 0
        """How many micro-batches are done."""
        self._processed = self._dropped = self._opened = self._duration_ms = 0
        self._input_rate = self._processed_rate = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether micro-batches are taken."""
        return self._state is State.RUNNING and self.batches > 0

    def begin(self, generation: int) -> None:
        """Note under which generation the driver runs."""
        self.generation = generation

    def move(self, state: State, error: str | None = None) -> None:
        """Note where the driver is, and why it has failed."""
        with self._lock:
            self._state, self._error = state, error or self._error

    def does(self, doing: str) -> None:
        """Note what there is to be done before the first micro-batch, in a few words."""
        with self._lock:
            self._doing = doing

    def stumbled(self, error: str) -> None:
        """Note why the query is begun anew; forgotten when it has done something."""
        with self._lock:
            self._error, self._busy_since = error, None

    def begun(self) -> None:
        """Note that a micro-batch begins; if nothing follows, it does not get on."""
        with self._lock:
            self._busy_since = time.time()

    def took(self, number: int, done: Sequence[TurnDone], at_s: float, took_s: float) -> None:
        """Note what a micro-batch has done.

        Args:
            number: Spark's.
            done: by its tasks.
            at_s: when it ended, in seconds of the wall clock.
            took_s: how long its tasks took, Spark's own work for them included.
        """
        count = sum(found.processed for found in done)
        with self._lock:
            since_s = at_s - self._last_at if self._last_at is not None else took_s
            self._input_rate += _SMOOTHING * (count / max(since_s, 0.001) - self._input_rate)
            if count:
                rate = count / max(took_s, 0.001)
                self._processed_rate += _SMOOTHING * (rate - self._processed_rate)
            self._last_at = at_s
            self._duration_ms = round(took_s * 1000)
            self._last = {
                "id": number,
                "inputRows": count,
                "durationMs": self._duration_ms,
                "at": round(at_s * 1000),
            }
            self.batches += 1
            self._busy_since, self._error = None, None
            self._processed += count
            for found in done:
                self._dropped += found.dropped
                self._opened += found.opened
                self._tasks[str(found.task)] = {
                    "offsets": {str(p): offset for p, offset in sorted(found.offsets.items())}
                }

    def numbers(self) -> Snapshot:
        """Return every number of the driver."""
        with self._lock:
            return self._numbers()

    def _numbers(self) -> Snapshot:
        busy_s = 0 if self._busy_since is None else max(0, round(time.time() - self._busy_since))
        return Snapshot.of(
            {
                metrics.SPARK_GENERATION: self.generation,
                metrics.SPARK_RUNNING: self.is_ready,
                metrics.SPARK_BATCHES: self.batches,
                metrics.SPARK_RECORDS: self._processed,
                metrics.SPARK_DROPPED_RECORDS: self._dropped,
                metrics.SPARK_TASKS_OPENED: self._opened,
                metrics.SPARK_TASKS: len(self._tasks),
                metrics.SPARK_BATCH_DURATION_MS: self._duration_ms,
                metrics.SPARK_BUSY_SECONDS: busy_s,
                metrics.SPARK_INPUT_RATE: round(self._input_rate, 1),
                metrics.SPARK_PROCESSED_RATE: round(self._processed_rate, 1),
            }
        )

    def document(self) -> dict[str, object]:
        """Return ``/status`` as JSON values."""
        with self._lock:
            return {
                "state": self._state.value,
                **self._numbers().shown(Scope.DRIVER),
                "lastBatch": self._last,
                "busySince": None if self._busy_since is None else round(self._busy_since * 1000),
                "tasks": dict(sorted(self._tasks.items())),
                "doing": "" if self.batches else self._doing,
                "error": self._error,
            }

    def metrics(self) -> str:
        """Return ``/metrics`` in Prometheus' text format."""
        numbers = self.numbers()
        labels = f'{{application_id="{self._application_id}"}}'
        return "".join(
            f"# HELP {metric.sample_name} {metric.help}\n"
            f"# TYPE {metric.sample_name} {metric.type}\n"
            f"{metric.sample_name}{labels} {int(value)}\n"
            for metric in METRICS
            if metric.is_scraped and (value := numbers.value(metric)) is not None
        )


class StatusServer:
    """Serves the status, and says where in ``driver.json``.

    Args:
        port: 0 picks a free one.
        status: what is served.
        directory: where ``driver.json`` is written.
        host: the address to listen at.

    Raises:
        ConfigError: the port cannot be used.
    """

    def __init__(
        self, port: int, status: DriverStatus, directory: Path, *, host: str = "127.0.0.1"
    ) -> None:
        self._status = status
        self._file = directory / "driver.json"
        self._server = HttpServer(host, port, _routes(status))
        self.announce()

    @property
    def endpoint(self) -> str:
        """``host:port``."""
        return self._server.endpoint

    def announce(self) -> None:
        """Write ``driver.json`` with what is known by now."""
        said = {
            "pid": os.getpid(),
            "http": self.endpoint,
            "generation": self._status.generation,
        }
        replace_file(self._file, json.dumps(said) + "\n")

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
        self._file.unlink(missing_ok=True)


def _routes(status: DriverStatus) -> dict[str, Callable[[Request], Answer]]:
    def readiness(_: Request) -> Answer:
        if status.is_ready:
            return Answer.text("ok")
        return Answer.text("not ready", HTTPStatus.SERVICE_UNAVAILABLE)

    return {
        "/healthz": lambda _: Answer.text("ok"),
        "/readyz": readiness,
        "/status": lambda _: Answer(
            HTTPStatus.OK, json.dumps(status.document()).encode() + b"\n", JSON
        ),
        "/metrics": lambda _: Answer(HTTPStatus.OK, status.metrics().encode(), _METRICS),
    }
