"""What a worker writes to the API server, as values, and when its status has to be written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from headwater.model.cluster import API_VERSION, LAG_UNKNOWN, Lease, WorkerStatus
from headwater.model.codec import encode_object

if TYPE_CHECKING:
    from headwater.service.kube.client import Manifest

_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def status_manifest(name: str, uid: str, status: WorkerStatus) -> Manifest:
    """Return the apply patch of a status, for the StreamWorker with this ``uid`` and no other."""
    return {
        "apiVersion": API_VERSION,
        "kind": "StreamWorker",
        "metadata": {"name": name, "uid": uid},
        "status": encode_object(status),
    }


def holder_of(manifest: Manifest) -> str:
    """Return the incarnation that holds a Lease; empty if nobody does."""
    return str((manifest.get("spec") or {}).get("holderIdentity") or "")


def renewed(manifest: Manifest, lease: Lease, now_us: int) -> Manifest:
    """Return a Lease as its holder renews it.

    Args:
        manifest: as stored; what is returned carries its version, so that it replaces no other.
        lease: who holds it, and for how long.
        now_us: microseconds since 1970. Nobody compares them with a clock; but every renewal has
            to differ from the one before, and does even if the clock was set back.
    """
    spec: dict[str, Any] = dict(manifest.get("spec") or {})
    before_us = _read_us(spec.get("renewTime"))
    at = _write_us(max(now_us, before_us + 1))
    if holder_of(manifest) != lease.holder:
        spec["acquireTime"] = at
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
    spec["holderIdentity"] = lease.holder
    # Rounded up: whoever waits for its end must not be the first to take it for over.
    spec["leaseDurationSeconds"] = -(-lease.duration_ms // 1000)
    spec["renewTime"] = at
    return {**manifest, "spec": spec}


def is_urgent(written: WorkerStatus | None, status: WorkerStatus) -> bool:
    """Whether somebody waits for what is new in a status.

    Lags on their way down, and up to where a directory's state goes, are for people and for a later
    placement. All else is what the control loop's next step depends on: an acknowledgement, a task
    that came, went or caught up, a result, an error.
    """
    return written is None or _without_numbers(written) != _without_numbers(status)


def _without_numbers(status: WorkerStatus) -> WorkerStatus:
    return replace(
        status,
        tasks=tuple(
            replace(task, lag=LAG_UNKNOWN if task.lag == LAG_UNKNOWN else 0)
            for task in status.tasks
        ),
        stored=tuple(replace(task, offset_bucket=0, saved_hour=0) for task in status.stored),
    )


def _write_us(at_us: int) -> str:
    seconds, micros = divmod(at_us, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros).strftime(_MICRO_TIME)


def _read_us(text: object) -> int:
    try:
        at = datetime.strptime(str(text), _MICRO_TIME).replace(tzinfo=UTC)
    except ValueError:
        return 0
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000 + at.microsecond
