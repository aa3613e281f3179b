"""A thread that writes the worker's status: what somebody waits for at once, numbers seldom."""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Final

from headwater.service.carrier import CarrierUnavailableError
from headwater.service.clock import boot_ms
from headwater.service.kube.client import ConflictError, NotFoundError
from headwater.service.kube.manifests import is_urgent, status_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.cluster import WorkerStatus
    from headwater.service.kube.client import KubeClient, Manifest

log = logging.getLogger(__name__)

GAP_MS: Final = 10_000
"""Between two writes of numbers, and half as much again at random."""
_URGENT_GAP_MS: Final = 200
"""What changes within this is written together."""
_RETRY_MS: Final = 500
_RETRY_MAX_MS: Final = 8_000


class StatusWriter:
    """Writes the status of one StreamWorker from a thread of its own.

    Args:
        client: a connection of its own.
        path: of the StreamWorker in the API.
        name: its name.
        uid: returns the UID of the object that this process belongs to; empty while unknown.
        changed: told when it seems to be another object by now.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        name: str,
        uid: Callable[[], str],
        changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._path = path
        self._name = name
        self._uid = uid
        self._changed = changed
        self._condition = threading.Condition()
        self._wanted: WorkerStatus | None = None
        self._written: WorkerStatus | None = None
        self._written_ms = -GAP_MS
        self._gap_ms = GAP_MS
        self._retry_ms = 0
        self._is_closing = self._is_given_up = False
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)
        self._thread.start()

    def write(self, status: WorkerStatus) -> None:
        """Have this status written; the one before it is skipped if it was not written yet."""
        with self._condition:
            self._wanted = status
            self._condition.notify()

    def check(self, manifest: Manifest) -> None:
        """Write again if what is stored was written by another process after we wrote."""
        stored = (manifest.get("status") or {}).get("incarnation", "")
        with self._condition:
            if self._written is not None and stored != self._written.incarnation:
                self._written = None
                self._condition.notify()

    def give_up(self) -> None:
        """Write nothing more: the status is another process' by now."""
        with self._condition:
            self._is_given_up = True
            self._condition.notify()

    def close(self, timeout_s: float) -> None:
        """Write what is to be written, for ``timeout_s`` at most, and end the thread."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join(timeout_s)
        with self._condition:
            if self._thread.is_alive():
                log.warning("the last status of %s was not written", self._name)
            self._is_given_up = True
            self._condition.notify()
        self._client.close()
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        try:
            while (status := self._next()) is not None:
                try:
                    self._apply(status)
                except CarrierUnavailableError as error:
                    failures += 1
                    if failures == 1:
                        log.warning("%s; trying again", error)
                    pause_ms = min(_RETRY_MS << min(failures - 1, 4), _RETRY_MAX_MS)
                    with self._condition:
                        at_least_ms = int(error.retry_after_s * 1000)
                        self._retry_ms = boot_ms() + max(pause_ms, at_least_ms)
                else:
                    failures = 0
                    with self._condition:
                        self._written, self._written_ms = status, boot_ms()
                        self._gap_ms = int(GAP_MS * random.uniform(1, 1.5))  # noqa: S311
        finally:
            self._client.drop()

    def _next(self) -> WorkerStatus | None:
        """Wait until a status is to be written; ``None`` once there will be no more."""
        with self._condition:
            while not self._is_given_up:
                status = self._wanted
                if status is None or status == self._written:
                    if self._is_closing:
                        return None
                    self._condition.wait()
                    continue
                gap_ms = _URGENT_GAP_MS if is_urgent(self._written, status) else self._gap_ms
                due_ms = self._written_ms + (0 if self._is_closing else gap_ms)
                left_ms = max(due_ms, self._retry_ms) - boot_ms()
                if left_ms <= 0:
                    return status
                self._condition.wait(left_ms / 1000)
        return None

    def _apply(self, status: WorkerStatus) -> None:
        what = f"the status of StreamWorker {self._name}"
        uid = self._uid()
        if not uid:
            found = self._client.get(self._path, f"StreamWorker {self._name}")
            uid = str(found["metadata"]["uid"])
        try:
            self._client.apply(
                f"{self._path}/status", status_manifest(self._name, uid, status), what
            )
        except (ConflictError, NotFoundError):
            self._changed()
            raise
