"""Signs of life of all workers, polled, and the clocks they are judged by.

Leases are never watched: every renewal would be an event. And they are judged by a clock that
stands still while they cannot be read. Otherwise an API server that was away for a minute, or an
operator that was frozen, would make every worker look dead that simply could not renew, or whose
renewal nobody has seen. Each namespace has a clock of its own: that of one that cannot be read
stands still alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater_operator.handlers.namespaces import Namespaces
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
"""A clock goes on for at most so long after the last look."""


@dataclass(slots=True)
class _Page:
    """What the last look at the Leases of a namespace has shown, and its clock."""

    looked_ms: int
    counted_ms: int = 0
    leases: Mapping[Key, Mapping[str, Lease | None]] = field(default_factory=dict)

    def now_ms(self, boot_ms: int) -> int:
        return self.counted_ms + min(boot_ms - self.looked_ms, STEP_MS)


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
        self._namespaces = Namespaces(namespaces, "Leases", now_ms)
        self._boot_ms = now_ms
        self._guard = threading.Lock()
        self._pages = {namespace: _Page(looked_ms=now_ms()) for namespace in namespaces}

    def poll(self) -> None:
        """Read all Leases; where they cannot be read now, the clock stands still soon.

        Raises:
            KubeApiError: they cannot be read anywhere.
        """
        self._namespaces.each(self._turn_page)

    def of(self, key: Key) -> Mapping[str, Lease | None]:
        """Return the Leases of an application's workers as they were at the last look."""
        with self._guard:
            return self._page(key).leases.get(key, {})

    def now_ms(self, key: Key) -> int:
        """Return the time for an application, as far as the Leases around it were looked at."""
        with self._guard:
            return self._page(key).now_ms(self._boot_ms())

    def _page(self, key: Key) -> _Page:
        return self._pages[key[0] if key[0] in self._pages else None]

    def _turn_page(self, namespace: str | None) -> None:
        found: dict[Key, dict[str, Lease | None]] = {}
        labels = f"{made_by_us()},{WORKER_LABEL}"
        for manifest in self._api.list(LEASES, namespace, labels=labels):
            metadata = manifest["metadata"]
            key = (metadata["namespace"], app_of(manifest))
            found.setdefault(key, {})[metadata["name"]] = read_lease(manifest)
        with self._guard:
            page, boot_ms = self._pages[namespace], self._boot_ms()
            page.leases = found
            page.counted_ms = page.now_ms(boot_ms)
            page.looked_ms = boot_ms
