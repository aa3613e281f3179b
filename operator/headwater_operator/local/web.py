"""What the page sees of a local cluster, and who serves it: ``headwater up --web``."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

from headwater import driverlock
from headwater.errors import EnvironmentProblemError, UserError
from headwater_operator.decide.observed import ProcessState
from headwater_operator.local import control
from headwater_operator.local.collect import Collector
from headwater_operator.local.interrupts import Interrupts
from headwater_operator.local.observe import process_state, read_process, read_worker
from headwater_operator.observe.asking import Question
from headwater_operator.web.samples import read_samples
from headwater_operator.web.starting import server_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.local.layout import ClusterDir
    from headwater_operator.local.web_command import WebOptions
    from headwater_operator.overview.snapshot import Snapshot
    from headwater_operator.web.serving import Server

_TIMEOUT_S: Final = 1.0
_AT_ONCE: Final = 8
_PATIENCE_S: Final = 3600.0


class LocalSource:
    """The applications of a local cluster.

    Args:
        cluster: its directory.
    """

    def __init__(self, cluster: ClusterDir) -> None:
        self._cluster = cluster

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
            raise EnvironmentProblemError(f"nothing runs in {self._cluster.root}")
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
                return f"{app} is to have {replicas} workers"
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
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="scrape")

    def look(self) -> Snapshot:
        """Look at it once."""
        return self._collector.collect()

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Ask its workers that run for ``/metrics``."""
        questions: dict[str, Question[list[Sample]]] = {}
        for directory in self._directory.workers():
            worker = read_worker(directory)
            if worker is None or not (endpoint := worker.status.endpoint):
                continue
            if process_state(*read_process(directory)) is ProcessState.RUNNING:
                questions[worker.name] = Question(
                    endpoint,
                    "/metrics",
                    lambda text: read_samples(str(text)),
                    [],
                    timeout_s=_TIMEOUT_S,
                    decode=lambda body: body.decode(),
                )
        futures = {name: self._pool.submit(each.answer) for name, each in questions.items()}
        wait(futures.values(), _TIMEOUT_S)
        found: dict[str, Sequence[Sample]] = {}
        for name, future in futures.items():
            if future.done():
                found[name] = future.result()
            else:
                questions[name].break_off()
        return found

    def close(self) -> None:
        """Look no more."""
        self._collector.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def page_of(cluster: ClusterDir, options: WebOptions) -> Server:
    """Return the server of a local cluster's page, bound and not started.

    Args:
        cluster: its directory.
        options: how it is served.

    Raises:
        HeadwaterError: the extra is missing, or address or token cannot be used.
    """
    return server_of(
        LocalSource(cluster),
        options.address,
        token_file=options.token_file,
        names=options.names,
    )


def serve(cluster: ClusterDir, options: WebOptions) -> int:
    """Serve the page until Ctrl-C.

    Raises:
        HeadwaterError: the extra is missing, or address or token cannot be used.
    """
    with Interrupts() as interrupts, page_of(cluster, options) as server:
        sys.stdout.write(f"{server.url} shows the cluster in {cluster.root}; Ctrl-C ends it\n")
        sys.stdout.flush()
        server.watch(app.name for app in cluster.apps())
        while not interrupts.count:
            interrupts.wait(_PATIENCE_S)
    return 0
