"""The operator's process: stands by for the Lease, leads, and ends when it no longer may.

    STANDING BY ──Lease──► LEADING ──told to stop──► Lease given back, exit code 0
                              └──────Lease lost──► exit at once, exit code 70

It never stops leading and goes on: whatever a thread of it was about to write dies with it.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater_operator.handlers.hearing import Hearing
from headwater_operator.handlers.http import serve
from headwater_operator.handlers.leases import LeaseBook
from headwater_operator.handlers.metrics import Metrics
from headwater_operator.handlers.queue import WorkQueue
from headwater_operator.handlers.reconcile import NEVER, Reconciler
from headwater_operator.handlers.shard import Shard
from headwater_operator.handlers.sweep import SWEEP_MS, WATCHED, Sweep
from headwater_operator.handlers.watching import Watches
from headwater_operator.kube.caller_tokens import CallerTokens
from headwater_operator.kube.client import KubeClient
from headwater_operator.kube.clock import boot_ms
from headwater_operator.kube.election import (
    LEASE_NAME,
    Election,
    NotLeadingError,
    Standing,
    Terms,
)
from headwater_operator.kube.errors import KubeApiError
from headwater_operator.manifests.settings import Installation
from headwater_operator.observe.numbers import HttpNumbers, by_namespace
from headwater_operator.web.cluster import ClusterSource
from headwater_operator.web.scraping import HttpScraper
from headwater_operator.web.starting import WebOptions, server_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from headwater_operator.handlers.leases import Key
    from headwater_operator.web.serving import Server

log = logging.getLogger(__name__)

EXIT_LOST: Final = 70
"""The Lease was lost."""

_POLL_MS: Final = 2_000
_RETRY_MS: Final = 2_000
_AFTER_BUG_MS: Final = 5_000
_STALLED_MS: Final = 120_000
_SILENT_MS: Final = 60_000
_DEAF_MS: Final = 400_000
"""A watch whose connection hangs is begun anew after 330 s; one that is deaf for longer is dead."""
_STOP_S: Final = 10.0
_LOOK_S: Final = 2.0
"""Between two looks of the page at a StreamApp that somebody looks at: five requests each."""
_MOST_OPEN: Final = 5
"""StreamApps that the page looks at: each takes up to 45 MB of what the pod may have."""
_KEEP_S: Final = 600.0
"""For how long the page looks at a StreamApp after the last browser has left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the operator was told at its start.

    Attributes:
        lease_namespace: where its Lease lives.
        namespaces: whose StreamApps it runs; empty for all.
        namespace_selector: of all namespaces, it runs those with these labels; empty for all.
        lease_name: of its Lease.
        place: what can hold one operator process at a time: the pod's name.
        installation: defaults for StreamApps.
        terms: durations of the election.
        http_host: where probes and metrics are served.
        http_port: 0 picks a free one.
        web_port: where the page is served; ``None``: there is none.
        web_names: by which browsers may call it.
        hands: how many StreamApps are seen to at the same time.
        sweep_ms: between two sweeps, give or take a tenth.
        kubeconfig: this file instead of the environment.
    """

    lease_namespace: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    lease_name: str = LEASE_NAME
    place: str = ""
    installation: Installation = field(default_factory=Installation)
    terms: Terms = field(default_factory=Terms)
    http_host: str = "0.0.0.0"  # noqa: S104 - a pod's probes come from outside
    http_port: int = 8080
    web_port: int | None = None
    web_names: tuple[str, ...] = ()
    hands: int = 4
    sweep_ms: int = SWEEP_MS
    kubeconfig: Path | None = None


class Operator:
    """One operator process.

    Args:
        options: what it was told.

    Raises:
        ApiUnavailableError: nothing says where the API server is.
        ConfigError: the port cannot be used.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._namespaces: tuple[str | None, ...] = options.namespaces or (None,)
        self._metrics = Metrics()
        api = KubeClient.from_environment(options.kubeconfig, observe_call=self._metrics.count_call)
        self._tokens = CallerTokens(api, options.installation.account)
        self._election = Election(
            api,
            options.lease_namespace,
            place=options.place,
            name=options.lease_name,
            terms=options.terms,
        )
        self._stop = threading.Event()
        self._queue: WorkQueue[Key] = WorkQueue(boot_ms)
        self._metrics.watch_queue(
            lambda: float(len(self._queue)), lambda: self._queue.late_ms() / 1000
        )
        self._leases = LeaseBook(api, self._namespaces, boot_ms)
        self._shard = shard = Shard(api, options.namespace_selector)
        self._reconciler = Reconciler(
            api,
            self._election,
            self._leases,
            options.installation,
            self._metrics,
            by_namespace(HttpNumbers(count=self._metrics.count_question), self._tokens.of),
            shard=shard,
        )
        self._hearing = Hearing(boot_ms, options.sweep_ms)
        self._metrics.watch_hearing(self._hearing.deaf_ms, [kind.plural for kind in WATCHED])
        self._sweep = Sweep(
            api, self._namespaces, self._reconciler, self._queue.add, self._hearing, shard=shard
        )
        self._metrics.watch_namespaces(lambda: float(len(self._sweep.closed)))
        self._watches = Watches(
            self._namespaces,
            self._heard,
            self._heard_of_action,
            self._hearing,
            self._reconciler.gate.is_ours,
            options.kubeconfig,
        )
        self._threads: list[threading.Thread] = []
        self._is_leading = False
        self._turned_ms = boot_ms()
        self._http = serve(
            options.http_host,
            options.http_port,
            self._metrics.registry,
            sickness=self._sickness,
            obstacle=self._obstacle,
            remark=self._remark,
        )
        self._page = None if options.web_port is None else self._served_page(api, options)

    def _served_page(self, api: KubeClient, options: Options) -> Server:
        """Serve the page: any operator does, also one that stands by."""
        source = ClusterSource(
            api,
            self._namespaces,
            numbers=lambda namespace: HttpNumbers(token=partial(self._tokens.of, namespace)),
            scraper=lambda namespace: HttpScraper(token=partial(self._tokens.of, namespace)),
        )
        where = f"{options.http_host}:{options.web_port}"
        server = server_of(
            source,
            WebOptions(
                where, names=options.web_names, look_s=_LOOK_S, most=_MOST_OPEN, keep_s=_KEEP_S
            ),
        )
        server.start()
        log.info("the page is served at %s", server.url)
        return server

    @property
    def web_port(self) -> int | None:
        """Where the page is served; ``None``: there is none."""
        return None if self._page is None else self._page.port

    @property
    def http_port(self) -> int:
        """Where probes and metrics are served."""
        return self._http.port

    def stop(self) -> None:
        """Ask the process to end; from any thread or signal handler."""
        self._stop.set()

    def run(self) -> int:
        """Stand by, lead, and end; return the exit code."""
        log.info("operator %s stands by, port %d", self._election.identity, self.http_port)
        while not self._stop.is_set():
            self._turned_ms = boot_ms()
            self._turn()
            self._stop.wait(self._options.terms.retry_ms / 1000)
        self._end()
        return 0

    def _turn(self) -> None:
        try:
            standing = self._election.step()
        except KubeApiError as error:
            log.warning("the Lease could not be seen to: %s", error)
            standing = self._election.standing
        match standing:
            case Standing.LOST:
                self._lost(self._election.why_lost)
            case Standing.LEADING if not self._is_leading:
                self._lead()
            case Standing.LEADING | Standing.WAITING:
                pass

    def _lost(self, why: str) -> None:
        # At once, and without any clean-up: somebody else may lead already.
        log.error("ending: %s", why)
        logging.shutdown()
        os._exit(EXIT_LOST)

    def _lead(self) -> None:
        self._is_leading = True
        generation = self._election.generation
        log.info("operator %s leads, generation %d", self._election.identity, generation)
        self._metrics.leading.set(1)
        self._metrics.generation.set(generation)
        failpoints.hit("operator.leads")
        for name, work in (
            ("leases", self._poll),
            ("sweep", self._sweep_on),
            *((f"hand-{number}", self._work) for number in range(self._options.hands)),
        ):
            thread = threading.Thread(target=work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _end(self) -> None:
        log.info("told to stop")
        self._queue.close()
        if self._is_leading:
            self._watches.stop(_STOP_S)
            for thread in self._threads:
                thread.join(_STOP_S)
        try:
            self._election.release()
        except KubeApiError as error:
            log.warning("the Lease could not be given back: %s", error)
        self._http.close()
        if self._page is not None:
            self._page.close()

    # -- threads of a leader ---------------------------------------------------------------------

    def _heard_of_action(self, key: Key) -> None:
        self._reconciler.changed(key, has_actions=True)
        self._queue.add(key)

    def _heard(self, key: Key) -> None:
        self._reconciler.changed(key)
        self._queue.add(key)

    def _poll(self) -> None:
        while not self._stop.wait(_POLL_MS / 1000):
            try:
                self._leases.poll()
            except KubeApiError as error:
                log.warning("Leases could not be read: %s", error)

    def _sweep_on(self) -> None:
        while not self._stop.is_set():
            try:
                readable = self._sweep.run()
            except KubeApiError as error:
                log.warning("nothing could be listed: %s", error)
                self._stop.wait(_RETRY_MS / 1000)
                continue
            # Only now is it known which application ids are in use, and that the kinds exist.
            self._watches.keep(readable, self._sweep.without_actions)
            pause_ms = random.uniform(0.9, 1.1) * self._options.sweep_ms  # noqa: S311
            self._stop.wait((_RETRY_MS if self._sweep.failing else pause_ms) / 1000)

    def _work(self) -> None:
        while (key := self._queue.take()) is not None:
            pause_ms = _AFTER_BUG_MS
            try:
                # The sweep that can read its namespace again wakes all that is in it.
                is_closed = key[0] in self._sweep.closed
                pause_ms = NEVER if is_closed else self._reconciler.step(key)
            except NotLeadingError as error:
                self._lost(str(error))
            except Exception:
                # One StreamApp that we have a mistake about must not take the others down.
                log.exception("%s/%s: an unexpected error; trying again", *key)
            finally:
                self._queue.done(key)
            if pause_ms != NEVER:
                self._queue.add(key, pause_ms)

    # -- probes ----------------------------------------------------------------------------------

    def _sickness(self) -> str:
        silent_ms = boot_ms() - self._turned_ms
        if silent_ms > _SILENT_MS:
            return f"the main loop has not turned for {silent_ms // 1000} s"
        if not self._is_leading:
            return ""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        if dead:
            return f"threads have ended: {' '.join(dead)}"
        late_ms = self._queue.late_ms()
        if late_ms > _STALLED_MS:
            return f"a StreamApp has been waiting for {late_ms // 1000} s"
        return deafness(self._hearing.deaf_ms(), more_than_ms=_DEAF_MS)

    def _obstacle(self) -> str:
        if self._stop.is_set():
            return "stopping"
        return self._shard.refusal or deafness(self._hearing.deaf_ms())

    def _remark(self) -> str:
        return shut_out(self._sweep.closed)


def deafness(deaf_ms: Mapping[str, int], *, more_than_ms: int = 0) -> str:
    """Say which watches have been deaf for longer than so long; empty if none has."""
    said = [
        f"{plural} for {for_ms // 1000} s"
        for plural, for_ms in sorted(deaf_ms.items())
        if for_ms > more_than_ms
    ]
    return f"watches are deaf: {', '.join(said)}" if said else ""


def shut_out(closed: Collection[str | None]) -> str:
    """Say which namespaces do not let us read; empty if there are none."""
    names = " ".join(sorted(namespace or "all" for namespace in closed))
    return f"namespaces that cannot be read: {names}" if names else ""
