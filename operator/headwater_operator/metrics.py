"""The operator's own numbers, declared once.

Labels are bounded: no task, no worker, and of a StreamApp what alerts need to name it.

``handlers/metrics.py`` measures them, the operator's dashboard and ``docs/reference/metrics.md``
are made from them.
"""

from __future__ import annotations

from typing import Any, Final

from headwater.model.metrics import Metric, MetricType, Scope, Unit


def _declare(type_: MetricType, name: str, help_: str, *labels: str, **more: Any) -> Metric:
    return Metric(
        kafka=name,
        type=type_,
        scope=Scope.OPERATOR,
        help=help_,
        is_kafkas=False,
        tags=labels,
        **more,
    )


_COUNTER, _GAUGE = MetricType.COUNTER, MetricType.GAUGE

RECONCILES: Final = _declare(
    MetricType.HISTOGRAM,
    "reconcile-duration-seconds",
    "Rounds of observe, decide, act for one StreamApp, by how they ended: acted, idle, held_up, "
    "outdated, handed_over, error.",
    "result",
    unit=Unit.SECONDS,
)
LOOKS: Final = _declare(
    _COUNTER, "looks-total", "Decisions from what was known, without a look at the API server."
)
ACTIONS: Final = _declare(
    _COUNTER, "actions-total", "What was done to workers, by reason.", "reason"
)
API_REQUESTS: Final = _declare(
    _COUNTER,
    "api-requests-total",
    "Requests to the API server, by verb, kind and HTTP status (0: no answer).",
    "verb",
    "resource",
    "code",
)
LAG_REQUESTS: Final = _declare(
    _COUNTER,
    "lag-requests-total",
    "Workers asked for the exact lags of their copies, by whether they have answered: answered, "
    "silent.",
    "result",
)
STREAMAPPS: Final = _declare(
    _GAUGE, "streamapps", "StreamApps, by whether they are ready.", "ready"
)
DEGRADED: Final = _declare(
    _GAUGE,
    "streamapps-degraded",
    "StreamApps whose condition Degraded is True: somebody has to do something.",
)
PROBLEM: Final = _declare(
    _GAUGE,
    "streamapp-problem",
    "1 for a StreamApp whose condition Degraded or Stalled is True, with its reason; none else.",
    "streamapp_namespace",
    "streamapp",
    "condition",
    "reason",
)
NOT_READY: Final = _declare(
    _GAUGE,
    "streamapp-workers-not-ready",
    "Workers of a StreamApp that do not process every task they were granted, with or without a "
    "pod.",
    "streamapp_namespace",
    "streamapp",
)
AUTOSCALING: Final = _declare(
    _GAUGE,
    "streamapp-autoscaling",
    "1 for a StreamApp with spec.autoscaling, with its mode and why there are as many workers as "
    "there are.",
    "streamapp_namespace",
    "streamapp",
    "mode",
    "reason",
)
WORKERS_DESIRED: Final = _declare(
    _GAUGE,
    "streamapp-workers-desired",
    "Workers that a StreamApp with spec.autoscaling should have by its load.",
    "streamapp_namespace",
    "streamapp",
)
WORKERS_READY: Final = _declare(
    _GAUGE,
    "streamapp-workers-ready",
    "Workers of a StreamApp with spec.autoscaling that process every task they were granted.",
    "streamapp_namespace",
    "streamapp",
)
LEADING: Final = _declare(_GAUGE, "leading", "1 while this operator leads.")
GENERATION: Final = _declare(_GAUGE, "generation", "Generation of this operator's leadership.")
WATCH_DEAF: Final = _declare(
    _GAUGE,
    "watch-deaf-seconds",
    "For how long a watch has missed changes, as of the last sweep; 0 while it hears.",
    "resource",
    unit=Unit.SECONDS,
)
CLOSED_NAMESPACES: Final = _declare(
    _GAUGE,
    "closed-namespaces",
    "Watched namespaces that were deleted or give no rights, as of the last sweep.",
)
QUEUE_DEPTH: Final = _declare(_GAUGE, "queue-depth", "StreamApps that wait for a round.")
QUEUE_LATE: Final = _declare(
    _GAUGE,
    "queue-late-seconds",
    "How long the StreamApp due longest has been waiting.",
    unit=Unit.SECONDS,
)
OPERATOR_METRICS: Final[tuple[Metric, ...]] = (
    LEADING,
    GENERATION,
    STREAMAPPS,
    DEGRADED,
    PROBLEM,
    NOT_READY,
    AUTOSCALING,
    WORKERS_DESIRED,
    WORKERS_READY,
    CLOSED_NAMESPACES,
    RECONCILES,
    LOOKS,
    ACTIONS,
    QUEUE_DEPTH,
    QUEUE_LATE,
    API_REQUESTS,
    LAG_REQUESTS,
    WATCH_DEAF,
)
"""Every number of the operator, in the order in which they are shown."""
