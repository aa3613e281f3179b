"""What a changed StreamApp asks for: taken over as it is, rolled out, for new workers, refused.

The class of each field stands in its metadata (``model.fields.Change``); the table in
``docs/reference/streamapp.md`` is printed from the same place.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.model.codec import encode, encode_object
from headwater.model.fields import Change, default_of, json_name, live_keys
from headwater.model.lifecycle import Engine
from headwater.model.livesettings import live_settings

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamAppSpec


def rolled_part(spec: StreamAppSpec) -> dict[str, object]:
    """Return as JSON values what a worker process is started from: the fields of class Roll.

    Two specifications with equal parts need no new pods. Defaults are left out, so one that is
    written makes no difference, nor does a release that knows more fields. What the operator puts
    in for ``image`` is its own to add. Spark's driver takes nothing over while it runs: there, what
    is live elsewhere belongs to this part.
    """
    part = _part(spec, Change.ROLL, None)
    if spec.engine is Engine.SPARK and (live := encode_object(live_settings(spec))):
        part["live"] = live
    return part


def with_rolled_part(spec: StreamAppSpec, rolled: StreamAppSpec) -> StreamAppSpec:
    """Return a specification whose rolled part is another one's; all else is its own."""
    merged = _merged(spec, rolled, None)
    assert isinstance(merged, type(spec))
    return merged


def revision_of(spec: StreamAppSpec, *more: str) -> str:
    """Return a name for :func:`rolled_part`: ten hexadecimal digits.

    Args:
        spec: the specification.
        more: what else a pod is made from, for example the image that stands in for none.
    """
    text = json.dumps([rolled_part(spec), *more], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def numbered(revision: str, changes: int) -> str:
    """Return a revision's name after so many changes of what ``spec.upgrade.rollOn`` names.

    It is the same specification: ``3f2a9c1b7e-2`` is ``3f2a9c1b7e`` after the second change.
    """
    base = base_of(revision)
    return f"{base}-{changes}" if changes else base


def base_of(revision: str) -> str:
    """Return a revision's name without the number of changes: that of its specification."""
    return revision.partition("-")[0]


def changes_of(revision: str) -> int:
    """Return how many changes of what ``spec.upgrade.rollOn`` names stand in a revision's name."""
    number = revision.partition("-")[2]
    return int(number) if number.isdecimal() else 0


def change_of(field: dataclasses.Field[object], inherited: Change | None) -> Change | None:
    """Return a field's class: its own, or that of what it is part of."""
    own = field.metadata.get("change")
    return own if isinstance(own, Change) else inherited


def _part(value: object, wanted: Change, inherited: Change | None) -> dict[str, object]:
    """Return the fields of one class that do not hold their default."""
    assert dataclasses.is_dataclass(value)
    found: dict[str, object] = {}
    for field in dataclasses.fields(value):
        item, default = getattr(value, field.name), default_of(field)
        change = change_of(field, inherited)
        if isinstance(item, Mapping) and (live := live_keys(field)):
            item = {key: value for key, value in item.items() if key not in live}
        if item == default:
            continue
        if not _is_object(item):
            if change is wanted:
                found[json_name(field)] = encode(item)
            continue
        part = _part(item, wanted, change)
        # Where nothing is the default, even an object without a field says something (tls: {}).
        if part or (default is None and change is wanted):
            found[json_name(field)] = part
    return found


def _merged(value: object, rolled: object, inherited: Change | None) -> object:
    """Return a value with the fields of class Roll of another one."""
    assert dataclasses.is_dataclass(value)
    assert not isinstance(value, type)
    found: dict[str, object] = {}
    for field in dataclasses.fields(value):
        mine, its = getattr(value, field.name), getattr(rolled, field.name)
        change = change_of(field, inherited)
        if isinstance(mine, Mapping) and (live := live_keys(field)):
            found[field.name] = {
                **{key: item for key, item in its.items() if key not in live},
                **{key: item for key, item in mine.items() if key in live},
            }
        elif _is_object(mine) and _is_object(its) and type(mine) is type(its):
            found[field.name] = _merged(mine, its, change)
        else:
            found[field.name] = its if change is Change.ROLL else mine
    return dataclasses.replace(value, **found)


def _is_object(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
