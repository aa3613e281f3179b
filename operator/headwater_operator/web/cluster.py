"""What the page sees of a cluster: StreamApps as the API server and their workers tell of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import UserError
from headwater_operator.kube.api import STREAM_APPS
from headwater_operator.kube.errors import KubeApiError
from headwater_operator.observe.overview import ClusterReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.observe.numbers import WorkerAnswer
    from headwater_operator.observe.overview import Numbers
    from headwater_operator.overview.snapshot import Snapshot
    from headwater_operator.web.scraping import Scraper

    Act = Callable[[str, str, str, Mapping[str, Any]], str]
    """Carries out an action: namespace, name, action and what belongs to it."""

_LISTED_S: Final = 5.0


class _Listed(NamedTuple):
    """The keys of StreamApps as they were listed at a moment, and what could not be listed."""

    at_s: float
    apps: Sequence[str]
    refused: str


class ClusterSource:
    """The StreamApps of some namespaces, by ``NAMESPACE/NAME``.

    Args:
        api: the API server, with the rights of whoever shows the page.
        namespaces: whose; ``None`` for all.
        numbers: returns how the workers of a namespace are asked for their numbers.
        scraper: returns how they are asked for their metrics.
        act: carries out an action; ``None``: the page only shows.
        listed_s: for how long a list is good.
    """

    def __init__(
        self,
        api: KubeApi,
        namespaces: Sequence[str | None],
        *,
        numbers: Callable[[str], Numbers],
        scraper: Callable[[str], Scraper],
        act: Act | None = None,
        listed_s: float = _LISTED_S,
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._numbers = numbers
        self._scraper = scraper
        self._act = act
        self._listed_s = listed_s
        self._guard = threading.Lock()
        self._listed: _Listed | None = None
        self._known: dict[str | None, Sequence[str]] = {}

    def apps(self) -> Sequence[str]:
        """Return the keys of all, as of some seconds ago at most if the API server answers.

        While another thread lists them, those that were known before.
        """
        if not self._guard.acquire(blocking=self._listed is None):
            return self._listed.apps if self._listed is not None else ()
        try:
            if self._listed is None or time.monotonic() - self._listed.at_s >= self._listed_s:
                self._listed = self._list()
            return self._listed.apps
        finally:
            self._guard.release()

    @property
    def refused(self) -> str:
        """Which namespaces could not be listed lately, and why; empty if all could."""
        return "" if self._listed is None else self._listed.refused

    def _list(self) -> _Listed:
        refused: list[str] = []
        for namespace in self._namespaces:
            try:
                self._known[namespace] = [
                    f"{each['metadata']['namespace']}/{each['metadata']['name']}"
                    for each in self._api.list(STREAM_APPS, namespace)
                ]
            except KubeApiError as error:
                # Those that were known stay: who looks at one is told why it cannot be read.
                where = "all namespaces" if namespace is None else f"namespace {namespace}"
                refused.append(f"the StreamApps of {where} cannot be listed: {error}")
        keys = sorted(key for known in self._known.values() for key in known)
        return _Listed(time.monotonic(), keys, "; ".join(refused))

    @property
    def may_act(self) -> bool:
        """Whether it carries out actions: the operator's page only shows."""
        return self._act is not None

    @property
    def has_journeys(self) -> bool:
        """Whether topologies can be run in memory: no, their code is in their workers' images."""
        return False

    def journey(self, app: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse.

        Raises:
            UserError: always.
        """
        del record
        raise UserError(f"the code of {app} is not here: use headwater journey where it is")

    def close(self) -> None:
        """Nothing of its own is open."""

    def open(self, app: str) -> ClusterSight:
        """Return what looks at one of them."""
        namespace, _, name = app.partition("/")
        return ClusterSight(
            self._api, namespace, name, self._numbers(namespace), self._scraper(namespace)
        )

    def act(self, app: str, action: str, body: Mapping[str, Any]) -> str:
        """Carry out an action.

        Raises:
            UserError: this page only shows.
            HeadwaterError: it is refused.
        """
        if self._act is None:
            raise UserError("this page only shows; use kubectl headwater to change something")
        namespace, _, name = app.partition("/")
        return self._act(namespace, name, action, body)


class ClusterSight:
    """Looks at one StreamApp.

    Args:
        api: the API server.
        namespace: of the StreamApp.
        name: its own.
        numbers: how its workers are asked.
        scraper: how they are asked for metrics.
    """

    def __init__(
        self, api: KubeApi, namespace: str, name: str, numbers: Numbers, scraper: Scraper
    ) -> None:
        self._asked = _Asked(numbers)
        self._reader = ClusterReader(api, namespace, name, self._asked)
        self._scraper = scraper

    def look(self) -> Snapshot:
        """Look at it once.

        Raises:
            KubeApiError: the API server refuses, or does not answer.
        """
        return self._reader.collect()

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Ask the workers that run for their metrics."""
        return self._scraper.scrape(self._asked.endpoints)

    def close(self) -> None:
        """Look no more."""
        self._reader.close()
        self._scraper.close()


class _Asked:
    """Asks workers for their numbers, and remembers where those that run are."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.endpoints: Mapping[str, str] = {}

    @property
    def refused(self) -> str:
        return self._numbers.refused

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        self.endpoints = dict(endpoints)
        return self._numbers.ask(endpoints)

    def close(self) -> None:
        self._numbers.close()
