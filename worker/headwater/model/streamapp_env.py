"""Environment variables of a container in a StreamApp's ``spec.podTemplate``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from headwater.model.fields import Rule, meta
from headwater.model.streamapp_kafka import KEY_MEANING, KEY_PATTERN, NAME_MEANING, NAME_PATTERN

OBJECT: Final = meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253)
"""The name of an object of Kubernetes."""
KEY: Final = meta(pattern=KEY_PATTERN, meaning=KEY_MEANING, max_length=253)
"""A key of a Secret or ConfigMap."""
VARIABLE: Final = meta(
    pattern="[A-Za-z_][A-Za-z0-9_]*",
    meaning="the name of a variable: letters, digits and '_'",
    max_length=256,
)
_FIELD: Final = meta(
    pattern=(
        r"metadata\.(name|namespace|uid|(labels|annotations)\['[^']{1,317}'\])"
        r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
    ),
    meaning="a field of the pod such as metadata.name or status.podIP",
    max_length=350,
)
_RESOURCE: Final = meta(
    pattern=r"(requests|limits)\.(cpu|memory|ephemeral-storage)",
    meaning="requests or limits with cpu, memory or ephemeral-storage, such as limits.memory",
    max_length=64,
)
_SOURCES: Final = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReference:
    """One key of a Secret or ConfigMap in the StreamApp's namespace.

    Attributes:
        name: the Secret or ConfigMap.
        key: the key in it.
        optional: start without it if it does not exist.
    """

    name: str = field(metadata=OBJECT)
    key: str = field(metadata=KEY)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldReference:
    """A field of the pod.

    Attributes:
        field_path: for example status.podIP.
    """

    TERSE: ClassVar[bool] = True

    field_path: str = field(metadata=_FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReference:
    """What a container may use.

    Attributes:
        resource: for example limits.memory.
        container_name: the container; left out: this one.
        divisor: the unit of the value, for example 1Mi.
    """

    TERSE: ClassVar[bool] = True

    resource: str = field(metadata=_RESOURCE)
    container_name: str | None = field(default=None, metadata=meta(max_length=63))
    divisor: str | None = field(
        default=None,
        metadata=meta(pattern="1(m|k|M|G|T|Ki|Mi|Gi|Ti)?", meaning="a unit such as 1 or 1Mi"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSource:
    """Where the value of an environment variable comes from.

    Attributes:
        secret_key_ref: a key of a Secret.
        config_map_key_ref: a key of a ConfigMap.
        field_ref: a field of the pod.
        resource_field_ref: what a container may use.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"[{', '.join(f'has(self.{name})' for name in _SOURCES)}].exists_one(x, x)",
            message=f"give exactly one of {', '.join(_SOURCES[:-1])} and {_SOURCES[-1]}",
            holds=lambda source: (
                [
                    source.secret_key_ref,
                    source.config_map_key_ref,
                    source.field_ref,
                    source.resource_field_ref,
                ].count(None)
                == len(_SOURCES) - 1
            ),
        ),
    )

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """An environment variable.

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

    name: str = field(metadata=VARIABLE)
    value: str | None = field(default=None, metadata=meta(max_length=32_768))
    value_from: EnvSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeReference:
    """A Secret or ConfigMap in the StreamApp's namespace.

    Attributes:
        name: its name.
        optional: start without it if it does not exist.
    """

    name: str = field(metadata=OBJECT)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFrom:
    """A Secret or ConfigMap each of whose keys is an environment variable.

    Attributes:
        secret_ref: a Secret.
        config_map_ref: a ConfigMap.
        prefix: what the variables' names begin with, before the key.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.secretRef) != has(self.configMapRef)",
            message="give exactly one of secretRef and configMapRef",
            holds=lambda env: (env.secret_ref is None) != (env.config_map_ref is None),
        ),
    )

    secret_ref: WholeReference | None = None
    config_map_ref: WholeReference | None = None
    prefix: str | None = field(default=None, metadata=VARIABLE)
