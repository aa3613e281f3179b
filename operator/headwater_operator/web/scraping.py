"""Asks workers for ``/metrics``: directly, or through the API server from outside of a cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater_operator.observe.asking import Question
from headwater_operator.observe.proxied import PodQuestions
from headwater_operator.web.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.observe.proxied import PodAsker

_AT_ONCE: Final = 8
_TIMEOUT_S: Final = 1.0


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
    """Asks workers directly.

    Args:
        token: what workers are shown that ask for a token; empty if there is none.
    """

    def __init__(self, *, token: Callable[[], str] = str) -> None:
        self._token = token
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="scrape")

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        """Ask workers at the same time."""
        questions = {name: self._question(endpoint) for name, endpoint in endpoints.items()}
        futures = {name: self._pool.submit(each.answer) for name, each in questions.items()}
        wait(futures.values(), _TIMEOUT_S)
        found: dict[str, Sequence[Sample]] = {}
        for name, future in futures.items():
            if future.cancel():
                continue
            if future.done():
                found[name] = future.result()
            else:
                questions[name].break_off()
        return found

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _question(self, endpoint: str) -> Question[list[Sample]]:
        return Question(
            endpoint,
            "/metrics",
            lambda text: read_samples(str(text)),
            [],
            timeout_s=_TIMEOUT_S,
            decode=lambda body: body.decode(),
            token=self._token,
        )


class ProxiedScraper:
    """Asks workers through the API server: see ``PodQuestions`` for the arguments."""

    def __init__(self, client: PodAsker, namespace: str, **how: Any) -> None:
        self._pods: PodQuestions[Sequence[Sample]] = PodQuestions(
            client, namespace, "/metrics", lambda data: read_samples(data.decode()), **how
        )

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        """Ask workers at the same time; a worker is the name of its pod."""
        return self._pods.ask(endpoints)

    def close(self) -> None:
        """Ask nobody any more."""
        self._pods.close()
