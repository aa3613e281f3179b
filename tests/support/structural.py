"""A validator of structural schemas, as strict as the API server with ``fieldValidation=Strict``.

Rules in the Common Expression Language are left to the API server. That both say the same about
documents is tested with the real one (``tests/kube/test_definitions.py``).
"""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}


def problems(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Return what is wrong with a value, each problem with its path."""
    if schema.get("x-kubernetes-int-or-string"):
        is_right = isinstance(value, str | int) and not isinstance(value, bool)
    else:
        kind = schema["type"]
        is_right = isinstance(value, _TYPES[kind])
        is_right = is_right and (kind == "boolean" or not isinstance(value, bool))
    if not is_right:
        return [f"{path}: {value!r:.80} is no {schema.get('type', 'number or text')}"]
    if isinstance(value, dict):
        return _of_object(value, schema, path)
    if isinstance(value, list):
        return _of_list(value, schema, path)
    if isinstance(value, str):
        return _of_text(value, schema, path)
    return _of_number(value, schema, path)


def _of_object(given: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
    value = {name: item for name, item in given.items() if item is not None}
    found = [f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value]
    if len(value) > schema.get("maxProperties", len(value)):
        found.append(f"{path}: {len(value)} entries")
    if "additionalProperties" in schema:
        for name, item in value.items():
            found += problems(item, schema["additionalProperties"], f"{path}.{name}")
        return found
    for name, item in value.items():
        if "properties" not in schema:
            continue
        if name not in schema["properties"]:
            found.append(f"{path}.{name}: unknown")
        else:
            found += problems(item, schema["properties"][name], f"{path}.{name}")
    return found


def _of_list(value: list[Any], schema: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
        found.append(f"{path}: {len(value)} entries")
    for index, item in enumerate(value):
        found += problems(item, schema["items"], f"{path}[{index}]")
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        told = [tuple(item.get(key) for key in keys) for item in value if isinstance(item, dict)]
    else:
        told = value if schema.get("x-kubernetes-list-type") == "set" else []
    if len(told) != len(set(told)):
        found.append(f"{path}: an entry is there twice")
    return found


def _of_text(value: str, schema: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    if len(value) > schema.get("maxLength", len(value)):
        found.append(f"{path}: {len(value)} characters")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is none of {schema['enum']}")
    # RE2's $ is the end alone, Python's is also before a last line break.
    if "pattern" in schema and not re.search(
        schema["pattern"].removesuffix("$") + r"\Z", value, re.ASCII
    ):
        found.append(f"{path}: {value!r:.80} does not match {schema['pattern']}")
    return found


def _of_number(value: int, schema: dict[str, Any], path: str) -> list[str]:
    low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
    return [] if low <= value <= high else [f"{path}: {value} is out of range"]
