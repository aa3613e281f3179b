"""Probes and metrics of the operator by HTTP; no request touches anything but values.

/healthz   200 while the process does its work, or stands by for the one that does
/readyz    200 when it leads, and its watches hear, or stands by; says what else is to be known
/metrics   Prometheus
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

_TEXT: Final = "text/plain; charset=utf-8"
_Answer = tuple[HTTPStatus, str, bytes]


class HttpServer:
    """Serves from daemon threads.

    Args:
        host: address to listen at.
        port: 0 picks a free one.
        registry: what is scraped.
        sickness: returns why the process should be replaced; empty if it is well.
        obstacle: returns why it is not ready; empty if it is.
        remark: returns what is to be known of one that is ready; empty if there is nothing.

    Raises:
        ConfigError: the port cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        sickness: Callable[[], str],
        obstacle: Callable[[], str],
        remark: Callable[[], str] = str,
    ) -> None:
        def metrics() -> _Answer:
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)

        routes: dict[str, Callable[[], _Answer]] = {
            "/healthz": lambda: _verdict(sickness()),
            "/readyz": lambda: _verdict(obstacle(), remark()),
            "/metrics": metrics,
        }
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(routes))
        except OSError as error:
            raise ConfigError(
                f"cannot serve HTTP at {host}:{port}: {error.strerror}; choose another --http-port"
            ) from error
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _verdict(problem: str, remark: str = "") -> _Answer:
    if problem:
        return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{problem}\n".encode()
    return HTTPStatus.OK, _TEXT, f"ok; {remark}\n".encode() if remark else b"ok\n"


def _handler(routes: dict[str, Callable[[], _Answer]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            if route is None:
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, f"there is {' '.join(routes)}\n".encode())
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
