"""One machine with its kubelet: registers, says that it lives, runs what the scheduler gives it.

UP --stop_kubelet--> processes go on, nobody looks after them --start_kubelet--> UP
UP --freeze--> no process does anything --thaw--> UP
UP --lose--> no process is left, disks are --recover--> UP
"""

from __future__ import annotations

import enum
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.kube.api import LEASES, NODES
from headwater_operator.kube.client import KubeClient
from headwater_operator.kube.errors import KubeApiError
from tests.kube.kubelet.container import now
from tests.kube.kubelet.network import Network
from tests.kube.kubelet.pod import NotActingError, PodLife
from tests.kube.kubelet.serving import LogServer
from tests.kube.kubelet.storage import HOSTNAME, ZONE
from tests.kube.kubelet.watching import CannotWatchError, Watching

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import psutil

    from tests.kube.kubelet.container import Container
    from tests.kube.kubelet.environment import Image
    from tests.kube.kubelet.volumes import Disks
    from tests.kube.pki import Authority

Manifest = dict[str, Any]

_RENEW_S: Final = 2.0
_LEASE_S: Final = 40
_STATUS_EVERY: Final = 2
_AGAIN_S: Final = 0.3
_PROBES: Final = 16
_ADDRESSES: Final = 250
_NODE_LEASES: Final = "kube-node-lease"


class Mode(enum.Enum):
    """What a machine does."""

    UP = "up"
    KUBELET_STOPPED = "kubelet stopped"
    FROZEN = "frozen"
    LOST = "lost"


