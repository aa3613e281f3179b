"""VolumeSnapshots: their definition, and copies of directories when a test says so.

No driver and no snapshot controller: a VolumeSnapshot stays as it was created until ``take`` plays
both. A copy is that of a moment only if nobody writes meanwhile.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from headwater_operator.kube.api import CLAIMS, VOLUME_SNAPSHOTS, KubeApi, Resource
from headwater_operator.kube.errors import KubeApiError
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.kube.kubelet.storage import Storage

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
_GROUP: Final = "snapshot.storage.k8s.io"
_NAME: Final = f"{VOLUME_SNAPSHOTS.plural}.{_GROUP}"
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_SOURCE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"persistentVolumeClaimName": _TEXT, "volumeSnapshotContentName": _TEXT},
    "oneOf": [
        {"required": ["persistentVolumeClaimName"]},
        {"required": ["volumeSnapshotContentName"]},
    ],
}
_STATUS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "boundVolumeSnapshotContentName": _TEXT,
        "creationTime": {"type": "string", "format": "date-time"},
        "readyToUse": {"type": "boolean"},
        "restoreSize": {"type": "string"},
        "error": {"type": "object", "properties": {"message": _TEXT}},
    },
}


class Snapshots:
    """Has the API server know VolumeSnapshots, as long as the block lasts.

    Args:
        api: as somebody who may do everything.
        storage: where volumes are; ``None`` if no volume has a directory.
    """

    def __init__(self, api: KubeApi, storage: Storage | None = None) -> None:
        self._api = api
        self._storage = storage

    def __enter__(self) -> Self:
        spec = {
            "type": "object",
            "required": ["source"],
            "properties": {"source": _SOURCE, "volumeSnapshotClassName": _TEXT},
        }
        schema = {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": spec, "status": _STATUS},
        }
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        }
        names = {"kind": VOLUME_SNAPSHOTS.kind, "plural": VOLUME_SNAPSHOTS.plural}
        approval = "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
        metadata = {"name": _NAME, "annotations": {"api-approved.kubernetes.io": approval}}
        definition = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
        self._api.apply(DEFINITIONS, {"metadata": metadata, "spec": definition})
        wait_for(self._is_served, what="VolumeSnapshots to be served")
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete(DEFINITIONS, None, _NAME)

    def _is_served(self) -> bool:
        with suppress(KubeApiError):
            self._api.list(VOLUME_SNAPSHOTS, "default")
            return True
        return False

    def take(self, namespace: str, name: str) -> None:
        """Copy the volume that a VolumeSnapshot names, and say that the copy can be used."""
        found = self._api.get(VOLUME_SNAPSHOTS, namespace, name)
        assert found is not None, name
        claim = self._api.get(
            CLAIMS, namespace, found["spec"]["source"]["persistentVolumeClaimName"]
        )
        assert claim is not None, found["spec"]
        if self._storage is not None:
            volume = self._storage.path(claim["spec"]["volumeName"])
            shutil.copytree(volume, self._storage.copy(namespace, name))
        metadata = {"name": name, "namespace": namespace, "uid": found["metadata"]["uid"]}
        status = {
            "readyToUse": True,
            "boundVolumeSnapshotContentName": f"snapcontent-{name}",
            "restoreSize": claim["status"]["capacity"]["storage"],
        }
        body = {"metadata": metadata, "status": status}
        self._api.apply(VOLUME_SNAPSHOTS, body, subresource="status")
