"""Asks workers for ``/metrics``: directly, or through the API server from outside of a cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, Protocol

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.kube.errors import ApiUnavailableError, KubeApiError
from headwater_operator.observe.asking import Question
from headwater_operator.observe.proxied import Silence
from headwater_operator.web.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.observe.proxied import PodAsker

_AT_ONCE: Final = 8
_TIMEOUT_S: Final = 1.0
_PROXIED_TIMEOUT_S: Final = 5.0
_OK: Final = 200


class Scraper(Protocol):
    """Whoever asks workers for their metrics."""

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        """Return what workers tell, by worker; of one that does not soon answer nothing.

        Args:
            endpoints: ``host:port`` by worker.
        """
        ...

    def close(self) -> None:
        """Ask nobody any more."""
        ...


class HttpScraper:
    """Asks workers directly."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="scrape")

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        """Ask workers at the same time."""
        questions = {name: _question(endpoint) for name, endpoint in endpoints.items()}
        answers = {name: each.answer for name, each in questions.items()}
        return _asked(self._pool, answers, _TIMEOUT_S, lambda name: questions[name].break_off())

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProxiedScraper:
    """Asks workers through the API server; it takes the right to ``get`` ``pods/proxy``.

    Args:
        client: the API server, with the rights of whoever asks.
        namespace: of the pods.
        timeout_s: a pod that answers later counts as silent, and is not asked for a while.
        silence: remembers who is silent.
    """

    def __init__(
        self,
        client: PodAsker,
        namespace: str,
        *,
        timeout_s: float = _PROXIED_TIMEOUT_S,
        silence: Silence | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._silence = silence or Silence()
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="scrape")

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        """Ask workers at the same time; a worker is the name of its pod."""
        answers = {name: lambda pod=name: self._ask(pod) for name in self._silence.heard(endpoints)}
        return _asked(self._pool, answers, self._timeout_s, lambda pod: self._silence.note([pod]))

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, pod: str) -> Sequence[Sample]:
        try:
            status, data = self._client.ask_pod(
                self._namespace, pod, HTTP_PORT, "/metrics", timeout_s=self._timeout_s
            )
            return read_samples(data.decode()) if status == _OK else []
        except ApiUnavailableError:
            self._silence.note([pod])
            return []
        except (KubeApiError, ValueError):
            return []  # the overview says why workers cannot be asked


def _question(endpoint: str) -> Question[list[Sample]]:
    return Question(
        endpoint,
        "/metrics",
        lambda text: read_samples(str(text)),
        [],
        timeout_s=_TIMEOUT_S,
        decode=lambda body: body.decode(),
    )


def _asked(
    pool: ThreadPoolExecutor,
    answers: Mapping[str, Callable[[], Sequence[Sample]]],
    timeout_s: float,
    give_up: Callable[[str], None],
) -> dict[str, Sequence[Sample]]:
    futures = {name: pool.submit(answer) for name, answer in answers.items()}
    wait(futures.values(), timeout_s)
    found: dict[str, Sequence[Sample]] = {}
    for name, future in futures.items():
        if future.cancel():
            continue
        if future.done():
            found[name] = future.result()
        else:
            give_up(name)
    return found
