"""Volumes of a StreamApp's ``spec.podTemplate``, and where containers mount them."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from headwater.model.fields import Rule, meta
from headwater.model.streamapp_env import KEY, OBJECT, FieldReference, ResourceReference
from headwater.model.streamapp_kafka import SecretReference  # noqa: TC001  # read by the codec
from headwater.model.streamapp_labels import LABEL_NAME, QUANTITY, Labelled, Quantity

_OUR_PATHS: Final = (
    "/var/lib/headwater",
    "/etc/headwater",
    "/tmp",  # noqa: S108
    "/var/run/secrets",
    "/run/secrets",  # where /var/run is a link, as in most images, it is the same directory
)
_PATH: Final = meta(
    pattern="[^/.][^/]*(/[^/.][^/]*)*", meaning="a path in the volume", max_length=512
)
_MODE: Final = meta(minimum=0, maximum=0o777)
_STATE_CLAIM: Final = "-w-[0-9]+-state$"
_SOURCES: Final = {
    "secret": "secret",
    "configMap": "config_map",
    "projected": "projected",
    "downwardAPI": "downward_api",
    "emptyDir": "empty_dir",
    "persistentVolumeClaim": "persistent_volume_claim",
    "ephemeral": "ephemeral",
    "csi": "csi",
}
_PROJECTED: Final = {
    "secret": "secret",
    "configMap": "config_map",
    "downwardAPI": "downward_api",
    "serviceAccountToken": "service_account_token",
}


def _one_of(sources: Mapping[str, str]) -> Rule:
    *names, last = sources
    attributes = tuple(sources.values())
    return Rule(
        cel=f"[{', '.join(f'has(self.{name})' for name in sources)}].exists_one(x, x)",
        message=f"give exactly one of {', '.join(names)} and {last}",
        holds=lambda value: (
            [getattr(value, name) for name in attributes].count(None) == len(attributes) - 1
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPath:
    """A key as a file.

    Attributes:
        key: the key.
        path: the file in the volume.
        mode: its permissions; left out: the volume's.
    """

    TERSE: ClassVar[bool] = True

    key: str = field(metadata=KEY)
    path: str = field(metadata=_PATH)
    mode: int | None = field(default=None, metadata=_MODE)


_ITEMS: Final = meta(max_items=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretVolume:
    """A Secret as files.

    Attributes:
        secret_name: the Secret's name.
        optional: start without it if it does not exist.
        items: which keys; left out: all.
        default_mode: permissions of the files; left out: 0644 (in JSON 420).
    """

    secret_name: str = field(metadata=OBJECT)
    optional: bool = False
    items: tuple[KeyPath, ...] = field(default=(), metadata=_ITEMS)
    default_mode: int | None = field(default=None, metadata=_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapVolume:
    """A ConfigMap as files.

    Attributes:
        name: the ConfigMap's name.
        optional: start without it if it does not exist.
        items: which keys; left out: all.
        default_mode: permissions of the files; left out: 0644 (in JSON 420).
    """

    name: str = field(metadata=OBJECT)
    optional: bool = False
    items: tuple[KeyPath, ...] = field(default=(), metadata=_ITEMS)
    default_mode: int | None = field(default=None, metadata=_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFieldFile:
    """A field of the pod as a file.

    Attributes:
        path: the file in the volume.
        field_ref: a field of the pod.
        resource_field_ref: what a container may use; it names the container.
        mode: permissions; left out: the volume's.
    """

    TERSE: ClassVar[bool] = True
    RULES: ClassVar[tuple[Rule, ...]] = (
        _one_of({"fieldRef": "field_ref", "resourceFieldRef": "resource_field_ref"}),
    )

    path: str = field(metadata=_PATH)
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    mode: int | None = field(default=None, metadata=_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardApiVolume:
    """Fields of the pod as files.

    Attributes:
        items: the files.
        default_mode: their permissions; left out: 0644 (in JSON 420).
    """

    TERSE: ClassVar[bool] = True

    items: tuple[PodFieldFile, ...] = field(default=(), metadata=_ITEMS)
    default_mode: int | None = field(default=None, metadata=_MODE)


class Medium(StrEnum):
    """Where an empty directory lies, if not on the node's disk."""

    MEMORY = "Memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDirVolume:
    """A directory that begins empty and ends with the pod.

    Attributes:
        size_limit: how much it may hold.
        medium: Memory, if it is not to lie on the node's disk.
    """

    size_limit: Quantity | None = field(default=None, metadata=QUANTITY)
    medium: Medium | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedSecret:
    """A Secret, as a part of a volume.

    Attributes:
        name: its name.
        items: which keys; left out: all.
        optional: start without it if it does not exist.
    """

    TERSE: ClassVar[bool] = True

    name: str = field(metadata=OBJECT)
    items: tuple[KeyPath, ...] = field(default=(), metadata=_ITEMS)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFields:
    """Fields of the pod, as a part of a volume.

    Attributes:
        items: the files.
    """

    TERSE: ClassVar[bool] = True

    items: tuple[PodFieldFile, ...] = field(default=(), metadata=_ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedToken:
    """A token of the pods' account that somebody else than the API server accepts.

    Attributes:
        audience: who accepts it, for example sts.amazonaws.com.
        path: the file in the volume.
        expiration_seconds: for how long it is valid; the kubelet renews it.
    """

    TERSE: ClassVar[bool] = True

    audience: str = field(metadata=meta(pattern=".+", meaning="who accepts the token"))
    path: str = field(metadata=_PATH)
    expiration_seconds: int | None = field(
        default=None, metadata=meta(minimum=600, maximum=2**31 - 1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """One part of a projected volume.

    Attributes:
        secret: a Secret.
        config_map: a ConfigMap.
        downward_api: fields of the pod.
        service_account_token: a token of the pods' account. Executors of Spark have none.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (_one_of(_PROJECTED),)

    secret: ProjectedSecret | None = None
    config_map: ProjectedSecret | None = None
    downward_api: ProjectedFields | None = field(default=None, metadata=meta(json="downwardAPI"))
    service_account_token: ProjectedToken | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedVolume:
    """Several sources in one directory.

    Attributes:
        sources: what it holds.
        default_mode: permissions of the files; left out: 0644 (in JSON 420).
    """

    sources: tuple[Projection, ...] = field(default=(), metadata=meta(max_items=20))
    default_mode: int | None = field(default=None, metadata=_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolume:
    """A claim of the StreamApp's namespace. All pods mount the same one.

    Attributes:
        claim_name: its name.
        read_only: whether containers may not write there.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!self.claimName.matches('{_STATE_CLAIM}')",
            message="<name>-w-<number>-state holds the state of a worker: take another claim",
            field="claimName",
            holds=lambda volume: re.search(_STATE_CLAIM, volume.claim_name) is None,
        ),
    )

    claim_name: str = field(metadata=OBJECT)
    read_only: bool = False


class ClaimAccessMode(StrEnum):
    """Who may use a volume at the same time."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """How much is asked for.

    Attributes:
        requests: storage, and how much of it.
    """

    TERSE: ClassVar[bool] = True

    requests: Mapping[str, Quantity] = field(metadata=meta(each=QUANTITY, max_items=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What volume is asked for.

    Attributes:
        access_modes: who may use it at the same time.
        resources: how much it is to hold.
        storage_class_name: left out: the cluster's default.
    """

    TERSE: ClassVar[bool] = True

    access_modes: tuple[ClaimAccessMode, ...] = field(metadata=meta(max_items=4))
    resources: Requests
    storage_class_name: str | None = field(default=None, metadata=OBJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """A claim that is made for each pod.

    Attributes:
        metadata: its labels and annotations.
        spec: what volume is asked for.
    """

    metadata: Labelled = field(default_factory=Labelled)
    spec: ClaimSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralVolume:
    """A volume that is made with each pod and goes with it.

    Attributes:
        volume_claim_template: the claim that is made for it.
    """

    volume_claim_template: ClaimTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """A volume that a CSI driver makes with each pod.

    Attributes:
        driver: its name, for example secrets-store.csi.k8s.io.
        read_only: whether containers may not write there.
        fs_type: the file system.
        volume_attributes: what the driver is told.
        node_publish_secret_ref: a Secret that the driver is given.
    """

    driver: str = field(metadata=OBJECT)
    read_only: bool = False
    fs_type: str | None = field(default=None, metadata=meta(max_length=64))
    volume_attributes: Mapping[str, str] = field(default_factory=dict)
    node_publish_secret_ref: SecretReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Files for the containers besides the worker's own volume with state.

    Attributes:
        name: the name by which volumeMounts refer to it.
        secret: a Secret.
        config_map: a ConfigMap.
        projected: several sources in one directory.
        downward_api: fields of the pod.
        empty_dir: an empty directory.
        persistent_volume_claim: a claim that is there.
        ephemeral: a volume that is made with each pod.
        csi: a volume that a CSI driver makes with each pod.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        _one_of(_SOURCES),
        Rule.refusing(
            "hostPath",
            "object",
            "pods see no path of their node: take csi, persistentVolumeClaim or ephemeral",
        ),
        Rule(
            cel="!self.name.startsWith('headwater-')",
            message="names that begin with headwater- are the operator's: take another one",
            field="name",
            holds=lambda volume: not volume.name.startswith("headwater-"),
        ),
        Rule(
            cel="!has(self.ephemeral) || self.name != 'state'",
            message="the claim of an ephemeral volume state would have the name of the worker's "
            "own: take another name",
            field="name",
            holds=lambda volume: volume.ephemeral is None or volume.name != "state",
        ),
    )

    name: str = field(metadata=LABEL_NAME)
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    projected: ProjectedVolume | None = None
    downward_api: DownwardApiVolume | None = field(default=None, metadata=meta(json="downwardAPI"))
    empty_dir: EmptyDirVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CsiVolume | None = None


MOUNT_PATH: Final = meta(pattern="/[^:]*", meaning="an absolute path without ':'", max_length=512)


def _is_plain(mount: VolumeMount) -> bool:
    return not {".", ".."} & {*mount.mount_path.split("/")} and "//" not in mount.mount_path


def _is_elsewhere(mount: VolumeMount) -> bool:
    """Whether a mount hides nothing of ours: neither lies in the other."""
    path = mount.mount_path if mount.mount_path.endswith("/") else f"{mount.mount_path}/"
    return not any(
        path.startswith(f"{ours}/") or f"{ours}/".startswith(path) for ours in _OUR_PATHS
    )


_AS_DIRECTORY: Final = (
    "(self.mountPath.endsWith('/') ? self.mountPath : self.mountPath + '/')"  # in CEL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """Where a volume's files are to be found in the worker.

    Attributes:
        name: the volume to mount.
        mount_path: an absolute path.
        read_only: whether the worker may not write there.
        sub_path: a path in the volume, in place of the whole.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                f"[{', '.join(repr(path) for path in _OUR_PATHS)}]"
                f".all(p, !{_AS_DIRECTORY}.startsWith(p + '/') && "
                f"!(p + '/').startsWith({_AS_DIRECTORY}))"
            ),
            message=f"{', '.join(_OUR_PATHS)} are the worker's own: take a path that is neither in "
            "one of them nor above one",
            field="mountPath",
            holds=_is_elsewhere,
        ),
        Rule(
            cel="!self.mountPath.matches('//|/[.][.]?(/|$)')",
            message="write the path without '//', '.' and '..' in it",
            field="mountPath",
            holds=_is_plain,
        ),
    )

    name: str = field(metadata=meta(max_length=63))
    mount_path: str = field(metadata=MOUNT_PATH)
    read_only: bool = False
    sub_path: str | None = field(default=None, metadata=_PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarMount:
    """Where a volume's files are to be found in another container than the worker's.

    Attributes:
        name: the volume to mount.
        mount_path: an absolute path.
        read_only: whether the container may not write there.
        sub_path: a path in the volume, in place of the whole.
    """

    TERSE: ClassVar[bool] = True

    name: str = field(metadata=meta(max_length=63))
    mount_path: str = field(metadata=MOUNT_PATH)
    read_only: bool = False
    sub_path: str | None = field(default=None, metadata=_PATH)
