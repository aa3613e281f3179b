"""What the query process answers by HTTP, from stores on disk, for each thing that can be wrong."""

from __future__ import annotations

import select
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from tests.support.asked import HERE, KEYS, MEMORY, PARTITIONS, Asked, by_murmur2

from headwater.ids import TaskId, TopicPartition
from headwater.native.queries import cursors
from headwater.native.queries.answering import Held
from headwater.native.queries.cursors import Cursor
from headwater.native.queries.values import (
    AskTask,
    Place,
    Standing,
    TaskAnswered,
)
from headwater.serde import Serde
from headwater.state.asks import Range
from headwater.wire import positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLACES = {TaskId(0, partition): Place(Standing.RUNNING, 0) for partition in HERE}
READ = {"standing": "running", "changelogOffset": 1}


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    asking = Asked(tmp_path)
    yield asking
    asking.close()


def key_of(partition: int) -> str:
    return next(k for k in KEYS if by_murmur2(k) == partition)


def test_a_key_that_is_here(asked: Asked) -> None:
    key = key_of(1)
    number = KEYS.index(key)
    assert asked.get(f"/state/counts/keys/{key}") == (
        HTTPStatus.OK,
        {
            "store": "counts",
            "partition": 1,
            "key": key,
            "value": number,
            "timestamp": 1_000 + number,
            "position": {"in": {"1": 39}},
            "read": {"1": READ},
        },
    )
    data = number.to_bytes(8, "big")
    assert asked.get(f"/state/counts/keys/{key}?format=raw") == (200, data)
    assert asked.get(f"/state/counts/keys/{key}?format=base64")[1]["value"].endswith("=")


def test_a_key_that_nobody_has(asked: Asked) -> None:
    names = (f"other-{number}" for number in range(100))
    other = next(n for n in names if by_murmur2(n) == 0)
    status, answer = asked.get(f"/state/counts/keys/{other}")
    assert (status, answer["error"]) == (404, "KEY_NOT_FOUND")
    assert answer["position"] == {"in": {"0": 39, "1": 39}}
    assert (answer["partition"], answer["of"]) == (0, PARTITIONS)
    assert answer["read"] == {"0": READ, "1": READ}
    assert "in partition 0, where Kafka's partitioner places it, nor in 1" in answer["message"]
    assert "one of all 4 partitions with partition=N" in answer["message"]
    status, answer = asked.get(f"/state/counts/keys/{other}?partition=1")
    assert (status, answer["read"]) == (404, {"1": READ})
    assert answer["message"].endswith("in partition 1")


def test_a_key_that_another_worker_has_names_it(asked: Asked) -> None:
    key = key_of(3)
    status, answer = asked.get(f"/state/counts/keys/{key}")
    assert (status, answer["error"], answer["task"]) == (421, "NOT_PRESENT", "0_3")
    assert answer["endpoint"] is None

    asked.place(PLACES, peers={TaskId(0, 3): "10.0.0.7:8080"})
    status, answer = asked.get(f"/state/counts/keys/{key}")
    assert (status, answer["endpoint"], answer["partition"]) == (421, "10.0.0.7:8080", 3)
    assert "10.0.0.7:8080 has it" in answer["message"]
    status, answer = asked.get(f"/state/counts/keys/{key}?partition=3")
    assert (status, answer["error"]) == (421, "NOT_PRESENT")


def test_a_task_that_moves_or_is_a_copy_answers_if_it_may(asked: Asked) -> None:
    key = key_of(1)
    for standing in (Standing.MOVING, Standing.COPY):
        asked.place({**PLACES, TaskId(0, 1): Place(standing)})
        assert asked.get(f"/state/counts/keys/{key}")[0] == 200
        status, answer = asked.get(f"/state/counts/keys/{key}?requireActive=true")
        assert (status, answer["error"]) == (503, "NOT_ACTIVE")
        assert "try again, or allow stale reads" in answer["message"]


