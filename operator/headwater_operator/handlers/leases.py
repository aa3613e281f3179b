"""Signs of life of all workers, polled, and the clock they are judged by.

Leases are never watched: every renewal would be an event. And they are judged by a clock that
stands still while they cannot be read. Otherwise an API server that was away for a minute, or an
operator that was frozen, would make every worker look dead that simply could not renew, or whose
renewal nobody has seen.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import LEASES
from headwater_operator.manifests.names import WORKER_LABEL, app_of, made_by_us
from headwater_operator.observe.leases import read_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.model.cluster import Lease
    from headwater_operator.kube.api import KubeApi

Key = tuple[str, str]
"""Namespace and name of a StreamApp."""

STEP_MS: Final = 5_000
"""The clock goes on for at most so long after the last look."""


class LeaseBook:
    """What the last look at all Leases has shown.

    Args:
        api: the API server.
        namespaces: to look in; ``(None,)`` for all.
        now_ms: the clock that never goes back.
    """

    def __init__(
        self, api: KubeApi, namespaces: Sequence[str | None], now_ms: Callable[[], int]
    ) -> None:
        self._api = api
        self._namespaces = tuple(namespaces)
        self._boot_ms = now_ms
        self._guard = threading.Lock()
        self._looked_ms = now_ms()
        self._counted_ms = 0
        self._leases: Mapping[Key, Mapping[str, Lease | None]] = {}

    def poll(self) -> None:
        """Read all Leases.

        Raises:
            KubeApiError: they cannot be read now; the clock stands still soon.
        """
        found: dict[Key, dict[str, Lease | None]] = {}
        for namespace in self._namespaces:
            labels = f"{made_by_us()},{WORKER_LABEL}"
            for manifest in self._api.list(LEASES, namespace, labels=labels):
                metadata = manifest["metadata"]
                key = (metadata["namespace"], app_of(manifest))
                found.setdefault(key, {})[metadata["name"]] = read_lease(manifest)
        with self._guard:
            self._leases = found
            self._tick()

    def of(self, key: Key) -> Mapping[str, Lease | None]:
        """Return the Leases of an application's workers as they were at the last look."""
        with self._guard:
            return self._leases.get(key, {})

    def now_ms(self) -> int:
        """Return the time, as far as the Leases were looked at."""
        with self._guard:
            return self._counted_ms + min(self._boot_ms() - self._looked_ms, STEP_MS)

    def _tick(self) -> None:
        now_ms = self._boot_ms()
        self._counted_ms += min(now_ms - self._looked_ms, STEP_MS)
        self._looked_ms = now_ms
