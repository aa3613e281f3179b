"""What the query process answers by HTTP, from stores on disk, for each thing that can be wrong."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from headwater.config import StreamsConfig
from headwater.httpserver import Request
from headwater.ids import TaskId, TopicPartition
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.queries import cursors
from headwater.native.queries.answering import Answerer, Held, TaskQuestions
from headwater.native.queries.cursors import Cursor
from headwater.native.queries.http import HttpQueries
from headwater.native.queries.secondaries import Secondaries
from headwater.native.queries.values import AskTask, Place, Placements, Standing, TaskAnswered
from headwater.ports import Position
from headwater.serde import Serdes
from headwater.state import BlockCache, open_store
from headwater.state.asks import Range
from headwater.state.directory import StateDirectory
from headwater.state.restore import open_backend
from headwater.wire import positions
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITIONS = 4
HERE = (0, 1)
KEYS = [f"key-{number}" for number in range(40)]
PLACES = {TaskId(0, partition): Place(Standing.RUNNING, 0) for partition in HERE}
SPEC = StoreSpec(name="counts", key_serde=Serdes.string, value_serde=Serdes.long)
MEMORY = StoreSpec(
    name="memory",
    kind=StoreKind.KEY_VALUE,
    persistent=False,
    key_serde=Serdes.string,
    value_serde=Serdes.bytes,
)


class Asked:
    """A query process' half that answers, over two of four partitions."""

    def __init__(self, path: Path) -> None:
        directory = StateDirectory(path, "app")
        self._stores = []
        for partition in HERE:
            task = TaskId(0, partition)
            store = open_store(
                SPEC,
                task=task,
                changelog_topic="changelog",
                backend=open_backend(SPEC, directory.store(task, SPEC.name), holder="test"),
                cache=None,
                changelog_send=None,
                key_serde=Serdes.string,
                value_serde=Serdes.long,
            )
            for number, key in enumerate(KEYS):
                if partition_for_key(key.encode(), PARTITIONS) == partition:
                    store.put(key, number, 1_000 + number)
            read = positions.encode_read([(TopicPartition("in", partition), 40)])
            store.flush_changelog()
            store.commit(Position("topic", 1, 1, read=read))
            self._stores.append(store)
        self.memory: list[TaskAnswered] = []
        self._questions = TaskQuestions(self._to_thread)
        stores = {"counts": Held(0, SPEC), "memory": Held(0, MEMORY)}
        self.answerer = Answerer(stores, Secondaries(directory, BlockCache()), self._questions)
        self.place(PLACES)
        config = StreamsConfig.parse({"application.id": "app"})
        self._http = HttpQueries(self.answerer, config)

    def _to_thread(self, asked: AskTask) -> None:
        answered = self.memory.pop(0)
        self._questions.take(
            TaskAnswered(
                id=asked.id,
                is_here=answered.is_here,
                read=answered.read,
                rows=answered.rows,
                problem=answered.problem,
            )
        )

    def place(self, tasks: dict[TaskId, Place], **more: Any) -> None:
        self.answerer.placements = Placements(
            tasks=tasks, **{"partitions": {0: PARTITIONS}, **more}
        )

    def get(self, url: str) -> tuple[int, Any]:
        parts = urlsplit(url)
        answer = self._http.answer(Request(parts.path, dict(parse_qsl(parts.query))))
        if answer.content_type != "application/json":
            return answer.status.value, answer.body
        return answer.status.value, json.loads(answer.body)

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    asking = Asked(tmp_path)
    yield asking
    asking.close()


def key_of(partition: int) -> str:
    return next(k for k in KEYS if partition_for_key(k.encode(), PARTITIONS) == partition)


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
        },
    )
    data = number.to_bytes(8, "big")
    assert asked.get(f"/state/counts/keys/{key}?format=raw") == (200, data)
    assert asked.get(f"/state/counts/keys/{key}?format=base64")[1]["value"].endswith("=")


def test_a_key_that_nobody_has(asked: Asked) -> None:
    names = (f"other-{number}" for number in range(100))
    other = next(n for n in names if partition_for_key(n.encode(), PARTITIONS) == 0)
    status, answer = asked.get(f"/state/counts/keys/{other}")
    assert (status, answer["error"]) == (404, "KEY_NOT_FOUND")
    assert answer["position"] == {"in": {"0": 39, "1": 39}}


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
            key
            for partition in HERE
            for key in sorted(KEYS)
            if partition_for_key(key.encode(), PARTITIONS) == partition
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
