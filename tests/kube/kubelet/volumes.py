"""The volumes of a pod: directories of this machine, filled and kept up to date."""

from __future__ import annotations

import base64
import datetime as dt
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater_operator.kube.api import CLAIMS, CONFIG_MAPS, VOLUMES, KubeApi, Resource
from tests.kube.kubelet.environment import field_of

if TYPE_CHECKING:
    from pathlib import Path

Manifest = dict[str, Any]
Files = dict[str, bytes]

SECRETS: Final = Resource("v1", "Secret", "secrets")
_FILE_MODE: Final = 0o644
_RENEW_AT: Final = 0.8
"""Of a token's life, as the kubelet does."""


class MountError(Exception):
    """A volume cannot be made yet.

    Attributes:
        reason: of the Event that says so.
    """

    def __init__(self, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.reason = reason


class Disks(Protocol):
    """What claims are bound to."""

    def attach(self, volume: Manifest, node: str, pod: str) -> Path:
        """Return the directory of a PersistentVolume that a pod (UID) may use now.

        Raises:
            MountError: it may not.
        """
        ...

    def detach(self, pod: str) -> None:
        """A pod uses nothing any more."""
        ...


@dataclass
class PodVolumes:
    """All volumes of one pod.

    Attributes:
        api: as the node.
        pod: its manifest.
        directory: where those live that go with the pod.
        disks: where claims live.
    """

    api: KubeApi
    pod: Manifest
    directory: Path
    disks: Disks
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    _paths: dict[str, Path] = field(default_factory=dict)

    def mount(self) -> None:
        """Make all volumes.

        Raises:
            MountError: one cannot be made yet.
            KubeApiError: the API server refused, or did not answer.
        """
        for volume in self.pod["spec"].get("volumes") or ():
            self._paths[volume["name"]] = self._make(volume)

    def refresh(self) -> None:
        """Bring contents up to date that come from the API server.

        Raises:
            MountError: something is missing now.
            KubeApiError: the API server refused, or did not answer.
        """
        for volume in self.pod["spec"].get("volumes") or ():
            if (files := self._contents(volume)) is not None:
                _write(self._paths[volume["name"]], files)

    def mounts(self, container: Manifest) -> dict[str, Path]:
        """Directory on this machine by path in a container."""
        found = {}
        for mount in container.get("volumeMounts") or ():
            path = self._paths[mount["name"]] / (mount.get("subPath") or "")
            path.mkdir(parents=True, exist_ok=True)
            found[mount["mountPath"]] = path
        return found

    def remove(self) -> None:
        """Let the claims go and remove everything else."""
        self.disks.detach(self.pod["metadata"]["uid"])
        shutil.rmtree(self.directory, ignore_errors=True)

    def data(self, resource: Resource, name: str) -> dict[str, bytes] | None:
        """Contents of a ConfigMap or Secret; ``None`` if there is none."""
        found = self.api.get(resource, self.pod["metadata"]["namespace"], name)
        if found is None:
            return None
        text = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        if resource is SECRETS:
            return {key: base64.b64decode(value) for key, value in text.items()}
        binary = found.get("binaryData") or {}
        return text | {key: base64.b64decode(value) for key, value in binary.items()}

    def _make(self, volume: Manifest) -> Path:
        if "persistentVolumeClaim" in volume:
            return self._attach(volume["persistentVolumeClaim"]["claimName"])
        path: Path = self.directory / volume["name"]
        path.mkdir(parents=True, exist_ok=True)
        files = self._contents(volume)
        if files is not None:
            _write(path, files)
        elif "emptyDir" not in volume:
            raise MountError(f"volume {volume['name']}: unsupported kind {sorted(volume)}")
        return path

    def _attach(self, claim_name: str) -> Path:
        metadata = self.pod["metadata"]
        claim = self.api.get(CLAIMS, metadata["namespace"], claim_name)
        if claim is None:
            raise MountError(f'persistentvolumeclaim "{claim_name}" not found')
        bound = claim["spec"].get("volumeName") or ""
        volume = self.api.get(VOLUMES, None, bound) if bound else None
        if volume is None or (claim.get("status") or {}).get("phase") != "Bound":
            raise MountError(f'persistentvolumeclaim "{claim_name}" is not bound')
        return self.disks.attach(volume, self.pod["spec"]["nodeName"], metadata["uid"])

    def _contents(self, volume: Manifest) -> Files | None:
        """Return the files that a volume is to hold; ``None`` if they are the pod's own."""
        name = volume["name"]
        if "projected" in volume:
            files: Files = {}
            for number, source in enumerate(volume["projected"].get("sources") or ()):
                files |= self._source(f"{name}.{number}", name, source)
            return files
        for kind, naming in (("configMap", "name"), ("secret", "secretName")):
            if kind in volume:
                source = {**volume[kind], "name": volume[kind].get(naming, "")}
                return self._source(name, name, {kind: source})
        if "downwardAPI" in volume:
            return self._source(name, name, volume)
        return None

    def _source(self, key: str, volume: str, source: Manifest) -> Files:
        if "serviceAccountToken" in source:
            asked = source["serviceAccountToken"]
            return {asked["path"]: self._token(key, asked).encode()}
        if "downwardAPI" in source:
            return {
                item["path"]: field_of(item["fieldRef"]["fieldPath"], self.pod).encode()
                for item in source["downwardAPI"].get("items") or ()
            }
        for kind, resource in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            if kind in source:
                data = self.data(resource, source[kind]["name"])
                return _chosen(volume, resource.kind.lower(), source[kind], data)
        raise MountError(f"volume {volume}: unsupported source {sorted(source)}")

    def _token(self, key: str, asked: Manifest) -> str:
        token, renew_at = self._tokens.get(key, ("", 0.0))
        if time.monotonic() < renew_at:
            return token
        metadata, account = self.pod["metadata"], self.pod["spec"]["serviceAccountName"]
        pod = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        audience = asked.get("audience")
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": asked.get("expirationSeconds") or 3600,
            "boundObjectRef": pod,
        }
        place = Resource(
            "v1", "TokenRequest", f"serviceaccounts/{account}/token", is_namespaced=True
        )
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"namespace": metadata["namespace"]},
            "spec": spec,
        }
        given = self.api.create(place, body)["status"]
        until = dt.datetime.fromisoformat(given["expirationTimestamp"])
        left_s = (until - dt.datetime.now(dt.UTC)).total_seconds()
        self._tokens[key] = (given["token"], time.monotonic() + _RENEW_AT * left_s)
        return str(given["token"])


def _chosen(volume: str, kind: str, source: Manifest, data: Files | None) -> Files:
    failed = f'MountVolume.SetUp failed for volume "{volume}" : '
    if data is None:
        if source.get("optional"):
            return {}
        raise MountError(f'{failed}{kind} "{source["name"]}" not found')
    items = source.get("items")
    if not items:
        return data
    files = {}
    for item in items:
        if item["key"] in data:
            files[item["path"]] = data[item["key"]]
        elif not source.get("optional"):
            raise MountError(f"{failed}references non-existent {kind} key: {item['key']}")
    return files


def _write(directory: Path, files: Files) -> None:
    """Make these the files of a directory; each changes at once."""
    for name, content in files.items():
        path = directory / name
        if path.exists() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # As the kubelet's own, its name is none that a key may have.
        fresh = path.with_name(f"..{path.name}.new")
        fresh.write_bytes(content)
        fresh.chmod(_FILE_MODE)
        fresh.rename(path)
    for path in directory.rglob("*"):
        if path.is_file() and str(path.relative_to(directory)) not in files:
            path.unlink()
