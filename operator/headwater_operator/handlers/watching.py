"""kopf as the runtime of the watches: every event becomes the key of a StreamApp, nothing else.

That it was heard is noted (``hearing``), so that a watch that has died is found. There are
``on.event`` handlers only. They make kopf write nothing: no annotation, no finalizer, no status.
What a watch misses is found by the sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import kopf

from headwater import failpoints
from headwater.model.cluster import API_VERSION
from headwater_operator.kube.api import CLAIMS, PODS, STREAM_ACTIONS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.client import configuration_of
from headwater_operator.manifests.names import APP_LABEL, PREFIX, made_by_us
from headwater_operator.observe.streamactions import app_of_action

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from headwater_operator.handlers.hearing import Hearing
    from headwater_operator.handlers.leases import Key

log = logging.getLogger(__name__)

_WATCH_S: Final = 300
_CONNECT_S: Final = 5.0
_REQUEST_S: Final = 20.0


class _Watch:
    """kopf for one namespace, in a thread of its own."""

    def __init__(self, namespace: str | None, *, with_actions: bool) -> None:
        self.namespace = namespace
        self.with_actions = with_actions
        self.is_stopped = False
        self._tell: Callable[[], object] = lambda: None

    def begin(self) -> asyncio.Event:
        """Return what ends it, in its own loop.

        For a flag of threads kopf has a thread wait, and that keeps the loop from ending.
        """
        flag, loop = asyncio.Event(), asyncio.get_running_loop()
        self._tell = lambda: loop.call_soon_threadsafe(flag.set)
        if self.is_stopped:
            flag.set()
        return flag

    def stop(self) -> None:
        """Tell it to end; from any thread."""
        self.is_stopped = True
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._tell()


class Watches:
    """kopf, once for each namespace: a watch that is refused ends all of its kopf.

    Args:
        namespaces: to watch; ``(None,)`` for all.
        wake: called with the key of every StreamApp that something was heard about.
        wake_for_action: the same for one that a StreamAction is about.
        hearing: told of every event.
        is_ours: whether the version of an object is what we have written.
        kubeconfig: this file instead of the environment.
    """

    def __init__(
        self,
        namespaces: Sequence[str | None],
        wake: Callable[[Key], None],
        wake_for_action: Callable[[Key], None],
        hearing: Hearing,
        is_ours: Callable[[str], bool],
        kubeconfig: Path | None = None,
    ) -> None:
        self._namespaces = tuple(namespaces)
        self._wake = wake
        self._wake_for_action = wake_for_action
        self._hearing = hearing
        self._is_ours = is_ours
        self._kubeconfig = kubeconfig
        self._has_begun = False
        self._running: dict[str | None, tuple[_Watch, threading.Thread]] = {}

    def keep(
        self, readable: Collection[str | None], without_actions: Collection[str | None] = ()
    ) -> None:
        """Watch these namespaces from now on, and no others.

        Args:
            readable: the namespaces.
            without_actions: those of them where StreamActions may not be watched. A refused watch
                would end all watches of its namespace.

        The watch of one that could not be read is not waited for but replaced once it can be: kopf
        may hang when a watch was refused.
        """
        if not self._has_begun:
            self._has_begun = True
            self._hearing.begin()
        for namespace in self._namespaces:
            running = self._running.get(namespace)
            if running is not None and namespace not in readable:
                log.warning("namespace %s is not watched: it cannot be read", namespace)
                running[0].stop()
                del self._running[namespace]
                continue
            with_actions = namespace not in without_actions
            if running is not None and running[0].with_actions != with_actions:
                running[0].stop()
                running = None
            if namespace in readable and (running is None or not running[1].is_alive()):
                watch = _Watch(namespace, with_actions=with_actions)
                self._running[namespace] = self._start(watch)

    def stop(self, timeout_s: float) -> None:
        """Stop watching."""
        running = tuple(self._running.values())
        for watch, _ in running:
            watch.stop()
        ends_s = time.monotonic() + timeout_s
        for _, thread in running:
            thread.join(max(0.0, ends_s - time.monotonic()))

    @property
    def watched(self) -> frozenset[str | None]:
        """From where events still arrive, for all we know."""
        running = self._running.copy()
        return frozenset(each for each, (_, thread) in running.items() if thread.is_alive())

    def _start(self, watch: _Watch) -> tuple[_Watch, threading.Thread]:
        name = "kopf" if watch.namespace is None else f"kopf-{watch.namespace}"
        thread = threading.Thread(target=self._run, args=(watch,), name=name, daemon=True)
        thread.start()
        return watch, thread

    def _run(self, watch: _Watch) -> None:
        why = "for no reason given"
        try:
            asyncio.run(self._watch(watch))
        except BaseException as error:  # noqa: BLE001 - whatever it was, it has to be said
            why = f"{type(error).__name__}: {error}"
        if not watch.is_stopped:
            where = "" if watch.namespace is None else f" of namespace {watch.namespace}"
            log.error("the watches%s have ended: %s; the next sweep begins anew", where, why)

    async def _watch(self, watch: _Watch) -> None:
        await kopf.operator(
            registry=self.registry(with_actions=watch.with_actions),
            settings=_settings(),
            standalone=True,
            clusterwide=watch.namespace is None,
            namespaces=[] if watch.namespace is None else [watch.namespace],
            stop_flag=watch.begin(),
        )

    def registry(self, *, with_actions: bool) -> kopf.OperatorRegistry:
        """Return the handlers of everything that is watched."""
        registry = kopf.OperatorRegistry()
        group, _, version = API_VERSION.partition("/")

        @kopf.on.login(registry=registry, id="login", errors=kopf.ErrorsMode.TEMPORARY, backoff=2)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await asyncio.to_thread(_connection, self._kubeconfig)

        @kopf.on.event(group, version, STREAM_APPS.plural, registry=registry, id="streamapp")
        async def streamapp(
            *, name: str, namespace: str | None, resource: kopf.Resource, meta: kopf.Meta, **_: Any
        ) -> None:
            if self._note(resource.plural, meta):
                self._wake((namespace or "", name))

        async def streamaction(
            *, namespace: str | None, resource: kopf.Resource, body: kopf.Body, **_: Any
        ) -> None:
            self._note(resource.plural, body.metadata)
            if app := app_of_action(dict(body)):
                self._wake_for_action((namespace or "", app))

        if with_actions:
            plural = STREAM_ACTIONS.plural
            kopf.on.event(group, version, plural, registry=registry, id="streamaction")(
                streamaction
            )

        async def belongings(
            *,
            namespace: str | None,
            labels: Mapping[str, str],
            resource: kopf.Resource,
            meta: kopf.Meta,
            **_: Any,
        ) -> None:
            if self._note(resource.plural, meta) and (app := labels.get(APP_LABEL)):
                self._wake((namespace or "", app))

        for of_group, of_version, plural in (
            (group, version, STREAM_WORKERS.plural),
            ("", "v1", PODS.plural),
            ("", "v1", CLAIMS.plural),
        ):
            kopf.on.event(of_group, of_version, plural, registry=registry, id=plural)(belongings)
        return registry

    def _note(self, plural: str, metadata: Mapping[str, Any]) -> bool:
        """Note that something was heard; return whether it is more than what we have written."""
        failpoints.hit(f"operator.hears_{plural}")
        uid, version = metadata["uid"], metadata["resourceVersion"]
        is_ours = self._is_ours(version)
        namespace = metadata.get("namespace") or ""
        self._hearing.hear(plural, uid, version, namespace, is_ours=is_ours)
        return not is_ours


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # The kinds are there when we start, and the namespaces are named or all.
    settings.scanning.disabled = True
    # Half-dead watches are the oldest complaint: each ends by itself, not all at the same moment.
    # In whole seconds, or the API server refuses the watch.
    settings.watching.server_timeout = random.randint(_WATCH_S * 9 // 10, _WATCH_S)  # noqa: S311
    settings.watching.client_timeout = _WATCH_S * 1.1
    settings.watching.connect_timeout = _CONNECT_S
    settings.watching.chunk_size = 500
    settings.watching.label_selectors["", "v1", PODS.plural] = made_by_us()
    settings.watching.label_selectors["", "v1", CLAIMS.plural] = made_by_us()
    settings.networking.request_timeout = _REQUEST_S
    settings.networking.connect_timeout = _CONNECT_S
    settings.networking.error_backoffs = (0.5, 1, 2, 5)
    settings.posting.enabled = False
    # Never written with handlers like ours; named all the same, so that it cannot be mistaken for
    # the operator's own.
    settings.persistence.finalizer = f"{PREFIX}kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="headwater.dev")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="headwater.dev")
    return settings


def _connection(kubeconfig: Path | None) -> kopf.ConnectionInfo:
    """Return how to reach the API server; read anew each time, because tokens expire."""
    configuration = configuration_of(kubeconfig)
    authorization = configuration.get_api_key_with_prefix("BearerToken") or ""
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=bearer_token(authorization),
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def bearer_token(authorization: str) -> str | None:
    """Return the token of a header; the client writes ``Bearer``, and ``bearer`` in a pod."""
    scheme, space, token = authorization.strip().partition(" ")
    if space and scheme.lower() == "bearer":
        return token.strip() or None
    return authorization.strip() or None
