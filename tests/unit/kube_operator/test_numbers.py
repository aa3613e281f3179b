"""What a worker serves is what the operator and the live view read, and nothing else is."""

from __future__ import annotations

import json
import math
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from tests.support.views import task_view, worker_view

from headwater.httpserver import JSON, Answer, HttpServer, bearer_of
from headwater.ids import SlotId, TaskId
from headwater.model import metrics
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater.model.metrics import Snapshot
from headwater.service.http import document
from headwater.service.view import ThreadView, WorkerView
from headwater_operator.observe.numbers import HttpNumbers, by_namespace, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.httpserver import Request

RUNNING, RESTORING, FOLLOWED = TaskId(0, 1), TaskId(1, 1), TaskId(1, 2)


THREAD = SlotId("app-w-0", 0).thread_id


def view() -> WorkerView:
    return worker_view(
        task_view(RUNNING),
        task_view(RESTORING, state="RESTORING"),
        task_view(FOLLOWED, role=Role.STANDBY),
        threads=(ThreadView(slot=0, state="RUNNING", pid=4711),),
        numbers=(
            Snapshot.of({metrics.RESTORE_RECORDS: 70, metrics.READY: False}),
            Snapshot.of({metrics.TRANSACTION_OPEN: True, metrics.RATIOS["commit"]: 0.5}, THREAD),
            Snapshot.of(
                {
                    metrics.TASK_PROCESS: 70,
                    metrics.TASK_PROCESS_RATE: 7.5,
                    metrics.RECORDS_LAG: 12,
                    metrics.LAST_RESTORED_RECORDS: 40,
                },
                str(RUNNING),
            ),
            Snapshot.of(
                {metrics.LAST_RESTORED_RECORDS: 30, metrics.RESTORE_REMAINING_RECORDS: 60},
                str(RESTORING),
            ),
            Snapshot.of({metrics.STANDBY_RECORDS_LAG: 1_203}, str(FOLLOWED)),
        ),
    )


def test_the_numbers_of_a_worker_are_read_as_served() -> None:
    served, told = view(), parse(document(view()))

    assert (told.incarnation, told.lags) == ("i", {FOLLOWED: 1_203})
    for name, rows in served.numbers.values.items():
        for labels, value in rows.items():
            assert told.numbers.values[name][labels] == value, (name, labels)


def test_what_nobody_has_measured_is_none_or_zero_as_declared() -> None:
    told = parse(document(view())).numbers

    assert told.count(metrics.TASK_PROCESS, str(RESTORING)) == 0
    assert told.count(metrics.RECORDS_LAG, str(RESTORING)) is None
    assert told.count(metrics.RESTORE_REMAINING_RECORDS, str(RUNNING)) is None
    assert told.count(metrics.RESTORE_REMAINING_RECORDS, str(FOLLOWED)) is None
    assert told.count(metrics.STANDBY_RECORDS_LAG, str(RESTORING)) is None
    assert told.value(metrics.RATIOS["poll"], THREAD) is None


