"""How a worker reads its own StreamWorker, writes its status and renews its Lease.

On one machine the resources are files below the cluster directory::

    <cluster dir>/<app>/streamapp.json       the StreamApp; written by the control loop
    <cluster dir>/<app>/workers/<name>/
        spec.json       StreamWorker without status; written by the control loop
        status.json     StreamWorker without spec; written by the worker
        lease.json      the Lease; written by the worker
        worker.lock     held by the worker's main process for as long as it lives

Every file is replaced by rename, so a reader never sees half of one. The lock makes the worker
process the only writer of its two files: a second process of the same name cannot start before the
kernel has seen the end of the first, even if that one is merely frozen.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.errors import EnvironmentProblemError, InstanceRunningError, SpecError
from headwater.files import replace_file
from headwater.local.filelock import FileLock, FileLockHeldError
from headwater.model.cluster import Lease, StreamWorker, WorkerSpec, WorkerStatus
from headwater.service.clock import boot_ms
from headwater.service.decide.placements import peers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.ids import TaskId

_LOCK_TIMEOUT_S: Final = 5.0


class CarrierUnavailableError(EnvironmentProblemError):
    """The carrier of StreamWorker and Lease cannot be read or written now: wait and try again.

    Attributes:
        retry_after_s: how long it asks to be left alone.
    """

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CarrierLostError(EnvironmentProblemError):
    """StreamWorker or Lease are no longer this process': it has to end, without committing."""


class Carrier(Protocol):
    """A worker's way to its own two resources. Calls come from one thread at a time."""

    def read(self) -> WorkerSpec | None:
        """Return the spec as it stands now, never from a cache; ``None`` while there is none.

        Raises:
            CarrierUnavailableError: it cannot be read now.
            CarrierLostError: it is gone, or another one is in its place.
        """
        ...

    def has_changed(self) -> bool:
        """Whether the spec may have changed since the last ``read``; cheap, may wrongly say yes."""
        ...

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, from any thread, when a change is heard of, if it can be heard."""
        ...

    def write_status(self, status: WorkerStatus) -> None:
        """Replace the status: now, or soon and before ``close`` returns.

        Raises:
            CarrierUnavailableError: it was not written.
        """
        ...

    def renew(self, lease: Lease) -> int | None:
        """Replace the Lease, and again later, as long as this is called.

        Returns:
            when it was renewed at the latest, by the boot-time clock: taken before the renewal
            began. ``None`` if there is no news since the last call.

        Raises:
            CarrierUnavailableError: it was not written.
            CarrierLostError: another process of this worker holds it.
        """
        ...

    def peers(self) -> dict[TaskId, str]:
        """Return where tasks run, as ``host:port`` of workers' HTTP, as far as it can be seen."""
        ...

    def close(self) -> None:
        """Write what is still to be written, then let another process of this worker begin."""
        ...


