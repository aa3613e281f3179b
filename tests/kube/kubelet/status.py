"""What a kubelet reports of a pod, from the states of its containers; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Manifest = dict[str, Any]


@dataclass
class ContainerState:
    """How a container is.

    Attributes:
        name: of the container.
        image: of the container.
        state: waiting, running or terminated, as in the API.
        last: how its last run ended, if it is not the present state.
        restarts: how often it was started again.
        is_started: it runs and its startup probe has passed.
        is_ready: it runs and is to be given work.
    """

    name: str
    image: str
    state: Manifest = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: Manifest = field(default_factory=dict)
    restarts: int = 0
    is_started: bool = False
    is_ready: bool = False

    @property
    def exit_code(self) -> int | None:
        """Of its last run; ``None`` if it runs, or never has."""
        if "running" in self.state:
            return None
        ended = self.state.get("terminated") or self.last.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def report(self) -> Manifest:
        """Return it as in the pod's status."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.is_ready,
            "started": self.is_started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last,
        }


def phase_of(containers: Sequence[ContainerState], restart_policy: str, *, is_over: bool) -> str:
    """Return the phase of a pod.

    Args:
        containers: of the pod.
        restart_policy: of the pod.
        is_over: it is being deleted, and none of its processes is left.
    """
    codes = [each.exit_code for each in containers]
    if is_over:
        return "Succeeded" if all(code == 0 for code in codes) else "Failed"
    if any(each.exit_code is None and "running" not in each.state for each in containers):
        return "Pending"
    if any("running" in each.state for each in containers) or restart_policy == "Always":
        return "Running"
    if all(code == 0 for code in codes):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def pod_status(
    pod: Manifest,
    containers: Sequence[ContainerState],
    *,
    now: str,
    before: Sequence[ContainerState] = (),
    are_before_over: bool = True,
    is_over: bool = False,
    are_volumes_there: bool = True,
) -> Manifest:
    """Return the status of a pod, without its addresses.

    Args:
        pod: as stored.
        containers: as they are.
        now: the time, as in the API.
        before: init containers and sidecars, as they are.
        are_before_over: none of those has a process.
        is_over: it is being deleted, and none of its processes is left.
        are_volumes_there: its containers could be started.
    """
    policy = pod["spec"].get("restartPolicy") or "Always"
    phase = phase_of(containers, policy, is_over=is_over)
    sidecars = {each["name"] for each in sidecars_in(pod)}
    first = [each for each in before if each.name not in sidecars]
    if any(each.exit_code for each in first) and policy == "Never":
        phase = "Failed"
    if phase in ("Succeeded", "Failed") and not (is_over or are_before_over):
        phase = "Running"
    lasting = [each for each in before if each.name in sidecars]
    unready = [each.name for each in (*containers, *lasting) if not each.is_ready]
    why: Manifest = {}
    if phase in ("Succeeded", "Failed"):
        why = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        said = f"containers with unready status: [{' '.join(unready)}]"
        why = {"reason": "ContainersNotReady", "message": said}
    truths: dict[str, tuple[bool, Manifest]] = {
        "PodReadyToStartContainers": (are_volumes_there and not is_over, {}),
        "Initialized": (all(each.exit_code == 0 for each in first), {}),
        "ContainersReady": (not why, why),
        "Ready": (not why, why),
    }
    known = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    conditions = []
    for kind, (truth, reason) in truths.items():
        value = str(truth)
        old = known.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == value else now
        conditions.append({"type": kind, "status": value, "lastTransitionTime": since, **reason})
    status = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [each.report() for each in containers],
    }
    if before:
        status["initContainerStatuses"] = [each.report() for each in before]
    return status


def sidecars_in(pod: Manifest) -> list[Manifest]:
    """Return the init containers that run as long as the pod's own containers."""
    return [
        each
        for each in pod["spec"].get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    ]


def says(status: Manifest, wanted: Manifest) -> bool:
    """Whether a stored status already says what is wanted; lists are compared by type or name."""
    return _covers(status, wanted)


def _covers(stored: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            _covers(stored.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(stored, list):
            return False
        return all(any(_covers(each, value) for each in stored) for value in wanted)
    return stored == wanted