def test_a_bound_that_is_not_reached(asked: Asked) -> None:
    key = key_of(1)
    assert asked.get(f'/state/counts/keys/{key}?bound={{"in":{{"1":39}}}}')[0] == 200
    status, answer = asked.get(f'/state/counts/keys/{key}?partition=1&bound={{"in":{{"1":40}}}}')
    assert (status, answer["error"]) == (412, "NOT_UP_TO_BOUND")
    assert "try again after the next commit" in answer["message"]
    status, answer = asked.get(f"/state/counts/keys/{key}?bound=41")
    assert (status, answer["error"]) == (400, "QueryError")


@pytest.mark.parametrize(
    ("url", "status", "error", "message"),
    [
        ("/state/kounts/keys/a", 404, "UnknownStateStoreError", "GET /state lists"),
        ("/state/counts", 400, "QueryError", "there is /state/counts/keys/KEY"),
        ("/state/counts/windows/a", 400, "UNKNOWN_QUERY_TYPE", "does not know such a query"),
        ("/state/counts/windows", 400, "UNKNOWN_QUERY_TYPE", "does not know such a query"),
        ("/state/counts/versions/a", 400, "UNKNOWN_QUERY_TYPE", "does not know such a query"),
        ("/state/counts/keys?limit=0", 400, "QueryError", "limit='0' is not allowed"),
        ("/state/counts/keys?limit=x", 400, "QueryError", "expected 1 to 10000"),
        ("/state/counts/keys/a?partition=9", 404, "DOES_NOT_EXIST", "partitions 0 to 3"),
        ("/state/counts/keys?cursor=abc", 400, "InvalidCursorError", "is no cursor"),
        ("/state/counts/keys/a?keyFormat=base64", 400, "QueryError", "is no key"),
    ],
)
def test_what_cannot_be_asked_so(
    asked: Asked, url: str, status: int, error: str, message: str
) -> None:
    found, answer = asked.get(url)
    assert (found, answer["error"]) == (status, error)
    assert message in answer["message"]


def test_a_range_goes_on_at_its_cursor_until_its_end(asked: Asked) -> None:
    for limit in (1, 3, 7, 100):
        rows: list[str] = []
        cursor = ""
        while True:
            status, page = asked.get(f"/state/counts/keys?limit={limit}{cursor}")
            assert status == 200
            assert len(page["rows"]) <= limit
            rows += [row["key"] for row in page["rows"]]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
        assert rows == [
            key for partition in HERE for key in sorted(KEYS) if by_murmur2(key) == partition
        ]


def test_a_cursor_of_yesterday_is_gone(asked: Asked) -> None:
    digest = cursors.digest_of("counts", "keys", repr(Range()), None)
    old = cursors.encode(Cursor(0, b"key-1"), digest, time.time() - 86_400)
    status, answer = asked.get(f"/state/counts/keys?cursor={old}")
    assert (status, answer["error"]) == (410, "CursorExpiredError")
    assert "begin the range again" in answer["message"]


def test_a_range_of_active_tasks_passes_copies_over_and_says_who_moves(asked: Asked) -> None:
    asked.place({TaskId(0, 0): PLACES[TaskId(0, 0)], TaskId(0, 1): Place(Standing.COPY)})
    _, every = asked.get("/state/counts/keys")
    assert every["partitions"] == [0, 1]
    _, active = asked.get("/state/counts/keys?requireActive=true")
    assert (active["partitions"], active["of"]) == ([0], PARTITIONS)
    asked.place({TaskId(0, 0): Place(Standing.MOVING)})
    status, answer = asked.get("/state/counts/keys?requireActive=true")
    assert (status, answer["error"]) == (503, "NOT_ACTIVE")


