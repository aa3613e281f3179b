"""JSON schemas of Kubernetes' kinds for kubeconform, made from what the API server publishes.

kubeconform would fetch them from the network. A field that a schema does not know is refused, as
``kubeconform -strict`` expects its schemas to do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.kube.fixtures import Command

Schema = dict[str, Any]

LOCATION: Final = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""How kubeconform finds the file of a kind, below the folder."""
_REFERENCE: Final = "#/components/schemas/"
_KINDS: Final = "x-kubernetes-group-version-kind"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def write_schemas(
    kubectl: Command, folder: Path, versions: Iterable[str], definitions: Iterable[Path]
) -> None:
    """Write a file for each kind.

    Args:
        kubectl: asks the API server.
        folder: for the files.
        versions: groups with versions, such as ``apps/v1``, whose kinds are wanted.
        definitions: files with custom resource definitions, whose kinds are wanted, too.
    """
    listed = json.loads(kubectl("get", "--raw", "/openapi/v3"))["paths"]
    for version in sorted(set(versions)):
        path = f"apis/{version}" if "/" in version else f"api/{version}"
        document = json.loads(kubectl("get", "--raw", listed[path]["serverRelativeURL"]))
        schemas = document["components"]["schemas"]
        closed = {name: _closed(schema) for name, schema in schemas.items()}
        for name, schema in schemas.items():
            for kind in schema.get(_KINDS, ()):
                said = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
                if said == version:
                    of_kind = {**closed[name], "definitions": closed}
                    _write(folder, kind["kind"], version, of_kind)
    for file in definitions:
        _write_definition(folder, yaml.safe_load(file.read_text()))


def _write_definition(folder: Path, definition: Schema) -> None:
    spec = definition["spec"]
    for version in spec["versions"]:
        schema = _closed(version["schema"]["openAPIV3Schema"])
        # The API server adds these to every kind.
        schema["properties"] |= {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        }
        _write(folder, spec["names"]["kind"], f"{spec['group']}/{version['name']}", schema)


def _write(folder: Path, kind: str, version: str, schema: Schema) -> None:
    # As kubeconform writes an API version: the first part of the group, then the version.
    group, _, number = version.rpartition("/")
    parts = [kind.lower(), *filter(None, [group.partition(".")[0]]), number]
    (folder / f"{'-'.join(parts)}.json").write_text(json.dumps(schema))


def _closed(schema: Any) -> Any:
    """Return a schema of OpenAPI as JSON Schema, with no room for fields that it does not know."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get(_INT_OR_STRING):
        return {"type": ["integer", "string"]}
    found = dict(_fields(schema))
    if "properties" in schema and "additionalProperties" not in schema and not schema.get(_OPEN):
        found["additionalProperties"] = False
    if schema.get("nullable") and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _fields(schema: Schema) -> Iterator[tuple[str, Any]]:
    for name, value in schema.items():
        if name == "$ref":
            yield name, f"#/definitions/{value.removeprefix(_REFERENCE)}"
        elif name == "properties":
            yield name, {field: _closed(each) for field, each in value.items()}
        elif name in {"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"}:
            yield name, _closed(value)
        elif name == "default" or name.startswith("x-kubernetes-"):
            continue
        else:
            yield name, value
