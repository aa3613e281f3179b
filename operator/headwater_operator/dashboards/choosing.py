"""What dashboards share: labels to group by, variables to choose by, and how a metric is shown."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater.model.metrics import Metric, MetricType
from headwater_operator.dashboards.panels import (
    Aggregation,
    Annotation,
    Function,
    Panel,
    Query,
    Variable,
    named,
)

APP: Final = ("namespace", "application_id")
"""Namespaces may have applications of one id, with a Kafka each."""
CLIENT: Final = (*APP, "client_id")
"""Every application that is embedded has the worker ``embedded``."""
THREAD: Final = (*APP, "thread_id")
TASK: Final = (*APP, "task_id")
"""Every application has a task 0_0."""
PLACE: Final = (*TASK, "client_id")
"""A task and who has it."""
NODE: Final = (*TASK, "processor_node_id")
STORE: Final = (*TASK, "state_id")
"""Of active tasks: the stores of copies are not measured."""

NAMESPACE: Final = Variable(label="namespace", title="Namespace", metric=metrics.READY)
APPLICATION_ID: Final = Variable(label="application_id", title="Application", metric=metrics.READY)
CLIENT_ID: Final = Variable(label="client_id", title="Worker", metric=metrics.READY)
OF_WORKERS: Final = (NAMESPACE, APPLICATION_ID, CLIENT_ID)

MOVES: Final = Annotation(
    title="Tasks moved",
    query=Query(metric=metrics.TASK_CREATED, by=APP, function=Function.INCREASE),
)
"""A StreamThread has opened tasks: they were granted or moved, or begin again.

Epochs would mark too much: every half minute a worker looks at the topics, in an epoch of its own.
"""

ROLL_OUTS: Final = Annotation(
    title="Roll-out",
    query=Query(
        metric=metrics.REVISION,
        by=APP,
        aggregation=Aggregation.COUNT,
        distinct=("revision",),
    ),
    above=1,
)
"""As long as workers of an application run several revisions of its specification."""

SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN
AVG, COUNT = Aggregation.AVG, Aggregation.COUNT
INCREASE: Final = Function.INCREASE


def shown(
    metric: Metric,
    by: tuple[str, ...],
    aggregation: Aggregation = SUM,
    *,
    function: Function | None = None,
    legend: str = "",
) -> Query:
    """Return the usual query of a metric: a counter is shown by its growth per second."""
    if function is None:
        function = Function.RATE if metric.type is MetricType.COUNTER else Function.RAW
    return Query(metric=metric, by=by, aggregation=aggregation, function=function, legend=legend)


def lines(
    title: str,
    description: str,
    metric: Metric,
    by: tuple[str, ...],
    aggregation: Aggregation = SUM,
    *,
    function: Function | None = None,
) -> Panel:
    """Return a panel of one metric over time."""
    return Panel(
        title=title,
        description=description,
        queries=(shown(metric, by, aggregation, function=function),),
    )


def average(spread: metrics.Spread) -> Metric:
    """Return the metric of the average of something that has one."""
    assert spread.avg is not None
    return spread.avg


def greatest(spread: metrics.Spread) -> Metric:
    """Return the metric of the maximum of something that has one."""
    assert spread.max is not None
    return spread.max


def spread_lines(
    title: str, description: str, spread: metrics.Spread, by: tuple[str, ...]
) -> Panel:
    """Return a panel of the average and the maximum of something, the worst of each label."""
    legend = named(by)
    return Panel(
        title=title,
        description=description,
        queries=(
            shown(average(spread), by, MAX, legend=f"{legend} avg".strip()),
            shown(greatest(spread), by, MAX, legend=f"{legend} max".strip()),
        ),
    )
