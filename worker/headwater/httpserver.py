"""A small HTTP server for values that are at hand: one thread, whatever the number of callers.

    route(request) -> answer        must not wait: all callers share the thread
    hand_over(socket, request)      takes the caller away, to be answered by another process

A connection carries one request and its answer, and ends at a deadline, however much of them was
sent by then. There is a bound on connections; a new one over it takes the place of an old one, so
that a crowd of slow callers keeps nobody else out.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import queue
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

log = logging.getLogger(__name__)

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_BACKLOG: Final = 128
_ACCEPTED_AT_ONCE: Final = 64
_CHUNK: Final = 64 * 1024
_PAUSE_S: Final = 0.05
_CLOSE_S: Final = 5.0
_AT_ONCE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What callers may use up.

    Attributes:
        connections: at the same time.
        exchange_s: from the moment a caller connects until the answer is sent and the connection
            closed, in seconds.
        head_bytes: length of request line and headers.
    """

    connections: int = 64
    exchange_s: float = 10.0
    head_bytes: int = 16 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A ``GET``.

    Attributes:
        path: decoded, without the query.
        query: by name; of a name that comes twice the last.
    """

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route returns; ``headers`` are lines, each with its end."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN
    headers: str = ""

    @classmethod
    def text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """Return an answer that is a line of text."""
        return cls(status, f"{text}\n".encode())


@dataclass(slots=True, eq=False)
class Connection:
    """One caller. ``is_answered``: only the caller's end of the connection is waited for."""

    socket: socket.socket
    peer: str
    deadline: float
    head: bytearray = field(default_factory=bytearray)
    rest: memoryview = field(default_factory=lambda: memoryview(b""))
    """What is still to be sent."""
    is_answered: bool = False


def to_give_up(connections: Sequence[Connection]) -> Connection:
    """Choose the connection whose place a new one takes.

    Those that have their answer come first, then those of the address that has the most; among
    these it is the oldest.

    Args:
        connections: the oldest first; not empty.
    """
    crowd = Counter(each.peer for each in connections)
    return max(connections, key=lambda each: (each.is_answered, crowd[each.peer]))


def parse(head: bytes) -> tuple[str, Request]:
    """Return method and request.

    Args:
        head: request line and headers.

    Raises:
        ValueError: it is not HTTP/1.
    """
    line = head.partition(b"\n")[0].rstrip(b"\r").decode("ascii")
    method, target, version = line.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"{version!r:.20} is not HTTP/1")
    parts = urlsplit(target)
    return method, Request(unquote(parts.path), dict(parse_qsl(parts.query)))


@dataclass(frozen=True, slots=True)
class HandOver:
    """Where callers are sent whose path begins with ``prefix``.

    Attributes:
        prefix: of paths.
        take: is given the caller's socket, the method and the request; must not wait. ``False``: it
            has no room for one more.
        token: callers show it (``Authorization: Bearer``); empty if anybody may come.
        token_file: where they find it.
    """

    prefix: str
    take: Callable[[socket.socket, str, Request], bool]
    token: str = ""
    token_file: str = ""

    def refusal(self, head: bytes) -> Answer | None:
        """Return what a caller is told who may not come; ``None`` for others.

        Args:
            head: request line and headers.
        """
        if not self.token or hmac.compare_digest(bearer_of(head), self.token.encode()):
            return None
        text = (
            f"{self.prefix} is for those who may read the worker's files: send the header "
            f"'Authorization: Bearer TOKEN' with what {self.token_file} holds"
        )
        document = {"error": "UNAUTHORIZED", "message": text}
        body = json.dumps(document).encode() + b"\n"
        return Answer(HTTPStatus.UNAUTHORIZED, body, JSON, "WWW-Authenticate: Bearer\r\n")


