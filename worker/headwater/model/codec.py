"""Frozen dataclasses to and from plain JSON values, with the path of whatever is wrong.

One rule set for every resource: ``threads_per_worker`` is written ``threadsPerWorker``; empty and
default fields are left out; a task id is ``"0_3"``; a union of dataclasses carries ``kind``; a
field whose metadata says ``duration`` holds milliseconds and is written ``"30s"``. Strict reading
(what a person wrote) refuses unknown fields and names the nearest known one, and refuses whatever
the API server would: too much of something, a broken rule. Lenient reading (what another version of
ours wrote) passes over these.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar, Union, get_args, get_origin, get_type_hints

from headwater.errors import SpecError
from headwater.ids import TaskId, TopicPartition
from headwater.model.fields import (
    ITEMS_MAX,
    LENGTH_MAX,
    Metadata,
    default_of,
    each_of,
    json_name,
    limit,
    rules_of,
)

T = TypeVar("T")

DURATION_PATTERN: Final = "[0-9]{1,12}(ms|s|m|h)"
_DURATION = re.compile("([0-9]{1,12})(ms|s|m|h)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def encode(value: object) -> object:
    """Turn a value into dicts, lists, strings, numbers and booleans.

    Fields that hold their default are left out, so a resource stays small.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return _encode_dataclass(value)


def encode_object(value: object) -> dict[str, object]:
    """As :func:`encode`, for a dataclass: the result is a dict."""
    encoded = encode(value)
    assert isinstance(encoded, dict), type(value)
    return encoded


def encode_field(value: object, metadata: Metadata) -> object:
    """As :func:`encode`, for a field's value with its field's metadata."""
    if metadata.get("duration") and isinstance(value, int):
        return format_duration(value)
    if metadata.get("clip") and isinstance(value, str):
        return value[: limit(metadata, "max_length", LENGTH_MAX)]
    return encode(value)


def decode(kind: type[T], data: object, *, path: str, strict: bool) -> T:
    """Turn plain JSON values into a ``kind``.

    Args:
        kind: a frozen dataclass.
        data: what was read.
        path: where ``data`` stands in its document, for messages; ``""`` for the document itself.
        strict: refuse unknown fields.

    Raises:
        SpecError: a field is unknown, missing, of the wrong type or out of range; the message
            begins with its path.
    """
    value = _decode(kind, data, path=path, strict=strict, metadata={})
    assert isinstance(value, kind)
    return value


def parse_duration_ms(text: object, *, path: str) -> int:
    """Read ``"500ms"``, ``"30s"``, ``"10m"`` or ``"1h"`` as milliseconds.

    Raises:
        SpecError: the text is something else.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise SpecError(
            f'{path}: expected a duration such as "500ms", "30s" or "10m", got {text!r}'
        )
    return int(match.group(1)) * _UNIT_MS[match.group(2)]


def format_duration(milliseconds: int) -> str:
    """Write milliseconds with the largest unit that loses nothing: 30000 is ``"30s"``."""
    for unit in ("h", "m", "s"):
        if milliseconds and milliseconds % _UNIT_MS[unit] == 0:
            return f"{milliseconds // _UNIT_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def nearest(name: str, known: Sequence[str]) -> str:
    """Return ``"; did you mean 'x'?"`` when a known name is close, else the list of known names."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:
        folded = {item.casefold(): item for item in known}
        close = [folded[name.casefold()]] if name.casefold() in folded else []
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known fields are {', '.join(sorted(known))}" if known else ""


def _encode_dataclass(value: object) -> dict[str, object]:
    kind: type = type(value)
    assert dataclasses.is_dataclass(kind), kind
    encoded: dict[str, object] = {}
    tag = getattr(kind, "KIND", None)
    if tag is not None:
        encoded["kind"] = encode(tag)
    for name, field in _fields(kind).items():
        item = getattr(value, field.name)
        if item == default_of(field) and not field.metadata.get("always"):
            continue
        encoded[name] = encode_field(item, field.metadata)
    return encoded