def test_a_store_in_memory_is_asked_of_its_thread(asked: Asked) -> None:
    read = positions.encode_read([(TopicPartition("in", 0), 8)])
    asked.memory = [
        TaskAnswered(id=0, read=read, rows=[(b"a", b"\xff", -1, 0, 0)]),
        TaskAnswered(id=0, read=read),
    ]
    status, answer = asked.get("/state/memory/keys/a")
    assert (status, answer["error"]) == (406, "NotShownAsJsonError")
    assert "format=base64" in answer["message"]

    asked.memory = [TaskAnswered(id=0, is_here=False)]
    status, answer = asked.get("/state/memory/keys/a?partition=0")
    assert (status, answer["error"]) == (421, "NOT_PRESENT")
    asked.memory = [TaskAnswered(id=0, problem="KeyError: 'a'")]
    status, answer = asked.get("/state/memory/keys/a?partition=0")
    assert (status, answer["error"]) == (500, "STORE_EXCEPTION")
    asked.place({TaskId(0, 0): Place(Standing.MOVING)})
    status, answer = asked.get("/state/memory/keys/a?partition=0")
    assert (status, answer["error"]) == (421, "NOT_PRESENT")
    assert "does not run yet" in answer["message"]


def test_the_stores_are_listed_with_what_is_here(asked: Asked) -> None:
    asked.place({**PLACES, TaskId(0, 2): Place(Standing.COPY)})
    _, answer = asked.get("/state")
    (counts, memory) = answer["stores"]
    assert counts["partitions"] == {"0": "running", "1": "running", "2": "standby"}
    assert (memory["store"], memory["persistent"]) == ("memory", False)


def test_a_key_is_looked_for_where_it_is_placed_before_all_else_is_asked(asked: Asked) -> None:
    key = "a" if by_murmur2("a") in HERE else "b"
    home = by_murmur2(key)
    other = 1 - home
    asked.place({task: Place(Standing.RUNNING, task.partition) for task in PLACES})
    questions: list[int] = []
    holds = {home}

    def answer(question: AskTask) -> None:
        questions.append(question.task.partition)
        rows = [(key.encode(), b"1", -1, 0, 0)] if question.task.partition in holds else []
        asked.questions.take(TaskAnswered(id=question.id, rows=rows))

    asked.to_thread = answer  # type: ignore[method-assign]
    url = f"/state/memory/keys/{key}?format=raw"
    assert asked.get(url) == (200, b"1")
    assert questions == [home]
    holds = {other}
    assert asked.get(url) == (200, b"1")
    assert questions == [home, home, other]


def test_a_thread_that_is_stuck_holds_up_questions_to_its_stores_alone(asked: Asked) -> None:
    other = replace(MEMORY, name="other")
    asked.answerer.stores = {**asked.answerer.stores, "other": Held(0, other)}
    asked.to_thread = lambda question: (  # type: ignore[method-assign]
        asked.questions.take(TaskAnswered(id=question.id)) if question.store == "other" else None
    )
    with ExitStack() as callers:
        stuck = [callers.enter_context(asked.caller("/state/memory/keys/a")) for _ in range(40)]
        for path in (f"/state/counts/keys/{key_of(1)}", "/state/other/keys", "/state"):
            with asked.caller(path) as caller:
                assert caller.recv(65536).startswith(b"HTTP/1.1 200")
        waiting, _, _ = select.select(stuck, [], [], 0)
        assert waiting == []


class Alone(Serde[str]):
    """A serde of the user that does not bear several threads at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.pause = threading.Event()

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        def read(data: bytes) -> str:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.pause.wait(0.0001)  # the others may run
            self.inside -= 1
            return data.decode()

        return read


def test_a_serde_is_called_by_one_thread_at_a_time(asked: Asked) -> None:
    serde = Alone()
    spec = asked.answerer.stores["counts"].spec
    asked.answerer.stores = {"counts": Held(0, replace(spec, key_serde=serde))}
    with ExitStack() as callers:
        every = [callers.enter_context(asked.caller("/state/counts/keys")) for _ in range(12)]
        for caller in every:
            assert caller.recv(65536).startswith(b"HTTP/1.1 200")
    assert serde.most == 1
