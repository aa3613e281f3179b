"""What no event has told: everything is listed now and then, and compared with what was read last.

A watch can be silently dead (``hearing`` finds out), and kopf never hears of an object that was
deleted while its watch was down. So all kinds are listed at a steady pace, all StreamApps at once:
that costs the API server a handful of requests, however many StreamApps there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import CLAIMS, PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.clock import boot_ms
from headwater_operator.manifests.names import app_of, made_by_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headwater_operator.handlers.hearing import Hearing, Live
    from headwater_operator.handlers.leases import Key
    from headwater_operator.handlers.reconcile import Reconciler
    from headwater_operator.kube.api import KubeApi, Manifest, Resource

SWEEP_MS: Final = 30_000
"""Between two sweeps, give or take a tenth."""

WATCHED: Final = (STREAM_APPS, STREAM_WORKERS, PODS, CLAIMS)


class Sweep:
    """Finds StreamApps that need a round.

    Args:
        api: the API server.
        namespaces: to look in; ``(None,)`` for all.
        reconciler: told of all StreamApps, and of those that have changed.
        wake: called with every StreamApp that needs a step.
        hearing: told of the versions of everything that is watched.
        now_ms: a clock that never goes back.
    """

    def __init__(
        self,
        api: KubeApi,
        namespaces: Sequence[str | None],
        reconciler: Reconciler,
        wake: Callable[[Key], None],
        hearing: Hearing,
        now_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._api = api
        self._namespaces = tuple(namespaces)
        self._reconciler = reconciler
        self._wake = wake
        self._hearing = hearing
        self._now_ms = now_ms
        self._seen: dict[Key, frozenset[tuple[str, str, str]]] = {}

    def run(self) -> int:
        """List everything once; return how many StreamApps there are.

        Raises:
            KubeApiError: something could not be listed; nothing was compared.
        """
        looked_ms = self._now_ms()
        live: Live = {kind.plural: {} for kind in WATCHED}
        apps = {
            (metadata["namespace"], metadata["name"]): manifest
            for manifest in self._all(STREAM_APPS)
            if (metadata := manifest["metadata"])
        }
        seen: dict[Key, set[tuple[str, str, str]]] = {key: set() for key in apps}
        for key, manifest in apps.items():
            seen[key].add(("", _app_stamp(manifest), ""))
            _note(live, STREAM_APPS, manifest)
        for resource in (STREAM_WORKERS, PODS, CLAIMS):
            for manifest in self._all(resource, made_by_us()):
                metadata = manifest["metadata"]
                key = (metadata["namespace"], app_of(manifest))
                stamp = (resource.plural, metadata["name"], metadata["resourceVersion"])
                seen.setdefault(key, set()).add(stamp)
                _note(live, resource, manifest)
        self._hearing.compare(live, looked_ms)
        self._reconciler.learn_names(
            {key: self._reconciler.read(manifest) for key, manifest in apps.items()}
        )
        self._compare({key: frozenset(stamps) for key, stamps in seen.items()}, apps)
        return len(apps)

    def _compare(
        self,
        seen: dict[Key, frozenset[tuple[str, str, str]]],
        apps: dict[Key, Manifest],
    ) -> None:
        gone = self._reconciler.known().keys() - apps.keys()
        changed = [key for key, stamps in seen.items() if self._seen.get(key) != stamps]
        watched = [key for key, manifest in apps.items() if _reads_a_config_map(manifest)]
        self._seen = {key: stamps for key, stamps in seen.items() if key in apps}
        for key in {*gone, *changed, *watched}:
            self._reconciler.changed(key)
        for key in {*gone, *seen}:
            self._wake(key)

    def _all(self, resource: Resource, labels: str = "") -> Iterable[Manifest]:
        for namespace in self._namespaces:
            yield from self._api.list(resource, namespace, labels=labels)


def _note(live: Live, resource: Resource, manifest: Manifest) -> None:
    metadata = manifest["metadata"]
    live[resource.plural][metadata["uid"]] = metadata["resourceVersion"]


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


def _reads_a_config_map(manifest: Manifest) -> bool:
    topology = (manifest.get("spec") or {}).get("topology") or {}
    return "configMapRef" in topology