def _decode(kind: object, data: object, *, path: str, strict: bool, metadata: Metadata) -> object:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), data, path=path, strict=strict, metadata=metadata)
    if origin is tuple:
        return _decode_list(get_args(kind)[0], data, path=path, strict=strict, metadata=metadata)
    if origin is not None and issubclass(typing.cast("type", origin), Mapping):
        return _decode_map(get_args(kind)[1], data, path=path, strict=strict, metadata=metadata)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast("type", kind), data, path=path, strict=strict)
    value = _decode_scalar(kind, data, path=path, metadata=metadata)
    if strict:
        _check_length(data, path, metadata)
    return value


def _decode_list(
    kind: object, data: object, *, path: str, strict: bool, metadata: Metadata
) -> tuple[object, ...]:
    items = _expect_list(data, path)
    each = each_of(metadata)
    if strict:
        _check_count(items, path, metadata)
    decoded = tuple(
        _decode(kind, item, path=f"{path}[{index}]", strict=strict, metadata=each)
        for index, item in enumerate(items)
    )
    if strict:
        _check_unique(items, path, metadata)
    return decoded


def _decode_map(
    kind: object, data: object, *, path: str, strict: bool, metadata: Metadata
) -> dict[str, object]:
    entries = _expect_object(data, path)
    each = each_of(metadata)
    if strict:
        _check_count(entries, path, metadata)
    return {
        key: _decode(kind, item, path=f"{path}.{key}", strict=strict, metadata=each)
        for key, item in entries.items()
        if item is not None
    }


def _check_length(data: object, path: str, metadata: Metadata) -> None:
    maximum = limit(metadata, "max_length", LENGTH_MAX)
    if isinstance(data, str) and len(data) > maximum:
        raise SpecError(f"{path}: expected at most {maximum} characters, got {len(data)}")


def _check_count(items: Sequence[object] | Mapping[str, object], path: str, m: Metadata) -> None:
    maximum = limit(m, "max_items", ITEMS_MAX)
    if len(items) > maximum:
        raise SpecError(f"{path}: expected at most {maximum} entries, got {len(items)}")


def _check_unique(items: Sequence[object], path: str, metadata: Metadata) -> None:
    """Refuse a second entry with the same keys (Kubernetes' list types ``map`` and ``set``)."""
    keys = typing.cast("tuple[str, ...]", metadata.get("keys", ()))
    if not keys and not metadata.get("unique"):
        return
    seen: set[tuple[object, ...]] = set()
    for index, item in enumerate(items):
        found = tuple(item.get(key) for key in keys) if isinstance(item, Mapping) else (item,)
        if found in seen:
            name = f".{keys[0]}" if len(keys) == 1 else ""
            shown = " and ".join(repr(part) for part in found)
            raise SpecError(f"{path}[{index}]{name}: {shown} is listed twice")
        seen.add(found)


@functools.cache
def _hints(kind: type) -> Mapping[str, object]:
    """Return the types of a dataclass' fields; finding them out costs more than all the rest."""
    return get_type_hints(kind)


@functools.cache
def _fields(kind: type) -> Mapping[str, dataclasses.Field[object]]:
    """Return the fields of a dataclass by their names in JSON."""
    return {json_name(field): field for field in dataclasses.fields(kind)}


def _decode_dataclass(kind: type, data: object, *, path: str, strict: bool) -> object:
    document = _expect_object(data, path)
    hints = _hints(kind)
    fields = _fields(kind)
    prefix = f"{path}." if path else ""
    if strict:
        refused = {rule.field: rule for rule in rules_of(kind) if rule.refuses}
        for name in document:
            if name in refused and document[name] is not None:
                raise SpecError(f"{prefix}{name}: {refused[name].message}")
            if name not in fields and name not in refused:
                raise SpecError(f"{prefix}{name}: unknown field{nearest(name, list(fields))}")
    arguments: dict[str, object] = {}
    for name, field in fields.items():
        # As for the API server, a field without a value is a field left out.
        if document.get(name) is not None:
            arguments[field.name] = _decode(
                hints[field.name],
                document[name],
                path=f"{prefix}{name}",
                strict=strict,
                metadata=field.metadata,
            )
        elif default_of(field) is dataclasses.MISSING:
            raise SpecError(f"{prefix}{name}: required field is missing")
    value = kind(**arguments)
    if strict:
        check_rules(value, path=path)
    return typing.cast("object", value)


def check_rules(value: object, *, path: str) -> None:
    """Check the rules of one resource class on a value of it; parts have been checked before.

    Raises:
        SpecError: a rule is broken.
    """
    for rule in rules_of(type(value)):
        if rule.holds is not None and not rule.holds(value):
            place = ".".join(part for part in (path, rule.field) if part)
            raise SpecError(f"{place}: {rule.message}")


