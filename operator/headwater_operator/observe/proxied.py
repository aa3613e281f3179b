"""The numbers of workers, asked for through the API server: from outside of the cluster.

It takes the right to ``get`` ``pods/proxy``, which reaches every port of every pod of a namespace.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, Protocol

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.kube.errors import ForbiddenError, KubeApiError
from headwater_operator.observe.numbers import WorkerAnswer, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_ONCE: Final = 8
_TIMEOUT_S: Final = 5.0
_OK: Final = 200


class PodAsker(Protocol):
    """Whoever asks pods through the API server (``KubeClient``)."""

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, *, timeout_s: float | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of what a pod answers to a GET."""
        ...


class ProxiedNumbers:
    """Workers asked through the API server.

    Args:
        client: the API server, with the rights of whoever asks.
        namespace: of the pods.
    """

    def __init__(self, client: PodAsker, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask")
        self.refused = ""
        """Why nobody was asked, in the API server's words; empty if it has not refused."""

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Ask workers at the same time; return the answers of those that have soon answered.

        Args:
            endpoints: by worker, which is the name of its pod; their addresses are not used.
        """
        self.refused = ""
        futures = {name: self._pool.submit(self._ask, name) for name in endpoints}
        wait(futures.values(), _TIMEOUT_S)
        found = {
            name: future.result()
            for name, future in futures.items()
            if not future.cancel() and future.done()
        }
        return {name: answer for name, answer in found.items() if answer.incarnation}

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, worker: str) -> WorkerAnswer:
        try:
            status, data = self._client.ask_pod(
                self._namespace, worker, HTTP_PORT, "/tasks", timeout_s=_TIMEOUT_S
            )
            return parse(json.loads(data)) if status == _OK else WorkerAnswer()
        except ForbiddenError as error:
            self.refused = str(error)
        except (KubeApiError, ValueError, LookupError, TypeError):
            pass  # a worker that runs no code of ours, or none yet
        return WorkerAnswer()
