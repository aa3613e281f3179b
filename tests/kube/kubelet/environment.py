"""What a container is started with: its command and its variables, by the rules of Kubernetes.

One rule is ours. There is no container, so a path of its file system is another one on this
machine: a variable whose value begins with the path of a mount begins with that mount's directory
instead. Nothing else tells the process of it (``headwater.model.podcontract``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Manifest = dict[str, Any]
Data = dict[str, str]

_REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ContainerConfigError(Exception):
    """A container cannot be made as the pod asks; what it refers to may still come."""


@dataclass(frozen=True, slots=True)
class Image:
    """What an image of this name would bring along.

    Attributes:
        command: run unless the container names another.
        environment: set unless the container says otherwise.
    """

    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """How a container is to be started."""

    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Sources:
    """What the variables of a pod may refer to.

    Attributes:
        pod: its manifest, with ``status.podIP`` and ``status.hostIP``.
        mounts: directory on this machine by path in the container.
        config_map: data of a ConfigMap by its name; ``None`` if there is none.
        secret: data of a Secret by its name; ``None`` if there is none.
    """

    pod: Manifest
    mounts: Mapping[str, Path]
    config_map: Callable[[str], Data | None]
    secret: Callable[[str], Data | None]


def start_of(container: Manifest, image: Image, sources: Sources, told: Mapping[str, str]) -> Start:
    """Return how a container is to be started.

    Args:
        container: of the pod's spec.
        image: of its name.
        sources: what its variables may refer to.
        told: variables that the kubelet adds.

    Raises:
        ContainerConfigError: it refers to something that is not there.
    """
    values = dict(told)
    for source in container.get("envFrom") or ():
        values |= _all_of(source, sources)
    for entry in container.get("env") or ():
        value = _value_of(entry, sources, values)
        if value is not None:
            values[entry["name"]] = value
    values = {name: on_this_machine(value, sources.mounts) for name, value in values.items()}
    command = container.get("command") or image.command
    # Arguments of an image belong to its command.
    words = [*command, *(container.get("args") or ())]
    if not words:
        raise ContainerConfigError("no command specified")
    return Start([expand(word, values) for word in words], {**image.environment, **values})


def field_of(path: str, pod: Manifest) -> str:
    """Return what a ``fieldRef`` means.

    Raises:
        ContainerConfigError: pods have no such field, or it is not offered.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if keyed := _KEYED.fullmatch(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
        "status.hostIP": status.get("hostIP", ""),
    }
    try:
        return str(known[path])
    except KeyError:
        raise ContainerConfigError(f"unsupported fieldPath: {path}") from None


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a text with ``$(NAME)`` replaced where there is such a variable; ``$$`` is ``$``."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def on_this_machine(value: str, mounts: Mapping[str, Path]) -> str:
    """Return a value as the process has to see it: the longest mount that it begins with counts."""
    for path in sorted(mounts, key=len, reverse=True):
        if value == path or value.startswith(path.rstrip("/") + "/"):
            return str(mounts[path]) + value[len(path.rstrip("/")) :]
    return value


def _value_of(entry: Manifest, sources: Sources, before: Mapping[str, str]) -> str | None:
    origin = entry.get("valueFrom")
    if origin is None:
        return expand(entry.get("value") or "", before)
    if "fieldRef" in origin:
        return field_of(origin["fieldRef"]["fieldPath"], sources.pod)
    for kind, reference, data_of in (
        ("configmap", origin.get("configMapKeyRef"), sources.config_map),
        ("secret", origin.get("secretKeyRef"), sources.secret),
    ):
        if reference is not None:
            return _key_of(kind, reference, data_of(reference["name"]))
    raise ContainerConfigError(f"variable {entry['name']}: unsupported source {sorted(origin)}")


def _key_of(kind: str, reference: Manifest, data: Data | None) -> str | None:
    name, key = reference["name"], reference["key"]
    if data is not None and key in data:
        return data[key]
    if reference.get("optional"):
        return None
    if data is None:
        raise ContainerConfigError(f'{kind} "{name}" not found')
    raise ContainerConfigError(f"couldn't find key {key} in {kind} {name}")


def _all_of(source: Manifest, sources: Sources) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    for kind, reference, data_of in (
        ("configmap", source.get("configMapRef"), sources.config_map),
        ("secret", source.get("secretRef"), sources.secret),
    ):
        if reference is None:
            continue
        data = data_of(reference["name"])
        if data is None and not reference.get("optional"):
            raise ContainerConfigError(f'{kind} "{reference["name"]}" not found')
        return {prefix + key: value for key, value in (data or {}).items()}
    return {}
