"""What a worker serves is what the operator and the live view read, and nothing else is."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.views import task_view, worker_view

from headwater.ids import TaskId
from headwater.model.cluster import LAG_UNKNOWN, Role
from headwater.native.messages import Stats, TaskStats
from headwater.service.http import document
from headwater.service.view import ThreadView, WorkerView
from headwater_operator.observe.numbers import HttpNumbers, TaskNumbers, WorkerNumbers, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNNING, RESTORING, FOLLOWED = TaskId(0, 1), TaskId(1, 1), TaskId(1, 2)


def view() -> WorkerView:
    stats = TaskStats(
        task=RUNNING, processed=70, dropped=0, buffered=3, lag=12, stream_time=5, committed={}
    )
    thread = ThreadView(
        slot=0,
        state="RUNNING",
        pid=4711,
        restarts=0,
        records_per_s=7.0,
        stats=Stats(processed=70, commits=1, transaction_open=True, tasks=(stats,)),
        problem="",
    )
    return worker_view(
        task_view(RUNNING, records_per_s=7.0, stats=stats, restored=40),
        task_view(RESTORING, state="RESTORING", restored=30, remaining=60),
        task_view(FOLLOWED, remaining=1_203, role=Role.STANDBY),
        epoch=7,
        is_ready=False,
        threads=(thread,),
        restored_total=70,
    )


def test_the_numbers_of_a_worker_are_read_as_served() -> None:
    assert parse(document(view())) == WorkerNumbers(
        incarnation="i",
        tasks={
            RUNNING: TaskNumbers(processed=70, lag=12, restored=40, remaining=None),
            RESTORING: TaskNumbers(processed=0, lag=None, restored=30, remaining=60),
            FOLLOWED: TaskNumbers(behind=1_203),
        },
        lags={FOLLOWED: 1_203},
        open_transactions=1,
        restored=70,
    )


@pytest.mark.parametrize("answer", [[], {}, {"tasks": 3}, {"tasks": [{"task": "x"}]}, None])
def test_another_answer_is_refused(answer: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse(answer)


def test_a_copy_that_does_not_know_how_far_it_is_is_nowhere() -> None:
    copy = replace(view().tasks[2], remaining=None)

    assert parse(document(replace(view(), tasks=(copy,)))).lags == {FOLLOWED: LAG_UNKNOWN}


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
