"""What a worker serves by HTTP. The answers are made from one value; no request touches the worker.

/healthz   200 while the main loop turns
/readyz    200 when every task granted under the acknowledged epoch is processed, none restoring;
           also when none was granted for a while
/metrics   Prometheus
/tasks     JSON: threads and tasks with role, state, rates, exact lags and restore progress
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from headwater.errors import ConfigError
from headwater.model.cluster import Role
from headwater.service.metrics import WorkerCollector

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.service.view import TaskView, ThreadView, WorkerView

_STALLED_MS: Final = 10_000
_SHUTDOWN_POLL_S: Final = 0.5
_TEXT: Final = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Whoever asked may be gone by now, above all if we were frozen meanwhile.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class HttpServer:
    """Serves the view of one worker from daemon threads.

    Args:
        host: address to listen at.
        port: 0 picks a free one.
        view: returns the newest view.
        now_ms: the boot-time clock that views are stamped with.

    Raises:
        ConfigError: the port cannot be used.
    """

    def __init__(
        self, host: str, port: int, view: Callable[[], WorkerView], now_ms: Callable[[], int]
    ) -> None:
        registry = CollectorRegistry()
        registry.register(WorkerCollector(view))

        def metrics() -> tuple[HTTPStatus, str, bytes]:
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)

        routes: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
            "/healthz": lambda: _health(view(), now_ms()),
            "/readyz": lambda: _readiness(view()),
            "/metrics": metrics,
            "/tasks": lambda: (HTTPStatus.OK, "application/json", _json(document(view()))),
        }
        kind = _ServerV6 if ":" in host else _Server
        try:
            self._server = kind((host, port), _handler(routes))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(
                f"cannot serve HTTP at {host}:{port}: {reason}; choose another --http-port, or "
                "http_port of KafkaStreams (0 picks a free one)"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_SHUTDOWN_POLL_S,),
            name="http",
            daemon=True,
        )
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """``host:port`` as it listens."""
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def document(view: WorkerView) -> dict[str, object]:
    """Return ``/tasks`` as JSON values."""
    return {
        "applicationId": view.application_id,
        "worker": view.worker,
        "incarnation": view.incarnation,
        "epoch": view.epoch,
        "ready": view.is_ready,
        "lease": view.has_lease,
        "stopping": view.is_stopping,
        "problem": view.problem,
        "restoredTotal": view.restored_total,
        "followedTotal": view.followed_total,
        "threads": [_thread(thread) for thread in view.threads],
        "updaters": [{"updater": number, "pid": pid} for number, pid in view.updaters.items()],
        "tasks": [_task(task) for task in view.tasks],
    }


def _thread(thread: ThreadView) -> dict[str, object]:
    stats = thread.stats
    return {
        "slot": thread.slot,
        "state": thread.state,
        "pid": thread.pid,
        "restarts": thread.restarts,
        "recordsPerSecond": round(thread.records_per_s, 1),
        "processed": 0 if stats is None else stats.processed,
        "produced": 0 if stats is None else stats.produced,
        "commits": 0 if stats is None else stats.commits,
        "transactionOpen": stats is not None and thread.pid is not None and stats.transaction_open,
        "ratios": {} if stats is None else dict(stats.ratios),
        "problem": thread.problem,
    }


def _task(task: TaskView) -> dict[str, object]:
    stats = task.stats
    return {
        "task": str(task.task),
        "role": task.role,
        "state": task.state,
        "slot": task.slot,
        "recordsPerSecond": round(task.records_per_s, 1),
        "processed": 0 if stats is None else stats.processed,
        "dropped": 0 if stats is None else stats.dropped,
        "buffered": 0 if stats is None else stats.buffered,
        "lag": None if stats is None else stats.lag,
        "streamTime": None if stats is None else stats.stream_time,
        "committed": {} if stats is None else dict(stats.committed),
        "restored": task.restored,
        "remaining": task.remaining,
        "caughtUp": task.caught_up,
        "problem": task.problem,
    }


def _health(view: WorkerView, now_ms: int) -> tuple[HTTPStatus, str, bytes]:
    silent_ms = now_ms - view.at_ms
    if silent_ms > _STALLED_MS:
        text = f"the main loop has not turned for {silent_ms // 1000} s\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text.encode()
    return HTTPStatus.OK, _TEXT, b"ok\n"


def _readiness(view: WorkerView) -> tuple[HTTPStatus, str, bytes]:
    if view.is_ready:
        return HTTPStatus.OK, _TEXT, b"ok\n"
    if view.is_stopping:
        reason = "stopping"
    elif not view.epoch:
        reason = "waiting for the control loop"
    else:
        waiting = [
            str(task.task)
            for task in view.tasks
            if task.role is Role.ACTIVE and task.state != "RUNNING"
        ]
        listed = " ".join(waiting)
        reason = f"tasks not running yet: {listed}" if listed else "no tasks were granted yet"
    return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{reason}\n".encode()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _handler(
    routes: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            if route is None:
                known = " ".join(routes)
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, f"there is {known}\n".encode())
            else:
                self._answer(*route())

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Keep silent: probes come every few seconds."""

    return Handler
