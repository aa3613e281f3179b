"""What the entries of a changelog are of, by the kind of their store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headwater.model.stores import KeyLayout
from headwater.wire.buffer import decode

if TYPE_CHECKING:
    from headwater.model.stores import StoreSpec

_TIME, _NUMBER, _SIDE, _MARK = 8, 4, 1, 1


def key_of(spec: StoreSpec, data: bytes) -> bytes:
    """Return the key of the records from which an entry of a changelog comes."""
    if is_shared_by_sides(spec):
        return data[_TIME + _SIDE :]
    if spec.kind.holds_records:
        return data[_MARK + _TIME : -_NUMBER]
    match spec.kind.key_layout:
        case KeyLayout.WINDOW:
            return data[: -_TIME - _NUMBER]
        case KeyLayout.SESSION:
            return data[: -2 * _TIME]
        case _:
            return data


def is_shared_by_sides(spec: StoreSpec) -> bool:
    """Whether it holds the records of a join of streams that wait for a partner."""
    return "shared-join" in spec.name or "OUTERSHARED" in spec.name


def listed_key(spec: StoreSpec, key: str) -> str:
    """Return a changelog's key as Java lists it: of a window without the number of the value."""
    return without_number(key) if spec.kind.key_layout is KeyLayout.WINDOW else key


def without_number(key: str) -> str:
    """Return a changelog's key without the number among those of one time and key."""
    return key[: -2 * _NUMBER]


def entry_key(spec: StoreSpec, key: str, timestamp: int) -> str:
    """Return what tells an entry of a changelog from others: of a version, its time, too."""
    return f"{key}@{timestamp}" if spec.kind.versioned else key


def value_of(spec: StoreSpec, value: str | None) -> str | None:
    """Return a changelog's value without where its record was read, which engines name unlike."""
    if value is None or not (spec.kind.is_buffer or spec.kind.holds_records):
        return value
    waits: Any = decode(bytes.fromhex(value))
    return json.dumps(waits._replace(topic="", partition=0, offset=0), default=repr)
