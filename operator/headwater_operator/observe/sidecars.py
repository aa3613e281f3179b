"""What a pod says about the containers beside ours: those before it, and those with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.model import drivercontract, podcontract
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater_operator.kube.api import Manifest

CONTAINERS: Final = (podcontract.CONTAINER, drivercontract.DRIVER, drivercontract.EXECUTOR)
"""Names of the containers that Headwater makes; a pod may have others beside."""
_SIGNALS: Final = {137: "SIGKILL", 143: "SIGTERM", 139: "SIGSEGV", 134: "SIGABRT"}
_WAITS_IN_VAIN: Final[Mapping[str, str]] = {
    # Why a container waits: our reason.
    "ErrImagePull": "ImagePullFailed",
    "ImagePullBackOff": "ImagePullFailed",
    "ErrImageNeverPull": "ImagePullFailed",
    "InvalidImageName": "ImagePullFailed",
    "CreateContainerConfigError": "ContainerConfigInvalid",
    "CreateContainerError": "ContainerFailed",
    "RunContainerError": "ContainerFailed",
}
_LOOPS: Final = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The containers of a pod that are not ours.

    Attributes:
        problem: why ours cannot begin because of them.
        ended: how one of those before ours has ended the pod; empty if none has.
        awaited: the one before ours that is waited for; empty if none is.
        beside: what is wrong with one while ours runs.
        running: names of those that run.
    """

    problem: Problem | None = None
    ended: str = ""
    awaited: str = ""
    beside: Problem | None = None
    running: tuple[str, ...] = ()


def read_others(manifest: Manifest, *, has_begun: bool, has_ended: bool) -> Others:
    """Read what a pod says of the containers that are not ours.

    Args:
        manifest: of the pod.
        has_begun: our container has been started.
        has_ended: it has ended.
    """
    pod = str(manifest["metadata"]["name"])
    status = manifest.get("status") or {}
    before = [dict(each) for each in status.get("initContainerStatuses") or ()]
    with_it = [
        dict(each)
        for each in status.get("containerStatuses") or ()
        if each.get("name") not in CONTAINERS
    ]
    sidecars = _sidecars(manifest)
    running = tuple(str(each["name"]) for each in (*before, *with_it) if "running" in _state(each))
    is_asked_to_go = "deletionTimestamp" in manifest["metadata"]  # and so is each container
    if has_ended or (has_begun and is_asked_to_go):
        return Others(running=running)
    if has_begun:
        lasting = [each for each in before if each["name"] in sidecars]
        return Others(beside=_beside(pod, [*lasting, *with_it], sidecars), running=running)
    ended = next(_failed(before, sidecars), "")
    return Others(
        problem=_kept(pod, before, ended),
        ended=ended,
        awaited=_awaited(before, sidecars),
        beside=_beside(pod, with_it, sidecars),
        running=running,
    )


def how_it_ended(terminated: Mapping[str, Any]) -> str:
    """Say how a container ended, and its last words."""
    code = int(terminated.get("exitCode") or 0)
    reason = str(terminated.get("reason") or "")
    if reason in ("", "Error", "Completed"):
        how = f"killed by {_SIGNALS[code]}" if code in _SIGNALS else f"exit code {code}"
    else:
        how = f"{reason}, exit code {code}"
    words = str(terminated.get("message") or "").strip().splitlines()
    return f"{how}: {words[-1]}" if words else how


def _sidecars(manifest: Manifest) -> frozenset[str]:
    spec = manifest.get("spec") or {}
    return frozenset(
        str(each["name"])
        for each in spec.get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    )


def _state(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("state") or {}


def _failed(before: list[dict[str, Any]], sidecars: frozenset[str]) -> Iterator[str]:
    """Yield how an init container has failed: the pod has ended with it."""
    for each in before:
        terminated = _state(each).get("terminated")
        if terminated and terminated.get("exitCode") and each["name"] not in sidecars:
            yield f"init container {each['name']}: {how_it_ended(terminated)}"


def _kept(pod: str, before: list[dict[str, Any]], ended: str) -> Problem | None:
    """Return what keeps our container from beginning."""
    if ended:
        return Problem(
            reason="InitContainerFailed",
            message=f"{pod}: {ended}; correct spec.podTemplate.initContainers, or see to what the "
            "container needs. The pod is made anew, after a while",
        )
    for each in before:
        waiting = _state(each).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if ours := _WAITS_IN_VAIN.get(reason):
            said = str(waiting.get("message") or reason)
            return Problem(reason=ours, message=f"{pod}: {_step(each, f'{reason}: {said}')}")
        if reason == _LOOPS:
            return Problem(reason="SidecarFailed", message=f"{pod}: {_step(each, _looping(each))}")
    return None


def _looping(container: Mapping[str, Any]) -> str:
    terminated = (container.get("lastState") or {}).get("terminated")
    return f"ends again and again: {how_it_ended(terminated)}" if terminated else _LOOPS


def _step(container: Mapping[str, Any], said: str) -> str:
    name = container["name"]
    return f"container {name}: {said}; correct {name} in spec.podTemplate, or see to what it needs"


def _awaited(before: list[dict[str, Any]], sidecars: frozenset[str]) -> str:
    for each in before:
        name, state = str(each["name"]), _state(each)
        if name in sidecars:
            if not each.get("started"):
                return f"sidecar {name} to start"
        elif "terminated" not in state:
            return f"init container {name} to end"
    return ""


def _beside(pod: str, containers: list[dict[str, Any]], sidecars: frozenset[str]) -> Problem | None:
    """Return what is wrong with a container that ours does not wait for."""
    for each in containers:
        said = _what_is_wrong(each, is_restarted=each["name"] in sidecars)
        if said:
            message = f"{pod}: {_step(each, said)}. Its tasks run all the same"
            return Problem(reason="SidecarFailed", message=message)
    return None


def _what_is_wrong(container: Mapping[str, Any], *, is_restarted: bool) -> str:
    state = _state(container)
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    reason = str(waiting.get("reason") or "")
    if reason == _LOOPS:
        return _looping(container)
    if reason in _WAITS_IN_VAIN:
        return f"{reason}: {waiting.get('message') or reason}"
    if terminated and not is_restarted:
        # Whatever its exit code: from now on the pod is not ready for Kubernetes.
        return f"{how_it_ended(terminated)}, and is not started again"
    return ""
