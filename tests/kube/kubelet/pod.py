"""The life of one pod on its node, in a thread of its own: looks at it, does what is next, reports.

bound --volumes there--> containers start, run, are restarted --policy--> Succeeded or Failed
deleted at any time --SIGTERM, grace, SIGKILL--> reported as ended --> taken out of the API
gone from the API --SIGTERM, grace, SIGKILL--> nothing is left
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from headwater_operator.kube.api import CONFIG_MAPS, EVENTS, PODS, Resource
from headwater_operator.kube.errors import ConflictError, KubeApiError, NotFoundError
from tests.kube.kubelet.container import Container, UnknownImageError, now, unsupported
from tests.kube.kubelet.environment import Data, Sources, Start, start_of
from tests.kube.kubelet.status import pod_status, says, sidecars_in
from tests.kube.kubelet.volumes import SECRETS, MountError, PodVolumes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.kubelet.node import Node

Manifest = dict[str, Any]

_TURN_S: Final = 0.1
_REMOUNT_S: Final = 0.5
_REFRESH_S: Final = 5.0
"""Kubernetes takes about a minute."""
_DEFAULT_GRACE_S: Final = 30


class NotActingError(Exception):
    """The kubelet is stopped, or its machine is frozen or lost."""


class PodLife:
    """One pod.

    Args:
        node: its machine.
        pod: as stored.
        address: its own.
    """

    def __init__(self, node: Node, pod: Manifest, address: str) -> None:
        metadata = pod["metadata"]
        self.uid: str = metadata["uid"]
        self.key = (metadata["namespace"], metadata["name"])
        self.address = address
        self.has_ended = threading.Event()
        self._node = node
        self._pod = pod
        self._is_gone = False
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._told: set[tuple[str, str]] = set()
        self._mounted = False
        self._next_mount = 0.0
        self._is_final = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        # Short, as the path of a socket below it has to be.
        directory = node.directory / "pods" / self.uid[:8]
        self._volumes = PodVolumes(node.api, pod, directory / "volumes", node.disks)
        before = pod["spec"].get("initContainers") or ()
        policy = pod["spec"].get("restartPolicy") or "Always"
        self._sidecars = {each["name"] for each in sidecars_in(pod)}
        self.before = [
            self._container(
                spec,
                # An init container that ended with 0 is not started again.
                spec.get("restartPolicy") or ("Never" if policy == "Never" else "OnFailure"),
                directory,
            )
            for spec in before
        ]
        self.containers = [
            self._container(spec, policy, directory) for spec in pod["spec"]["containers"]
        ]
        if before:
            for container in (*self.before[1:], *self.containers):
                container.state.state = {"waiting": {"reason": "PodInitializing"}}
        self._has_begun = not before
        every = (*before, *pod["spec"]["containers"])
        missing = [each for spec in every for each in unsupported(spec)]
        assert not missing, f"no kubelet of the tests does {missing}"
        self._thread = threading.Thread(
            target=self._live, name=f"pod {'/'.join(self.key)}", daemon=True
        )
        self._thread.start()

    def _container(self, spec: Manifest, policy: str, directory: Path) -> Container:
        return Container(
            spec,
            {**self._pod, "spec": {**self._pod["spec"], "restartPolicy": policy}},
            address=self.address,
            directory=directory / "containers" / spec["name"],
            logs=self._node.log_directory(*self.key, self.uid),
            starting=self._starting,
            acting=self._node.acting,
            pool=self._node.pool,
            tell=self._tell,
        )

    # -- what it hears ---------------------------------------------------------------------------

    def see(self, pod: Manifest | None) -> None:
        """Hear how the pod is stored; ``None``: not any more."""
        if pod is None:
            self._is_gone = True
        else:
            self._take(pod)
        self._wake.set()

    def _take(self, pod: Manifest) -> None:
        with self._guard:
            known = int(self._pod["metadata"]["resourceVersion"])
            if int(pod["metadata"]["resourceVersion"]) > known:
                self._pod = pod

    def join(self) -> None:
        """Return when its thread has ended."""
        self._wake.set()
        self._thread.join(30)

    # -- life ------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while not self.has_ended.is_set() and not self._node.has_ended.is_set():
                self._wake.wait(_TURN_S)
                self._wake.clear()
                if not self._node.is_acting:
                    continue
                try:
                    self._step()
                except (NotActingError, KubeApiError):
                    self._node.has_ended.wait(_TURN_S)
        except BaseException as error:
            self._node.errors.append(error)
            raise

    def _step(self) -> None:
        if self._is_gone or "deletionTimestamp" in self._pod["metadata"]:
            self._end()
            return
        if self._is_final:
            return
        self._mount()
        if self._mounted:
            self._run()
        status = self._report()
        if status["phase"] in ("Succeeded", "Failed"):
            self._is_final = True
            self._node.disks.detach(self.uid)

    def _run(self) -> None:
        """One after the other those before; then all; and at the end the sidecars."""
        if not self._has_begun:
            self._has_begun = self._are_done()
        else:
            for container in (*self._lasting, *self.containers):
                container.step()
        ended = all(container.is_over for container in self.containers)
        failed = any(
            container.state.exit_code and container.is_over
            for container in self.before
            if container not in self._lasting
        )
        if self._lasting and (ended or failed):
            for container in self._lasting:
                container.stop(self._grace_s)
                container.step()

    def _are_done(self) -> bool:
        for container in self.before:
            container.step()
            if container in self._lasting:
                if not container.state.is_started:
                    return False
            elif container.state.exit_code != 0:
                return False
        return True

    @property
    def _lasting(self) -> list[Container]:
        return [each for each in self.before if each.state.name in self._sidecars]

    @property
    def _grace_s(self) -> float:
        return float(self._pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S))

    def _mount(self) -> None:
        if time.monotonic() < self._next_mount:
            return
        try:
            if self._mounted:
                self._volumes.refresh()
            else:
                self._volumes.mount()
        except MountError as error:
            self._tell(error.reason, str(error))
            self._next_mount = time.monotonic() + _REMOUNT_S
            return
        self._mounted = True
        self._next_mount = time.monotonic() + _REFRESH_S

    def _end(self) -> None:
        if self._is_gone:
            grace_s = self._pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
        else:
            grace_s = self._pod["metadata"].get("deletionGracePeriodSeconds", _DEFAULT_GRACE_S)
        for container in self.containers:
            container.stop(max(1.0, float(grace_s)))
            container.step()
        is_over = all(container.is_over for container in self.containers)
        if is_over:
            for container in self.before:
                container.stop(max(1.0, float(grace_s)))
                container.step()
            is_over = all(container.is_over for container in self.before)
        if not self._is_gone and not self._is_final:
            self._report(is_over=is_over)
        if not is_over:
            return
        self._volumes.remove()
        if not self._is_gone:
            namespace, name = self.key
            # Another one may have taken its name already.
            with self._node.acting(), contextlib.suppress(ConflictError):
                self._node.api.delete(PODS, namespace, name, uid=self.uid, grace_s=0)
        self.has_ended.set()

    # -- start -----------------------------------------------------------------------------------

    def _starting(self, container: Manifest) -> Start:
        image = self._node.images.get(container["image"])
        if image is None:
            raise UnknownImageError(container["image"])
        addresses = {"podIP": self.address, "hostIP": self._node.address}
        status = {**(self._pod.get("status") or {}), **addresses}
        sources = Sources(
            pod={**self._pod, "status": status},
            mounts=self._volumes.mounts(container),
            config_map=lambda name: self._text(CONFIG_MAPS, name),
            secret=lambda name: self._text(SECRETS, name),
        )
        return start_of(container, image, sources, self._node.told)

    def _text(self, resource: Resource, name: str) -> Data | None:
        data = self._volumes.data(resource, name)
        if data is None:
            return None
        return {key: value.decode(errors="replace") for key, value in data.items()}

    # -- reports ---------------------------------------------------------------------------------

    def _report(self, *, is_over: bool = False) -> Manifest:
        with self._guard:
            pod = self._pod
        status = pod_status(
            pod,
            [container.state for container in self.containers],
            now=now(),
            before=[container.state for container in self.before],
            are_before_over=all(container.run is None for container in self.before),
            is_over=is_over,
            are_volumes_there=self._mounted,
        )
        status |= {"hostIP": self._node.address, "podIP": self.address}
        status["podIPs"] = [{"ip": self.address}]
        since = (pod.get("status") or {}).get("startTime") or now()
        status["startTime"] = since
        if says(pod.get("status") or {}, status):
            return status
        named = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        with self._node.acting():
            try:
                self._take(
                    self._node.api.apply(
                        PODS, {"metadata": named, "status": status}, subresource="status"
                    )
                )
            except (NotFoundError, ConflictError):
                self._is_gone = True
        return status

    def _tell(self, reason: str, message: str) -> None:
        """Make an Event, once."""
        if (reason, message) in self._told:
            return
        namespace, name = self.key
        about = {"name": name, "namespace": namespace, "uid": self.uid}
        event = {
            "metadata": {"name": f"{name}.{uuid4().hex[:12]}", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", **about},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node.name},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }
        self._node.api.create(EVENTS, event)
        self._told.add((reason, message))
