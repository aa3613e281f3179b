"""The carrier on Kubernetes: a StreamWorker and a Lease, read and written through the API server.

Four connections, each with a thread of its own but for the first: the worker's main loop reads the
StreamWorker, three threads watch it, write its status and renew the Lease. So the main loop waits
for the API server only when it has to know what is stored at this moment.

A process belongs to the StreamWorker that it read first. If that is deleted, or another one of its
name takes its place, or another process holds the Lease, then what this process holds is nowhere
written down any more: it has to end, at once and without committing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.model import podcontract
from headwater.model.cluster import API_VERSION, StreamWorker
from headwater.service.carrier import CarrierLostError, CarrierUnavailableError
from headwater.service.clock import boot_ms
from headwater.service.kube.client import KubeClient, NotFoundError
from headwater.service.kube.lease import LeaseKeeper
from headwater.service.kube.status import StatusWriter
from headwater.service.kube.watch import WorkerWatch, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ids import TaskId
    from headwater.model.cluster import Lease, WorkerSpec, WorkerStatus
    from headwater.service.kube.client import Access, Manifest

_READ_S: Final = 4.0
"""The main loop waits for a read, and counts as hung after ten seconds."""
_RENEW_S: Final = 4.0
_WRITE_S: Final = 10.0
_LAST_WRITE_S: Final = 10.0
_READ_AGAIN_MS: Final = 30_000
"""A watch that tells nothing, for whatever reason, costs so much time at most."""


class KubeCarrier:
    """The carrier of a worker in a pod.

    Args:
        access: how the pod reaches the API server.
        namespace: of the worker's resources.
        name: the worker's, which its StreamWorker, Lease and pod share.
        read_again_ms: so long after a read the spec counts as changed, whatever the watch tells.
    """

    def __init__(
        self, access: Access, *, namespace: str, name: str, read_again_ms: int = _READ_AGAIN_MS
    ) -> None:
        self._pause_ms = read_again_ms
        self._what = f"StreamWorker {name}"
        resources = f"/apis/{API_VERSION}/namespaces/{namespace}/{podcontract.WORKERS}"
        leases = f"/apis/{podcontract.LEASE_API_VERSION}/namespaces/{namespace}/leases"
        self._path = f"{resources}/{name}"
        self._uid = ""
        self._lost: CarrierLostError | None = None
        self._read_again_ms = 0
        self._client = KubeClient(access, timeout_s=_READ_S)
        self._status = StatusWriter(
            KubeClient(access, timeout_s=_WRITE_S),
            self._path,
            name,
            lambda: self._uid,
            self._look_again,
        )
        self._watch = WorkerWatch(
            KubeClient(access, timeout_s=_READ_S), resources, name, self._status.check
        )
        self._lease = LeaseKeeper(KubeClient(access, timeout_s=_RENEW_S), f"{leases}/{name}", name)

    def read(self) -> WorkerSpec | None:
        """Return the spec as the API server has it stored now."""
        if self._lost is not None:
            raise self._lost
        # Taken back before the read: what changes after it is read again.
        self._watch.reading()
        self._read_again_ms = boot_ms() + int(self._pause_ms * random.uniform(0.8, 1.2))  # noqa: S311
        try:
            manifest = self._client.get(self._path, self._what)
        except NotFoundError as error:
            self._watch.has_read(None)
            if self._uid:
                raise self._lose(f"{self._what} was deleted") from error
            return None
        except CarrierUnavailableError:
            self._watch.look_again()
            raise
        return self._take(manifest)

    def _take(self, manifest: Manifest) -> WorkerSpec:
        version = version_of(manifest)
        self._watch.has_read(version)
        if self._uid and version[0] != self._uid:
            raise self._lose(f"{self._what} was deleted, and another made in its place")
        self._status.check(manifest)
        try:
            worker = StreamWorker.from_dict({**manifest, "status": {}})
        except SpecError as error:
            raise CarrierUnavailableError(f"cannot use {self._what}: {error}") from error
        self._uid = version[0]
        return worker.spec

    def _lose(self, why: str) -> CarrierLostError:
        self._status.give_up()
        self._lost = CarrierLostError(
            f"{why}: nobody knows of the tasks of this process any more, which ends without "
            "committing; the operator starts another if one is wanted"
        )
        return self._lost

    def _look_again(self) -> None:
        self._watch.look_again()

    def has_changed(self) -> bool:
        """Whether a watch has told of another spec, or none was read for a while."""
        return self._watch.has_changed or boot_ms() >= self._read_again_ms

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, by the watching thread, when it hears of another spec."""
        self._watch.call_on_change(wake)

    def write_status(self, status: WorkerStatus) -> None:
        """Have the status written: at once if somebody waits for it, else within seconds."""
        self._status.write(status)

    def renew(self, lease: Lease) -> int | None:
        """Have the Lease renewed; return when it last was, if that is news."""
        try:
            return self._lease.renew(lease)
        except CarrierLostError as error:
            self._status.give_up()
            self._lost = error
            raise

    def peers(self) -> dict[TaskId, str]:
        """Return nothing: a worker may read its own StreamWorker and no other."""
        return {}

    def close(self) -> None:
        """Write the last status, then say nothing more; the Lease runs out."""
        self._status.close(_LAST_WRITE_S)
        self._lease.close()
        self._watch.close()
        self._client.close()
        self._client.drop()