@pytest.mark.parametrize("answer", [[], {}, {"tasks": 3}, {"tasks": [{"task": "x"}]}, None])
def test_another_answer_is_refused(answer: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse(answer)


def test_a_number_that_is_none_is_refused() -> None:
    for wrong in ("many", math.inf, math.nan, [1]):
        answer = document(view())
        answer["restoredTotal"] = wrong
        with pytest.raises(ValueError, match="restoredTotal is no number"):
            parse(answer)


def test_a_copy_that_does_not_know_how_far_it_is_is_nowhere() -> None:
    copy = worker_view(task_view(FOLLOWED, role=Role.STANDBY))

    assert parse(document(copy)).lags == {FOLLOWED: LAG_UNKNOWN}


class Answering:
    """A server that takes one connection after the other and sends what it was told to."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.calls = 0
        self.ended = threading.Event()
        """Whoever called has gone."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.calls += 1
                with connection, suppress(OSError):
                    connection.sendall(self._answer)
                    while connection.recv(4096):
                        pass
                self.ended.set()

    def close(self) -> None:
        # Closing alone does not wake up who waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], Answering]]:
    servers: list[Answering] = []

    def start(answer: bytes) -> Answering:
        servers.append(Answering(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(BEGUN, id="half of an answer"),
        pytest.param(b"SSH-2.0\r\n", id="something else than HTTP"),
        pytest.param(b"HTTP/1.1 302 Found\r\nLocation: {other}\r\n\r\n", id="a redirection"),
        pytest.param(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}", id="a refusal"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", id="another document"),
        pytest.param(
            b'HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{"tasks":[{"task":1e999}]}', id="no task"
        ),
    ],
)
def test_what_is_no_answer_counts_as_none_and_holds_nobody_up(
    answering: Callable[[bytes], Answering], answer: bytes
) -> None:
    other = answering(b"")
    server = answering(answer.replace(b"{other}", f"http://{other.endpoint}/tasks".encode()))
    numbers = HttpNumbers(silence_ms=0)

    # On a busy machine it may not come to the question in time.
    while not server.calls:
        assert numbers.ask({"w": server.endpoint}) == {}

    assert server.ended.wait(60), "the connection is still open"
    assert other.calls == 0
    numbers.close()


def test_a_worker_that_is_silent_is_left_in_peace_for_a_while(
    answering: Callable[[bytes], Answering],
) -> None:
    server, now_ms, counted = answering(b""), 0, list[str]()
    numbers = HttpNumbers(silence_ms=10_000, count=counted.append, now_ms=lambda: now_ms)

    while not counted:
        numbers.ask({"w": server.endpoint})
    now_ms = 9_999
    numbers.ask({"w": server.endpoint})
    assert counted == ["silent"]
    now_ms = 10_000
    while len(counted) == 1:
        numbers.ask({"w": server.endpoint})

    assert counted == ["silent", "silent"]
    numbers.close()


def test_an_address_that_is_none_is_silence() -> None:
    assert HttpNumbers().ask({"a": "127.0.0.1:1", "b": "nowhere", "c": "[::1]:x"}) == {}


class Asking:
    """A worker that asks its callers for a token, and keeps what they show."""

    def __init__(self, accepted: str) -> None:
        self.shown: list[str] = []
        told = {"worker": "w", "incarnation": accepted, "threads": [], "tasks": []}
        answer = Answer(HTTPStatus.OK, json.dumps(told).encode(), JSON)
        self._accepted = accepted
        self.server = HttpServer("127.0.0.1", 0, {"/tasks": lambda _: answer}, guard=self._refused)

    def _refused(self, _: Request, head: bytes) -> Answer | None:
        self.shown.append(bearer_of(head).decode())
        is_right = self.shown[-1] == self._accepted
        return None if is_right else Answer.text("no", HTTPStatus.UNAUTHORIZED)


def test_a_worker_that_asks_for_a_token_is_shown_the_one_of_its_namespace_alone() -> None:
    tokens = {"shop": "for shop", "other": "for other"}
    numbers = HttpNumbers(silence_ms=0)
    workers = {name: Asking(token) for name, token in tokens.items()}
    ask = by_namespace(numbers, lambda namespace: tokens[namespace])
    try:
        for name, worker in workers.items():
            found = {}
            while not found:  # on a busy machine it may not answer in time
                found = ask(name).ask({"w": worker.server.endpoint})
            assert found["w"].incarnation == tokens[name]
            assert set(worker.shown) == {"", tokens[name]}
            assert worker.shown[0] == "", "it goes to those alone who ask for it"
    finally:
        numbers.close()
        for worker in workers.values():
            worker.server.close()


def test_without_a_token_who_asks_for_one_does_not_answer() -> None:
    worker = Asking("some")
    numbers = HttpNumbers(silence_ms=0)
    try:
        while not worker.shown:
            assert (
                by_namespace(numbers, lambda _: "")("shop").ask({"w": worker.server.endpoint}) == {}
            )
        assert set(worker.shown) == {""}
    finally:
        numbers.close()
        worker.server.close()