def _decode_union(
    members: tuple[object, ...],
    data: object,
    *,
    path: str,
    strict: bool,
    metadata: Metadata,
) -> object:
    present = [member for member in members if member is not type(None)]
    if len(present) == 1:
        return _decode(present[0], data, path=path, strict=strict, metadata=metadata)
    by_tag = {
        str(encode(tag)): member
        for member in present
        if (tag := getattr(member, "KIND", None)) is not None
    }
    if not by_tag:
        value = _decode_either(present, data, path=path, metadata=metadata)
        if strict:
            _check_length(data, path, metadata)
        return value
    document = dict(_expect_object(data, path))
    tag = document.pop("kind", None)
    if not isinstance(tag, str) or tag not in by_tag:
        raise SpecError(f"{path}.kind: expected one of {', '.join(sorted(by_tag))}, got {tag!r}")
    return _decode(by_tag[tag], document, path=path, strict=strict, metadata=metadata)


def _decode_either(
    members: Sequence[object], data: object, *, path: str, metadata: Metadata
) -> object:
    """Read a scalar of one of several plain types, for example a string or an integer."""
    if type(data) in members:
        if isinstance(data, str):
            _check_pattern(data, path, metadata)
        return data
    names = " or ".join(_PLAIN[member] for member in members if member in _PLAIN)
    hint = "; put it in quotes" if str in members and isinstance(data, bool | float) else ""
    raise SpecError(f"{path}: expected {names}, got {_shown(data)}{hint}")


_PLAIN: Final[Mapping[object, str]] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
}


def _decode_scalar(kind: object, data: object, *, path: str, metadata: Metadata) -> object:
    if metadata.get("duration"):
        return parse_duration_ms(data, path=path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        for member in kind:
            if member.value == data:
                return member
        known = [str(member.value) for member in kind]
        hint = nearest(data, known) if isinstance(data, str) else ""
        wanted = ", ".join(known)
        raise SpecError(f"{path}: expected {wanted}, got {data!r}{hint if 'mean' in hint else ''}")
    if kind is TaskId:
        return _decode_task(data, path)
    if kind is TopicPartition:
        topic, partition = _expect_list(data, path)
        return TopicPartition(str(topic), typing.cast("int", partition))
    return _decode_plain(kind, data, path=path, metadata=metadata)


def _decode_task(data: object, path: str) -> TaskId:
    try:
        return TaskId.parse(str(data))
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from error


def _decode_plain(kind: object, data: object, *, path: str, metadata: Metadata) -> object:
    wanted = _PLAIN[kind]
    minimum, maximum = metadata.get("minimum"), metadata.get("maximum")
    if isinstance(minimum, int):
        wanted += f" >= {minimum}"
    if isinstance(maximum, int):
        wanted += f"{' and' if isinstance(minimum, int) else ''} <= {maximum}"
    in_range = True
    if isinstance(data, int) and not isinstance(data, bool):
        in_range = (not isinstance(minimum, int) or data >= minimum) and (
            not isinstance(maximum, int) or data <= maximum
        )
    if type(data) is not kind or not in_range:
        raise SpecError(f"{path}: expected {wanted}, got {_shown(data)}")
    if isinstance(data, str):
        _check_pattern(data, path, metadata)
    return data


def _check_pattern(data: str, path: str, metadata: Metadata) -> None:
    pattern = metadata.get("pattern")
    if isinstance(pattern, str) and not re.fullmatch(pattern, data, re.ASCII):
        raise SpecError(f"{path}: expected {metadata.get('meaning', pattern)}, got {data!r:.200}")


def _expect_object(data: object, path: str) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise SpecError(f"{path or 'document'}: expected fields (a mapping), got {_shown(data)}")
    for key in data:
        if not isinstance(key, str):
            raise SpecError(
                f"{path or 'document'}: expected a field name, got {key!r}; put it in quotes"
            )
    return data


def _expect_list(data: object, path: str) -> Sequence[object]:
    if not isinstance(data, list | tuple):
        raise SpecError(f"{path}: expected a list, got {_shown(data)}")
    return data


def _shown(data: object) -> str:
    match data:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return repr(data)
