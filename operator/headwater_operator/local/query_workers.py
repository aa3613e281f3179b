"""The way of ``headwater query`` to the workers of an application, here and on a cluster."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final

from headwater import privatefiles
from headwater.errors import EnvironmentProblemError, QueryError
from headwater.model.cluster import StreamWorker
from headwater.model.podcontract import HTTP_PORT, TOKEN_HEADER
from headwater_operator.kube.api import STREAM_WORKERS
from headwater_operator.kube.errors import ApiUnavailableError, NotFoundError
from headwater_operator.local import control
from headwater_operator.local.observe import read_worker
from headwater_operator.local.query_tokens import AppToken
from headwater_operator.manifests.names import of_app

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater_operator.kube.client import KubeClient
    from headwater_operator.local.layout import AppDir, ClusterDir

_TIMEOUT_S: Final = 15.0
_TEXT_BYTES: Final = 300


class LocalWorkers:
    """Those of an application on this machine.

    Args:
        directory: the application's, with the state of its workers.
        application_id: names their directories.
    """

    def __init__(self, directory: AppDir, application_id: str) -> None:
        self._directory = directory
        self._application_id = application_id

    def all(self) -> Sequence[StreamWorker]:
        """Return those that have an endpoint."""
        found = (read_worker(path) for path in self._directory.workers())
        return [worker for worker in found if worker is not None and worker.status.endpoint]

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Ask at the worker's endpoint, with the token that this user can read."""
        host, _, port = worker.status.endpoint.rpartition(":")
        connection = HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S)
        try:
            connection.request("GET", path, headers=self._token_of(worker))
            answer = connection.getresponse()
            return answer.status, _document(answer.status, answer.read())
        except HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def _token_of(self, worker: StreamWorker) -> dict[str, str]:
        state = self._directory.state(worker.name) / self._application_id
        token = privatefiles.read_secret(privatefiles.token_file(state, worker.name))
        return {"Authorization": f"Bearer {token}"} if token else {}


class ClusterWorkers:
    """Those of a StreamApp on Kubernetes, through the API server's proxy to pods.

    Args:
        client: with the rights of whoever asks: to list streamworkers, and get pods/proxy.
        namespace: of the StreamApp.
        app: its name.
        token_file: holds the token for workers that ask for one; ``None``: the Secret that the
            StreamApp names does.
    """

    def __init__(
        self, client: KubeClient, namespace: str, app: str, *, token_file: Path | None = None
    ) -> None:
        self._token = AppToken(client, namespace, app, token_file)
        self._shown = ""
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
            QueryError: it asks for a token that cannot be read.
        """
        status, data = self._ask(worker, path)
        if status == HTTPStatus.UNAUTHORIZED:
            # None was shown so far, or it was replaced since.
            self._shown = self._token.read()
            status, data = self._ask(worker, path)
        return status, _document(status, data)

    def _ask(self, worker: StreamWorker, path: str) -> tuple[int, bytes]:
        headers = {TOKEN_HEADER: self._shown} if self._shown else None
        try:
            return self._client.ask_pod(
                self._namespace, worker.name, HTTP_PORT, path, headers=headers
            )
        except (NotFoundError, ApiUnavailableError) as error:
            raise OSError(str(error)) from error


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
    record = control.require(cluster, app)
    if control.running_supervisor(cluster) is None:
        raise EnvironmentProblemError(
            f"the local cluster in {cluster.root} does not run: start it with `headwater up`"
        )
    return LocalWorkers(cluster.app(app), record.app.application_id)
