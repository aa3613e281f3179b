"""What no event has told: everything is listed now and then, and compared with what was read last.

A watch can be silently dead (``hearing`` finds out), and kopf never hears of an object that was
deleted while its watch was down. So all kinds are listed at a steady pace, all StreamApps at once:
that costs the API server a handful of requests, however many StreamApps there are. Of a namespace
that cannot be read, everything is taken to be as it was.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from headwater_operator.handlers.namespaces import Namespaces
from headwater_operator.handlers.shard import Shard
from headwater_operator.kube.api import CLAIMS, PODS, STREAM_ACTIONS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.clock import boot_ms
from headwater_operator.kube.errors import ForbiddenError, NotFoundError
from headwater_operator.manifests.names import app_of, made_by_us
from headwater_operator.observe.streamactions import app_of_action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater_operator.handlers.hearing import Hearing, Live
    from headwater_operator.handlers.leases import Key
    from headwater_operator.handlers.reconcile import Reconciler
    from headwater_operator.kube.api import KubeApi, Manifest, Resource
    from headwater_operator.views import AppView

log = logging.getLogger(__name__)

SWEEP_MS: Final = 30_000
"""Between two sweeps, give or take a tenth."""

_NAMING: Final = ("applicationId", "kafka")
WATCHED: Final = (STREAM_APPS, STREAM_WORKERS, PODS, CLAIMS, STREAM_ACTIONS)


Stamp = tuple[str, str, str]
"""Plural, uid and version of an object; of a StreamApp, what changes with all but its status."""


class Sweep:
    """Finds StreamApps that need a round.

    Args:
        api: the API server.
        namespaces: to look in; ``(None,)`` for all.
        reconciler: told of all StreamApps, and of those that have changed.
        wake: called with every StreamApp that needs a step.
        hearing: told of the versions of everything that is watched.
        now_ms: a clock that never goes back.
        shard: the namespaces that are ours; all if it is not given.
    """

    def __init__(
        self,
        api: KubeApi,
        namespaces: Sequence[str | None],
        reconciler: Reconciler,
        wake: Callable[[Key], None],
        hearing: Hearing,
        now_ms: Callable[[], int] = boot_ms,
        shard: Shard | None = None,
    ) -> None:
        self._api = api
        self._namespaces = Namespaces(namespaces, "objects", now_ms)
        self._reconciler = reconciler
        self._wake = wake
        self._hearing = hearing
        self._now_ms = now_ms
        self._shard = shard or Shard(api)
        self._seen: dict[Key, frozenset[Stamp]] = {}
        self._without_actions: set[str | None] = set()

    @property
    def closed(self) -> frozenset[str | None]:
        """Namespaces that do not let us read: somebody has to do something."""
        return self._namespaces.closed

    @property
    def failing(self) -> frozenset[str | None]:
        """Namespaces that could not be read for a reason that may pass."""
        return self._namespaces.failing

    @property
    def without_actions(self) -> frozenset[str | None]:
        """Namespaces that do not let us read StreamActions."""
        return frozenset(self._without_actions)

    def run(self) -> frozenset[str | None]:
        """List everything once; return which namespaces could be read.

        Raises:
            KubeApiError: nothing could be listed; nothing was compared.
        """
        for namespace in self.closed:
            if namespace is not None:
                self._reconciler.let_go(namespace)
        self._shard.read()
        looked_ms = self._now_ms()
        found = self._namespaces.each(self._read)
        unread = self.closed | self.failing
        live: Live = {kind.plural: {} for kind in WATCHED}
        apps: dict[Key, Manifest] = {}
        named: dict[Key, AppView] = {}
        seen: dict[Key, set[Stamp]] = {}
        told: set[Stamp] = set()
        acted: set[Key] = set()
        for resource, manifest in (each for listed in found.values() for each in listed):
            metadata = manifest["metadata"]
            is_app = resource is STREAM_APPS
            live[resource.plural][metadata["uid"]] = metadata["resourceVersion"]
            key = (metadata["namespace"], _app_named(resource, manifest))
            is_ours = self._shard.has(key[0])
            if is_app and (is_ours or _says_which_kafka(manifest)):
                named[key] = self._reconciler.read(manifest if is_ours else _with_name(manifest))
            if not is_ours:
                continue
            if resource is STREAM_ACTIONS:
                acted.add(key)
            if is_app:
                apps[key] = manifest
                stamp = ("", _app_stamp(manifest), "")
            else:
                stamp = (resource.plural, metadata["uid"], metadata["resourceVersion"])
                if self._hearing.has_told(*stamp):
                    told.add(stamp)
            seen.setdefault(key, set()).add(stamp)
        self._hearing.compare(live, looked_ms, unread=unread)
        # Also of those that others run: no two StreamApps are one application.
        self._reconciler.learn_names(named, unread)
        stamps = {key: frozenset(its) for key, its in seen.items()}
        self._compare(stamps, apps, acted, unread, told)
        return frozenset(found)

    def _read(self, namespace: str | None) -> list[tuple[Resource, Manifest]]:
        found = [(STREAM_APPS, each) for each in self._api.list(STREAM_APPS, namespace)]
        for resource in (STREAM_WORKERS, PODS, CLAIMS):
            # StreamWorkers whose definition is gone are gone; the StreamApps may be waited for.
            with contextlib.suppress(NotFoundError):
                listed = self._api.list(resource, namespace, labels=made_by_us())
                found += [(resource, manifest) for manifest in listed]
        found += [(STREAM_ACTIONS, manifest) for manifest in self._actions(namespace)]
        return found

    def _actions(self, namespace: str | None) -> Sequence[Manifest]:
        """List StreamActions; none where a Role of an earlier release does not let us.

        StreamApps run without them, so that is no reason to let go of a namespace.
        """
        try:
            listed = self._api.list(STREAM_ACTIONS, namespace)
        except NotFoundError:
            return ()
        except ForbiddenError as error:
            if namespace not in self._without_actions:
                self._without_actions.add(namespace)
                log.warning(
                    "StreamActions of %s are not carried out: the operator needs the right to "
                    "list, watch and delete streamactions (headwater.dev) and to patch "
                    "streamactions/status: add it to the operator's Role: %s",
                    "all namespaces" if namespace is None else f"namespace {namespace}",
                    error,
                )
            return ()
        self._without_actions.discard(namespace)
        return listed

    def _compare(
        self,
        seen: dict[Key, frozenset[Stamp]],
        apps: dict[Key, Manifest],
        acted: set[Key],
        unread: frozenset[str | None],
        told: set[Stamp],
    ) -> None:
        known = self._reconciler.known().keys() - apps.keys()
        gone = {key for key in known if key[0] not in unread}
        changed = [
            key
            for key, stamps in seen.items()
            if _have_changed(self._seen.get(key, frozenset()), stamps, told)
        ]
        watched = [key for key, manifest in apps.items() if _reads_unwatched(manifest)]
        before = {key: stamps for key, stamps in self._seen.items() if key[0] in unread}
        self._seen = before | {key: stamps for key, stamps in seen.items() if key in apps}
        for key in {*gone, *changed, *watched}:
            self._reconciler.changed(key, has_actions=key in acted)
        for key in {*gone, *seen}:
            self._wake(key)


def _have_changed(before: frozenset[Stamp], now: frozenset[Stamp], told: set[Stamp]) -> bool:
    """Whether anything has changed of which no watch has told: what is gone, too."""
    kept = {stamp[:2] for stamp in now}
    return bool(now - before - told) or any(stamp[:2] not in kept for stamp in before if stamp[0])


def _says_which_kafka(manifest: Manifest) -> bool:
    """Whether a StreamApp names its Kafka: the default of another operator is not known here."""
    return "bootstrapServers" in ((manifest.get("spec") or {}).get("kafka") or {})


def _with_name(manifest: Manifest) -> Manifest:
    """Return what says which application on which Kafka a StreamApp is, and no more."""
    spec = {name: manifest["spec"][name] for name in _NAMING if name in manifest["spec"]}
    return {**manifest, "spec": {**spec, "image": "other", "topology": {"module": "other:build"}}}


def _app_named(resource: Resource, manifest: Manifest) -> str:
    """Return the StreamApp that an object is, or is about."""
    if resource is STREAM_APPS:
        return str(manifest["metadata"]["name"])
    return app_of_action(manifest) if resource is STREAM_ACTIONS else app_of(manifest)


def _app_stamp(manifest: Manifest) -> str:
    """Tell whether a StreamApp has changed but for its status, which the operator writes."""
    metadata = manifest["metadata"]
    return repr(
        (
            metadata["uid"],
            metadata.get("generation"),
            metadata.get("deletionTimestamp"),
            metadata.get("finalizers"),
            metadata.get("annotations"),
        )
    )


def _reads_unwatched(manifest: Manifest) -> bool:
    """Whether a StreamApp names a ConfigMap or a StreamImageCatalog, of which no watch tells."""
    spec = manifest.get("spec") or {}
    return "configMapRef" in (spec.get("topology") or {}) or "imageCatalogRef" in spec
