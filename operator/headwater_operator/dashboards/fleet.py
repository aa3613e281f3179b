"""The dashboard of all applications."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater.model.lifecycle import ClientState
from headwater.model.metrics import ROCKSDB_PROPERTIES
from headwater_operator.dashboards.choosing import (
    APP,
    CLIENT,
    COUNT,
    INCREASE,
    MAX,
    MIN,
    MOVES,
    OF_WORKERS,
    ROLL_OUTS,
    greatest,
    lines,
    shown,
)
from headwater_operator.dashboards.panels import Dashboard, Kind, Panel, Query, Quotient, Row, named

_ALL: Final = ()
_READY: Final = shown(metrics.READY, APP, legend="ready")
_WORKERS: Final = shown(metrics.READY, APP, COUNT, legend="workers")


def _number(title: str, description: str, metric: metrics.Metric) -> Panel:
    query = shown(metric, _ALL)
    return Panel(title=title, description=description, queries=(query,), kind=Kind.STAT, width=3)


FLEET: Final = Dashboard(
    uid="headwater-fleet",
    title="Headwater / Fleet",
    description="Every application: is it running, how much does it do, how far is it behind?",
    variables=OF_WORKERS,
    annotations=(MOVES, ROLL_OUTS),
    links=(
        "headwater-application",
        "headwater-worker",
        "headwater-state",
        "headwater-spark",
        "headwater-operator",
    ),
    rows=(
        Row(
            title="At a glance",
            panels=(
                Panel(
                    title="Running applications",
                    description="Applications of which Prometheus reads a worker.",
                    queries=(Query(metric=metrics.READY, by=(), aggregation=COUNT, distinct=APP),),
                    kind=Kind.STAT,
                    width=3,
                ),
                Panel(
                    title="Workers",
                    description="Workers that Prometheus reads.",
                    queries=(shown(metrics.READY, _ALL, COUNT),),
                    kind=Kind.STAT,
                    width=3,
                ),
                _number(
                    "Workers that are ready",
                    "Workers that process every task they were granted.",
                    metrics.READY,
                ),
                _number(
                    "Records per second",
                    "Records processed by all StreamThreads.",
                    metrics.THREAD_PROCESS,
                ),
                _number(
                    "Records behind",
                    "Input records that are in Kafka and not yet processed.",
                    metrics.RECORDS_LAG,
                ),
                _number(
                    "Restoring",
                    "Tasks whose state is being rebuilt; they process nothing meanwhile.",
                    metrics.ACTIVE_RESTORING_TASKS,
                ),
                _number(
                    "Dropped per second",
                    "Records that were skipped: no key, too late, or unreadable.",
                    metrics.DROPPED_RECORDS,
                ),
                _number(
                    "Dead letters per second",
                    "Records that an exception handler has sent to a dead-letter topic.",
                    metrics.DEAD_LETTERS,
                ),
                Panel(
                    title="Applications",
                    description="One row for each application.",
                    queries=(
                        _WORKERS,
                        _READY,
                        shown(metrics.THREAD_PROCESS, APP, legend="records per second"),
                        shown(metrics.RECORDS_LAG, APP, legend="behind"),
                        shown(metrics.ACTIVE_RESTORING_TASKS, APP, legend="restoring"),
                        shown(
                            ROCKSDB_PROPERTIES["total-sst-files-size"], APP, legend="state on disk"
                        ),
                    ),
                    kind=Kind.TABLE,
                    width=24,
                ),
            ),
        ),
        Row(
            title="Running",
            panels=(
                Panel(
                    title="State of workers",
                    description="What each worker is doing. REBALANCING: it waits for tasks to be "
                    "restored or handed over.",
                    queries=(shown(metrics.CLIENT_STATE, CLIENT, MAX),),
                    kind=Kind.STATE_TIMELINE,
                    states=tuple(ClientState),
                    width=24,
                ),
                Panel(
                    title="Share of workers that are ready",
                    description="1 if every worker processes every task it was granted.",
                    queries=(Quotient(numerator=_READY, denominator=_WORKERS, legend=named(APP)),),
                ),
                lines(
                    "StreamThreads",
                    "StreamThreads that have a process.",
                    metrics.ALIVE_STREAM_THREADS,
                    APP,
                ),
                lines(
                    "StreamThreads replaced",
                    "How many StreamThreads were replaced after an error or a kill.",
                    metrics.FAILED_STREAM_THREADS,
                    APP,
                    function=INCREASE,
                ),
                lines(
                    "Tasks being restored",
                    "Tasks whose state is being rebuilt.",
                    metrics.ACTIVE_RESTORING_TASKS,
                    APP,
                ),
            ),
        ),
        Row(
            title="Work",
            panels=(
                lines(
                    "Records processed",
                    "Records processed per second.",
                    metrics.THREAD_PROCESS,
                    APP,
                ),
                lines(
                    "Input records not yet processed",
                    "Growing lag: the application gets less done than is written.",
                    metrics.RECORDS_LAG,
                    APP,
                ),
                Panel(
                    title="Time to catch up",
                    description="How long the lag takes at the rate of now. No number: nothing is "
                    "processed and nothing is to be.",
                    queries=(
                        Quotient(
                            numerator=shown(metrics.RECORDS_LAG, APP),
                            denominator=shown(metrics.THREAD_PROCESS, APP),
                        ),
                    ),
                ),
                lines(
                    "Age of records when they were processed, at most",
                    "From the timestamp of a record to the end of its way through a sub-topology.",
                    greatest(metrics.E2E_LATENCY),
                    APP,
                    MAX,
                ),
                lines(
                    "Records dropped",
                    "Records that were skipped: no key, too late, or unreadable. The log of the "
                    "worker names each.",
                    metrics.DROPPED_RECORDS,
                    APP,
                ),
            ),
        ),
        Row(
            title="State",
            panels=(
                lines(
                    "State on disk",
                    "Files of RocksDB of active tasks; standbys need as much again.",
                    ROCKSDB_PROPERTIES["total-sst-files-size"],
                    APP,
                ),
                lines(
                    "Disk still available",
                    "Of the worker that has least. At 0 the application stops.",
                    metrics.STATE_DIR_AVAILABLE,
                    APP,
                    MIN,
                ),
                lines(
                    "Changelog records restored",
                    "Records that restores applied, per second.",
                    metrics.RESTORE_RECORDS,
                    APP,
                ),
                lines(
                    "Standby and warm-up tasks",
                    "Copies of state that are kept up to date.",
                    metrics.STANDBY_UPDATING_TASKS,
                    APP,
                ),
                lines(
                    "Standby and warm-up tasks that have caught up",
                    "Copies that could take over at once.",
                    metrics.STANDBY_CAUGHT_UP_TASKS,
                    APP,
                ),
            ),
        ),
    ),
)
"""Every application in a line."""
