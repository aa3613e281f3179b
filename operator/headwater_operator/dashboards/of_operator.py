"""Alerts about the operator, and about applications that it knows to be stuck."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headwater_operator import metrics
from headwater_operator.dashboards.alerts import Alert, Condition, Severity
from headwater_operator.dashboards.choosing import MAX, shown
from headwater_operator.dashboards.operator import OPERATOR
from headwater_operator.dashboards.panels import Function, Query

NAMESPACE: Final = "$namespace"
SERVICE: Final = "$service"
"""What the chart puts the release's own namespace and Service in for."""
_MINE: Final = (("namespace", NAMESPACE), ("service", SERVICE))
_LEADING: Final = replace(shown(metrics.LEADING, ()), filters=_MINE)
_CLOSED: Final = replace(shown(metrics.CLOSED_NAMESPACES, (), MAX), filters=_MINE)
_LATE: Final = replace(shown(metrics.QUEUE_LATE, (), MAX), filters=_MINE)
_ERRORS: Final = Query(
    metric=metrics.RECONCILES,
    by=(),
    function=Function.RATE,
    filters=(("result", "error"), *_MINE),
)
_STREAMAPP: Final = ("streamapp_namespace", "streamapp")
_WHICH: Final = "{{ $labels.streamapp_namespace }}/{{ $labels.streamapp }}"
_DEGRADED: Final = Query(
    metric=metrics.PROBLEM,
    by=_STREAMAPP,
    aggregation=MAX,
    filters=(("condition", "Degraded"), *_MINE),
)
"""Whatever the reason: one that changes does not begin the time anew."""
_NOT_READY: Final = replace(shown(metrics.NOT_READY, _STREAMAPP, MAX), filters=_MINE)
_BLIND: Final = Query(
    metric=metrics.AUTOSCALING,
    by=_STREAMAPP,
    aggregation=MAX,
    filters=(("reason", "LagUnknown"), *_MINE),
)
_STALLED: Final = Query(
    metric=metrics.PROBLEM,
    by=(*_STREAMAPP, "reason"),
    aggregation=MAX,
    filters=(("condition", "Stalled"), *_MINE),
)

OF_OPERATOR: Final = (
    Alert(
        name="HeadwaterNoOperatorLeads",
        when=Condition(query=_LEADING, below=1, absent=0),
        lasting="5m",
        severity=Severity.CRITICAL,
        summary="No Headwater operator leads",
        description="Workers go on with what they have, and nobody replaces one that is lost. "
        "Look at the operator's pods.",
        dashboard=OPERATOR,
        panel="Operators that lead",
    ),
    Alert(
        name="HeadwaterStreamAppDegraded",
        when=Condition(query=_DEGRADED, above=0),
        lasting="10m",
        summary=f"{_WHICH} needs somebody to do something",
        description="Its condition Degraded names cause and next step (kubectl describe "
        "streamapp).",
        dashboard=OPERATOR,
        panel="Problems",
    ),
    Alert(
        name="HeadwaterApplicationHalted",
        when=Condition(query=_STALLED, above=0),
        lasting="1m",
        severity=Severity.CRITICAL,
        summary=f"{_WHICH} has halted: {{{{ $labels.reason }}}}",
        description="It waits for somebody; no retry will help. Its condition Stalled names cause "
        "and next step (kubectl describe streamapp).",
        dashboard=OPERATOR,
        panel="Problems",
    ),
    Alert(
        name="HeadwaterWorkersNotReady",
        when=Condition(query=_NOT_READY, above=0),
        lasting="15m",
        summary=f"{_WHICH}: {{{{ $value }}}} workers are not ready",
        description="They do not process every task they were granted, or have no pod. The "
        "condition Progressing of the StreamApp says what they wait for.",
        dashboard=OPERATOR,
        panel="Workers that are not ready",
    ),
    Alert(
        name="HeadwaterAutoscalingBlind",
        when=Condition(query=_BLIND, above=0),
        lasting="10m",
        summary=f"{_WHICH} is not scaled: its lag cannot be read",
        description="The number of workers stays as it is. status.autoscaling.reason of the "
        "StreamApp names the worker that does not answer.",
        dashboard=OPERATOR,
        panel="Why so many workers",
    ),
    Alert(
        name="HeadwaterRoundsFail",
        when=Condition(query=_ERRORS, above=0),
        lasting="15m",
        summary="The API server does not take what the Headwater operator wants",
        description="Look at the operator's log; the condition of the StreamApp says what was "
        "refused.",
        dashboard=OPERATOR,
        panel="Rounds per second",
    ),
    Alert(
        name="HeadwaterNamespaceClosed",
        when=Condition(query=_CLOSED, above=0),
        lasting="10m",
        summary="The Headwater operator has no rights in {{ $value }} of its watchNamespaces",
        description="It sees to the others. The operator's log says which one it is, and what to "
        "do.",
        dashboard=OPERATOR,
        panel="Namespaces without rights",
    ),
    Alert(
        name="HeadwaterOperatorLate",
        when=Condition(query=_LATE, above=30),
        lasting="10m",
        summary="The Headwater operator does not keep up with its StreamApps",
        description="Raise hands, or its resources; or the API server is slow.",
        dashboard=OPERATOR,
        panel="Time that the first of them waits",
    ),
)
"""A gauge of one operator is 0 in the others, which stand by."""