class Node:
    """One machine.

    Args:
        name: of the node, and of its host.
        zone: where it stands.
        kubeconfig: of the user ``system:node:NAME``.
        directory: where its pods live.
        logs: where what they print is kept.
        images: what can be pulled, by name.
        disks: what claims are bound to.
        told: variables of every container.
        authority: vouches for its kubelet.

    Attributes:
        network: of the machine and its pods.
        address: of the machine.
        errors: what ended a thread that should have gone on.
    """

    def __init__(
        self,
        name: str,
        zone: str,
        *,
        kubeconfig: Path,
        directory: Path,
        logs: Path,
        images: Mapping[str, Image],
        disks: Disks,
        told: Mapping[str, str],
        authority: Authority,
    ) -> None:
        self.name = name
        self.zone = zone
        self.directory = directory
        self.images = images
        self.disks = disks
        self.told = told
        self.api = KubeClient.from_environment(kubeconfig)
        self.pool = ThreadPoolExecutor(_PROBES, thread_name_prefix=f"probes {name}")
        self.errors: list[BaseException] = []
        self.has_ended = threading.Event()
        self.network = Network()
        self.address = self.network.address(_ADDRESSES + 1)
        keys = authority.server(f"kubelet-{name}", [self.address])
        self._server = LogServer(self.address, keys, self._log_of)
        self._next_address = 0
        self._logs = logs
        self._mode = Mode.UP
        self._guard = threading.RLock()
        self._pods: dict[str, PodLife] = {}
        path = "/api/v1/pods"
        self._watching = Watching(kubeconfig, path, f"spec.nodeName={name}")
        self._threads = [
            threading.Thread(target=self._look_after_pods, name=f"kubelet {name}", daemon=True),
            threading.Thread(target=self._say_that_it_lives, name=f"lease {name}", daemon=True),
        ]

    # -- life ------------------------------------------------------------------------------------

    def join(self) -> None:
        """Register, and begin."""
        labels = {ZONE: self.zone, HOSTNAME: self.name, "headwater.test/rack": f"of-{self.name}"}
        self.api.create(NODES, {"metadata": {"name": self.name, "labels": labels}})
        self._renew()
        self._write_status()
        self._server.start()
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """End everything on it; the Node stays."""
        with self._guard:
            self._mode = Mode.LOST
            self.has_ended.set()
            self._kill_all()
        self._server.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(30)
        for pod in list(self._pods.values()):
            pod.join()
        self._kill_all()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._watching.close()
        self.api.close()
        self.network.close()

    @property
    def is_acting(self) -> bool:
        """Its kubelet does something."""
        return self._mode is Mode.UP

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Hold the machine in its mode while something is done to the outside.

        Raises:
            NotActingError: it may do nothing.
        """
        with self._guard:
            if not self.is_acting:
                raise NotActingError(self._mode.value)
            yield

    def log_directory(self, namespace: str, pod: str, uid: str) -> Path:
        """Where the logs of a pod are kept."""
        return self._logs / namespace / pod / uid

    # -- faults ----------------------------------------------------------------------------------

    def stop_kubelet(self) -> None:
        """Stop looking after pods and saying that it lives; all processes go on."""
        self._change(Mode.UP, Mode.KUBELET_STOPPED)

    def start_kubelet(self) -> None:
        """Go on; what has ended meanwhile is noticed now."""
        self._change(Mode.KUBELET_STOPPED, Mode.UP)

    def freeze(self) -> None:
        """Stop everything on it in its tracks."""
        with self._guard:
            self._change(Mode.UP, Mode.FROZEN)
            for container in self._containers():
                if container.run is not None:
                    container.run.freeze()

    def thaw(self) -> None:
        """Let everything go on."""
        with self._guard:
            for container in self._containers():
                if container.run is not None:
                    container.run.thaw()
            self._change(Mode.FROZEN, Mode.UP)

    def lose(self) -> None:
        """Lose the machine: when this returns, no process of it is left, and it says nothing."""
        with self._guard:
            self._mode = Mode.LOST
            self._kill_all()

    def recover(self) -> None:
        """Start the machine again, with its disks; its pods go on by their restart policy."""
        self._change(Mode.LOST, Mode.UP)

    def _change(self, before: Mode, after: Mode) -> None:
        with self._guard:
            assert self._mode is before, f"{self.name} is {self._mode.value}"
            self._mode = after

    def _kill_all(self) -> None:
        for container in self._containers():
            if (run := container.run) is not None:
                run.kill()

    def _containers(self) -> list[Container]:
        return [
            each for pod in list(self._pods.values()) for each in (*pod.before, *pod.containers)
        ]

    # -- answers ---------------------------------------------------------------------------------

    def pod(self, namespace: str, name: str) -> PodLife | None:
        """A pod that is on it."""
        return next((p for p in list(self._pods.values()) if p.key == (namespace, name)), None)

    def _log_of(self, namespace: str, pod: str, container: str) -> Path | None:
        """The log of a container's last run; ``None`` if there is none, or nobody answers."""
        life = self.pod(namespace, pod) if self.is_acting else None
        for each in life.containers if life is not None else ():
            if each.state.name == container and each.log.exists():
                return each.log
        return None

    def processes(self) -> list[psutil.Process]:
        """All processes of its pods."""
        return [
            process
            for container in self._containers()
            if container.run is not None
            for process in container.run.processes()
        ]

    # -- threads ---------------------------------------------------------------------------------

    def _look_after_pods(self) -> None:
        try:
            while not self.has_ended.is_set():
                if self.is_acting:
                    with suppress(CannotWatchError):
                        self._watching.once(self._see)
                self.has_ended.wait(_AGAIN_S)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _see(self, found: dict[str, Manifest]) -> None:
        if not self.is_acting:
            return
        for uid, pod in list(self._pods.items()):
            if pod.has_ended.is_set():
                if uid not in found:
                    del self._pods[uid]
            else:
                pod.see(found.get(uid))
        with self._guard:
            for uid, manifest in found.items():
                if uid not in self._pods and self.is_acting:
                    self._pods[uid] = PodLife(self, manifest, self._fresh_address())

    def _fresh_address(self) -> str:
        taken = {pod.address for pod in self._pods.values()}
        while True:
            self._next_address = self._next_address % _ADDRESSES + 1
            address = self.network.address(self._next_address)
            if address not in taken:
                return address

    def _say_that_it_lives(self) -> None:
        turn = 0
        while not self.has_ended.wait(_RENEW_S):
            turn += 1
            with suppress(KubeApiError, NotActingError):
                self._renew()
                if turn % _STATUS_EVERY == 0:
                    self._write_status()

    def _renew(self) -> None:
        lease = {
            "metadata": {"name": self.name, "namespace": _NODE_LEASES},
            "spec": {
                "holderIdentity": self.name,
                "leaseDurationSeconds": _LEASE_S,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
        with self.acting():
            self.api.apply(LEASES, lease)

    def _write_status(self) -> None:
        found = self.api.get(NODES, None, self.name) or {}
        before = {
            each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()
        }
        old = before.get("Ready", {})
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet of the tests is posting ready status",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": old["lastTransitionTime"]
            if old.get("status") == "True"
            else now(),
        }
        capacity = {"cpu": "64", "memory": "256Gi", "pods": str(_ADDRESSES)}
        addresses = [
            {"type": "InternalIP", "address": self.address},
            {"type": "Hostname", "address": self.name},
        ]
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [ready],
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.port}},
        }
        named = {"metadata": {"name": self.name}, "status": status}
        with self.acting():
            self.api.apply(NODES, named, subresource="status")
