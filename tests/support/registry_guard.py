"""A door before a schema registry that asks for a user and a password."""

from __future__ import annotations

import base64
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit


class Guard:
    """A door before the registry that wants a user and a password, and counts who comes in."""

    def __init__(self, behind: str, wanted: str) -> None:
        inner = urlsplit(behind)
        self.asked = 0
        guard = self
        expected = "Basic " + base64.b64encode(wanted.encode()).decode()

        class Door(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                guard.asked += 1
                if self.headers["Authorization"] != expected:
                    self._answer(401, b'{"error_code":40101,"message":"Unauthorized"}')
                    return
                length = int(self.headers.get("Content-Length") or 0)
                connection = http.client.HTTPConnection(inner.netloc, timeout=20)
                headers = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
                connection.request(self.command, self.path, self.rfile.read(length), headers)
                answer = connection.getresponse()
                self._answer(answer.status, answer.read())
                connection.close()

            do_POST = do_GET  # noqa: N815 - the name that the server asks for

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{inner.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
