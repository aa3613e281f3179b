"""``headwater query`` finds who has a key, and says what it has not found."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from headwater.errors import QueryError, QueryFailedError
from headwater.httpserver import Answer, HttpServer
from headwater.ids import TaskId
from headwater.model.cluster import Role, StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater_operator.local.layout import AppDir
from headwater_operator.local.query import (
    LocalWorkers,
    Question,
    ask_for_key,
    ask_for_range,
    order_of,
    run,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEY = Question(store="counts", key="a/b", options={"requireActive": "true"})
RANGE = Question(store="counts", key=None, options={"from": "a"}, limit=3)
ELSEWHERE = {"error": "NOT_PRESENT", "message": "not here", "partition": 2, "task": "0_2"}


def worker(name: str, *tasks: int, role: Role = Role.ACTIVE) -> StreamWorker:
    held = tuple(
        TaskStatus(task=TaskId(0, partition), state=TaskState.RUNNING, role=role)
        for partition in tasks
    )
    status = WorkerStatus(endpoint=f"{name}:1", tasks=held)
    return StreamWorker(name=name, spec=WorkerSpec(app="app"), status=status)


class Answers:
    """Workers whose answers are given."""

    def __init__(self, workers: Sequence[StreamWorker], answers: Mapping[str, Any]) -> None:
        self._workers = workers
        self._answers = answers
        self.asked: list[tuple[str, str]] = []

    def all(self) -> Sequence[StreamWorker]:
        return self._workers

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append((worker.name, path))
        answer = self._answers[worker.name]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer  # type: ignore[no-any-return]


def test_the_first_worker_says_who_has_a_key_and_that_one_is_asked_next() -> None:
    found = {"store": "counts", "key": "a/b", "value": 3, "partition": 2}
    workers = Answers(
        [worker("w-0", 0), worker("w-1", 1), worker("w-2", 2)],
        {"w-0": (421, ELSEWHERE), "w-2": (200, found)},
    )

    assert ask_for_key(workers, KEY) == found
    path = "/state/counts/keys/a%2Fb?requireActive=true"
    assert workers.asked == [("w-0", path), ("w-2", path)]


def test_a_worker_that_does_not_answer_is_passed_over() -> None:
    missing = {"error": "KEY_NOT_FOUND", "message": "store counts has no 'a/b'"}
    workers = Answers(
        [worker("w-0", 0), worker("w-1", 1)], {"w-0": OSError("refused"), "w-1": (404, missing)}
    )

    assert ask_for_key(workers, KEY) == missing


def test_a_key_that_nobody_answers_for_is_an_error_with_the_reason() -> None:
    moving = {"error": "NOT_ACTIVE", "message": "task 0_2 is moving here; try again"}
    workers = Answers(
        [worker("w-0", 0), worker("w-1", 2)], {"w-0": (421, ELSEWHERE), "w-1": (503, moving)}
    )
    with pytest.raises(QueryFailedError, match="w-1: task 0_2 is moving here; try again"):
        ask_for_key(workers, KEY)
    with pytest.raises(QueryFailedError, match="headwater get"):
        ask_for_key(Answers([], {}), KEY)


def test_a_wrong_question_is_not_asked_of_everybody() -> None:
    wrong = {"error": "UnknownStateStoreError", "message": "no store 'counts'"}
    workers = Answers([worker("w-0", 0), worker("w-1", 1)], {"w-0": (404, wrong)})
    with pytest.raises(QueryError, match="no store"):
        ask_for_key(workers, KEY)


def rows(partitions: Sequence[int], count: int, cursor: str = "") -> tuple[int, dict[str, Any]]:
    answer = {
        "rows": [{"key": f"k{n}", "value": n, "partition": partitions[0]} for n in range(count)],
        "partitions": list(partitions),
        "of": 2,
        "position": {"in": {str(p): 7 for p in partitions}},
    }
    return 200, answer | ({"cursor": cursor} if cursor else {})


def test_a_range_is_asked_for_everywhere_page_by_page() -> None:
    workers = Answers(
        [worker("w-0", 0), worker("w-1", 1)],
        {"w-0": [rows([0], 1, "c"), rows([0], 1)], "w-1": rows([1], 5)},
    )

    found = ask_for_range(workers, RANGE)

    assert [row["key"] for row in found["rows"]] == ["k0", "k0", "k0"]
    assert found["position"] == {"in": {"0": 7, "1": 7}}
    assert [path for _, path in workers.asked] == [
        "/state/counts/keys?from=a&limit=3",
        "/state/counts/keys?from=a&limit=3&cursor=c",
        "/state/counts/keys?from=a&limit=3",
    ]


def test_a_range_that_lacks_a_partition_is_an_error() -> None:
    workers = Answers([worker("w-0", 0)], {"w-0": rows([0], 1)})
    with pytest.raises(QueryFailedError, match="no worker runs partition 1"):
        ask_for_range(workers, RANGE)


def test_a_global_store_is_asked_of_one_worker() -> None:
    status, answer = rows([0], 2)
    globally = (status, answer | {"of": 1})
    workers = Answers([worker("w-0", 0), worker("w-1", 1)], {"w-0": globally, "w-1": globally})

    found = ask_for_range(workers, replace(RANGE, limit=100))

    assert [row["key"] for row in found["rows"]] == ["k0", "k1"]
    assert [name for name, _ in workers.asked] == ["w-0"]


def test_rows_of_a_partition_that_two_workers_have_come_once_with_the_first_ones_position() -> None:
    status, both = rows([0, 1], 0)
    both["rows"] = [{"key": f"w-1 {p}", "value": 0, "partition": p} for p in (0, 1)]
    both["position"] = {"in": {"0": 5, "1": 5}}
    workers = Answers(
        [worker("w-0", 0), worker("w-1", 0, 1)],
        {"w-0": [rows([0], 1, "c"), rows([0], 1)], "w-1": (status, both)},
    )

    found = ask_for_range(workers, replace(RANGE, limit=100))

    assert [row["key"] for row in found["rows"]] == ["k0", "k0", "w-1 1"]
    assert found["position"] == {"in": {"0": 7, "1": 5}}


@pytest.mark.parametrize(
    "status", [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR]
)
@pytest.mark.parametrize("text", ["too many queries wait", ""])
def test_the_text_of_an_answer_that_is_not_json_is_shown(
    tmp_path: Path, status: HTTPStatus, text: str
) -> None:
    server = HttpServer("127.0.0.1", 0, {"/state": lambda _: Answer.text(text, status)})
    there = WorkerStatus(endpoint=f"127.0.0.1:{server.port}")
    try:
        with pytest.raises(OSError, match=f"^{text or f'HTTP status {status}'}"):
            LocalWorkers(AppDir(tmp_path)).get(replace(worker("w-0"), status=there), "/state")
    finally:
        server.close()


def test_who_runs_a_task_is_asked_before_who_has_a_copy() -> None:
    copy, other, active = worker("a", 2, role=Role.STANDBY), worker("b", 1), worker("c", 2)
    assert order_of([other, copy, active], "0_2") == [active, copy, other]


def test_answers_are_tables(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"key": "a", "value": {"n": 1}, "timestamp": 5, "partition": 0}
    header, cells = table_of([row])
    assert header == ["KEY", "VALUE", "TIMESTAMP", "PARTITION"]
    assert cells == [["a", '{"n": 1}', "5", "0"]]
    windowed = {"key": 7, "value": 1, "window": {"start": 0, "end": 10}, "partition": 0}
    assert table_of([windowed])[0] == ["KEY", "START", "END", "VALUE", "PARTITION"]
    assert table_of([]) == (["KEY", "VALUE"], [])

    missing = {"error": "KEY_NOT_FOUND", "message": "store counts has no 'a/b'"}
    assert run(Answers([worker("w", 0)], {"w": (404, missing)}), KEY, "table") == 1
    assert "has no 'a/b'" in capsys.readouterr().err
