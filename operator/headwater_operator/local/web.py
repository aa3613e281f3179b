"""What the page sees of a local cluster, and who serves it: ``headwater up --web``."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from headwater import driverlock
from headwater.errors import EnvironmentProblemError, UserError
from headwater_operator.decide.observed import ProcessState
from headwater_operator.local import control
from headwater_operator.local.collect import Collector
from headwater_operator.local.interrupts import Interrupts
from headwater_operator.local.journeys import JourneyProgram
from headwater_operator.local.observe import process_state, read_process, read_worker
from headwater_operator.web.scraping import HttpScraper
from headwater_operator.web.starting import server_of
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.local.layout import ClusterDir
    from headwater_operator.overview.snapshot import Snapshot
    from headwater_operator.web.routes import Source
    from headwater_operator.web.serving import Server
    from headwater_operator.web.starting import WebOptions

_WATCHED: Final = 10
_PATIENCE_S: Final = 3600.0


class LocalSource:
    """The applications of a local cluster.

    Args:
        cluster: its directory.
    """

    def __init__(self, cluster: ClusterDir) -> None:
        self._cluster = cluster
        self._journeys: dict[str, JourneyProgram] = {}
        self._guard = threading.Lock()

    @property
    def has_journeys(self) -> bool:
        """Whether topologies can be run in memory: their code is on this machine."""
        return True

    @property
    def may_act(self) -> bool:
        """Whether it carries out actions: it does."""
        return True

    @property
    def refused(self) -> str:
        """Which applications could not be listed: all can."""
        return ""

    def journey(self, app: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return where a record would go, in a test driver that has its own state.

        Raises:
            HeadwaterError: the topology cannot be imported, or does not answer.
        """
        with self._guard:
            if app not in self._journeys:
                paths = control.require(self._cluster, app).import_path
                self._journeys[app] = JourneyProgram(self._cluster.app(app), paths)
            program = self._journeys[app]
        return program.ask(record)

    def close(self) -> None:
        """End what was started."""
        with self._guard:
            for program in self._journeys.values():
                program.close()

    def apps(self) -> Sequence[str]:
        """Return their names."""
        return [app.name for app in self._cluster.apps()]

    def open(self, app: str) -> LocalSight:
        """Return what looks at one of them."""
        return LocalSight(self._cluster, app)

    def act(self, app: str, action: str, body: Mapping[str, Any]) -> str:
        """Carry out ``pause``, ``resume`` or ``scale`` with ``replicas``.

        Raises:
            HeadwaterError: there is no such application or action, or it is refused.
        """
        if control.running_supervisor(self._cluster) is None:
            raise EnvironmentProblemError(
                f"nothing runs in {self._cluster.root}: start it with headwater up"
            )
        match action:
            case "pause" | "resume":
                paused = action == "pause"
                wanted = control.require(self._cluster, app).app
                driver = driverlock.driver_of(self._cluster.root, wanted.application_id)
                if driver is not None:
                    raise driver.refusal(f"run it with headwater up, and {action} it again")
                control.change_app(self._cluster, app, lambda now: now.with_pause(paused=paused))
                return f"{app} {'pauses' if paused else 'goes on'}"
            case "scale":
                replicas = body.get("replicas")
                if not isinstance(replicas, int) or isinstance(replicas, bool):
                    raise UserError(f"replicas: {replicas!r} is no whole number")
                control.change_app(self._cluster, app, lambda now: now.with_replicas(replicas))
                return f"{app} is to have {counted(replicas, 'worker')}"
            case _:
                raise UserError(f"there is no action {action!r}: pause, resume, scale")


class LocalSight:
    """Looks at one application.

    Args:
        cluster: where it runs.
        app: its name.
    """

    def __init__(self, cluster: ClusterDir, app: str) -> None:
        self._directory = cluster.app(app)
        self._collector = Collector(cluster, app)
        self._scraper = HttpScraper()

    def look(self) -> Snapshot:
        """Look at it once."""
        return self._collector.collect()

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Ask its workers that run for ``/metrics``."""
        endpoints = {
            worker.name: worker.status.endpoint
            for directory in self._directory.workers()
            if (worker := read_worker(directory)) is not None
            and worker.status.endpoint
            and process_state(*read_process(directory)) is ProcessState.RUNNING
        }
        return self._scraper.scrape(endpoints)

    def close(self) -> None:
        """Look no more."""
        self._collector.close()
        self._scraper.close()


def page_of(cluster: ClusterDir, options: WebOptions) -> Server:
    """Return the server of a local cluster's page, bound and not started.

    Raises:
        HeadwaterError: the extra is missing, or address or token cannot be used.
    """
    return server_of(LocalSource(cluster), options)


def serve(cluster: ClusterDir, options: WebOptions) -> int:
    """Serve the page of a local cluster until Ctrl-C.

    Raises:
        HeadwaterError: the extra is missing, or address or token cannot be used.
    """
    return serve_until_interrupted(LocalSource(cluster), options, f"the cluster in {cluster.root}")


def serve_until_interrupted(
    source: Source, options: WebOptions, what: str, *, watched: int = _WATCHED
) -> int:
    """Serve a page until Ctrl-C; its history begins at once for the first applications.

    Args:
        source: what there is to see.
        options: how it is served.
        what: is shown, in words.
        watched: how many the first applications are.

    Raises:
        HeadwaterError: the extra is missing, or address or token cannot be used.
    """
    with Interrupts() as interrupts, server_of(source, options) as server:
        sys.stdout.write(f"{server.url} shows {what}; Ctrl-C ends it\n")
        sys.stdout.flush()
        server.watch(source.apps()[:watched])
        while not interrupts.count:
            interrupts.wait(_PATIENCE_S)
    return 0
