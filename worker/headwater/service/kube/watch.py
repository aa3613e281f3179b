"""A thread that watches the own StreamWorker, so that a change is acted on at once.

A watch may end at any time, be cut, fall silent, or be told that what it asks for is gone (410).
Every time it is begun anew, and a watch that names no version begins with the object as it is
stored now: nothing that happened in between is missed but a deletion, which the carrier finds when
it reads again by the clock. What it tells is only *whether* to read; what counts is what is then
read.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.service.carrier import CarrierUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.service.kube.client import KubeClient, Manifest

log = logging.getLogger(__name__)

Version: TypeAlias = tuple[str, int]
"""UID and generation: it grows with every write of the spec, and with none of the status."""

_WATCH_S: Final = 300
_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 10.0


def version_of(manifest: Manifest) -> Version:
    """Return the version of an object's spec."""
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("uid") or ""), int(metadata.get("generation") or 0)


class WorkerWatch:
    """Watches one StreamWorker from its construction until ``close``.

    Args:
        client: a connection of its own.
        collection: the path of the StreamWorkers of the namespace.
        name: which one.
        seen: told of the object with every event, from the watching thread.
    """

    def __init__(
        self, client: KubeClient, collection: str, name: str, seen: Callable[[Manifest], None]
    ) -> None:
        self._client = client
        only = f"fieldSelector=metadata.name%3D{name}"
        self._path = f"{collection}?watch=true&allowWatchBookmarks=true&{only}"
        self._what = f"StreamWorker {name}"
        self._seen = seen
        self._guard = threading.Lock()
        self._known: Version | None = None
        self._has_changed = True
        self._wake: Callable[[], None] = _nobody
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    @property
    def has_changed(self) -> bool:
        """Whether the spec may be another than the one that was read last."""
        return self._has_changed

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, by the watching thread, after every change."""
        self._wake = wake

    def reading(self) -> None:
        """Say that the object is about to be read."""
        with self._guard:
            self._has_changed = False

    def has_read(self, version: Version | None) -> None:
        """Say which version was read; ``None`` if there is no object."""
        with self._guard:
            self._known = version

    def look_again(self) -> None:
        """Count the object as changed."""
        with self._guard:
            self._has_changed = True

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._client.close()
        self._thread.join(_PAUSE_MAX_S)

    def _run(self) -> None:
        pause_s = _PAUSE_S
        try:
            while not self._closed.is_set():
                # Not all workers of a cluster at the same moment, for hours to come.
                timeout_s = int(_WATCH_S * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
                try:
                    for event in self._client.watch(
                        f"{self._path}&timeoutSeconds={timeout_s}", self._what
                    ):
                        pause_s = _PAUSE_S
                        if not self._take(event):
                            break
                except CarrierUnavailableError as error:
                    log.debug("%s: watching again in %.1f s", error, pause_s)
                    self._closed.wait(max(pause_s, error.retry_after_s) * random.uniform(0.5, 1))  # noqa: S311
                    pause_s = min(_PAUSE_MAX_S, pause_s * 2)
                else:
                    self._closed.wait(random.uniform(0, _PAUSE_S))  # noqa: S311 - no secret
        finally:
            self._client.drop()

    def _take(self, event: Manifest) -> bool:
        """Take note of an event; return whether the watch goes on."""
        kind, manifest = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            log.debug("the watch ends with %s: %s", manifest.get("code"), manifest.get("message"))
            return False
        if kind in ("ADDED", "MODIFIED"):
            version = version_of(manifest)
            with self._guard:
                if is_news := self._is_news(version):
                    self._known = version
                    self._has_changed = True
            self._seen(manifest)
            if is_news:
                self._wake()
        elif kind == "DELETED":
            self.look_again()
            self._wake()
        return True

    def _is_news(self, version: Version) -> bool:
        known = self._known
        if known is None or known[0] != version[0]:
            return True
        return version[1] > known[1]


def _nobody() -> None:
    """Nobody waits."""
