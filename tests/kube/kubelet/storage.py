"""A provisioner: every claim of its classes gets a directory, which outlives pods and nodes.

local   a disk of one node
zonal   a disk of one zone, which any of its nodes can use, one at a time
fixed   as zonal; it never grows
"""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.kube.api import CLAIMS, NODES, VOLUMES, KubeApi, Resource
from headwater_operator.kube.errors import ConflictError
from tests.kube.kubelet.volumes import MountError

if TYPE_CHECKING:
    from pathlib import Path

Manifest = dict[str, Any]

CLASSES: Final = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", False)
PROVISIONER: Final = "headwater.test/directory"
LOCAL: Final = "headwater-test-local"
ZONAL: Final = "headwater-test-zonal"
"""The default class."""
FIXED: Final = "headwater-test-fixed"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

_REACH: Final = {LOCAL: HOSTNAME, ZONAL: ZONE, FIXED: ZONE}
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


class Storage:
    """All disks.

    Args:
        api: as somebody who may do everything.
        directory: where they live.
    """

    def __init__(self, api: KubeApi, directory: Path) -> None:
        self._api = api
        self._directory = directory
        self._guard = threading.Lock()
        self._users: set[tuple[str, str, str]] = set()  # volume, node, pod
        self._refused: set[str] = set()

    # -- classes and volumes -------------------------------------------------------------------

    def install(self) -> None:
        """Make the classes."""
        for name in _REACH:
            is_default = {"storageclass.kubernetes.io/is-default-class": str(name == ZONAL).lower()}
            self._api.apply(
                CLASSES,
                {
                    "metadata": {"name": name, "annotations": is_default},
                    "provisioner": PROVISIONER,
                    "reclaimPolicy": "Delete",
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "allowVolumeExpansion": name != FIXED,
                },
            )

    def remove(self) -> None:
        """Delete the classes and all volumes of them."""
        for name in _REACH:
            self._api.delete(CLASSES, None, name)
        for volume in self.volumes():
            self._api.delete(VOLUMES, None, volume["metadata"]["name"])

    def volumes(self) -> list[Manifest]:
        """All volumes of the classes."""
        return [
            each
            for each in self._api.list(VOLUMES, None)
            if each["spec"].get("storageClassName") in _REACH
        ]

    def path(self, volume: str) -> Path:
        """The directory of a volume."""
        return self._directory / volume

    def copy(self, namespace: str, snapshot: str) -> Path:
        """The directory of a VolumeSnapshot."""
        return self._directory / "snapshots" / namespace / snapshot

    def step(self) -> None:
        """Make, grow and delete volumes as their claims say.

        Raises:
            KubeApiError: the API server refused, or did not answer.
        """
        volumes = {each["metadata"]["name"]: each for each in self.volumes()}
        for claim in self._api.list(CLAIMS, None):
            if claim["spec"].get("storageClassName") not in _REACH:
                continue
            volume = volumes.get(_name_of(claim))
            if volume is not None:
                self._grow(claim, volume)
            elif node := (claim["metadata"].get("annotations") or {}).get(_SELECTED):
                self._make(claim, node)
        for name, volume in volumes.items():
            is_released = (volume.get("status") or {}).get("phase") == "Released"
            if is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                shutil.rmtree(self.path(name), ignore_errors=True)
                self._api.delete(VOLUMES, None, name)

    def _make(self, claim: Manifest, node: str) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        storage_class = self._api.get(CLASSES, None, spec["storageClassName"])
        machine = self._api.get(NODES, None, node)
        if storage_class is None or machine is None:
            return
        key = _REACH[spec["storageClassName"]]
        place = {"key": key, "operator": "In", "values": [machine["metadata"]["labels"][key]]}
        reference = {name: metadata[name] for name in ("name", "namespace", "uid")}
        name = _name_of(claim)
        if source := spec.get("dataSource"):
            copy = self.copy(metadata["namespace"], source["name"])
            shutil.copytree(copy, self.path(name), dirs_exist_ok=True)
        self.path(name).mkdir(parents=True, exist_ok=True)
        self._api.create(
            VOLUMES,
            {
                "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
                "spec": {
                    "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                    "accessModes": spec["accessModes"],
                    "storageClassName": spec["storageClassName"],
                    "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
                    "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}
                    },
                    "local": {"path": str(self.path(name))},
                },
            },
        )

    def _grow(self, claim: Manifest, volume: Manifest) -> None:
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if (claim.get("status") or {}).get("phase") != "Bound":
            return
        if volume["spec"]["capacity"]["storage"] != asked:
            operation = {"op": "replace", "path": "/spec/capacity/storage", "value": asked}
            self._api.patch(VOLUMES, None, volume["metadata"]["name"], [operation])
        if (claim["status"].get("capacity") or {}).get("storage") != asked:
            metadata = claim["metadata"]
            named = {name: metadata[name] for name in ("name", "namespace", "uid")}
            status = {"capacity": {"storage": asked}}
            try:
                self._api.apply(CLAIMS, {"metadata": named, "status": status}, subresource="status")
            except ConflictError:
                return  # it is another claim by now

    # -- use -------------------------------------------------------------------------------------

    def attach(self, volume: Manifest, node: str, pod: str) -> Path:
        """As in ``Disks``: a disk serves one node at a time."""
        name = volume["metadata"]["name"]
        with self._guard:
            if name in self._refused:
                raise MountError(
                    f'AttachVolume.Attach failed for volume "{name}" : refused',
                    reason="FailedAttachVolume",
                )
            others = {by for used, by, _ in self._users if used == name and by != node}
            if others:
                raise MountError(
                    f'Multi-Attach error for volume "{name}" Volume is already used by a pod on '
                    "another node",
                    reason="FailedAttachVolume",
                )
            self._users.add((name, node, pod))
        path = self.path(name)
        if not path.is_dir():
            raise MountError(f'MountVolume.SetUp failed for volume "{name}" : no such disk')
        return path

    def detach(self, pod: str) -> None:
        """As in ``Disks``."""
        with self._guard:
            self._users = {each for each in self._users if each[2] != pod}

    # -- faults ----------------------------------------------------------------------------------

    def refuse(self, volume: str) -> None:
        """Let nobody attach a volume from now on; who has it keeps it."""
        with self._guard:
            self._refused.add(volume)

    def accept(self, volume: str) -> None:
        """Let it be attached again."""
        with self._guard:
            self._refused.discard(volume)


def _name_of(claim: Manifest) -> str:
    return f"pvc-{claim['metadata']['uid']}"
