"""What a kubelet answers to the API server: the logs of containers."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kube.pki import KeyPair


class LogServer:
    """Answers ``/containerLogs/NAMESPACE/POD/CONTAINER`` with what the container has printed.

    It follows no log, and lets everybody read: only this machine reaches it.

    Args:
        address: where it listens.
        keys: of the kubelet.
        log_of: returns the log of a container by namespace, pod and name; ``None`` without one.
    """

    def __init__(
        self, address: str, keys: KeyPair, log_of: Callable[[str, str, str], Path | None]
    ) -> None:
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                kind, *named = url.path.strip("/").split("/")
                log = log_of(*named) if kind == "containerLogs" and len(named) == 3 else None
                lines = [] if log is None else log.read_bytes().splitlines(keepends=True)
                count = int(parse_qs(url.query).get("tailLines", [str(len(lines))])[0])
                body = b"".join(lines[len(lines) - min(count, len(lines)) :])
                self.send_response(404 if log is None else 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.certificate, keys.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.ident is not None:
            self._server.shutdown()
        self._server.server_close()