class HttpServer:
    """Answers ``GET`` and ``HEAD`` from a daemon thread of its own.

    Args:
        host: address to listen at; ``None`` to serve only whom ``adopt`` is given.
        port: 0 picks a free one.
        routes: by path; each is called on the server's thread, and must not wait.
        limits: what callers may use up.
        advice: what to do if the port cannot be used.
        hand_over: who else answers.
        guard: is asked about each caller, with the head of the request, before anybody answers; it
            returns what one is told who may not come. It must not wait.

    Raises:
        ConfigError: the port cannot be used.
    """

    def __init__(
        self,
        host: str | None,
        port: int,
        routes: Mapping[str, Callable[[Request], Answer]],
        *,
        limits: Limits = Limits(),
        advice: str = "choose another --http-port (0 picks a free one)",
        hand_over: HandOver | None = None,
        guard: Callable[[Request, bytes], Answer | None] | None = None,
    ) -> None:
        self._guard = guard
        self._routes = routes
        self._limits = limits
        self._hand_over = hand_over
        self._adopted: queue.SimpleQueue[tuple[socket.socket, bytes]] = queue.SimpleQueue()
        self._listener = None if host is None else _listening(host, port, advice)
        # In the order in which they came, which is that of their deadlines.
        self._open: dict[Connection, None] = {}
        self._waker, self._wake = socket.socketpair()
        self._waker.settimeout(0)
        self._selector = selectors.DefaultSelector()
        if self._listener is not None:
            self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._listener is not None, "it does not listen"
        return int(self._listener.getsockname()[1])

    @property
    def endpoint(self) -> str:
        """``host:port`` as it listens."""
        assert self._listener is not None, "it does not listen"
        host, port = self._listener.getsockname()[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def adopt(self, caller: socket.socket, answer: Answer, *, has_body: bool = True) -> None:
        """Send an answer to a caller that was handed over; from any thread.

        Args:
            caller: its socket, closed in the end.
            answer: what it is told.
            has_body: whether it has asked for more than the head.
        """
        self._adopted.put((caller, _encoded(answer, has_body=has_body)))
        with contextlib.suppress(OSError):  # it is full: the thread will wake anyway
            self._waker.send(b"x")

    def close(self) -> None:
        """Stop serving; whoever is being served is cut off."""
        if not self._is_closing:
            self._is_closing = True
            self._waker.close()
        self._thread.join(_CLOSE_S)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._turn()
        finally:
            for connection in list(self._open):
                self._drop(connection)
            self._selector.close()
            if self._listener is not None:
                self._listener.close()
            self._wake.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._next_deadline_s()):
            if key.fileobj is self._listener:
                self._accept_all()
            elif key.fileobj is self._wake:
                self._wake.recv(_CHUNK)
                self._adopt_all()
            elif isinstance(key.data, Connection) and key.data in self._open:
                self._go_on(key.data)
        now = time.monotonic()
        for connection in list(self._open):
            if connection.deadline > now:
                break
            self._drop(connection)

    def _next_deadline_s(self) -> float | None:
        oldest = next(iter(self._open), None)
        return None if oldest is None else max(0.0, oldest.deadline - time.monotonic())

    def _adopt_all(self) -> None:
        while not self._adopted.empty():
            caller, answer = self._adopted.get()
            connection = self._register(caller, _peer_of(caller))
            try:
                self._begin(connection, answer)
            except BlockingIOError:
                continue
            except OSError:
                self._drop(connection)  # the caller is gone

    def _register(self, caller: socket.socket, peer: str) -> Connection:
        if len(self._open) >= self._limits.connections:
            self._drop(to_give_up(list(self._open)))
        caller.settimeout(0)
        connection = Connection(caller, peer, time.monotonic() + self._limits.exchange_s)
        self._open[connection] = None
        self._selector.register(caller, selectors.EVENT_READ, connection)
        return connection

    def _accept_all(self) -> None:
        assert self._listener is not None
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                # No file descriptor is left, say. It is asked again, but not at once.
                log.warning("cannot accept a connection: %s", error)
                if self._open:
                    self._drop(to_give_up(list(self._open)))
                time.sleep(_PAUSE_S)
                return
            self._register(accepted, str(address[0]))

    def _drop(self, connection: Connection) -> None:
        del self._open[connection]
        self._selector.unregister(connection.socket)
        if connection.rest:
            # Or the kernel would keep what nobody reads.
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        connection.socket.close()

    def _go_on(self, connection: Connection) -> None:
        try:
            if connection.rest:
                self._send(connection)
            else:
                self._read(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)  # the caller is gone

    def _read(self, connection: Connection) -> None:
        got = connection.socket.recv(_CHUNK)
        if not got:
            self._drop(connection)
        elif not connection.is_answered:
            head = connection.head
            head += got
            ends = [at for mark in (b"\r\n\r\n", b"\n\n") if (at := head.find(mark)) >= 0]
            if min(ends, default=len(head)) > self._limits.head_bytes:
                text = f"request line and headers may have {self._limits.head_bytes} bytes"
                too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                self._begin(connection, _encoded(Answer.text(text, too_large)))
            elif ends:
                self._reply(connection, bytes(head[: min(ends)]))

    def _reply(self, connection: Connection, head: bytes) -> None:
        """Answer a caller, or let another process do so."""
        try:
            method, request = parse(head)
        except ValueError:
            refused = Answer.text("this is not HTTP/1", HTTPStatus.BAD_REQUEST)
            self._begin(connection, _encoded(refused))
            return
        if method not in {"GET", "HEAD"}:
            text, status = b"only GET and HEAD\n", HTTPStatus.METHOD_NOT_ALLOWED
            refused = Answer(status, text, headers="Allow: GET, HEAD\r\n")
            self._begin(connection, _encoded(refused))
            return
        other = self._hand_over
        stopped = None if self._guard is None else self._guarded(self._guard, request, head)
        if stopped is not None:
            answer = _encoded(stopped, has_body=method == "GET")
        elif other is None or not request.path.startswith(other.prefix):
            answer = _encoded(self._routed(request), has_body=method == "GET")
        elif (
            refusal := other.refusal(head) or self._handed_over(other, connection, method, request)
        ) is not None:
            answer = _encoded(refusal, has_body=method == "GET")
        else:
            return
        self._begin(connection, answer)

    def _guarded(
        self, guard: Callable[[Request, bytes], Answer | None], request: Request, head: bytes
    ) -> Answer | None:
        try:
            return guard(request, head)
        except Exception:  # whatever it is, nobody is let in by it, and the others are served
            log.exception("cannot say who may ask for %s", request.path)
            return Answer.text("see the log", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _handed_over(
        self, other: HandOver, connection: Connection, method: str, request: Request
    ) -> Answer | None:
        """Pass a caller on; return what to say if that is not possible."""
        try:
            is_taken = other.take(connection.socket, method, request)
        except Exception:  # whatever it is, the others are served
            log.exception("cannot pass a caller on")
            text = "this worker stops, or its query process cannot be reached; see the log"
            return Answer.text(text, HTTPStatus.SERVICE_UNAVAILABLE)
        if not is_taken:
            text = "too many queries wait already; try again"
            return Answer.text(text, HTTPStatus.SERVICE_UNAVAILABLE)
        del self._open[connection]
        self._selector.unregister(connection.socket)
        connection.socket.close()
        return None

    def _routed(self, request: Request) -> Answer:
        route = self._routes.get(request.path)
        if route is None:
            return Answer.text(f"there is {' '.join(self._routes)}", HTTPStatus.NOT_FOUND)
        try:
            return route(request)
        except Exception:  # whatever it is, the others are served
            log.exception("cannot answer %s", request.path)
            return Answer.text("see the log", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _begin(self, connection: Connection, answer: bytes) -> None:
        connection.head.clear()
        connection.rest = memoryview(answer)
        self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        connection.rest = connection.rest[connection.socket.send(connection.rest) :]
        if not connection.rest:
            # To close with something unread would take the answer back: the caller closes first.
            connection.is_answered = True
            connection.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)


def _peer_of(caller: socket.socket) -> str:
    try:
        return str(caller.getpeername()[0])
    except OSError:
        return ""


def _listening(host: str, port: int, advice: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.settimeout(0)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot serve HTTP at {host}:{port}: {reason}; {advice}") from error
    return listener


def header_of(head: bytes, name: bytes) -> bytes:
    """Return the value of a header; of one that comes twice the first, empty without one.

    Args:
        head: request line and headers.
        name: in lower case.
    """
    for line in head.splitlines()[1:]:
        found, _, value = line.partition(b":")
        if found.lower() == name:
            return value.strip()
    return b""


def bearer_of(head: bytes) -> bytes:
    """Return the token of the header ``Authorization: Bearer``; empty without one.

    Args:
        head: request line and headers.
    """
    scheme, _, token = header_of(head, b"authorization").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _encoded(answer: Answer, *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"{answer.headers}Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")
