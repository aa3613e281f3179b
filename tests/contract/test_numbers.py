"""Workers that are asked for their numbers: by HTTP, and as the tests' fake plays them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

import pytest
from tests.support.numbers import FakeNumbers
from tests.support.views import task_view, worker_view

from headwater.ids import SlotId, TaskId
from headwater.model import metrics
from headwater.model.cluster import Role
from headwater.model.metrics import Snapshot
from headwater.service.http import document, serve
from headwater.service.view import ThreadView
from headwater_operator.decide.autoscaling.load import Reading
from headwater_operator.observe.numbers import HttpNumbers, NumbersSource, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.httpserver import HttpServer
    from headwater.service.view import WorkerView

TASK = TaskId(1, 0)


def view(worker: str, lag: int) -> WorkerView:
    """A worker that follows one task."""
    copy = task_view(TASK, state="RESTORING", role=Role.WARMUP)
    numbers = [Snapshot.of({metrics.STANDBY_RECORDS_LAG: lag}, str(TASK))]
    process = f"process of {worker}"
    return worker_view(copy, worker=worker, incarnation=process, numbers=numbers)


class Workers(Protocol):
    """Workers that serve, or do not, and a way to ask them."""

    @property
    def source(self) -> NumbersSource:
        """A way to ask them."""
        ...

    def serve(self, worker: str, lag: int) -> str:
        """Have a worker serve; return its endpoint."""
        ...

    def hang(self) -> str:
        """Return the endpoint of a worker that takes connections and says nothing."""
        ...

    def close(self) -> None:
        """End them all."""
        ...


class Played:
    def __init__(self) -> None:
        self.source = self.fake = FakeNumbers()

    def serve(self, worker: str, lag: int) -> str:
        self.fake.answers[worker] = parse(document(view(worker, lag)))
        return "10.0.0.1:8080"

    def hang(self) -> str:
        return "10.0.0.2:8080"

    def close(self) -> None:
        self.fake.answers.clear()


class Served:
    def __init__(self) -> None:
        self.source = self.http = HttpNumbers(silence_ms=0)
        self.servers: list[HttpServer] = []
        self.listeners: list[socket.socket] = []

    def serve(self, worker: str, lag: int) -> str:
        seen = view(worker, lag)
        self.servers.append(serve("127.0.0.1", 0, lambda: seen, lambda: 1))
        return self.servers[-1].endpoint

    def hang(self) -> str:
        self.listeners.append(socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{self.listeners[-1].getsockname()[1]}"

    def close(self) -> None:
        self.http.close()
        for each in (*self.servers, *self.listeners):
            each.close()


@pytest.fixture(params=[Played, Served])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    found: Workers = request.param()
    yield found
    found.close()


def ask_all(workers: Workers, endpoints: dict[str, str], answering: set[str]) -> dict[str, int]:
    """Ask until all who serve have answered: on a busy machine one may come too late."""
    for _ in range(120):
        found = workers.source.ask(endpoints)
        assert found.keys() <= answering
        if found.keys() == answering:
            assert {found[name].incarnation for name in found} == {
                f"process of {name}" for name in answering
            }
            return {name: answer.lags[TASK] for name, answer in found.items()}
    raise AssertionError(f"never have all answered: {found}")


def test_every_worker_answers_for_itself(workers: Workers) -> None:
    endpoints = {"w-0": workers.serve("w-0", 17), "w-1": workers.serve("w-1", 4_000_000)}

    assert ask_all(workers, endpoints, {"w-0", "w-1"}) == {"w-0": 17, "w-1": 4_000_000}


def test_one_that_says_nothing_does_not_keep_the_others_from_being_heard(workers: Workers) -> None:
    endpoints = {"w-0": workers.hang(), "w-1": workers.serve("w-1", 17)}

    assert ask_all(workers, endpoints, {"w-1"}) == {"w-1": 17}


def test_who_is_not_asked_does_not_answer(workers: Workers) -> None:
    workers.serve("w-0", 17)

    assert workers.source.ask({}) == {}


def test_what_stream_threads_process_is_told_with_their_process_and_slot() -> None:
    running, copy = task_view(TaskId(0, 1), slot=2), task_view(TASK, role=Role.STANDBY)
    numbers = [
        Snapshot.of({metrics.TASK_PROCESS: 70, metrics.RECORDS_LAG: 5}, str(TaskId(0, 1))),
        Snapshot.of(
            {metrics.RATIOS["process"]: 0.5, metrics.RATIOS["commit"]: 0.25},
            SlotId("app-w-0", 2).thread_id,
        ),
    ]
    threads = (ThreadView(slot=2, state="RUNNING", pid=1),)

    answer = parse(document(worker_view(running, copy, numbers=numbers, threads=threads)))

    reading = Reading(thread="i/2", processed=70, lag=5, busy=0.75)
    assert answer.readings == {TaskId(0, 1): reading}
