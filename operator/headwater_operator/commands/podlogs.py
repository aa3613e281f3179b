"""``logs`` on a cluster: what the pods of an application print, each line behind its pod's name."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater_operator.commands.output import warn
from headwater_operator.kube.api import PODS
from headwater_operator.kube.errors import ForbiddenError, InvalidError, KubeApiError, NotFoundError
from headwater_operator.manifests.names import of_app
from headwater_operator.observe.pods import read_pod
from headwater_operator.observe.sidecars import CONTAINERS

if TYPE_CHECKING:
    from headwater_operator.commands.places import OnCluster
    from headwater_operator.kube.api import Manifest

_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod.

    Attributes:
        name: its name.
        uid: tells it from the next pod of that name.
        container: that Headwater has made; there may be others.
        is_over: nothing of it runs any more.
    """

    name: str
    uid: str
    container: str
    is_over: bool


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
    if follow:
        return _follow(place, app, worker, lines)
    for pod in pods:
        prefix = f"{pod.name} | " if len(pods) > 1 else ""
        try:
            for line in place.client.pod_log(place.namespace, pod.name, pod.container, lines=lines):
                sys.stdout.write(f"{prefix}{line}\n")
        except InvalidError as error:
            warn(f"{pod.name}: {error}")  # its container has not begun
        except NotFoundError:
            continue  # it has just gone
    return 0


class _Follower:
    """Follows one pod in a thread, and goes on where a connection has broken.

    Args:
        place: where the pod is.
        pod: its name is a worker's, which has another pod later.
        lines: show so many at first; ``None``: all.
    """

    def __init__(self, place: OnCluster, pod: Pod, lines: int | None) -> None:
        self._place = place
        self._pod = pod
        self._lines = lines
        self._broke_s: float | None = None
        self.refused: ForbiddenError | None = None
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def see(self, pod: Pod) -> None:
        """Go on if the log has broken off although the pod runs."""
        if not self._thread.is_alive() and not pod.is_over:
            self._start()

    def _run(self) -> None:
        since_s, lines = None, self._lines
        if self._broke_s is not None:
            # Of the second in which it broke, lines may be shown twice; none is left out.
            since_s, lines = int(time.monotonic() - self._broke_s) + 1, None
        try:
            found = self._place.client.pod_log(
                self._place.namespace,
                self._pod.name,
                self._pod.container,
                follow=True,
                lines=lines,
                since_s=since_s,
            )
            for line in found:
                sys.stdout.write(f"{self._pod.name} | {line}\n")
                sys.stdout.flush()
        except ForbiddenError as error:
            self.refused = error
        except InvalidError:
            return  # its container has not begun: it is looked at again
        except KubeApiError:
            pass
        self._broke_s = time.monotonic()


def _follow(place: OnCluster, app: str, worker: str | None, lines: int) -> int:
    """Follow all pods until Ctrl-C; one that comes later is shown from its start."""
    followers: dict[str, _Follower] = {}
    count: int | None = lines
    while True:
        for pod in _pods(place, app, worker, may_be_absent=True):
            if pod.uid in followers:
                followers[pod.uid].see(pod)
            else:
                followers[pod.uid] = _Follower(place, pod, count)
        count = None
        threading.Event().wait(_LOOK_S)
        refused = [each.refused for each in followers.values() if each.refused is not None]
        if refused:
            raise refused[0]


def pods_of(place: OnCluster, app: str) -> list[Pod]:
    """Return the pods of an application: of its workers, of Spark's driver, of executors."""
    return [_pod(each) for each in place.client.list(PODS, place.namespace, labels=of_app(app))]


def _pod(manifest: Manifest) -> Pod:
    names = [str(each["name"]) for each in manifest["spec"]["containers"]]
    ours = [name for name in names if name in CONTAINERS]
    return Pod(
        name=str(manifest["metadata"]["name"]),
        uid=str(manifest["metadata"]["uid"]),
        container=(ours or names)[0],
        is_over=read_pod(manifest).state.is_proof_of_end,
    )


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
