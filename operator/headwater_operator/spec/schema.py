"""Structural OpenAPI schemas from the resource classes, as the API server wants them.

Whatever ``model.codec`` writes is valid against the schema of its class, and what strict reading
refuses, the schema refuses, too: type, bound, pattern, list keys and rules are taken from the same
metadata. Every text, list and mapping is bounded, because the cost of a rule is estimated from it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from headwater.ids import TaskId, TopicPartition
from headwater.model.codec import DURATION_PATTERN, encode, encode_field
from headwater.model.fields import (
    ITEMS_MAX,
    LENGTH_MAX,
    FieldInfo,
    Metadata,
    Rule,
    each_of,
    fields_of,
    is_terse,
    limit,
    rules_of,
    summary_of,
)

Schema: TypeAlias = dict[str, Any]

_TASK: Final[Schema] = {"type": "string", "pattern": "^[0-9]+_[0-9]+$", "maxLength": 21}
_INT_OR_STRING: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
_TOPIC_PARTITION: Final[Schema] = {
    "type": "array",
    "items": _INT_OR_STRING,
    "minItems": 2,
    "maxItems": 2,
    "x-kubernetes-list-type": "atomic",
}


def object_schema(kind: type, *, description: str = "") -> Schema:
    """Return the schema of a resource class.

    Args:
        kind: a dataclass that ``model.codec`` reads.
        description: of the place where it stands; the class speaks for itself when left out.
    """
    hints = get_type_hints(kind)
    infos = list(fields_of(kind))
    said = description or ("" if is_terse(kind) else summary_of(kind))
    schema: Schema = {"type": "object", **({"description": said} if said else {})}
    schema["properties"] = {
        info.name: field_schema(info, hints[info.attribute], is_terse=is_terse(kind))
        for info in infos
    }
    schema["properties"] |= {rule.field: _refused(rule) for rule in rules_of(kind) if rule.refuses}
    required = [info.name for info in infos if info.is_required]
    if required:
        schema["required"] = required
    rules = validations(kind)
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _refused(rule: Rule) -> Schema:
    """Return the schema of a field that is there for its rule to name it."""
    more: dict[str, Schema] = {
        "object": {"x-kubernetes-preserve-unknown-fields": True},
        "string": {"maxLength": LENGTH_MAX},
    }
    return {"type": rule.refuses, "description": "Refused.", **more.get(rule.refuses, {})}


def validations(kind: type) -> list[Schema]:
    """Return the rules of a resource class as the API server reads them."""
    return [
        {
            "rule": rule.cel,
            "message": rule.message,
            "reason": rule.reason,
            **({"fieldPath": f".{rule.field}"} if rule.field else {}),
        }
        for rule in rules_of(kind)
    ]


def field_schema(info: FieldInfo, kind: object, *, is_terse: bool = False) -> Schema:
    """Return the schema of one field, with its meaning and default in words unless it is terse."""
    default = default_text(info)
    description = f"{info.meaning} Default: {default}." if default else info.meaning
    if is_terse:
        description = ""
    schema = type_schema(kind, info.metadata, description=description)
    if info.metadata.get("default_in_schema"):
        schema["default"] = encode(info.default)
    return schema


def default_text(info: FieldInfo) -> str:
    """Return a field's default as it would be written; empty if there is nothing to tell."""
    if info.is_required:
        return ""
    encoded = encode_field(info.default, info.metadata)
    if isinstance(encoded, list) and not any(isinstance(each, Mapping) for each in encoded):
        return ", ".join(map(str, encoded))
    if encoded in (None, "") or isinstance(encoded, Mapping | list):
        return ""
    return str(encoded).lower() if isinstance(encoded, bool) else str(encoded)


def type_schema(kind: object, metadata: Metadata, *, description: str = "") -> Schema:
    """Return the schema of a value of ``kind`` with that metadata."""
    described: Schema = {"description": description} if description else {}
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union_schema(get_args(kind), metadata, description=description)
    if origin is tuple:
        items = type_schema(get_args(kind)[0], each_of(metadata))
        return {
            "type": "array",
            **described,
            "items": items,
            "maxItems": limit(metadata, "max_items", ITEMS_MAX),
            **_list_type(metadata),
        }
    if origin is not None and issubclass(typing.cast("type", origin), Mapping):
        return {
            "type": "object",
            **described,
            "additionalProperties": type_schema(get_args(kind)[1], each_of(metadata)),
            "maxProperties": limit(metadata, "max_items", ITEMS_MAX),
        }
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
        return object_schema(kind, description=description)
    return _scalar_schema(kind, metadata, described)


def _list_type(metadata: Metadata) -> Schema:
    """Say how lists of two writers are merged: by keys, as a set, or not at all."""
    if keys := metadata.get("keys"):
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*_texts(keys)]}
    return {"x-kubernetes-list-type": "set" if metadata.get("unique") else "atomic"}


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _union_schema(members: tuple[object, ...], metadata: Metadata, *, description: str) -> Schema:
    present = [member for member in members if member is not type(None)]
    if len(present) == 1:
        return type_schema(present[0], metadata, description=description)
    described: Schema = {"description": description} if description else {}
    if set(present) == {str, int}:
        text = _text_schema(metadata)
        del text["type"]
        return {**described, **_INT_OR_STRING, **text}
    return _tagged_schema(typing.cast("list[type]", present), description=description)


def _tagged_schema(members: list[type], *, description: str) -> Schema:
    """Return one object for all members: a structural schema has no alternatives.

    Raises:
        ValueError: two members have a field of the same name and different types.
    """
    properties: Schema = {}
    required: list[set[str]] = []
    for member in members:
        schema = object_schema(member)
        required.append(set(schema.get("required", ())))
        for name, found in schema["properties"].items():
            known = properties.setdefault(name, found)
            if _without_description(known) != _without_description(found):
                raise ValueError(
                    f"{member.__name__}.{name} has another type than the field of that name in "
                    f"another of {[other.__name__ for other in members]}: name it differently"
                )
    kinds = sorted(str(encode(typing.cast("Any", member).KIND)) for member in members)
    tag: Schema = {"type": "string", "description": "Which of them this is.", "enum": kinds}
    common = sorted(set.intersection(*required))
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": {"kind": tag, **properties},
        "required": ["kind", *common],
    }


def _without_description(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "description"}


def _scalar_schema(kind: object, metadata: Metadata, described: Schema) -> Schema:
    if metadata.get("duration"):
        schema: Schema = {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "maxLength": 16}
    elif metadata.get("date_time"):
        schema = {"type": "string", "format": "date-time", "maxLength": 64}
    elif kind is TaskId:
        schema = _TASK
    elif kind is TopicPartition:
        schema = _TOPIC_PARTITION
    elif kind is bool:
        schema = {"type": "boolean"}
    elif kind is int:
        schema = {"type": "integer", "format": "int64", **_bounds(metadata)}
    elif isinstance(kind, type) and issubclass(kind, Enum):
        schema = {"type": "string", "enum": [str(encode(member)) for member in kind]}
    else:
        assert kind is str, kind
        schema = _text_schema(metadata)
    return {**described, **schema}


def _bounds(metadata: Metadata) -> Schema:
    return {name: metadata[name] for name in ("minimum", "maximum") if name in metadata}


def _text_schema(metadata: Metadata) -> Schema:
    schema: Schema = {"type": "string", "maxLength": limit(metadata, "max_length", LENGTH_MAX)}
    pattern = metadata.get("pattern")
    if isinstance(pattern, str):
        schema["pattern"] = f"^({pattern})$"
    return schema
