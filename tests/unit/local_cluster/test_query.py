"""``headwater query`` shows what it has found as tables, and the texts of answers that are none."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from headwater.httpserver import Answer, HandOver, HttpServer
from headwater.ids import TaskId
from headwater.model.cluster import Role, StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater.privatefiles import token_file
from headwater.service.statetoken import state_token
from headwater_operator.local.layout import AppDir
from headwater_operator.local.query import run, table_of
from headwater_operator.local.query_asking import Question, order_of
from headwater_operator.local.query_workers import LocalWorkers

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.httpserver import Request

KEY = Question(store="counts", key="a/b", options={"requireActive": "true"})
MISSING = {
    "error": "KEY_NOT_FOUND",
    "message": "store counts has no 'a/b'",
    "partition": 0,
    "of": 1,
    "read": {"0": {"standing": "running", "changelogOffset": 3}},
}


def worker(name: str, *tasks: int, role: Role = Role.ACTIVE) -> StreamWorker:
    held = tuple(
        TaskStatus(task=TaskId(0, partition), state=TaskState.RUNNING, role=role)
        for partition in tasks
    )
    status = WorkerStatus(endpoint=f"{name}:1", tasks=held)
    return StreamWorker(name=name, spec=WorkerSpec(app="app"), status=status)


class Absent:
    """One worker that does not have the key."""

    def all(self) -> Sequence[StreamWorker]:
        return [worker("w", 0)]

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        assert path == "/state/counts/keys/a%2Fb?requireActive=true"
        return 404, MISSING


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
            LocalWorkers(AppDir(tmp_path), "app").get(
                replace(worker("w-0"), status=there), "/state"
            )
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

    assert run(Absent(), KEY, "table") == 1
    assert "has no 'a/b'" in capsys.readouterr().err


def test_the_token_of_a_worker_of_this_machine_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    app = AppDir(tmp_path)
    state = app.state("w-0") / "orders"
    state.mkdir(parents=True)
    passed_on = HttpServer(None, 0, {})

    def take(caller: socket.socket, method: str, request: Request) -> bool:
        passed_on.adopt(caller.dup(), Answer(HTTPStatus.OK, b'{"stores": []}'))
        return True

    guarded = HandOver("/state", take, state_token(state, "w-0"))
    server = HttpServer("127.0.0.1", 0, {}, hand_over=guarded)
    there = replace(worker("w-0"), status=WorkerStatus(endpoint=f"127.0.0.1:{server.port}"))
    try:
        assert LocalWorkers(app, "orders").get(there, "/state") == (200, {"stores": []})
        token_file(state, "w-0").unlink()
        status, answer = LocalWorkers(app, "orders").get(there, "/state")
        assert (status, answer["error"]) == (401, "UNAUTHORIZED")
    finally:
        server.close()
        passed_on.close()
