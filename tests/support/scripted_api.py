"""An HTTPS server that answers as a test says: for what no API server does when it is asked to."""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from headwater.model import podcontract
from headwater.service.kube.client import Access
from tests.kube.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True, kw_only=True)
class Answer:
    """What is sent back.

    Attributes:
        code: the HTTP status.
        body: JSON, or bytes as they are.
        headers: beside those that are needed.
        lines: sent one by one without a length, as a watch is; then the connection is closed.
        hold: waited for before anything is sent.
        cuts: close the connection instead of sending all of the body.
    """

    code: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    lines: list[Any] | None = None
    hold: threading.Event | None = None
    cuts: bool = False


class ScriptedApi:
    """The server; ``answer`` says what comes back, ``asked`` is what came in.

    Args:
        directory: for certificates, and for the token and authorities of its client.
        answer: called with every request, from many threads.
    """

    def __init__(self, directory: Path, answer: Callable[[Asked], Answer]) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.answer = answer
        authority = Authority(directory / "pki")
        pair = authority.server("api", ["127.0.0.1"])
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        (directory / podcontract.CA_FILE).write_text(authority.files.certificate.read_text())
        (directory / podcontract.TOKEN_FILE).write_text("token-1")
        host, port = self._server.server_address[:2]
        self.access = Access(host=str(host), port=int(port), directory=directory)

    def of(self, method: str, word: str = "") -> list[Asked]:
        """Return the requests of a kind."""
        return [each for each in self.asked if each.method == method and word in each.path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what these tests are about."""


def _handler(api: ScriptedApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            api.connections += 1

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            asked = Asked(
                method=self.command, path=self.path, headers=dict(self.headers), body=body
            )
            api.asked.append(asked)
            answer = api.answer(asked)
            if answer.hold is not None:
                answer.hold.wait(60)
            self._send(answer)

        do_PUT = do_PATCH = do_POST = do_GET  # noqa: N815 - names of the base class

        def _send(self, answer: Answer) -> None:
            content = answer.body
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            self.send_response(answer.code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.lines is None:
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if answer.cuts else content)
                self.close_connection = self.close_connection or answer.cuts
                return
            self.send_header("Connection", "close")
            self.end_headers()
            for line in answer.lines:
                sent = line if isinstance(line, bytes) else json.dumps(line).encode()
                self.wfile.write(sent + b"\n")
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
