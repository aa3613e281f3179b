"""The dashboard of an application: its tasks, processor nodes and topics."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater.model.lifecycle import TaskState
from headwater_operator.dashboards.choosing import (
    APP,
    AVG,
    CLIENT,
    INCREASE,
    MAX,
    MOVES,
    NODE,
    OF_WORKERS,
    PLACE,
    ROLL_OUTS,
    TASK,
    THREAD,
    average,
    lines,
    shown,
    spread_lines,
)
from headwater_operator.dashboards.panels import Dashboard, Kind, Panel, Row

_TOPIC: Final = (*APP, "topic")

APPLICATION: Final = Dashboard(
    uid="headwater-application",
    title="Headwater / Application",
    description="An application: which task is slow or behind, and where are records dropped?",
    variables=OF_WORKERS,
    annotations=(MOVES, ROLL_OUTS),
    links=("headwater-fleet", "headwater-worker", "headwater-state"),
    rows=(
        Row(
            title="Application",
            panels=(
                lines(
                    "Records processed by worker",
                    "How the work is spread. A worker that does far less than others has few or "
                    "small partitions.",
                    metrics.THREAD_PROCESS,
                    CLIENT,
                ),
                lines(
                    "Input records not yet processed",
                    "By task. One task far behind the others: a hot key or a slow processor.",
                    metrics.RECORDS_LAG,
                    TASK,
                ),
                spread_lines(
                    "Age of records",
                    "From the timestamp of a record to the end of its way through a sub-topology: "
                    "the average and the maximum of the last minute, the worst node.",
                    metrics.E2E_LATENCY,
                    (),
                ),
                lines(
                    "Commits",
                    "How often StreamThreads commit, by worker.",
                    metrics.COMMIT,
                    CLIENT,
                ),
            ),
        ),
        Row(
            title="Tasks",
            panels=(
                Panel(
                    title="Where tasks are",
                    description="What each task does, and on which worker. A task that moves ends "
                    "on one line and goes on on another. A standby that is RESTORING is behind.",
                    queries=(shown(metrics.TASK_STATE_NUMBER, PLACE, MAX),),
                    kind=Kind.STATE_TIMELINE,
                    states=tuple(TaskState),
                    width=24,
                ),
                lines("Records processed by task", "Per second.", metrics.TASK_PROCESS, TASK),
                lines(
                    "Share of the thread's processing time",
                    "A task near 1 has its thread for itself: more threads do not make it faster.",
                    metrics.ACTIVE_PROCESS_RATIO,
                    PLACE,
                    AVG,
                ),
                lines(
                    "Records fetched, not yet processed",
                    "What waits in the queues of a task.",
                    metrics.ACTIVE_BUFFER_COUNT,
                    TASK,
                ),
                lines(
                    "Records dropped",
                    "Records that were skipped: no key, too late, or unreadable.",
                    metrics.DROPPED_RECORDS,
                    TASK,
                    function=INCREASE,
                ),
                lines(
                    "Dead letters",
                    "Records that an exception handler has sent to a dead-letter topic.",
                    metrics.DEAD_LETTERS,
                    TASK,
                    function=INCREASE,
                ),
                lines(
                    "Commits that failed",
                    "How often a StreamThread went back to its last commit, to process again.",
                    metrics.FAILED_COMMITS,
                    THREAD,
                    function=INCREASE,
                ),
                lines("Punctuators called", "Per second.", metrics.TASK_PUNCTUATE, TASK),
                lines(
                    "Waits for records of another partition that ended",
                    "Each time `max.task.idle.ms` passed and a task went on without them.",
                    metrics.ENFORCED_PROCESSING,
                    TASK,
                    function=INCREASE,
                ),
            ),
        ),
        Row(
            title="Nodes and topics",
            panels=(
                lines(
                    "Records taken by source nodes",
                    "Per second, by task and node.",
                    metrics.NODE_PROCESS,
                    NODE,
                ),
                lines(
                    "Age of records by node, on average",
                    "A node whose records are much older than at its source: time is lost between.",
                    average(metrics.E2E_LATENCY),
                    NODE,
                    MAX,
                ),
                lines(
                    "Records consumed", "Per second, by topic.", metrics.RECORDS_CONSUMED, _TOPIC
                ),
                lines(
                    "Records produced", "Per second, by topic.", metrics.RECORDS_PRODUCED, _TOPIC
                ),
                lines("Bytes consumed", "Per second, by topic.", metrics.BYTES_CONSUMED, _TOPIC),
                lines("Bytes produced", "Per second, by topic.", metrics.BYTES_PRODUCED, _TOPIC),
            ),
        ),
        Row(
            title="At level DEBUG",
            collapsed=True,
            panels=(
                spread_lines(
                    "Time of a record in its task",
                    "By rounds.",
                    metrics.TASK_PROCESS_LATENCY,
                    TASK,
                ),
                spread_lines(
                    "Lateness of records",
                    "How much older than the stream time records were. Later than a window's "
                    "grace period: they are dropped.",
                    metrics.RECORD_LATENESS,
                    TASK,
                ),
                lines(
                    "Changes that suppressions let go",
                    "Per second.",
                    metrics.SUPPRESSION_EMIT,
                    NODE,
                ),
                lines("Results of closed windows", "Per second.", metrics.FINAL_EMIT, NODE),
            ),
        ),
    ),
)
"""One application in detail."""
