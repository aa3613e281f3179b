"""A thread that renews the worker's Lease, so that nothing else the worker waits for delays it.

    free ──first renewal──► ours ──renewal──► ours
                             └──another holder──► lost, for good

It renews for a main loop that turns: if that has not asked for a renewal for a third of the Lease's
duration, no renewal is made until it asks again. A Lease is taken over from whoever holds it once,
at the first renewal. From then on, another holder means that another process of this worker has
been started in our place: then the Lease is never taken back.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from headwater.service.carrier import CarrierLostError, CarrierUnavailableError
from headwater.service.clock import boot_ms
from headwater.service.kube.client import ConflictError, NotFoundError
from headwater.service.kube.manifests import holder_of, renewed

if TYPE_CHECKING:
    from headwater.model.cluster import Lease
    from headwater.service.kube.client import KubeClient, Manifest

_RENEWALS: Final = 6
"""How often within its duration; a file is renewed more often, but this costs a write to etcd."""
_RETRY_MS: Final = 500
_TRIES: Final = 3
_SILENCES: Final = 3


class LeaseKeeper:
    """Renews one Lease from a thread of its own.

    Args:
        client: a connection of its own.
        path: of the Lease in the API.
        name: the worker's, and the Lease's.
    """

    def __init__(self, client: KubeClient, path: str, name: str) -> None:
        self._client = client
        self._path = path
        self._what = f"Lease {name}"
        self._condition = threading.Condition()
        self._lease: Lease | None = None
        self._asked_ms = 0
        self._due_ms = 0
        self._kept_ms: int | None = None
        self._problem: CarrierUnavailableError | None = None
        self._lost: CarrierLostError | None = None
        self._is_closed = False
        # The thread's own.
        self._stored: Manifest | None = None
        self._is_ours = False
        self._before: str | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def renew(self, lease: Lease) -> int | None:
        """Have the Lease renewed from now on; return when it last was, if that is news.

        Raises:
            CarrierLostError: another process of this worker holds it.
            CarrierUnavailableError: a renewal has failed since the last call; another is tried.
        """
        with self._condition:
            self._lease, self._asked_ms = lease, boot_ms()
            self._condition.notify()
            kept_ms, self._kept_ms = self._kept_ms, None
            problem, self._problem = self._problem, None
            if self._lost is not None:
                raise self._lost
        if kept_ms is None and problem is not None:
            raise problem
        return kept_ms

    def close(self) -> None:
        """End the thread. The Lease is left to run out: the end of the pod is what counts."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._client.close()
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        try:
            while (lease := self._next()) is not None:
                at_ms = boot_ms()
                try:
                    self._write(lease)
                except CarrierLostError as error:
                    with self._condition:
                        self._lost = error
                    return
                except CarrierUnavailableError as error:
                    failures += 1
                    pause_ms = min(_RETRY_MS << min(failures - 1, 3), lease.duration_ms // 10)
                    with self._condition:
                        self._problem = error
                        self._due_ms = boot_ms() + max(pause_ms, int(error.retry_after_s * 1000))
                else:
                    failures = 0
                    with self._condition:
                        self._kept_ms, self._problem = at_ms, None
                        self._due_ms = at_ms + lease.duration_ms // _RENEWALS
        finally:
            self._client.drop()

    def _next(self) -> Lease | None:
        """Wait until a renewal is due and wanted; ``None`` once this is closed."""
        with self._condition:
            while not self._is_closed:
                now_ms, lease = boot_ms(), self._lease
                if lease is None or self._is_silent(lease):
                    self._condition.wait()
                elif now_ms >= self._due_ms:
                    return lease
                else:
                    self._condition.wait((self._due_ms - now_ms) / 1000)
        return None

    def _is_silent(self, lease: Lease) -> bool:
        return boot_ms() - self._asked_ms > lease.duration_ms // _SILENCES

    def _write(self, lease: Lease) -> None:
        for _ in range(_TRIES):
            found = self._stored or self._read()
            self._stored = None
            self._check(found, lease)
            try:
                manifest = renewed(found, lease, time.time_ns() // 1000)
                self._stored = self._client.put(self._path, manifest, self._what)
            except ConflictError:
                continue
            self._is_ours = True
            return
        raise CarrierUnavailableError(
            f"{self._what} was changed by somebody else {_TRIES} times in a row; find out who "
            "writes it: only the worker does"
        )

    def _read(self) -> Manifest:
        try:
            return self._client.get(self._path, self._what)
        except NotFoundError as error:
            raise CarrierUnavailableError(
                f"there is no {self._what}; the operator makes it, or the worker is being removed"
            ) from error

    def _check(self, found: Manifest, lease: Lease) -> None:
        """Raise ``CarrierLostError`` if another process has taken our place."""
        holder = holder_of(found)
        if self._before is None:
            self._before = holder
        if holder in ("", lease.holder) or (not self._is_ours and holder == self._before):
            return
        raise CarrierLostError(
            f"{self._what} is held by {holder}: another process of this worker was started in the "
            "place of this one, which ends without committing"
        )
