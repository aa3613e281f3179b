"""What a pod says about the process in it: whether it runs, ended, or cannot begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.model.streamapp_assignment import HOSTNAME_KEY
from headwater_operator.decide.observed import ProcessState
from headwater_operator.manifests.names import REVISION_LABEL, claim_name
from headwater_operator.observe.sidecars import CONTAINERS, Others, how_it_ended, read_others
from headwater_operator.status import Problem
from headwater_operator.views import PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater_operator.kube.api import Manifest

_TOPOLOGY: Final = "topology.kubernetes.io/"

NO_VOLUME: Final = "VolumeNotBound"
"""The reason of a problem that every new worker has for a moment."""
_NO_VOLUME: Final = ("unbound immediate PersistentVolumeClaims", "persistentvolumeclaim ")

_NEXT_STEP: Final[Mapping[str, tuple[str, str]]] = {
    # The container's waiting reason: our reason, and what to do.
    "ErrImagePull": (
        "ImagePullFailed",
        "correct spec.image, or give spec.imagePullSecrets that may read it",
    ),
    "ImagePullBackOff": (
        "ImagePullFailed",
        "correct spec.image, or give spec.imagePullSecrets that may read it",
    ),
    "ErrImageNeverPull": (
        "ImagePullFailed",
        "bring the image to the node, or change spec.imagePullPolicy",
    ),
    "InvalidImageName": ("ImagePullFailed", "correct spec.image"),
    "CreateContainerConfigError": (
        "ContainerConfigInvalid",
        "create what is missing, or correct spec.podTemplate",
    ),
    "CreateContainerError": ("ContainerFailed", "correct the image or spec.podTemplate"),
    "RunContainerError": ("ContainerFailed", "correct the image or spec.podTemplate"),
}


_HOPELESS: Final = frozenset(reason for reason, _ in _NEXT_STEP.values())


def is_hopeless(pod: PodView) -> bool:
    """Whether a pod's container is known not to begin until somebody does something."""
    return not pod.has_begun and pod.problem is not None and pod.problem.reason in _HOPELESS


def read_pod(manifest: Manifest) -> PodView:
    """Read the pod of a worker, of a driver, or of an executor."""
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    container = _container(status)
    state = container.get("state") or {}
    terminated = terminated_in(manifest)
    worker = str(metadata["name"])
    has_begun = "running" in state or bool(terminated) or "terminated" in _last(container)
    others = read_others(manifest, has_begun=has_begun, has_ended=bool(terminated))
    return PodView(
        worker=worker,
        uid=str(metadata["uid"]),
        revision=str((metadata.get("labels") or {}).get(REVISION_LABEL, "")),
        state=_process_state(status, terminated),
        node=str((manifest.get("spec") or {}).get("nodeName") or ""),
        is_deleting="deletionTimestamp" in metadata,
        grace_s=int(metadata.get("deletionGracePeriodSeconds") or 0),
        has_begun=has_begun,
        ended=_how_it_ended(status, terminated, others),
        problem=_problem(worker, status, state.get("waiting") or {}) or others.problem,
        awaited=others.awaited,
        beside=others.beside,
        others_running=others.running,
        labels=_place(manifest),
        address=str(status.get("podIP") or ""),
        is_ready=bool(container.get("ready")),
        has_started=bool(container.get("started")),
    )


def terminated_in(manifest: Manifest) -> Mapping[str, Any]:
    """Return what is reported of the end of a pod's container; empty if nothing is."""
    state = _container(manifest.get("status") or {}).get("state") or {}
    return state.get("terminated") or {}


def _place(manifest: Manifest) -> dict[str, str]:
    """Return where a pod runs: Kubernetes copies the node's topology labels to it."""
    node = str((manifest.get("spec") or {}).get("nodeName") or "")
    if not node:
        return {}
    labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
    found = {key: value for key, value in labels.items() if key.startswith(_TOPOLOGY)}
    return {HOSTNAME_KEY: node, **found}


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for found in status.get("containerStatuses") or ():
        if found.get("name") in CONTAINERS:
            return dict(found)
    return {}


def _last(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("lastState") or {}


def _process_state(status: Mapping[str, Any], terminated: Mapping[str, Any]) -> ProcessState:
    phase = status.get("phase", "Pending")
    # A pod is not started again in place, so a container that has ended has ended for good.
    if phase in ("Succeeded", "Failed") or terminated:
        return ProcessState.ENDED
    if phase == "Unknown" or status.get("reason") == "NodeLost":
        return ProcessState.UNKNOWN
    return ProcessState.RUNNING


def _how_it_ended(status: Mapping[str, Any], terminated: Mapping[str, Any], others: Others) -> str:
    """Say how the container ended, and its last words."""
    if terminated:
        return how_it_ended(terminated)
    if status.get("phase") not in ("Succeeded", "Failed"):
        return ""
    # The pod ended without its container: evicted, or its node is gone, or one before it failed.
    said = (str(status.get("reason") or ""), str(status.get("message") or ""))
    return ": ".join(part for part in said if part) or others.ended or "the pod has ended"


def _problem(worker: str, status: Mapping[str, Any], waiting: Mapping[str, Any]) -> Problem | None:
    reason = str(waiting.get("reason") or "")
    if reason in _NEXT_STEP:
        ours, next_step = _NEXT_STEP[reason]
        said = str(waiting.get("message") or reason)
        return Problem(reason=ours, message=f"{worker}: {reason}: {said}; {next_step}")
    for condition in status.get("conditions") or ():
        is_scheduled = condition.get("type") == "PodScheduled"
        if is_scheduled and condition.get("reason") == "Unschedulable":
            said = str(condition.get("message") or "no node takes it")
            if any(words in said for words in _NO_VOLUME):
                return Problem(
                    reason=NO_VOLUME,
                    message=f"{worker}: its volume is not there: {said}; look at the claim "
                    f"{claim_name(worker)} and at who makes volumes for its storage class",
                )
            return Problem(
                reason="Unschedulable",
                message=f"{worker}: no node takes it: {said}; add nodes, or ask for less in "
                "spec.podTemplate or spec.state",
            )
    return None
