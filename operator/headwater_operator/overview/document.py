"""An overview as JSON values, for ``-o json`` and the page: every field, whatever its value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.ids import TaskId

if TYPE_CHECKING:
    from headwater_operator.overview.snapshot import Snapshot


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return an overview with its totals; the topology is left out, it may be large."""
    shown = as_json(dataclasses.replace(snapshot, topology=None))
    assert isinstance(shown, dict)
    del shown["topology"]
    totals = {
        "lag": snapshot.lag,
        "recordsPerS": snapshot.records_per_s,
        "runningTasks": snapshot.running_tasks,
        "liveWorkers": snapshot.live_workers,
        "isReady": snapshot.is_ready,
    }
    return {**shown, **totals}


def as_json(value: object) -> object:
    """Return a value of this package as JSON values: ``records_per_s`` becomes ``recordsPerS``."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {
            _camel(field.name): as_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
