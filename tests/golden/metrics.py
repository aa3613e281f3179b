"""Makes ``docs/reference/metrics.md`` from the table of metrics: ``make crds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.metrics import METRICS, Scope

if TYPE_CHECKING:
    from headwater.model.metrics import Metric

_HEAD: Final = """# Metrics

Workers and Spark's driver serve these numbers by HTTP: `/metrics` for Prometheus, and some of them
as JSON, a worker at `/tasks` and the driver at `/status`. Names are Kafka Streams' in snake_case:
`process-total` of `stream-thread-metrics` is `stream_thread_process_total`.

*Level* is from which `metrics.recording.level` on Kafka Streams records the metric; here every
metric is always recorded. Prometheus makes rates itself, so `/metrics` serves none. A number that
only JSON shows has no name in the first column.

The numbers of the operator (`headwater_operator_…`) are declared in
`operator/headwater_operator/handlers/metrics.py`.
"""
_SCOPES: Final = {
    Scope.CLIENT: (
        "Worker",
        "For each worker, a client in Kafka Streams' words. Keys are those of the object itself.",
    ),
    Scope.THREAD: (
        "StreamThread",
        "For each StreamThread. Keys are those of an item of `threads`.",
    ),
    Scope.TASK: (
        "Task",
        "For each task; `thread_id` is who has it. Keys are those of an item of `tasks`.",
    ),
    Scope.DRIVER: (
        "Spark's driver",
        "For each application that runs on Spark. Keys are those of the object at `/status`.",
    ),
}


def metrics_page() -> str:
    """Return the reference page of all metrics."""
    return "\n".join([_HEAD, *(_section(scope) for scope in Scope)])


def _section(scope: Scope) -> str:
    title, about = _SCOPES[scope]
    metrics = [metric for metric in METRICS if metric.scope is scope]
    labels = ", ".join(f"`{label}`" for label in metrics[0].labels if label != "state")
    lines = [
        f"## {title}",
        "",
        f"{about} Labels: {labels or 'none'}.",
        "",
        "| Name | Type | Level | Key | Meaning |",
        "| --- | --- | --- | --- | --- |",
        *(_row(metric) for metric in metrics),
    ]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    name = f"`{metric.sample_name}`" if metric.is_scraped else ""
    key = f"`{metric.key}`" if metric.key else ""
    meaning = metric.help
    if metric.states:
        meaning += f" Also labelled `state`: {', '.join(metric.states)}."
    if metric.roles:
        meaning += f" Roles: {', '.join(metric.roles)}."
    return f"| {name} | {metric.type} | {metric.level} | {key} | {meaning} |"
