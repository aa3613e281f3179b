"""The dashboard of workers, their StreamThreads and their clients of Kafka."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater.model.lifecycle import ThreadState
from headwater_operator.dashboards.choosing import (
    AVG,
    CLIENT,
    INCREASE,
    MAX,
    MOVES,
    OF_WORKERS,
    ROLL_OUTS,
    THREAD,
    lines,
    shown,
    spread_lines,
)
from headwater_operator.dashboards.panels import Dashboard, Kind, Panel, Row, named

_KAFKA: Final = (*THREAD, "kafka_client")

WORKER: Final = Dashboard(
    uid="headwater-worker",
    title="Headwater / Worker",
    description="Workers and their StreamThreads: what do they spend their time on?",
    variables=OF_WORKERS,
    annotations=(MOVES, ROLL_OUTS),
    links=("headwater-fleet", "headwater-application", "headwater-state"),
    rows=(
        Row(
            title="Worker",
            panels=(
                lines(
                    "Ready",
                    "1 when every granted task is processed.",
                    metrics.READY,
                    CLIENT,
                ),
                lines(
                    "Lease held",
                    "0: the worker does not reach Kubernetes. It is replaced once its Lease is "
                    "stale.",
                    metrics.LEASE_HELD,
                    CLIENT,
                ),
                lines(
                    "Acknowledged epoch",
                    "Each step is an assignment that the worker has taken.",
                    metrics.ASSIGNMENT_EPOCH,
                    CLIENT,
                    MAX,
                ),
                Panel(
                    title="Versions",
                    description="The version of Headwater that each worker runs.",
                    queries=(shown(metrics.VERSION, (*CLIENT, "version"), MAX),),
                    kind=Kind.TABLE,
                ),
                Panel(
                    title="Revisions",
                    description="The revision of the specification that each worker was started "
                    "from. Several: a roll-out is under way.",
                    queries=(shown(metrics.REVISION, (*CLIENT, "revision"), MAX),),
                    kind=Kind.TABLE,
                ),
                lines(
                    "Pushes by OTLP that failed",
                    "Numbers are cumulative: the next push tells all.",
                    metrics.OTLP_FAILED_PUSHES,
                    CLIENT,
                    function=INCREASE,
                ),
                lines(
                    "Callers by HTTP that were refused",
                    "Expired after a token was replaced: somebody still shows the former one.",
                    metrics.HTTP_REFUSED_REQUESTS,
                    (*CLIENT, "reason"),
                    function=INCREASE,
                ),
            ),
        ),
        Row(
            title="StreamThreads",
            panels=(
                Panel(
                    title="State of StreamThreads",
                    description="PARTITIONS_ASSIGNED: it waits for its tasks to be restored.",
                    queries=(shown(metrics.THREAD_STATE_NUMBER, THREAD, MAX),),
                    kind=Kind.STATE_TIMELINE,
                    states=tuple(ThreadState),
                    width=24,
                ),
                lines("Records processed", "Per second.", metrics.THREAD_PROCESS, THREAD),
                Panel(
                    title="What a thread does",
                    description="Shares of its time. Mostly polling: it waits for records.",
                    queries=tuple(
                        shown(metric, THREAD, AVG, legend=f"{part} {named(THREAD)}")
                        for part, metric in metrics.RATIOS.items()
                    ),
                    stacked=True,
                ),
                spread_lines(
                    "Time of a record",
                    "By rounds.",
                    metrics.PROCESS_LATENCY,
                    THREAD,
                ),
                spread_lines(
                    "Time of a commit",
                    "Waiting for the broker included.",
                    metrics.COMMIT_LATENCY,
                    THREAD,
                ),
                lines("Commits", "Per second.", metrics.COMMIT, THREAD),
                lines(
                    "Records sent",
                    "Per second: outputs and changelogs.",
                    metrics.PRODUCED_RECORDS,
                    THREAD,
                ),
                spread_lines(
                    "Records of a poll",
                    "Few: the thread keeps up. As many as `max.poll.records`: it is behind.",
                    metrics.POLL_RECORDS,
                    THREAD,
                ),
                spread_lines(
                    "Time of a poll",
                    "Waiting for records included.",
                    metrics.POLL_LATENCY,
                    THREAD,
                ),
                lines(
                    "Tasks opened",
                    "How many tasks the thread has opened.",
                    metrics.TASK_CREATED,
                    THREAD,
                    function=INCREASE,
                ),
                lines(
                    "Tasks closed",
                    "How many tasks the thread has closed.",
                    metrics.TASK_CLOSED,
                    THREAD,
                    function=INCREASE,
                ),
            ),
        ),
        Row(
            title="Kafka clients",
            collapsed=True,
            panels=(
                lines(
                    "Time until a broker answered",
                    "Only with `statistics.interval.ms`.",
                    metrics.KAFKA_REQUEST_LATENCY,
                    _KAFKA,
                    MAX,
                ),
                lines("Requests to brokers", "Per second.", metrics.KAFKA_REQUESTS, _KAFKA),
                lines(
                    "Bytes queued", "In the client's queues.", metrics.KAFKA_QUEUED_BYTES, _KAFKA
                ),
                lines("Bytes sent", "Per second.", metrics.KAFKA_SENT_BYTES, _KAFKA),
                lines("Bytes received", "Per second.", metrics.KAFKA_RECEIVED_BYTES, _KAFKA),
            ),
        ),
    ),
)
"""Workers in detail."""
