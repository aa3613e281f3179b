"""``headwater query`` on a cluster: it asks pods through the API server, and nobody else."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest
from tests.support.scripted_api import Answer, Asked, ScriptedApi

from headwater.errors import QueryError, QueryFailedError
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
def client(api: ScriptedApi) -> Iterator[KubeClient]:
    configuration = kubernetes.client.Configuration()
    configuration.host = f"https://{api.access.host}:{api.access.port}"
    configuration.ssl_ca_cert = str(api.access.directory / podcontract.CA_FILE)
    client = KubeClient(configuration)
    yield client
    client.close()


@pytest.fixture
def workers(client: KubeClient) -> ClusterWorkers:
    return ClusterWorkers(client, "shop", "orders")


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


# ---- workers that ask for a token ----------------------------------------------------------------

UNAUTHORIZED = {"error": "UNAUTHORIZED", "message": "show what the key token holds"}
SECRET = "/api/v1/namespaces/shop/secrets/callers"
APP = {
    "metadata": {"name": "orders"},
    "spec": {"http": {"authentication": {"secretRef": {"name": "callers"}}}},
}


class Asking:
    """Workers that ask for a token, and the Secret that holds it."""

    def __init__(self, api: ScriptedApi) -> None:
        self.api = api
        self.wanted = "now"
        self.secret: Answer = self.holding("now")
        self.app: Any = APP
        api.answer = self

    @staticmethod
    def holding(token: str) -> Answer:
        data = {"token": base64.b64encode(token.encode()).decode()}
        return Answer(body={"kind": "Secret", "metadata": {"name": "callers"}, "data": data})

    def __call__(self, asked: Asked) -> Answer:
        if "/proxy/" in asked.path:
            shown = {name.lower(): value for name, value in asked.headers.items()}
            if shown.get("headwater-token") != self.wanted:
                return Answer(code=401, body=UNAUTHORIZED)
            return Answer(body=FOUND)
        if asked.path == SECRET:
            return self.secret
        return Answer(body=listed() if "streamworkers" in asked.path else self.app)

    def count(self, path: str) -> int:
        return sum(path in asked.path for asked in self.api.asked)


@pytest.fixture
def asking(api: ScriptedApi) -> Asking:
    return Asking(api)


def test_the_token_of_the_secret_is_shown_to_workers_that_ask_for_one(
    asking: Asking, workers: ClusterWorkers
) -> None:
    assert ask_for_key(workers, QUESTION) == FOUND
    assert ask_for_key(workers, QUESTION) == FOUND
    assert asking.count(SECRET) == 1, "it is kept"
    others = [asked for asked in asking.api.asked if "/proxy/" not in asked.path]
    assert not [asked for asked in others if "headwater-token" in map(str.lower, asked.headers)]

    asking.wanted, asking.secret = "next", asking.holding("next")
    assert ask_for_key(workers, QUESTION) == FOUND, "it was replaced meanwhile"
    assert asking.count(SECRET) == 2


def test_no_secret_is_read_for_workers_that_ask_for_none(
    asking: Asking, workers: ClusterWorkers
) -> None:
    asking.wanted = None  # type: ignore[assignment]  # what is shown by nobody
    assert ask_for_key(workers, QUESTION) == FOUND
    assert asking.count(SECRET) == 0


def test_a_token_that_is_wrong_is_told_in_the_workers_words(
    asking: Asking, workers: ClusterWorkers
) -> None:
    asking.wanted = "other"
    with pytest.raises(QueryError, match="show what the key token holds"):
        ask_for_key(workers, QUESTION)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (Answer(code=403, body=REFUSED), "Secret callers, which may not be read.*--token-file"),
        (Answer(code=404, body=MISSING), "Secret callers, and there is none in namespace shop"),
        (Answer(body={"kind": "Secret", "data": {}}), "Secret callers holds no token"),
        (Answer(body={"kind": "Secret", "data": {"token": "/w=="}}), "holds no token in ASCII"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_with_the_next_step(
    asking: Asking, workers: ClusterWorkers, secret: Answer, says: str
) -> None:
    asking.secret = secret
    with pytest.raises(QueryError, match=says):
        ask_for_key(workers, QUESTION)


def test_a_worker_cannot_name_the_secret_that_it_is_sent(
    asking: Asking, workers: ClusterWorkers
) -> None:
    asking.app = {"metadata": {"name": "orders"}, "spec": {}}
    with pytest.raises(QueryError, match=r"names no Secret \(spec.http.authentication\)"):
        ask_for_key(workers, QUESTION)
    assert asking.count("/secrets/") == 0


def test_a_file_holds_the_token_for_who_may_not_read_secrets(
    asking: Asking, client: KubeClient, tmp_path: Path
) -> None:
    file = tmp_path / "of-callers"
    workers = ClusterWorkers(client, "shop", "orders", token_file=file)
    with pytest.raises(QueryError, match=r"--token-file .* cannot be read"):
        ask_for_key(workers, QUESTION)
    file.write_text("\n")
    with pytest.raises(QueryError, match="is empty: write the token into it"):
        ask_for_key(workers, QUESTION)
    file.write_text("now\n")
    assert ask_for_key(workers, QUESTION) == FOUND
    assert asking.count("/secrets/") == 0
