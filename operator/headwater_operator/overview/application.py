"""The overview of one application, from its resource and what was found out about its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.appstatus import TaskCounts
from headwater.model.cluster import format_epoch
from headwater.model.lifecycle import Engine
from headwater.model.streamapp import ProcessingGuarantee
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.overview.rows import task_rows, worker_rows
from headwater_operator.overview.snapshot import DriverRow, Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.appstatus import AppStatus
    from headwater.model.streamapp import StreamApp
    from headwater.model.topics import TopologyReport
    from headwater_operator.overview.events import Event
    from headwater_operator.overview.rows import RateOf
    from headwater_operator.overview.seen import SeenWorker

_GONE = frozenset({"ended", "stopped"})


def snapshot_of(
    app: StreamApp,
    status: AppStatus,
    seen: Sequence[SeenWorker],
    *,
    rate: RateOf,
    is_decided: bool = True,
    driver: DriverRow | None = None,
    events: Sequence[Event] = (),
    why_silent: str = "",
) -> Snapshot:
    """Return the overview of an application.

    Args:
        app: what is wanted.
        status: what the control loop has reported.
        seen: all workers.
        rate: see :func:`~headwater_operator.overview.rows.task_rows`.
        is_decided: whether the status is about what is wanted now.
        driver: of Spark.
        events: the last ones, oldest first.
        why_silent: why workers have told no numbers, if the reader knows.
    """
    tasks = task_rows(seen, rate)
    workers = worker_rows(seen, tasks, may_ask=not why_silent)
    if status.engine.name is not Engine.NATIVE or not is_decided:
        # They are kept for when the application comes back; that they have ended is no news.
        workers = tuple(row for row in workers if row.state not in _GONE)
    failure = status.failure
    return Snapshot(
        app=app.name,
        state=str(status.state) if is_decided else "starting",
        reason=status.reason,
        guarantee=str(guarantee_of(app, status.engine.name)),
        epoch=format_epoch(status.assignment_epoch),
        replicas=wanted_workers(app, status),
        ready_replicas=status.ready_replicas,
        threads=app.spec.threads_per_worker,
        kafka=app.spec.kafka.bootstrap_servers or "",
        engine=status.engine.name.value,
        driver=driver,
        workers=workers,
        tasks=tasks,
        paused=_paused(app, status) if is_decided else "",
        counts=status.tasks if is_decided else TaskCounts(),
        operation=status.operation,
        conditions=status.conditions,
        autoscaling=status.autoscaling if is_decided else None,
        topology=topology_of(seen),
        inexact=inexact_of(seen, why_silent),
        version=status.version,
        unread=status.unread_records,
        events=tuple(events),
        failure="" if failure is None else f"{failure.error}: {failure.message}",
    )


def guarantee_of(app: StreamApp, engine: Engine) -> ProcessingGuarantee:
    """Return how an engine processes the records of an application: Spark always exactly once."""
    if engine is Engine.SPARK:
        return ProcessingGuarantee.EXACTLY_ONCE_V2
    return app.spec.processing_guarantee


def topology_of(seen: Sequence[SeenWorker]) -> TopologyReport | None:
    """Return the topology as a worker has reported it; of one that runs, if there is any."""
    ranked = sorted(seen, key=lambda one: not one.is_alive)
    reports = (one.worker.status.topology for one in ranked)
    return next((report for report in reports if report is not None), None)


def inexact_of(seen: Sequence[SeenWorker], why: str = "") -> str:
    """Say of which workers no numbers are known; empty if all that run have told them.

    Args:
        seen: all workers.
        why: why they have not, if that is known.
    """
    silent = [
        one.worker.name
        for one in seen
        if one.is_alive
        and not one.waits_for
        and not one.has_told
        and (one.is_ready or one.worker.status.endpoint)
    ]
    if not silent:
        return ""
    reason = why or "they do not answer"
    return (
        f"no exact numbers of {', '.join(silent)}: {reason}; lags of copies are the rounded ones "
        "of their status, other numbers are missing"
    )


def _paused(app: StreamApp, status: AppStatus) -> str:
    if not app.spec.paused:
        return ""
    return "paused" if status.paused else "pausing"
