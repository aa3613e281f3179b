"""``logs`` on a cluster: what the pods of an application print, each line behind its pod's name."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater_operator.commands.output import warn
from headwater_operator.kube.api import PODS
from headwater_operator.kube.errors import ForbiddenError, KubeApiError, NotFoundError
from headwater_operator.manifests.names import of_app
from headwater_operator.observe.pods import CONTAINERS

if TYPE_CHECKING:
    from headwater_operator.commands.places import OnCluster
    from headwater_operator.kube.api import Manifest

_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod, and its container that Headwater has made."""

    name: str
    container: str


def show(place: OnCluster, app: str, *, worker: str | None, follow: bool, lines: int) -> int:
    """Print the last lines of the pods' logs, and go on with what is added if asked to.

    Args:
        place: where the application is.
        app: its name.
        worker: only this one: its name, or its number.
        follow: go on until Ctrl-C, with pods that come later, too.
        lines: of each pod.

    Raises:
        SpecError: there is no such application or worker.
        KubeApiError: pods or their logs may not be read.
    """
    place.app(app).read()
    pods = _pods(place, app, worker)
    if not pods and not follow:
        sys.stdout.write(f"{app} has no pods now\n")
        return 0
    is_prefixed = len(pods) > 1 or follow
    if not follow:
        for pod in pods:
            prefix = f"{pod.name} | " if is_prefixed else ""
            _copy(place, pod, prefix=prefix, follow=False, lines=lines)
        return 0
    return _follow(place, app, worker, lines)


def _follow(place: OnCluster, app: str, worker: str | None, lines: int) -> int:
    """Follow every pod in a thread of its own; a pod that comes later is shown from its start."""
    followed: dict[str, threading.Thread] = {}
    refused: list[KubeApiError] = []

    def follow(pod: Pod, count: int | None) -> None:
        try:
            _copy(place, pod, prefix=f"{pod.name} | ", follow=True, lines=count)
        except KubeApiError as error:
            if isinstance(error, ForbiddenError):
                refused.append(error)

    is_first = True
    while not refused:
        for pod in _pods(place, app, worker, may_be_absent=True):
            before = followed.get(pod.name)
            if before is not None and before.is_alive():
                continue
            # A worker's next pod has its name: what it has printed is all new.
            count = lines if is_first else None
            thread = threading.Thread(target=follow, args=(pod, count), daemon=True)
            followed[pod.name] = thread
            thread.start()
        is_first = False
        threading.Event().wait(_LOOK_S)
    raise refused[0]


def _copy(place: OnCluster, pod: Pod, *, prefix: str, follow: bool, lines: int | None) -> None:
    found = place.client.pod_log(
        place.namespace, pod.name, pod.container, follow=follow, lines=lines
    )
    try:
        for line in found:
            sys.stdout.write(f"{prefix}{line}\n")
            if follow:
                sys.stdout.flush()
    except NotFoundError:
        return
    except ForbiddenError:
        raise
    except KubeApiError as error:
        if not follow:
            warn(f"{pod.name}: {error}")  # it has printed nothing yet


def pods_of(place: OnCluster, app: str) -> list[Pod]:
    """Return the pods of an application: of its workers, of Spark's driver, of executors."""
    return [_pod(each) for each in place.client.list(PODS, place.namespace, labels=of_app(app))]


def _pod(manifest: Manifest) -> Pod:
    names = [str(each["name"]) for each in manifest["spec"]["containers"]]
    ours = [name for name in names if name in CONTAINERS]
    return Pod(name=str(manifest["metadata"]["name"]), container=(ours or names)[0])


def _pods(
    place: OnCluster, app: str, worker: str | None, *, may_be_absent: bool = False
) -> list[Pod]:
    pods = pods_of(place, app)
    if worker is None:
        return pods
    chosen = [pod for pod in pods if worker in (pod.name, pod.name.rpartition("-")[2])]
    if not chosen and not may_be_absent:
        known = ", ".join(pod.name for pod in pods) or "none"
        raise SpecError(f"{app} has no pod {worker!r} (there are: {known})")
    return chosen
