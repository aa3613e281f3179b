"""``headwater query`` on a cluster: it asks pods through the API server, and nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest
from tests.support.scripted_api import Answer, Asked, ScriptedApi

from headwater.errors import QueryFailedError
from headwater.ids import TaskId
from headwater.model import podcontract
from headwater.model.cluster import StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater_operator.kube.client import KubeClient
from headwater_operator.kube.errors import ForbiddenError
from headwater_operator.local.query_asking import Question, ask_for_key
from headwater_operator.local.query_workers import ClusterWorkers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = Question(store="counts", key="a/b", options={"requireActive": "true"})
ELSEWHERE = {"error": "NOT_PRESENT", "message": "not here", "task": "0_1", "partition": 1}
FOUND = {
    "store": "counts",
    "key": "a/b",
    "value": 3,
    "partition": 1,
    "read": {"1": {"standing": "running", "changelogOffset": 9}},
}
MISSING = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such pod"}
UNREACHABLE = {"kind": "Status", "code": 503, "message": "connection refused"}
REFUSED = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods/proxy"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ScriptedApi]:
    with ScriptedApi(tmp_path, lambda asked: Answer()) as running:
        yield running


@pytest.fixture
def workers(api: ScriptedApi) -> Iterator[ClusterWorkers]:
    configuration = kubernetes.client.Configuration()
    configuration.host = f"https://{api.access.host}:{api.access.port}"
    configuration.ssl_ca_cert = str(api.access.directory / podcontract.CA_FILE)
    client = KubeClient(configuration)
    yield ClusterWorkers(client, "shop", "orders")
    client.close()


def listed() -> dict[str, Any]:
    def one(number: int) -> dict[str, Any]:
        task = TaskStatus(task=TaskId(0, number), state=TaskState.RUNNING)
        status = WorkerStatus(incarnation="i", tasks=(task,))
        worker = StreamWorker(
            name=f"orders-w-{number}", spec=WorkerSpec(app="orders"), status=status
        )
        return worker.to_dict()

    return {"items": [one(0), one(1)]}


def test_the_worker_that_has_a_key_is_found_through_the_api_server(
    api: ScriptedApi, workers: ClusterWorkers
) -> None:
    def answer(asked: Asked) -> Answer:
        if "streamworkers" in asked.path:
            return Answer(body=listed())
        return Answer(code=421, body=ELSEWHERE) if "w-0:" in asked.path else Answer(body=FOUND)

    api.answer = answer

    assert ask_for_key(workers, QUESTION) == FOUND
    space = "/api/v1/namespaces/shop/pods"
    path = "/proxy/state/counts/keys/a%2Fb?requireActive=true"
    assert [asked.path for asked in api.asked[1:]] == [
        f"{space}/orders-w-0:8080{path}",
        f"{space}/orders-w-1:8080{path}",
    ]
    assert "headwater.dev/app%3Dorders" in api.asked[0].path
    assert {asked.method for asked in api.asked} == {"GET"}


@pytest.mark.parametrize("status", [MISSING, UNREACHABLE])
def test_a_pod_that_is_missing_or_out_of_reach_is_passed_over(
    api: ScriptedApi, workers: ClusterWorkers, status: dict[str, Any]
) -> None:
    def answer(asked: Asked) -> Answer:
        if "streamworkers" in asked.path:
            return Answer(body=listed())
        if "w-0:" in asked.path:
            return Answer(code=status["code"], body=status)
        return Answer(body=FOUND)

    api.answer = answer

    assert ask_for_key(workers, QUESTION) == FOUND


def test_who_may_not_reach_pods_is_told_what_is_missing(
    api: ScriptedApi, workers: ClusterWorkers
) -> None:
    api.answer = lambda asked: (
        Answer(body=listed()) if "streamworkers" in asked.path else Answer(code=403, body=REFUSED)
    )
    with pytest.raises(ForbiddenError, match="pods/proxy"):
        ask_for_key(workers, QUESTION)


def test_a_pod_that_answers_something_else_is_passed_over(
    api: ScriptedApi, workers: ClusterWorkers
) -> None:
    api.answer = lambda asked: (
        Answer(body=listed()) if "streamworkers" in asked.path else Answer(code=502, body=b"no")
    )
    with pytest.raises(QueryFailedError, match="orders-w-0 does not answer: no"):
        ask_for_key(workers, QUESTION)
