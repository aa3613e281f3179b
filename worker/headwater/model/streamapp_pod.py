"""The StreamApp's ``spec.podTemplate``: the part of a pod that is the user's to choose.

Picked by hand, with Kubernetes' names and meanings, so that the custom resource definition stays
small. The security context is not among it: it is the operator's, and restricted.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from headwater.model.fields import Rule, meta
from headwater.model.streamapp_kafka import KEY_MEANING, KEY_PATTERN, NAME_MEANING, NAME_PATTERN

Quantity: TypeAlias = str | int
"""An amount as Kubernetes writes it: ``2``, ``"500m"``, ``"1Gi"``."""

QUANTITY: Final = meta(
    pattern=r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?",
    meaning="an amount such as 2, 500m or 1Gi",
    max_length=32,
)
_OBJECT: Final = meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253)
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL_KEY: Final = meta(
    pattern=r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    meaning="a label's key",
    max_length=317,
)
_LABEL_VALUE: Final = meta(
    pattern="([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
    meaning="a label's value: at most 63 letters, digits, '-', '_' and '.'",
    max_length=63,
)
_OURS: Final = ("headwater.dev/", "app.kubernetes.io/")
"""Prefixes of labels and annotations that the operator selects pods by."""
_OUR_PATHS: Final = ("/var/lib/headwater", "/etc/headwater", "/tmp", "/var/run/secrets")  # noqa: S108


def _no_key_of_ours(field_name: str) -> Rule:
    def holds(template: Any) -> bool:
        return not any(key.startswith(_OURS) for key in getattr(template, field_name))

    starts = " || ".join(f"k.startsWith('{prefix}')" for prefix in _OURS)
    return Rule(
        cel=f"!has(self.{field_name}) || self.{field_name}.all(k, !({starts}))",
        message=f"keys that begin with {' or '.join(_OURS)} are the operator's: take another one",
        field=field_name,
        holds=holds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReference:
    """One key of a Secret or ConfigMap in the StreamApp's namespace.

    Attributes:
        name: the Secret or ConfigMap.
        key: the key in it.
        optional: start without it if it does not exist.
    """

    name: str = field(metadata=_OBJECT)
    key: str = field(metadata=meta(pattern=KEY_PATTERN, meaning=KEY_MEANING, max_length=253))
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSource:
    """Where the value of an environment variable comes from.

    Attributes:
        secret_key_ref: a key of a Secret.
        config_map_key_ref: a key of a ConfigMap.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.secretKeyRef) != has(self.configMapKeyRef)",
            message="give exactly one of secretKeyRef and configMapKeyRef",
            holds=lambda source: (
                (source.secret_key_ref is None) != (source.config_map_key_ref is None)
            ),
        ),
    )

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """An environment variable of the worker.

    Attributes:
        name: the variable's name.
        value: its value.
        value_from: where its value comes from, in place of value.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.value) || !has(self.valueFrom)",
            message="give value or valueFrom, not both",
            holds=lambda env: env.value is None or env.value_from is None,
        ),
    )

    name: str = field(
        metadata=meta(
            pattern="[A-Za-z_][A-Za-z0-9_]*",
            meaning="the name of a variable: letters, digits and '_'",
            max_length=256,
        )
    )
    value: str | None = field(default=None, metadata=meta(max_length=32_768))
    value_from: EnvSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the worker's container asks for and may use at most.

    Attributes:
        requests: cpu, memory and ephemeral-storage that the node sets aside.
        limits: cpu, memory and ephemeral-storage that it may not exceed.
    """

    requests: Mapping[str, Quantity] = field(
        default_factory=dict, metadata=meta(each=QUANTITY, max_items=10)
    )
    limits: Mapping[str, Quantity] = field(
        default_factory=dict, metadata=meta(each=QUANTITY, max_items=10)
    )


