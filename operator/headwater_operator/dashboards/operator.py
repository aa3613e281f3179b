"""The dashboard of the operator itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater_operator import metrics
from headwater_operator.dashboards.choosing import (
    MAX,
    MOVES,
    NAMESPACE,
    ROLL_OUTS,
    lines,
    shown,
)
from headwater_operator.dashboards.panels import (
    BUCKET,
    Dashboard,
    Function,
    Kind,
    Panel,
    Query,
    Row,
    Variable,
)

if TYPE_CHECKING:
    from headwater.model.metrics import Metric

_POD: Final = ("pod",)
_STREAMAPP: Final = ("streamapp_namespace", "streamapp")
_WHICH: Final = "{{streamapp_namespace}}/{{streamapp}}"
_NAMESPACE: Final = Variable(
    label=NAMESPACE.label, title="Namespace of the operator", metric=metrics.LEADING
)


def _number(title: str, description: str, metric: Metric) -> Panel:
    """A gauge of one operator is 0 in the others, which stand by."""
    queries = (shown(metric, ()),)
    return Panel(title=title, description=description, queries=queries, kind=Kind.STAT, width=6)


OPERATOR: Final = Dashboard(
    uid="headwater-operator",
    title="Headwater / Operator",
    description="The operator: does it lead, does it keep up, does the API server answer?",
    variables=(_NAMESPACE,),
    # Of every application: its namespace is another than the operator's.
    annotations=(replace(MOVES, of_all=True), replace(ROLL_OUTS, of_all=True)),
    links=("headwater-fleet",),
    rows=(
        Row(
            title="At a glance",
            panels=(
                _number(
                    "Operators that lead",
                    "1. With 0, nobody replaces a worker that is lost.",
                    metrics.LEADING,
                ),
                Panel(
                    title="StreamApps",
                    description="By whether they are ready.",
                    queries=(shown(metrics.STREAMAPPS, ("ready",), legend="ready: {{ready}}"),),
                    kind=Kind.STAT,
                    width=6,
                ),
                _number(
                    "Degraded",
                    "StreamApps that need somebody: their condition Degraded says what to do.",
                    metrics.DEGRADED,
                ),
                _number(
                    "Namespaces without rights",
                    "Watched namespaces that were deleted or give no rights.",
                    metrics.CLOSED_NAMESPACES,
                ),
            ),
        ),
        Row(
            title="StreamApps",
            panels=(
                Panel(
                    title="Problems",
                    description="StreamApps whose condition Degraded or Stalled is True. Stalled: "
                    "no retry will help.",
                    queries=(
                        shown(
                            metrics.PROBLEM,
                            (*_STREAMAPP, "condition", "reason"),
                            MAX,
                            legend="is so",
                        ),
                    ),
                    kind=Kind.TABLE,
                    width=24,
                ),
                lines(
                    "Workers that are not ready",
                    "They do not process every task they were granted. A worker without a pod "
                    "counts.",
                    metrics.NOT_READY,
                    _STREAMAPP,
                    MAX,
                ),
            ),
        ),
        Row(
            title="Autoscaling",
            panels=(
                Panel(
                    title="Workers by load",
                    description="Of StreamApps with spec.autoscaling: how many workers there "
                    "should be, and how many process all their tasks. With mode Advise nothing is "
                    "done about it.",
                    queries=(
                        shown(metrics.WORKERS_DESIRED, _STREAMAPP, MAX, legend=f"{_WHICH} desired"),
                        shown(metrics.WORKERS_READY, _STREAMAPP, MAX, legend=f"{_WHICH} ready"),
                    ),
                ),
                Panel(
                    title="Why so many workers",
                    description="Unsettled: tasks move first. LagUnknown: a worker does not "
                    "answer, and the number stays. HotTask, AtMost: another worker would not help. "
                    "`status.autoscaling.reason` says the same in a sentence.",
                    queries=(
                        shown(
                            metrics.AUTOSCALING,
                            (*_STREAMAPP, "mode", "reason"),
                            MAX,
                            legend="is so",
                        ),
                    ),
                    kind=Kind.TABLE,
                ),
            ),
        ),
        Row(
            title="Rounds",
            panels=(
                lines(
                    "Rounds per second",
                    "By how they ended. Errors that stay: look at the operator's log.",
                    metrics.RECONCILES,
                    ("result",),
                    function=Function.RATE,
                ),
                Panel(
                    title="Time of a round",
                    description="Observe, decide and act for one StreamApp: half of the rounds, "
                    "and 99 of 100, take less.",
                    queries=tuple(
                        Query(
                            metric=metrics.RECONCILES,
                            by=(),
                            function=Function.QUANTILE,
                            quantile=quantile,
                            legend=f"{quantile:.0%}",
                        )
                        for quantile in (0.5, 0.99)
                    ),
                ),
                Panel(
                    title="Rounds by their time",
                    description="How many rounds per second took how long.",
                    queries=(
                        Query(metric=metrics.RECONCILES, by=(BUCKET,), function=Function.RATE),
                    ),
                    kind=Kind.HEAT_MAP,
                ),
                lines(
                    "Decisions without a look",
                    "Per second: decided from what was known, without a request.",
                    metrics.LOOKS,
                    (),
                ),
                lines(
                    "Actions",
                    "Per second: what was done to workers, by reason.",
                    metrics.ACTIONS,
                    ("reason",),
                ),
                lines(
                    "StreamApps that wait",
                    "For a round. Growing: raise `hands`, or the API server is slow.",
                    metrics.QUEUE_DEPTH,
                    _POD,
                ),
                lines(
                    "Time that the first of them waits",
                    "Seconds are normal for a moment, minutes are not.",
                    metrics.QUEUE_LATE,
                    _POD,
                    MAX,
                ),
                lines(
                    "Generation of the leadership",
                    "Each step is a new leader.",
                    metrics.GENERATION,
                    (),
                    MAX,
                ),
            ),
        ),
        Row(
            title="API server and workers",
            panels=(
                lines(
                    "Requests to the API server",
                    "Per second, by verb and kind.",
                    metrics.API_REQUESTS,
                    ("verb", "resource"),
                ),
                lines(
                    "Answers of the API server",
                    "Per second, by HTTP status. 0: no answer; 403: a right is missing; 429: it "
                    "asks for patience.",
                    metrics.API_REQUESTS,
                    ("code",),
                ),
                lines(
                    "Time that watches were deaf",
                    "A watch that misses changes is begun anew; meanwhile sweeps find them.",
                    metrics.WATCH_DEAF,
                    ("resource",),
                    MAX,
                ),
                lines(
                    "Workers asked for exact lags",
                    "Per second, by whether they have answered. Silent ones: a network policy?",
                    metrics.LAG_REQUESTS,
                    ("result",),
                ),
            ),
        ),
    ),
)
"""The operator in detail."""
