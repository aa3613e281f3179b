"""Volumes that grow with their claims, and what must hold of them in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import CLAIMS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.manifests.names import claim_name
from headwater_operator.manifests.storage import bytes_of
from tests.sim.kubernetes.world import APP, NAMESPACE

if TYPE_CHECKING:
    from tests.sim.kubernetes.world import KubeWorld

SIZES: Final = ("10Gi", "20Gi", "30Gi", "40Gi")
"""The first is the default."""


def too_small(world: KubeWorld) -> str:
    """Say which worker has a smaller volume than it is to have; empty if none has."""
    app = world.find(STREAM_APPS, APP)
    assert app is not None
    wanted = bytes_of(app["spec"].get("state", {}).get("size", SIZES[0]))
    for worker in world.all(STREAM_WORKERS):
        name = worker["metadata"]["name"]
        claim = world.find(CLAIMS, claim_name(name))
        if claim is None or (claim.get("status") or {}).get("phase") != "Bound":
            continue
        asked = bytes_of(claim["spec"]["resources"]["requests"]["storage"])
        if asked < wanted:
            return f"the volume of {name} is too small: {asked} of {wanted} bytes"
    return ""


def grow_volumes(world: KubeWorld) -> None:
    """Have every volume hold what its claim asks for."""
    for claim in world.all(CLAIMS):
        status = claim.get("status") or {}
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if status.get("phase") == "Bound" and status.get("capacity") != {"storage": asked}:
            grown = {**status, "capacity": {"storage": asked}}
            world.api.set_status(CLAIMS, NAMESPACE, claim["metadata"]["name"], grown)