class TolerationOperator(StrEnum):
    """How a toleration's key and value are compared with a taint's."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint of nodes that the workers put up with.

    Attributes:
        key: the taint's key; left out (with operator Exists): every key.
        operator: Equal compares the value, Exists takes every value.
        value: the taint's value.
        effect: the taint's effect; left out: every effect.
        toleration_seconds: with effect NoExecute, for how long.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                "has(self.operator) && self.operator == 'Exists' ? !has(self.value) : has(self.key)"
            ),
            message="operator Exists takes no value; operator Equal, the default, needs a key",
            holds=lambda toleration: (
                toleration.value is None
                if toleration.operator is TolerationOperator.EXISTS
                else toleration.key is not None
            ),
        ),
        Rule(
            cel=(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')"
            ),
            message="tolerationSeconds goes with effect NoExecute",
            field="tolerationSeconds",
            holds=lambda toleration: (
                toleration.toleration_seconds is None or toleration.effect is TaintEffect.NO_EXECUTE
            ),
        ),
    )

    key: str | None = field(default=None, metadata=_LABEL_KEY)
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str | None = field(default=None, metadata=_LABEL_VALUE)
    effect: TaintEffect | None = None
    toleration_seconds: int | None = field(
        default=None, metadata=meta(minimum=0, maximum=2**31 - 1)
    )


class Unsatisfiable(StrEnum):
    """What to do when a spread cannot be kept."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpread:
    """How the workers of this application are spread; the operator selects them by their labels.

    Attributes:
        topology_key: the node label whose values are to hold equally many workers, for example
            topology.kubernetes.io/zone.
        max_skew: how many more workers one value may hold than another.
        when_unsatisfiable: whether a worker that does not fit waits.
    """

    topology_key: str = field(metadata=_LABEL_KEY)
    max_skew: int = field(default=1, metadata=meta(minimum=1, maximum=10_000))
    when_unsatisfiable: Unsatisfiable = Unsatisfiable.SCHEDULE_ANYWAY


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretVolume:
    """A Secret as files.

    Attributes:
        secret_name: the Secret's name.
        optional: start without it if it does not exist.
    """

    secret_name: str = field(metadata=_OBJECT)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapVolume:
    """A ConfigMap as files.

    Attributes:
        name: the ConfigMap's name.
        optional: start without it if it does not exist.
    """

    name: str = field(metadata=_OBJECT)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDirVolume:
    """A directory that begins empty and ends with the pod.

    Attributes:
        size_limit: how much it may hold.
    """

    size_limit: Quantity | None = field(default=None, metadata=QUANTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Files for the worker besides its own volume with state.

    Attributes:
        name: the name by which volumeMounts refer to it.
        secret: a Secret.
        config_map: a ConfigMap.
        empty_dir: an empty directory.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.secret), has(self.configMap), has(self.emptyDir)].exists_one(x, x)",
            message="give exactly one of secret, configMap and emptyDir",
            holds=lambda volume: (
                [volume.secret, volume.config_map, volume.empty_dir].count(None) == 2
            ),
        ),
        Rule(
            cel="!self.name.startsWith('headwater-')",
            message="names that begin with headwater- are the operator's: take another one",
            field="name",
            holds=lambda volume: not volume.name.startswith("headwater-"),
        ),
    )

    name: str = field(
        metadata=meta(
            pattern=_LABEL,
            meaning="at most 63 lower-case letters, digits and '-'",
            max_length=63,
        )
    )
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    empty_dir: EmptyDirVolume | None = None


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
                ".all(p, self.mountPath != p && !self.mountPath.startsWith(p + '/'))"
            ),
            message=f"{', '.join(_OUR_PATHS)} are the worker's own: take another path",
            field="mountPath",
            holds=lambda mount: (
                not any(f"{mount.mount_path}/".startswith(f"{path}/") for path in _OUR_PATHS)
            ),
        ),
    )

    name: str = field(metadata=meta(max_length=63))
    mount_path: str = field(
        metadata=meta(pattern="/[^:]*", meaning="an absolute path without ':'", max_length=512)
    )
    read_only: bool = False
    sub_path: str | None = field(
        default=None,
        metadata=meta(
            pattern="[^/.][^/]*(/[^/.][^/]*)*", meaning="a path in the volume", max_length=512
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """What the worker pods look like, as far as that is for the user to say.

    Attributes:
        labels: labels of the pods, besides those that the operator sets.
        annotations: annotations of the pods.
        resources: what the worker's container asks for and may use at most.
        env: environment variables of the worker's container.
        node_selector: labels that a node must have.
        tolerations: taints that the pods put up with.
        topology_spread_constraints: how the pods are spread over nodes and zones.
        volumes: files from Secrets and ConfigMaps, and empty directories.
        volume_mounts: where these volumes are found in the worker's container.
        priority_class_name: how important the pods are.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        _no_key_of_ours("labels"),
        _no_key_of_ours("annotations"),
        Rule(
            cel=(
                "!has(self.volumeMounts) || self.volumeMounts.all(m, "
                "has(self.volumes) && self.volumes.exists(v, v.name == m.name))"
            ),
            message="every mount names one of podTemplate.volumes",
            field="volumeMounts",
            holds=lambda template: (
                {mount.name for mount in template.volume_mounts}
                <= {volume.name for volume in template.volumes}
            ),
        ),
    )

    labels: Mapping[str, str] = field(
        default_factory=dict, metadata=meta(each=_LABEL_VALUE, max_items=50)
    )
    annotations: Mapping[str, str] = field(
        default_factory=dict, metadata=meta(each=meta(max_length=32_768), max_items=50)
    )
    resources: Resources = field(default_factory=Resources)
    env: tuple[EnvVar, ...] = field(default=(), metadata=meta(keys=("name",), max_items=200))
    node_selector: Mapping[str, str] = field(
        default_factory=dict, metadata=meta(each=_LABEL_VALUE, max_items=50)
    )
    tolerations: tuple[Toleration, ...] = field(default=(), metadata=meta(max_items=50))
    topology_spread_constraints: tuple[TopologySpread, ...] = field(
        default=(), metadata=meta(keys=("topologyKey",), max_items=10)
    )
    volumes: tuple[Volume, ...] = field(default=(), metadata=meta(keys=("name",), max_items=30))
    volume_mounts: tuple[VolumeMount, ...] = field(
        default=(), metadata=meta(keys=("mountPath",), max_items=50)
    )
    priority_class_name: str = field(default="", metadata=_OBJECT)
