"""``headwater query``: asks the workers of an application for what their stores hold.

A key is asked for where its partition is: any worker says which one that is, and the StreamWorkers
say who runs it. A range is asked for everywhere, and the first answer for a partition counts. On
one machine the workers are reached by their endpoints, on a cluster through the API server, with
the rights of whoever asks.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, urlencode

from headwater.errors import EnvironmentProblemError, QueryError, QueryFailedError
from headwater.model.cluster import Role, StreamWorker
from headwater.model.podcontract import HTTP_PORT
from headwater_operator.kube.api import STREAM_WORKERS
from headwater_operator.kube.errors import ApiUnavailableError, NotFoundError
from headwater_operator.local import control
from headwater_operator.local.observe import read_worker
from headwater_operator.local.tables import print_table
from headwater_operator.manifests.names import of_app

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater_operator.kube.client import KubeClient
    from headwater_operator.local.layout import AppDir, ClusterDir

_TIMEOUT_S: Final = 15.0
_TEXT_BYTES: Final = 300
_NOT_ANSWERED: Final = (HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    Attributes:
        store: its name.
        key: of one key; ``None`` for a range.
        what: ``keys``, ``windows``, ``sessions`` or ``versions``.
        options: as of HTTP.
        limit: rows at most.
    """

    store: str
    key: str | None
    what: str = "keys"
    options: Mapping[str, str]
    limit: int = 100

    def path(self, cursor: str = "") -> str:
        """Return the path with its query."""
        options = dict(self.options)
        key = "" if self.key is None else f"/{quote(self.key, safe='')}"
        if self.key is None:
            options["limit"] = str(self.limit)
        if cursor:
            options["cursor"] = cursor
        query = f"?{urlencode(options)}" if options else ""
        return f"/state/{quote(self.store, safe='')}/{self.what}{key}{query}"


class Workers(Protocol):
    """The workers of an application, and the way to them."""

    def all(self) -> Sequence[StreamWorker]:
        """Return them as they are now."""
        ...

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a worker.

        Raises:
            OSError: it cannot be reached, or answers something else than JSON.
        """
        ...


class LocalWorkers:
    """Those of an application on this machine."""

    def __init__(self, directory: AppDir) -> None:
        self._directory = directory

    def all(self) -> Sequence[StreamWorker]:
        """Return those that have an endpoint."""
        found = (read_worker(path) for path in self._directory.workers())
        return [worker for worker in found if worker is not None and worker.status.endpoint]

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Ask at the worker's endpoint."""
        host, _, port = worker.status.endpoint.rpartition(":")
        connection = HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, _document(answer.status, answer.read())
        except HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()


