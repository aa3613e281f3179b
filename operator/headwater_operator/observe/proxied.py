"""The numbers of workers, asked for through the API server: from outside of the cluster.

It takes the right to ``get`` ``pods/proxy``, which reaches every port of every pod of a namespace.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.kube.clock import boot_ms
from headwater_operator.kube.errors import ApiUnavailableError, ForbiddenError, KubeApiError
from headwater_operator.observe.numbers import WorkerAnswer, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

_AT_ONCE: Final = 8
_TIMEOUT_S: Final = 5.0
_SILENCE_MS: Final = 10_000
_OK: Final = 200
_UNAUTHORIZED: Final = 401


class PodAsker(Protocol):
    """Whoever asks pods through the API server (``KubeClient``)."""

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, *, timeout_s: float | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of what a pod answers to a GET."""
        ...


class Silence:
    """Remembers pods that did not answer in time, so that they are not waited for each time.

    Args:
        silence_ms: for so long.
        now_ms: a clock that never goes back.
    """

    def __init__(self, silence_ms: int = _SILENCE_MS, now_ms: Callable[[], int] = boot_ms) -> None:
        self._silence_ms = silence_ms
        self._now_ms = now_ms
        self._guard = threading.Lock()
        self._until: dict[str, int] = {}

    def heard(self, pods: Iterable[str]) -> list[str]:
        """Return those of the pods that are not silent."""
        now_ms = self._now_ms()
        with self._guard:
            self._until = {pod: at_ms for pod, at_ms in self._until.items() if at_ms > now_ms}
            return [pod for pod in pods if pod not in self._until]

    def note(self, pods: Iterable[str]) -> None:
        """Remember that these did not answer."""
        with self._guard:
            self._until |= dict.fromkeys(pods, self._now_ms() + self._silence_ms)


class PodQuestions(Generic[T]):
    """Asks pods the same through the API server, all at once; it takes ``get`` of ``pods/proxy``.

    Args:
        client: the API server, with the rights of whoever asks.
        namespace: of the pods.
        path: what is asked, such as ``/tasks``.
        read: makes a value of the body; it may raise what a body of anybody lets it raise.
        timeout_s: a pod that answers later counts as silent, and is not asked for a while.
        silence: remembers who is silent.
    """

    def __init__(
        self,
        client: PodAsker,
        namespace: str,
        path: str,
        read: Callable[[bytes], T],
        *,
        timeout_s: float = _TIMEOUT_S,
        silence: Silence | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._path = path
        self._read = read
        self._timeout_s = timeout_s
        self._silence = silence or Silence()
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask")
        self.refused = ""
        """Why somebody was not answered, in the words of the API server or a worker; else empty."""

    def ask(self, pods: Iterable[str]) -> dict[str, T]:
        """Return what those answer that answer soon, and well."""
        self.refused = ""
        futures = {pod: self._pool.submit(self._ask, pod) for pod in self._silence.heard(pods)}
        wait(futures.values(), self._timeout_s)
        # Whom nobody had time to ask is not silent.
        asked = {pod: future for pod, future in futures.items() if not future.cancel()}
        found = {pod: future.result() for pod, future in asked.items() if future.done()}
        self._silence.note(asked.keys() - found)
        return {pod: answer for pod, answer in found.items() if answer is not None}

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, pod: str) -> T | None:
        try:
            status, data = self._client.ask_pod(
                self._namespace, pod, HTTP_PORT, self._path, timeout_s=self._timeout_s
            )
            if status == _UNAUTHORIZED:
                self.refused = str(json.loads(data)["message"])
            return self._read(data) if status == _OK else None
        except ForbiddenError as error:
            self.refused = str(error)
        except ApiUnavailableError:
            self._silence.note([pod])
        except (
            KubeApiError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ):
            pass  # a worker that runs no code of ours, or none yet
        return None


class ProxiedNumbers:
    """The numbers of workers: see ``PodQuestions`` for the arguments."""

    def __init__(self, client: PodAsker, namespace: str, **how: Any) -> None:
        self._pods: PodQuestions[WorkerAnswer] = PodQuestions(
            client, namespace, "/tasks", lambda data: parse(json.loads(data)), **how
        )

    @property
    def refused(self) -> str:
        """Why nobody was asked, in the API server's words; empty if it has not refused."""
        return self._pods.refused

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Ask workers at the same time; return the answers of those that have soon answered.

        Args:
            endpoints: by worker, which is the name of its pod; their addresses are not used.
        """
        found = self._pods.ask(endpoints)
        return {name: answer for name, answer in found.items() if answer.incarnation}

    def close(self) -> None:
        """Ask nobody any more."""
        self._pods.close()
