"""A snapshot as JSON values, and what changed between two of them.

A document is an object of objects: sections (``app``, ``workers``, ``tasks``, ``topics``, ...) of
rows by their keys. What is not known is left out, so that ``null`` in a change can say that
something is gone. Rates are rounded to two digits: a steady application sends next to nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.appstatus import AutoscalingStatus
    from headwater_operator.overview.events import Event
    from headwater_operator.overview.snapshot import CopyRow, Snapshot, TaskRow, WorkerRow

_DIGITS: Final = 2
_NOBODY: Final[Mapping[str, int]] = MappingProxyType({})


def document_of(snapshot: Snapshot, heard: Mapping[str, int] = _NOBODY) -> dict[str, Any]:
    """Return the sections ``app``, ``workers`` and ``tasks`` of a snapshot.

    Args:
        snapshot: what was seen.
        heard: by worker, when it answered last, in milliseconds since the epoch.
    """
    return {
        "app": _app(snapshot),
        "workers": {row.name: _worker(row, heard.get(row.name)) for row in snapshot.workers},
        "tasks": {str(row.task): _task(row) for row in snapshot.tasks},
    }


def event_of(event: Event) -> dict[str, Any]:
    """Return a decision or finding as JSON values."""
    return _known(
        at=event.at_ms,
        kind=str(event.kind),
        text=event.text,
        worker=event.worker or None,
        granted=[str(task) for task in event.granted] or None,
        revoked=[str(task) for task in event.revoked] or None,
    )


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what turns ``before`` into ``after`` by :func:`merged`; empty if nothing changed.

    Objects are compared key by key; everything else is replaced as a whole. ``None`` stands for a
    key that is gone.
    """
    found: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        both = isinstance(old, dict) and isinstance(value, dict)
        found[key] = change(old, value) if both and old is not None else value
    return found


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``before`` with changes; ``static/js/merge.js`` does the same in place."""
    found = dict(before)
    for key, value in changes.items():
        old = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(old, dict) and isinstance(value, dict):
            found[key] = merged(old, value)
        else:
            found[key] = value
    return found


def rounded(value: float) -> float | None:
    """Return a rate to two digits, whole from ten on; ``None`` for what is no finite number."""
    if not math.isfinite(value):
        return None
    if value == 0:
        return 0
    text = f"{value:.{_DIGITS}g}"
    number = float(text)
    return int(number) if number >= 10 or number == int(number) else number


def _known(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _app(snapshot: Snapshot) -> dict[str, Any]:
    driver = snapshot.driver
    operation = snapshot.operation
    return _known(
        name=snapshot.app,
        namespace=snapshot.namespace or None,
        state=snapshot.state,
        reason=snapshot.reason or None,
        failure=snapshot.failure or None,
        paused=snapshot.paused or None,
        guarantee=snapshot.guarantee or None,
        epoch=snapshot.epoch or None,
        replicas=snapshot.replicas,
        live=snapshot.live_workers,
        threads=snapshot.threads,
        kafka=snapshot.kafka or None,
        generation=snapshot.generation,
        engine=snapshot.engine,
        unread=snapshot.unread or None,
        inexact=snapshot.inexact or None,
        version=snapshot.version or None,
        rate=rounded(snapshot.records_per_s),
        lag=snapshot.lag,
        running=snapshot.running_tasks,
        total=len(snapshot.tasks) + snapshot.unassigned,
        bytes=_sum_known(row.state_bytes for row in snapshot.tasks),
        filling=snapshot.filling,
        operation=None if operation is None else f"{operation.type} {operation.target}".strip(),
        scaling=None if snapshot.autoscaling is None else _scaling(snapshot.autoscaling),
        driver=None if driver is None else {k: v for k, v in asdict(driver).items() if v},
        conditions=[
            _known(
                type=str(each.type),
                status=str(each.status),
                reason=each.reason,
                message=each.message or None,
                well=each.status == each.type.when_well,
            )
            for each in snapshot.conditions
        ]
        or None,
    )


def _sum_known(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _scaling(told: AutoscalingStatus) -> dict[str, Any]:
    return _known(
        mode=str(told.mode),
        desired=told.desired,
        least=told.min_replicas,
        most=told.max_replicas,
        reason=told.reason or None,
        since=told.since,
    )


def _worker(row: WorkerRow, heard: int | None) -> dict[str, Any]:
    return _known(
        state=row.state,
        pid=row.pid or None,
        node=row.node or None,
        revision=row.revision or None,
        # A Lease is renewed every few seconds: its age is news only once it is late.
        lease=None if row.lease_age_s is None or row.lease_age_s < 10 else int(row.lease_age_s),
        tasks=row.tasks,
        copies=row.copies,
        rate=rounded(row.records_per_s),
        open=row.open_transactions or None,
        filling=row.filling,
        problem=row.problem or None,
        heard=heard if row.is_silent else None,
    )


def _task(row: TaskRow) -> dict[str, Any]:
    is_restoring = row.remaining is not None and row.state != "RUNNING"
    return _known(
        state=row.state,
        worker=row.worker or None,
        slot=row.slot,
        rate=rounded(row.records_per_s),
        lag=row.lag,
        restored=row.restored if is_restoring else None,
        remaining=row.remaining if is_restoring else None,
        why=row.why or None,
        bytes=row.state_bytes,
        copies={copy.worker: _copy(copy) for copy in row.copies} or None,
        stored=dict(row.stored) or None,
    )


def _copy(row: CopyRow) -> dict[str, Any]:
    return _known(
        role=str(row.role),
        behind=row.behind,
        caughtUp=row.is_caught_up or None,
        why=row.why or None,
    )
