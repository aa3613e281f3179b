"""What keeps pods and claims from being ready, where their status does not say it: their Events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import EVENTS
from headwater_operator.kube.errors import KubeApiError
from headwater_operator.manifests.parts import secrets_needed
from headwater_operator.observe.pods import NO_VOLUME
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater_operator.kube.api import KubeApi
    from headwater_operator.views import AppView

_NEXT_STEP: Final[Mapping[str, tuple[str, str]]] = {
    # The Event's reason: our reason, and what to do.
    "FailedMount": (
        "VolumeUnavailable",
        "create the Secret, ConfigMap or volume that is missing; the pod goes on by itself",
    ),
    "FailedAttachVolume": (
        "VolumeUnavailable",
        "see to the volume or its node; the pod goes on by itself",
    ),
    "ProvisioningFailed": (
        "VolumeNotProvisioned",
        "create the storage class, or correct spec.state.storageClassName and delete the claim",
    ),
    "FailedBinding": (
        "VolumeNotProvisioned",
        "name spec.state.storageClassName and delete the claim, or make a class the default",
    ),
    "FailedCreatePodSandBox": ("NodeProblem", "see to the node's container runtime or network"),
}


_MISSING: Final = re.compile(
    r'(secret|configmap) "[^"]*" not found|references non-existent (secret|config) key'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What Events tell about a pod or its claim.

    Attributes:
        uid: of the pod or claim.
        problem: what is wrong.
        lacks_file: it is a Secret or ConfigMap that is missing, or a key of it.
    """

    uid: str
    problem: Problem
    lacks_file: bool


def pod_problems(view: AppView, *, has_waited: bool) -> tuple[list[Problem], list[Problem]]:
    """Return what the pods say that keeps them from starting, and what of it others know better.

    Args:
        view: the application.
        has_waited: some pods have been waiting for so long that their volumes should be there.
    """
    every = sorted(view.every_pod.items())
    found = [pod.problem for _, pod in every if pod.problem is not None]
    volumes = [problem for problem in found if problem.reason == NO_VOLUME]
    certain = [problem for problem in found if problem.reason != NO_VOLUME]
    beside = [pod.beside for _, pod in every if pod.beside is not None]
    return [*certain, *beside], volumes if has_waited else []


def refused(error: Exception) -> Problem:
    """Return what the API server has refused."""
    said = f"{error}; the operator tries again. If it is a matter of rights or quota, grant more"
    return Problem(reason="ReconcileError", message=said)


def by_hand(view: AppView) -> Iterator[Problem]:
    """Yield what somebody has written that is not followed."""
    if view.unclear_reset is not None:
        yield view.unclear_reset
    yield from _tampered(view)


def _tampered(view: AppView) -> Iterator[Problem]:
    """Yield which StreamWorkers somebody else has changed."""
    for each in view.workers:
        if each.is_tampered:
            yield Problem(
                reason="TamperedWorker",
                message=f"{each.worker.name}: somebody else has changed its StreamWorker; what it "
                "holds is fenced and granted anew. StreamWorkers are the operator's: change the "
                "StreamApp instead",
            )


def event_problems(api: KubeApi, view: AppView, workers: frozenset[str]) -> Iterator[Told]:
    """Yield why workers wait, as far as Events about their pods and claims tell.

    Args:
        api: the API server.
        view: the application.
        workers: those whose containers have been waiting for some time.
    """
    for worker in sorted(workers):
        pod, claim = view.every_pod.get(worker), view.claims.get(worker)
        about = [pod.uid] if pod is not None else []
        if claim is not None and not claim.is_bound:
            about.append(claim.uid)
        for uid in about:
            yield from _about(api, view, worker, uid)


def _about(api: KubeApi, view: AppView, worker: str, uid: str) -> Iterator[Told]:
    try:
        events = api.list(EVENTS, view.owner.namespace, fields=f"involvedObject.uid={uid}")
    except KubeApiError:
        return  # not being allowed to look is no reason to stop
    newest: dict[str, tuple[str, str]] = {}
    for event in events:
        reason = str(event.get("reason") or "")
        at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        if reason in _NEXT_STEP and at >= newest.get(reason, ("", ""))[0]:
            newest[reason] = (at, str(event.get("message") or reason))
    for reason, (_, said) in sorted(newest.items()):
        ours, next_step = _NEXT_STEP[reason]
        yield Told(
            uid=uid,
            problem=Problem(
                reason=ours, message=f"{worker}: {said}{_keys(view, said)}; {next_step}"
            ),
            lacks_file=reason == "FailedMount" and _MISSING.search(said) is not None,
        )


def _keys(view: AppView, said: str) -> str:
    """Say which keys of a Secret are needed, if one is missing or lacks some."""
    if view.app is None:
        return ""
    found = [f"; {keys}" for name, keys in secrets_needed(view.app) if _names(said, name)]
    lacks_key = "non-existent secret key" in said
    every = [f"; Secret {name}: {keys}" for name, keys in secrets_needed(view.app)]
    return "".join(found or (every if lacks_key else ()))


def _names(said: str, secret: str) -> bool:
    """Whether a message names a Secret: by itself, or as Kubernetes does, behind its namespace."""
    return re.search(rf'"([^"/]*/)?{re.escape(secret)}"', said) is not None
