"""Several machines on the private control plane, with disks and images: what tests stand on."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from headwater_operator.kube.api import LEASES, NODES, PODS, KubeApi
from headwater_operator.kube.errors import ConflictError, KubeApiError
from tests.kube.kubelet.environment import Image
from tests.kube.kubelet.node import Node
from tests.kube.kubelet.storage import Storage
from tests.kube.machines import until_taken_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

    from tests.kube.control_plane import ControlPlane
    from tests.kube.kubelet.container import Container
    from tests.kube.kubelet.pod import PodLife

MACHINES: Final = (("kubelet-a1", "a"), ("kubelet-a2", "a"), ("kubelet-b1", "b"))
PYTHON: Final = "headwater-test/python:1"
"""The image that fixtures offer."""
_PROVISION_S: Final = 0.5
_ROOT: Final = Path(__file__).resolve().parents[3]


def python_image(*import_paths: Path) -> Image:
    """An image with this Python, everything that is installed in it, and the product's own code."""
    paths = [*import_paths, _ROOT / "worker", _ROOT / "operator", _ROOT]
    return Image(
        environment={
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "LANG": "C.UTF-8",
        }
    )


class Cluster:
    """All machines; usable as a context manager. No process outlives it, however it ends.

    Args:
        control_plane: that they belong to.
        api: as somebody who may do everything.
        directory: of its own; removed at the end, but for the logs.
        images: what can be pulled, by name; may be changed at any time.
        machines: names and zones.

    Attributes:
        images: as given.
        nodes: the machines by name.
        storage: the disks.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        api: KubeApi,
        directory: Path,
        images: dict[str, Image],
        machines: Sequence[tuple[str, str]] = MACHINES,
    ) -> None:
        self._api = api
        self._directory = directory
        self.images = images
        self.storage = Storage(api, directory / "disks")
        server = urlsplit(control_plane.server)
        told = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        self.nodes = {
            name: Node(
                name,
                zone,
                kubeconfig=control_plane.user_kubeconfig(f"system:node:{name}", ["system:nodes"]),
                directory=directory / "nodes" / name,
                logs=directory / "logs",
                images=images,
                disks=self.storage,
                told=told,
                authority=control_plane.authority,
            )
            for name, zone in machines
        }
        self._stop = threading.Event()
        self._provisioner = threading.Thread(target=self._provision, name="disks", daemon=True)
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self.storage.install()
        for node in self.nodes.values():
            node.join()
        self._provisioner.start()
        try:
            until_taken_in(self._api, self.nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.leave()
        self._stop.set()
        self._provisioner.join(30)
        for name in self.nodes:
            for pod in self._api.list(PODS, None, fields=f"spec.nodeName={name}"):
                metadata = pod["metadata"]
                self._api.delete(PODS, metadata["namespace"], metadata["name"], grace_s=0)
            self._api.delete(NODES, None, name)
            self._api.delete(LEASES, "kube-node-lease", name)
        self.storage.remove()
        for part in ("nodes", "disks"):
            shutil.rmtree(self._directory / part, ignore_errors=True)
        assert self.errors == []

    @property
    def errors(self) -> list[BaseException]:
        """What ended a thread that should have gone on."""
        return self._errors + [error for node in self.nodes.values() for error in node.errors]

    def _provision(self) -> None:
        try:
            while not self._stop.wait(_PROVISION_S):
                try:
                    self.storage.step()
                except (ConflictError, KubeApiError):
                    continue  # the next turn sees
        except BaseException as error:
            self._errors.append(error)
            raise

    # -- answers ---------------------------------------------------------------------------------

    @property
    def has_proxy(self) -> bool:
        """Whether the API server's proxy goes to pods: it refuses addresses of loopback."""
        return not any(node.network.is_loopback for node in self.nodes.values())

    def node_of(self, namespace: str, pod: str) -> Node:
        """The machine that a pod is on; another may still remember an earlier one of its name."""
        named = self.manifest(namespace, pod).get("spec", {}).get("nodeName")
        if named in self.nodes and self.nodes[named].pod(namespace, pod) is not None:
            return self.nodes[named]
        return next(node for node in self.nodes.values() if node.pod(namespace, pod) is not None)

    def container(self, namespace: str, pod: str, name: str = "") -> Container:
        """A container of a pod: the first of its own, unless any other is named."""
        life = self._life(namespace, pod)
        return next(
            each for each in (*life.containers, *life.before) if name in ("", each.state.name)
        )

    def _life(self, namespace: str, pod: str) -> PodLife:
        life = self.node_of(namespace, pod).pod(namespace, pod)
        assert life is not None
        return life

    def processes(self, namespace: str, pod: str) -> list[psutil.Process]:
        """The processes of a pod's first container."""
        run = self.container(namespace, pod).run
        return [] if run is None else run.processes()

    def log(self, namespace: str, pod: str) -> str:
        """What all runs of all pods of this name have printed, in the order of their files."""
        directory = self._directory / "logs" / namespace / pod
        files = sorted(directory.glob("*/*.log"), key=lambda path: path.stat().st_ctime)
        return "".join(path.read_text(errors="replace") for path in files)

    # -- faults ----------------------------------------------------------------------------------

    def kill(self, namespace: str, pod: str, name: str = "") -> None:
        """Kill the processes of a container, as running out of memory would; see ``container``."""
        run = self.container(namespace, pod, name).run
        assert run is not None
        run.kill()

    def freeze(self, namespace: str, pod: str, *, is_noticed: bool = True) -> None:
        """Stop the processes of a pod's first container in their tracks.

        Args:
            namespace: of the pod.
            pod: its name.
            is_noticed: its kubelet asks on, and ends it after a while as its probes say. Otherwise
                it asks no more, until the container is thawed or begins another run.
        """
        container = self.container(namespace, pod)
        assert container.run is not None
        container.is_asked = is_noticed
        container.run.freeze()

    def thaw(self, namespace: str, pod: str) -> None:
        """Let them go on."""
        container = self.container(namespace, pod)
        assert container.run is not None
        container.run.thaw()
        container.is_asked = True

    def manifest(self, namespace: str, pod: str) -> dict[str, Any]:
        """A pod as stored; empty if there is none."""
        return self._api.get(PODS, namespace, pod) or {}
