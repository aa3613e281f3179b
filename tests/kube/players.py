"""What stands in for machines on the real control plane: nodes, a provisioner, worker processes.

    Stage   one thread: looks at everything, then lets all players do something, some times a second
    Nodes   say that they live, and do what a kubelet does to the pods that the scheduler gives them
    Volumes make a volume for every claim of the default class, and delete those that are let go

The workers are those of ``tests/support/kube_fakes.py``. No pod runs a program, no volume exists.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from headwater_operator.kube.api import (
    CLAIMS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    STREAM_WORKERS,
    VOLUMES,
    KubeApi,
    Manifest,
    Resource,
)
from headwater_operator.kube.errors import KubeApiError, NotFoundError
from tests.kube.looked import Looked
from tests.kube.machines import until_taken_in
from tests.support.kube_fakes import FakeWorkers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLASSES: Final = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", False)
STORAGE_CLASS: Final = "headwater-test"
PROVISIONER: Final = "headwater.test/none"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
RACK: Final = "headwater.test/rack"
NO_SUCH_IMAGE: Final = "headwater-test/missing:1"
"""Every other image can be pulled."""

_TURN_S: Final = 0.3
_HEARTBEAT_S: Final = 2.0
_RENEWAL_S: Final = 1.0
_RENEWALS: Final = 10
"""How often a worker renews its Lease within its duration."""
_NODE_LEASES: Final = "kube-node-lease"
SEEN: Final = (PODS, STREAM_WORKERS, LEASES, CLAIMS)
"""What players read."""


@dataclass
class Node:
    """A machine.

    Attributes:
        name: of the node, and of its host.
        zone: where it stands.
        rack: in which it stands there; racks go through all zones.
        lost: it is not heard of, and does nothing.
    """

    name: str
    zone: str
    rack: str
    lost: bool = False

    @property
    def address(self) -> str:
        # Nobody listens there: whoever calls is refused at once.
        return f"127.77.0.{sum(self.name.encode()) % 200 + 1}"


@dataclass
class Nodes:
    """All nodes."""

    api: KubeApi
    nodes: Mapping[str, Node]
    stopping: dict[str, float] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def join(self) -> None:
        """Register every node."""
        for node in self.nodes.values():
            labels = {
                ZONE: node.zone,
                HOSTNAME: node.name,
                RACK: node.rack,
            }
            self.api.apply(NODES, {"metadata": {"name": node.name, "labels": labels}})
        self.live()

    def leave(self) -> None:
        """Take every node away."""
        for name in self.nodes:
            self.api.delete(NODES, None, name)
            self.api.delete(LEASES, _NODE_LEASES, name)

    def live(self) -> None:
        """Say of every node that it lives."""
        now = datetime.now(UTC)
        for node in self.nodes.values():
            if node.lost:
                continue
            lease = {
                "metadata": {"name": node.name, "namespace": _NODE_LEASES},
                "spec": {
                    "holderIdentity": node.name,
                    "leaseDurationSeconds": 40,
                    "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                },
            }
            self.api.apply(LEASES, lease)
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "Played",
                "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "500"}
            status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
            named = {"metadata": {"name": node.name}, "status": status}
            self.api.apply(NODES, named, subresource="status")

    def see_to(self, pod: Manifest, *, has_stopped: bool) -> None:
        """Be the kubelet of a pod.

        Args:
            pod: as seen.
            has_stopped: the process in it has done what SIGTERM asks of it.
        """
        node = self.nodes.get(pod["spec"].get("nodeName") or "")
        if node is None or node.lost:
            return
        metadata, status = pod["metadata"], pod.get("status") or {}
        phase = status.get("phase", "Pending")
        if phase in ("Succeeded", "Failed"):
            if "deletionTimestamp" in metadata:
                self._forget(pod)
            return
        if "deletionTimestamp" in metadata:
            self._end_in_time(pod, has_stopped=has_stopped or phase == "Pending")
        elif phase == "Pending":
            self._start(pod, node)
        elif not _is_ready(status):
            # The control plane takes a node that was slow for a lost one.
            self.write(pod, "Running", {"running": {"startedAt": _now()}}, node)

    def _end_in_time(self, pod: Manifest, *, has_stopped: bool) -> None:
        metadata = pod["metadata"]
        since = self.stopping.setdefault(metadata["uid"], time.monotonic())
        grace_s = metadata.get("deletionGracePeriodSeconds", 30)
        if has_stopped:
            self.write(pod, "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}})
        elif time.monotonic() - since >= grace_s:
            self.write(pod, "Failed", {"terminated": {"exitCode": 137, "reason": "Error"}})
        else:
            return
        self._forget(pod)

    def _forget(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        self.stopping.pop(metadata["uid"], None)
        self.api.delete(
            PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_s=0
        )

    def _start(self, pod: Manifest, node: Node) -> None:
        image = pod["spec"]["containers"][0]["image"]
        if image == NO_SUCH_IMAGE:
            said = f'failed to pull and unpack image "{image}": not found'
            self.write(pod, "Pending", {"waiting": {"reason": "ErrImagePull", "message": said}})
        elif missing := self._missing_secret(pod):
            self._tell(
                pod, "FailedMount", f'MountVolume.SetUp failed: secret "{missing}" not found'
            )
        else:
            self.write(pod, "Running", {"running": {"startedAt": _now()}}, node)

    def _missing_secret(self, pod: Manifest) -> str:
        for volume in pod["spec"].get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                name = (source.get("secret") or {}).get("name", "")
                if name and self.api.get(_SECRETS, pod["metadata"]["namespace"], name) is None:
                    return str(name)
        return ""

    def _tell(self, pod: Manifest, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        if metadata["uid"] in self.told:
            return
        self.told.add(metadata["uid"])
        about = {name: metadata[name] for name in ("name", "namespace", "uid")}
        self.api.create(
            EVENTS,
            {
                "metadata": {
                    "name": f"{metadata['name']}.{metadata['uid'][:8]}",
                    "namespace": metadata["namespace"],
                },
                "involvedObject": {"kind": "Pod", "apiVersion": "v1", **about},
                "type": "Warning",
                "reason": reason,
                "message": message,
                "source": {"component": "kubelet"},
                "lastTimestamp": _now(),
            },
        )

    def write(self, pod: Manifest, phase: str, state: Manifest, node: Node | None = None) -> None:
        """Write a pod's status, unless it says so already."""
        metadata = pod["metadata"]
        runs = "running" in state
        container = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": runs,
            "restartCount": 0,
            "state": state,
        }
        truth = "True" if runs else "False"
        status: Manifest = {
            "phase": phase,
            "conditions": [
                {"type": kind, "status": truth, "lastTransitionTime": _now()}
                for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": [container],
        }
        if node is not None:
            status |= {"podIP": node.address, "podIPs": [{"ip": node.address}]}
        if (pod.get("status") or {}).get("containerStatuses") == [container]:
            return
        named = {name: metadata[name] for name in ("name", "namespace", "uid")}
        # What a conflict means the next turn sees.
        with contextlib.suppress(NotFoundError):
            self.api.apply(PODS, {"metadata": named, "status": status}, subresource="status")


_SECRETS: Final = Resource("v1", "Secret", "secrets")


def _is_ready(status: Manifest) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in status.get("conditions") or ()
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Volumes:
    """The provisioner of the default storage class.

    Args:
        api: the API server.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._made: dict[str, str] = {}

    def install(self) -> None:
        """Make the class."""
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        self._api.apply(
            CLASSES,
            {
                "metadata": {"name": STORAGE_CLASS, "annotations": default},
                "provisioner": PROVISIONER,
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
            },
        )

    def remove(self) -> None:
        """Delete the class and all volumes of it."""
        self._api.delete(CLASSES, None, STORAGE_CLASS)
        for volume in self.all():
            self._api.delete(VOLUMES, None, volume["metadata"]["name"])

    def all(self) -> Sequence[Manifest]:
        """All volumes of the class."""
        found = self._api.list(VOLUMES, None)
        return [each for each in found if each["spec"].get("storageClassName") == STORAGE_CLASS]

    def step(self, claims: Sequence[Manifest]) -> None:
        """Make what is missing, delete what was let go."""
        mine = {
            claim["metadata"]["uid"]: claim
            for claim in claims
            if claim["spec"].get("storageClassName") == STORAGE_CLASS
        }
        for uid, claim in mine.items():
            if uid not in self._made:
                self._make(claim)
                self._made[uid] = f"pv-{uid}"
        for uid in self._made.keys() - mine.keys():
            self._api.delete(VOLUMES, None, self._made.pop(uid))

    def _make(self, claim: Manifest) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        reference = {name: metadata[name] for name in ("name", "namespace", "uid")}
        self._api.apply(
            VOLUMES,
            {
                "metadata": {"name": f"pv-{metadata['uid']}"},
                "spec": {
                    "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                    "accessModes": spec["accessModes"],
                    "storageClassName": STORAGE_CLASS,
                    "persistentVolumeReclaimPolicy": "Delete",
                    "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
                    "hostPath": {"path": "/nowhere"},
                },
            },
        )


class Stage:
    """All players on one control plane; usable as a context manager.

    Args:
        api: the API server, as somebody who may do everything.
        turn_s: between two turns.
        renewal_s: between two renewals of a worker's Lease.
        seen: how everything is looked at; by lists if not given.

    Attributes:
        nodes: four machines, one in each rack of each zone.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        turn_s: float = _TURN_S,
        renewal_s: float = _RENEWAL_S,
        seen: Looked | None = None,
    ) -> None:
        self._api = api
        self._turn_s = turn_s
        self._renewal_s = renewal_s
        self._seen = seen or Looked(api, SEEN)
        machines = [(f"node-{zone}{rack}", zone, rack) for zone in "ab" for rack in "12"]
        self.nodes = {name: Node(name, zone, rack) for name, zone, rack in machines}
        self._kubelets = Nodes(api, self.nodes)
        self._volumes = Volumes(api)
        self._workers: dict[str, FakeWorkers] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._play, name="players", daemon=True),
            threading.Thread(target=self._live, name="nodes", daemon=True),
        ]
        self.errors: list[BaseException] = []
        """What ended a player that should have gone on."""

    def __enter__(self) -> Self:
        self._volumes.install()
        self._kubelets.join()
        for thread in self._threads:
            thread.start()
        try:
            until_taken_in(self._api, self.nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._kubelets.leave()
        self._volumes.remove()
        assert self.errors == []

    def workers(self, namespace: str) -> FakeWorkers:
        """The workers of a namespace."""
        if namespace not in self._workers:
            self._workers[namespace] = made = FakeWorkers(self._seen, namespace)
            made.renew_every_s = self._renewal_s
            made.lease_s = max(made.lease_s, int(_RENEWALS * self._renewal_s))
        return self._workers[namespace]

    def end(self, namespace: str, pod: str, exit_code: int = 137, message: str = "") -> None:
        """Have the process in a pod end by itself."""
        found = self._api.get(PODS, namespace, pod)
        assert found is not None
        terminated = {"exitCode": exit_code, "reason": "Error", "message": message}
        self._kubelets.write(
            found, "Succeeded" if exit_code == 0 else "Failed", {"terminated": terminated}
        )

    def volumes(self) -> Sequence[Manifest]:
        """All volumes."""
        return self._volumes.all()

    def _play(self) -> None:
        try:
            while not self._stop.wait(self._turn_s):
                # An API server that is away, or somebody who was faster: the next turn sees.
                with contextlib.suppress(KubeApiError):
                    self._seen.look()
                    self._turn()
        except BaseException as error:
            self.errors.append(error)
            raise

    def _turn(self) -> None:
        self._volumes.step(list(self._seen.all(CLAIMS)))
        for namespace in self._seen.restless():
            if self._seen.list(STREAM_WORKERS, namespace):
                with contextlib.suppress(KubeApiError):
                    self.workers(namespace).step()
            for pod in self._seen.list(PODS, namespace):
                metadata = pod["metadata"]
                player = self.workers(namespace).workers.get(metadata["name"])
                has_stopped = player is None or player.stopped == metadata["uid"]
                with contextlib.suppress(KubeApiError):
                    self._kubelets.see_to(pod, has_stopped=has_stopped)

    def _live(self) -> None:
        while not self._stop.wait(_HEARTBEAT_S):
            with contextlib.suppress(KubeApiError):
                self._kubelets.live()
