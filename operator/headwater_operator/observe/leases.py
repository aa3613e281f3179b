"""A worker's Lease as Kubernetes has it, read as the sign of life that the decision looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import Lease

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest

_PUNCTUATION: Final = str.maketrans("", "", "-:.TZ+")
"""What a time has beside digits; thousands of Leases are read every other second."""


def read_lease(manifest: Manifest) -> Lease | None:
    """Read a Lease; ``None`` while no worker process has held it.

    The time in it is never compared with a clock: that it changed is all that counts.
    """
    spec = manifest.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if not holder:
        return None
    renewed = str(spec.get("renewTime") or "").translate(_PUNCTUATION)
    if not renewed.isdecimal():
        renewed = "".join(filter(str.isdecimal, renewed))
    return Lease(
        worker=manifest["metadata"]["name"],
        holder=str(holder),
        duration_ms=int(spec.get("leaseDurationSeconds") or 30) * 1000,
        renewals=int(renewed or 0),
    )