class ClusterWorkers:
    """Those of a StreamApp on Kubernetes, through the API server's proxy to pods.

    Args:
        client: with the rights of whoever asks: to list streamworkers, and get pods/proxy.
        namespace: of the StreamApp.
        app: its name.
    """

    def __init__(self, client: KubeClient, namespace: str, app: str) -> None:
        self._client = client
        self._namespace = namespace
        self._app = app

    def all(self) -> Sequence[StreamWorker]:
        """Return those that the operator has made; a pod is called as its worker."""
        found = self._client.list(STREAM_WORKERS, self._namespace, labels=of_app(self._app))
        return [StreamWorker.from_dict(one) for one in found]

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Ask through the API server.

        Raises:
            OSError: there is no such pod, it cannot be reached, or it does not answer with JSON.
            ForbiddenError: pods/proxy may not be read.
        """
        try:
            status, data = self._client.ask_pod(self._namespace, worker.name, HTTP_PORT, path)
        except (NotFoundError, ApiUnavailableError) as error:
            raise OSError(str(error)) from error
        return status, _document(status, data)


def _document(status: int, data: bytes) -> dict[str, Any]:
    """Return an answer's JSON object.

    Raises:
        OSError: it is none; the error says what was answered instead.
    """
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        text = data[:_TEXT_BYTES].decode(errors="replace").strip()
        raise OSError(text or f"HTTP status {status} without a text")
    return answer


def order_of(workers: Iterable[StreamWorker], task: str | None) -> list[StreamWorker]:
    """Return workers in the order in which they are asked.

    Args:
        workers: all.
        task: whoever runs it comes first, then who has a copy.
    """

    def rank(worker: StreamWorker) -> int:
        roles = {t.role for t in worker.status.tasks if str(t.task) == task}
        return 0 if Role.ACTIVE in roles else 1 if roles else 2

    return sorted(workers, key=rank)


def ask_for_key(workers: Workers, question: Question) -> dict[str, Any]:
    """Return the answer of whoever has a key.

    Raises:
        QueryError: the question cannot be asked so.
        QueryFailedError: nobody answers.
    """
    waiting = list(workers.all())
    said = ""
    while waiting:
        worker = waiting.pop(0)
        try:
            status, answer = workers.get(worker, question.path())
        except OSError as error:
            said = said or f"{worker.name} does not answer: {error}"
            continue
        if status in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
            if answer.get("error", "KEY_NOT_FOUND") != "KEY_NOT_FOUND":
                raise QueryError(answer["message"])
            return answer
        said = f"{worker.name}: {answer.get('message', status)}"
        if status not in _NOT_ANSWERED:
            raise _error(status, answer, said)
        waiting = order_of(waiting, answer.get("task"))
    raise QueryFailedError(said or "no worker runs; see `headwater get`")


def ask_for_range(workers: Workers, question: Question) -> dict[str, Any]:
    """Return the rows of all partitions, one worker after the other, up to the limit.

    Several workers may have a partition: each has the global stores, and copies may answer.
    The rows of the first worker are taken.

    Raises:
        QueryError: the question cannot be asked so.
        QueryFailedError: somebody does not answer, or a partition is nowhere.
    """
    rows: list[dict[str, Any]] = []
    position: dict[str, dict[str, int]] = {}
    seen: set[int] = set()
    count = 0
    for worker in workers.all():
        if count and len(seen) >= count:
            break
        done = frozenset(seen)
        cursor = ""
        while len(rows) < question.limit:
            try:
                status, answer = workers.get(worker, question.path(cursor))
            except OSError as error:
                raise QueryFailedError(f"{worker.name} does not answer: {error}") from error
            if status != HTTPStatus.OK:
                raise _error(status, answer, f"{worker.name}: {answer.get('message', status)}")
            rows += [row for row in answer["rows"] if row["partition"] not in done]
            seen |= set(answer["partitions"])
            count = max(count, answer["of"] or 0)
            for topic, offsets in answer["position"].items():
                position[topic] = offsets | position.get(topic, {})
            cursor = answer.get("cursor", "")
            if not cursor:
                break
    missing = sorted(set(range(count)) - seen)
    if missing and len(rows) < question.limit:
        raise QueryFailedError(
            f"no worker runs partition {', '.join(map(str, missing))} of store {question.store} at "
            "this moment: a task is being moved or restored; try again"
        )
    return {"store": question.store, "rows": rows[: question.limit], "position": position}


def run(workers: Workers, question: Question, output: str) -> int:
    """Ask, and print the answer; return the exit code."""
    if question.key is None:
        answer = ask_for_range(workers, question)
    else:
        answer = ask_for_key(workers, question)
    if output == "json":
        json.dump(answer, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif "error" in answer:
        sys.stderr.write(f"{answer['message']}\n")
    else:
        rows = answer.get("rows", [answer])
        print_table(*table_of(rows))
    return 1 if "error" in answer else 0


def table_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return header and cells of rows as JSON shows them."""
    cells = [_cells(row) for row in rows]
    shown = [name for name in _COLUMNS if name in _ALWAYS or any(row[name] for row in cells)]
    return shown, [[row[name] for name in shown] for row in cells]


_COLUMNS: Final = ("KEY", "START", "END", "VALUE", "TIMESTAMP", "VALID TO", "PARTITION")
_ALWAYS: Final = ("KEY", "VALUE")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    window = row.get("window", {"start": "", "end": ""})
    return {
        "KEY": _text(row["key"]),
        "START": str(window["start"]),
        "END": str(window["end"]),
        "VALUE": _text(row["value"]),
        "TIMESTAMP": str(row.get("timestamp", "")),
        "VALID TO": str(row.get("validTo") or ""),
        "PARTITION": str(row["partition"]),
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _error(status: int, answer: Mapping[str, Any], message: str) -> Exception:
    """Return the error for an answer that is none."""
    passing = (*_NOT_ANSWERED, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.INTERNAL_SERVER_ERROR)
    if status in passing or "error" not in answer:
        return QueryFailedError(message)
    return QueryError(str(answer.get("message", message)))


def local_workers(cluster: ClusterDir, app: str | None) -> LocalWorkers:
    """Return the workers of an application of the local cluster; of the only one, if none is named.

    Raises:
        SpecError: there is no such application.
        QueryError: there are several, or none.
        EnvironmentProblemError: the cluster does not run.
    """
    if app is None:
        names = [directory.name for directory in cluster.apps()]
        if len(names) != 1:
            raise QueryError(
                f"there are {len(names)} applications in {cluster.root}"
                f"{': ' + ', '.join(names) if names else ''}; name one with --app"
            )
        app = names[0]
    control.require(cluster, app)
    if control.running_supervisor(cluster) is None:
        raise EnvironmentProblemError(
            f"the local cluster in {cluster.root} does not run: start it with `headwater up`"
        )
    return LocalWorkers(cluster.app(app))
