"""The HTTP server of workers, operator and driver, and callers who are slow, silent or too many."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from tests.support.topologies import TOPIC_VARIABLE
from tests.support.views import worker_view
from tests.support.waiting import wait_for

from headwater.errors import ConfigError
from headwater.httpserver import (
    JSON,
    Answer,
    Connection,
    HandOver,
    HttpServer,
    Limits,
    Request,
    to_give_up,
)
from headwater.service.carrier import replace_json
from headwater.service.http import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BEGUN = b"GET /healthz HTTP/1.1\r\nX-Slow: "
LONG = 3600.0
"""A deadline that no test sees."""
PLANTED_S = 3.0
"""How long a planted fault is given to pass by chance."""


def echo(request: Request) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(dict(request.query)).encode(), JSON)


def broken(_: Request) -> Answer:
    raise LookupError("a route of the test")


@contextmanager
def serving(**limits: float) -> Iterator[HttpServer]:
    routes: dict[str, Callable[[Request], Answer]] = {
        "/echo": echo,
        "/broken": broken,
        "/large": lambda _: Answer(HTTPStatus.OK, b"x" * 20_000_000),
    }
    server = HttpServer("127.0.0.1", 0, routes, limits=Limits(**limits))  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


@contextmanager
def working(**limits: float) -> Iterator[HttpServer]:
    """What a worker serves."""
    bounds = Limits(**limits)  # type: ignore[arg-type]
    server = serve("127.0.0.1", 0, worker_view, lambda: worker_view().at_ms, limits=bounds)
    try:
        yield server
    finally:
        server.close()


def address_of(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def ask(endpoint: str, request: bytes) -> tuple[int, bytes]:
    """Send a request as it is; return status and body, once the server has closed."""
    with socket.create_connection(address_of(endpoint), timeout=60) as caller:
        caller.sendall(request)
        got = b"".join(iter(lambda: caller.recv(65536), b""))
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def get(endpoint: str, path: str) -> tuple[int, bytes]:
    return ask(endpoint, f"GET {path} HTTP/1.1\r\nHost: {endpoint}\r\n\r\n".encode())


class Crowd:
    """Callers who have connected, sent a part of a request, and wait."""

    def __init__(self, endpoint: str, count: int, sent: bytes = BEGUN) -> None:
        self.callers: list[socket.socket] = []
        for _ in range(count):
            caller = socket.create_connection(address_of(endpoint), timeout=60)
            self.callers.append(caller)
            if sent:
                self._send(caller, sent)
            caller.setblocking(False)

    def still_open(self) -> int:
        """How many the server has not cut off."""
        waiting = select.poll()
        for caller in self.callers:
            waiting.register(caller, select.POLLIN | select.POLLRDHUP)
        return len(self.callers) - len(waiting.poll(0))

    def send(self, sent: bytes) -> None:
        for caller in self.callers:
            self._send(caller, sent)

    def close(self) -> None:
        for caller in self.callers:
            caller.close()

    @staticmethod
    def _send(caller: socket.socket, sent: bytes) -> None:
        with suppress(ConnectionError):  # cut off
            caller.sendall(sent)


def prove_bound(endpoint: str, *, callers: int, bound: int, patience_s: float = 60) -> Crowd:
    """A crowd of slow callers keeps ``bound`` connections at most, and nobody else out."""
    crowd = Crowd(endpoint, callers)
    try:
        wait_for(
            lambda: crowd.still_open() <= bound,
            what=f"{bound} connections at most",
            timeout_s=patience_s,
        )
        assert get(endpoint, "/healthz") == (200, b"ok\n")
    except BaseException:
        crowd.close()
        raise
    return crowd


def prove_deadline(endpoint: str, patience_s: float = 60) -> None:
    """Whoever trickles, says nothing, or does not read is cut off."""
    trickling, silent = Crowd(endpoint, 4), Crowd(endpoint, 4, b"")

    def cut_off() -> bool:
        trickling.send(b"x")
        return trickling.still_open() == silent.still_open() == 0

    try:
        wait_for(cut_off, what="the end of slow callers", timeout_s=patience_s, every_s=0.1)
    finally:
        trickling.close()
        silent.close()


def test_connections_are_bounded_and_a_crowd_keeps_nobody_out() -> None:
    with working(connections=8, exchange_s=LONG) as server:
        threads = threading.active_count()
        crowd = prove_bound(server.endpoint, callers=60, bound=8)

        assert threading.active_count() == threads
        crowd.close()


def test_the_proof_catches_a_server_without_the_bound() -> None:
    with (
        working(connections=10_000, exchange_s=LONG) as server,
        pytest.raises(AssertionError, match="8 connections at most"),
    ):
        prove_bound(server.endpoint, callers=60, bound=8, patience_s=PLANTED_S)


def test_slow_and_silent_callers_are_cut_off_at_the_deadline() -> None:
    with working(exchange_s=0.5) as server:
        prove_deadline(server.endpoint)

        assert get(server.endpoint, "/healthz") == (200, b"ok\n")


def test_the_proof_catches_a_server_without_the_deadline() -> None:
    with (
        working(exchange_s=LONG) as server,
        pytest.raises(AssertionError, match="the end of slow callers"),
    ):
        prove_deadline(server.endpoint, PLANTED_S)


def test_a_caller_that_does_not_read_its_answer_is_cut_off() -> None:
    with (
        serving(exchange_s=0.5) as server,
        socket.create_connection(address_of(server.endpoint), timeout=60) as caller,
    ):
        caller.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        other = select.poll()
        other.register(caller, select.POLLRDHUP | select.POLLHUP | select.POLLERR)

        wait_for(lambda: other.poll(0), what="the end of the connection")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /echo HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
        (b"GET /echo HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 200_000, 431),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000, 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /echo\r\n\r\n", 400),
        (b"GET //[ HTTP/1.1\r\n\r\n", 400),
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"GET /echo HTTP/1.1\n\n", 200),
    ],
    ids=lambda value: f"{value[:24]!r} {len(value)}" if isinstance(value, bytes) else str(value),
)
def test_what_is_no_request_for_us_gets_an_answer_that_arrives(
    request_bytes: bytes, status: int
) -> None:
    with serving(exchange_s=LONG) as server:
        assert ask(server.endpoint, request_bytes)[0] == status
        assert get(server.endpoint, "/echo?at=5&key=a%20b") == (200, b'{"at": "5", "key": "a b"}')


def test_head_has_no_body() -> None:
    with serving() as server:
        assert ask(server.endpoint, b"HEAD /large HTTP/1.1\r\n\r\n") == (200, b"")


def test_a_large_answer_arrives_whole() -> None:
    with serving(exchange_s=LONG) as server:
        assert len(get(server.endpoint, "/large")[1]) == 20_000_000


def test_a_port_that_cannot_be_used_is_named() -> None:
    with serving() as server, pytest.raises(ConfigError, match=f":{server.port}: Address already"):
        HttpServer("127.0.0.1", server.port, {})
    with pytest.raises(ConfigError, match=r"99999.*--http-port"):
        HttpServer("127.0.0.1", 99_999, {})


def test_the_place_of_an_old_caller_is_taken_from_the_crowd() -> None:
    with ExitStack() as open_until_then:

        def connection(peer: str, *, is_answered: bool = False) -> Connection:
            unused = open_until_then.enter_context(socket.socket())
            return Connection(unused, peer, 0.0, is_answered=is_answered)

        probe, first, second = connection("kubelet"), connection("crowd"), connection("crowd")
        assert to_give_up([probe, first, second]) is first
        assert to_give_up([first, second, probe]) is first
        answered = connection("scrape", is_answered=True)
        assert to_give_up([first, second, answered]) is answered
        assert to_give_up([probe, first]) is probe  # none is a crowd: the oldest


@pytest.mark.slow
def test_leases_are_renewed_while_1000_slow_callers_hold_on(tmp_path: Path) -> None:
    app = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "attacked"},
        "spec": {
            "topology": {"module": "tests.support.topologies:counts"},
            "kafka": {"bootstrapServers": "127.0.0.1:1"},
            "config": {"session.timeout.ms": 3000},
        },
    }
    directory = tmp_path / "attacked" / "workers" / "attacked-w-0"
    directory.mkdir(parents=True)
    replace_json(tmp_path / "attacked" / "streamapp.json", app)
    flags = ["--cluster-dir", tmp_path, "--app", "attacked", "--name", "attacked-w-0"]
    command = [sys.executable, "-m", "headwater.cli.main", "worker", *flags]
    state = ["--state-dir", tmp_path / "state"]
    worker = subprocess.Popen([*command, *state], env={**os.environ, TOPIC_VARIABLE: "lines"})
    crowd = None

    def read(name: str) -> dict[str, object]:
        try:
            return dict(json.loads((directory / name).read_text()))
        except FileNotFoundError:
            assert worker.poll() is None, "the worker has ended"
            return {}

    try:
        status = wait_for(lambda: read("status.json"), what="a status")
        endpoint = status["status"]["endpoint"]  # type: ignore[index]
        bound = Limits().connections
        crowd = prove_bound(endpoint, callers=1000, bound=bound)
        renewed = read("lease.json")
        wanted = [renewed]

        def has_renewed() -> bool:
            crowd.send(b"x")
            if (now := read("lease.json")) != wanted[-1]:
                wanted.append(now)
            return len(wanted) > 5

        wait_for(has_renewed, what="five renewals of the Lease")
        assert get(endpoint, "/healthz") == (200, b"ok\n")
    finally:
        if crowd is not None:
            crowd.close()
        worker.terminate()
        worker.wait(60)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /other\r\n\r\n", 400),
        (b"GET /other HTTP/2\r\n\r\n", 400),
        ("GET /other/é HTTP/1.1\r\n\r\n".encode(), 400),
        (b"POST /other HTTP/1.1\r\n\r\n", 405),
        (b"GET /other/broken HTTP/1.1\r\n\r\n", 503),
        (b"GET /other/full HTTP/1.1\r\n\r\n", 503),
        (b"GET /other/good HTTP/1.1\r\n\r\n", 200),
    ],
    ids=repr,
)
def test_only_what_can_be_understood_is_passed_on_and_a_failure_stops_nothing(
    request_bytes: bytes, status: int
) -> None:
    passed_on = HttpServer(None, 0, {})

    def take(caller: socket.socket, method: str, request: Request) -> bool:
        assert method == "GET"
        if "broken" in request.path:
            raise LookupError("it stops")
        if "full" in request.path:
            return False
        passed_on.adopt(caller.dup(), Answer.text("it was passed on"))
        return True

    server = HttpServer("127.0.0.1", 0, {"/echo": echo}, hand_over=HandOver("/other", take))
    try:
        assert ask(server.endpoint, request_bytes)[0] == status
        assert get(server.endpoint, "/echo")[0] == 200
        assert get(server.endpoint, "/other")[0] == 200
    finally:
        server.close()
        passed_on.close()


def test_who_does_not_show_the_token_is_told_where_it_lies() -> None:
    passed_on = HttpServer(None, 0, {})
    asked: list[str] = []

    def take(caller: socket.socket, method: str, request: Request) -> bool:
        asked.append(f"{method} {request.path}")
        passed_on.adopt(caller.dup(), Answer.text("it was passed on"))
        return True

    other = HandOver("/state", take, "s3cret", "/there/w-0.token")
    server = HttpServer("127.0.0.1", 0, {"/echo": echo}, hand_over=other)

    def status(header: str, path: str = "/state/counts", method: str = "GET") -> int:
        request = f"{method} {path} HTTP/1.1\r\nHost: here\r\n{header}\r\n"
        return ask(server.endpoint, request.encode("latin-1"))[0]

    try:
        for wrong in (
            "",
            "Authorization: Bearer s3cre\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Basic s3cret\r\n",
            "Authorization: Bearer s3cr\xe9t\r\n",
            "X-Authorization: Bearer s3cret\r\n",
        ):
            assert status(wrong) == 401
            assert status(wrong, method="HEAD") == 401
            assert status(wrong, "/%73tate/counts") == 401
            assert status(wrong, "/echo") == 200
        assert asked == []
        assert status("authorization:  bearer  s3cret \r\n") == 200
        assert asked == ["GET /state/counts"]
        said = ask(server.endpoint, b"GET /state HTTP/1.1\r\n\r\n")[1]
        assert json.loads(said)["error"] == "UNAUTHORIZED"
        assert b"what /there/w-0.token holds" in said
    finally:
        server.close()
        passed_on.close()
