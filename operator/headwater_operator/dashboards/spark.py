"""The dashboard of applications on Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headwater.model import metrics
from headwater_operator.dashboards.choosing import (
    APP,
    APPLICATION_ID,
    INCREASE,
    MAX,
    NAMESPACE,
    lines,
    shown,
)
from headwater_operator.dashboards.panels import Annotation, Dashboard, Row

_TAKE_OVERS: Final = Annotation(
    title="Take-over",
    query=shown(metrics.SPARK_GENERATION, APP, MAX),
    changes_within="5m",
)
"""Spark has taken the application over. A driver in place of a lost one keeps its generation."""
_MOVES: Final = Annotation(
    title="Tasks moved",
    query=shown(metrics.SPARK_TASKS_OPENED, APP, function=INCREASE),
)

SPARK: Final = Dashboard(
    uid="headwater-spark",
    title="Headwater / Spark",
    description="Applications that run on Spark: micro-batches, and what they did.",
    variables=(
        replace(NAMESPACE, metric=metrics.SPARK_RUNNING),
        replace(APPLICATION_ID, metric=metrics.SPARK_RUNNING),
    ),
    annotations=(_TAKE_OVERS, _MOVES),
    links=("headwater-fleet",),
    rows=(
        Row(
            title="Micro-batches",
            panels=(
                lines(
                    "Running",
                    "1 while micro-batches are taken.",
                    metrics.SPARK_RUNNING,
                    APP,
                ),
                lines("Records processed", "Per second.", metrics.SPARK_RECORDS, APP),
                lines("Micro-batches", "Per second.", metrics.SPARK_BATCHES, APP),
                lines(
                    "Time of a micro-batch",
                    "Of the last one.",
                    metrics.SPARK_BATCH_DURATION_MS,
                    APP,
                    MAX,
                ),
                lines(
                    "Age of the micro-batch under way",
                    "Growing without end: it does not get on. Look at the driver's log.",
                    metrics.SPARK_BUSY_SECONDS,
                    APP,
                    MAX,
                ),
                lines("Tasks", "Tasks of the topology.", metrics.SPARK_TASKS, APP),
                lines(
                    "Tasks opened",
                    "Spark opens a task anew when it gives it to another Python worker.",
                    metrics.SPARK_TASKS_OPENED,
                    APP,
                    function=INCREASE,
                ),
                lines(
                    "Records dropped",
                    "Records that were skipped: no key, too late, or unreadable.",
                    metrics.SPARK_DROPPED_RECORDS,
                    APP,
                    function=INCREASE,
                ),
                lines(
                    "Generation",
                    "Each step is a take-over of the application by a driver.",
                    metrics.SPARK_GENERATION,
                    APP,
                    MAX,
                ),
            ),
        ),
    ),
)
"""Spark's drivers."""
