"""What tools that wait make of a resource: the rules of kstatus and of `kubectl wait`.

Argo CD, Flux and `helm --wait` go by kstatus (sigs.k8s.io/cli-utils, pkg/kstatus/status: generic.go
and core.go), kubectl by what stands in k8s.io/kubectl/pkg/cmd/wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CURRENT, IN_PROGRESS, FAILED = "Current", "InProgress", "Failed"
TERMINATING = "Terminating"


def kstatus(manifest: Mapping[str, Any]) -> str:
    """Return the status of a custom resource as kstatus computes it.

    A resource that is not deleted, whose last generation was observed, and that has none of the
    conditions Reconciling, Stalled and Ready, is Current.
    """
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    observed = status.get("observedGeneration")
    if "generation" in metadata and observed is not None and observed != metadata["generation"]:
        return IN_PROGRESS
    conditions = status.get("conditions") or ()
    for condition in conditions:
        if condition["status"] == "True" and condition["type"] == "Reconciling":
            return IN_PROGRESS
        if condition["status"] == "True" and condition["type"] == "Stalled":
            return FAILED
    for condition in conditions:
        if condition["type"] == "Ready":
            return CURRENT if condition["status"] == "True" else IN_PROGRESS
    return CURRENT


def wait_returns(manifest: Mapping[str, Any], kind: str, wanted: str = "True") -> bool:
    """Whether `kubectl wait --for=condition=KIND` returns now.

    A condition that was said about an earlier generation does not count. One that does not say
    counts as the whole status does.
    """
    status = manifest.get("status") or {}
    generation = manifest["metadata"].get("generation", 0)
    for condition in status.get("conditions") or ():
        if condition["type"].lower() == kind.lower():
            of_status = status.get("observedGeneration", generation)
            if condition.get("observedGeneration", of_status) < generation:
                return False
            return bool(condition["status"] == wanted)
    return False