class FileCarrier:
    """The carrier on one machine: files in the cluster directory.

    Args:
        directory: ``<cluster dir>/<app>/workers/<name>``; created if missing.
        name: the worker's name.
        lock_timeout_s: how long another process of this worker may take to end.

    Raises:
        InstanceRunningError: another process of this worker lives.
        CarrierUnavailableError: the directory cannot be created.
    """

    def __init__(
        self, directory: Path, name: str, *, lock_timeout_s: float = _LOCK_TIMEOUT_S
    ) -> None:
        self._directory = directory
        self._name = name
        self._spec_file = directory / "spec.json"
        self._seen: tuple[int, int, int] | None = None
        self._lock = FileLock(directory / "worker.lock")
        try:
            self._lock.acquire(timeout_s=lock_timeout_s)
        except FileLockHeldError as error:
            raise InstanceRunningError(
                f"worker {name} is already running as process {error.holder}; stop that one first, "
                "or start this one under another name"
            ) from error
        except OSError as error:
            raise CarrierUnavailableError(
                f"cannot use the worker directory {directory}: {error.strerror}; "
                "check that it is writable"
            ) from error

    def read(self) -> WorkerSpec | None:
        """Return the spec as the file holds it now."""
        try:
            # The stamp is taken first: a change between the two calls is seen again, not missed.
            seen = self._stamp()
            text = self._spec_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CarrierUnavailableError(
                f"cannot read {self._spec_file}: {error.strerror}"
            ) from error
        try:
            worker = StreamWorker.from_dict(json.loads(text))
        except (ValueError, SpecError) as error:
            raise CarrierUnavailableError(f"cannot use {self._spec_file}: {error}") from error
        self._seen = seen
        return worker.spec

    def has_changed(self) -> bool:
        """Whether the file was replaced since the last read."""
        return self._stamp() != self._seen

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Nothing is heard here: whoever uses it looks."""

    def write_status(self, status: WorkerStatus) -> None:
        """Replace ``status.json``."""
        resource = StreamWorker(name=self._name, spec=WorkerSpec(app=""), status=status).to_dict()
        self._replace("status.json", {**resource, "spec": {}})

    def renew(self, lease: Lease) -> int:
        """Replace ``lease.json``."""
        at_ms = boot_ms()
        self._replace("lease.json", lease.to_dict())
        return at_ms

    def peers(self) -> dict[TaskId, str]:
        """Return where tasks run, as the status files of this application's workers say."""
        return peers_of(self._statuses())

    def _statuses(self) -> Iterator[WorkerStatus]:
        for path in self._directory.parent.glob("*/status.json"):
            try:
                yield StreamWorker.from_dict(json.loads(path.read_bytes())).status
            except (OSError, ValueError, SpecError):
                continue  # it is gone, or another version wrote it

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._spec_file.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def _replace(self, name: str, resource: dict[str, object]) -> None:
        target = self._directory / name
        try:
            # After a loss of power nobody believes what a worker has said before. A Lease must
            # not wait for a busy disk.
            replace_json(target, resource, sync=False)
        except OSError as error:
            raise CarrierUnavailableError(f"cannot write {target}: {error.strerror}") from error


class MemoryCarrier:
    """The carrier of an embedded worker: values shared with the control in the same process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._spec: WorkerSpec | None = None
        self._status = WorkerStatus()
        self._changed = False

    def read(self) -> WorkerSpec | None:
        """Return the spec last set."""
        with self._guard:
            self._changed = False
            return self._spec

    def has_changed(self) -> bool:
        """Whether the spec was set since the last read."""
        with self._guard:
            return self._changed

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Nothing is heard here: whoever uses it looks."""

    def write_status(self, status: WorkerStatus) -> None:
        """Keep the status for :attr:`status`."""
        with self._guard:
            self._status = status

    def renew(self, lease: Lease) -> int:  # noqa: ARG002 - the signature of Carrier
        """Nothing to do: the control lives and dies with the worker."""
        return boot_ms()

    def peers(self) -> dict[TaskId, str]:
        """Return nothing: there is no other worker."""
        return {}

    def close(self) -> None:
        """Nothing to release."""

    @property
    def spec(self) -> WorkerSpec | None:
        """What was set last, read by the worker or not; the control's side."""
        with self._guard:
            return self._spec

    @property
    def status(self) -> WorkerStatus:
        """What the worker reported last."""
        with self._guard:
            return self._status

    def set_spec(self, **changes: object) -> WorkerSpec:
        """Change fields of the spec, under the next epoch if none is given; the control's side."""
        with self._guard:
            before = self._spec or WorkerSpec(app="")
            fields: dict[str, Any] = {"epoch": before.epoch + 1, **changes}
            self._spec = replace(before, **fields)
            self._changed = True
            return self._spec


def replace_json(target: Path, value: object, *, sync: bool = True) -> None:
    """Write ``value`` as JSON so that a reader sees the old file or the new one, never a part.

    Args:
        target: the file.
        value: what it is to hold.
        sync: as ``replace_file``.

    Raises:
        OSError: nothing was replaced.
    """
    replace_file(target, json.dumps(value, indent=1) + "\n", sync=sync)
