"""Makes ``docs/reference/metrics.md`` from the table of metrics: ``make crds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.metrics import GROUPS, LEFT_OUT, METRICS, Scope
from headwater_operator.metrics import OPERATOR_METRICS

if TYPE_CHECKING:
    from headwater.model.metrics import Metric

_HEAD: Final = """# Metrics

Workers and Spark's driver serve these numbers by HTTP: `/metrics` for Prometheus, and some of them
as JSON, a worker at `/tasks` and the driver at `/status`. [Metrics](../metrics.md) says how to use
them. A name is Kafka Streams' in snake_case, behind its group: `process-total` of
`stream-thread-metrics` is `stream_thread_process_total`.

*Level* is from which `metrics.recording.level` a metric is measured. Where Kafka Streams has
another one, it is in brackets: what costs nothing is always measured. *Kafka Streams* names
the metric there; it is empty for our own. A number that only JSON shows has no name in the first
column. JSON shows it under its *key*.

The operator serves its own numbers (`headwater_operator_…`) in the same way, at `/metrics` only.
"""
_SCOPES: Final = {
    Scope.CLIENT: (
        "Worker",
        "For each worker, a client in Kafka Streams' words. Keys are those of the object itself.",
    ),
    Scope.THREAD: (
        "StreamThread",
        (
            "For each StreamThread. Keys are those of an item of `threads`. Numbers of the group "
            "`stream-state-updater-metrics` are those of StateUpdaters."
        ),
    ),
    Scope.TASK: (
        "Task",
        "For each task; `thread_id` is who has it. Keys are those of an item of `tasks`.",
    ),
    Scope.NODE: ("Processor node", "For each node of a task's sub-topology."),
    Scope.TOPIC: ("Topic", "For each topic that a source node reads or a sink node writes."),
    Scope.STORE: (
        "State store",
        (
            "For each store of a task. `state_scope` is its kind, such as `rocksdb-window-state`, "
            "and `state_id` its name: in Kafka Streams one label, `rocksdb-window-state-id`."
        ),
    ),
    Scope.CACHE: ("Record cache", "For each store that has a record cache."),
    Scope.KAFKA_CLIENT: (
        "Kafka client",
        (
            "For the consumer and the producer of each StreamThread, from librdkafka's statistics: "
            "only if `statistics.interval.ms` is set."
        ),
    ),
    Scope.DRIVER: (
        "Spark's driver",
        "For each application that runs on Spark. Keys are those of the object at `/status`.",
    ),
    Scope.OPERATOR: ("Operator", "For each process of the operator."),
}


def metrics_page() -> str:
    """Return the reference page of all metrics."""
    return "\n".join([_HEAD, *(_section(scope) for scope in _SCOPES), _left_out()])


def _section(scope: Scope) -> str:
    title, about = _SCOPES[scope]
    metrics = [metric for metric in (*METRICS, *OPERATOR_METRICS) if metric.scope is scope]
    named = [metric for metric in metrics if not metric.tags]
    labels = ", ".join(f"`{label}`" for label in named[0].labels if label != "state")
    lines = [
        f"## {title}",
        "",
        f"{about} Labels: {labels or 'none'}.",
        "",
        "| Name | Type | Unit | Level | Kafka Streams | Key | Meaning |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(metric) for metric in metrics),
    ]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    name = f"`{metric.sample_name}`" if metric.is_scraped else ""
    key = f"`{metric.key}`" if metric.key else ""
    meaning = metric.help
    if metric.states:
        meaning += f" Also labelled `state`: {', '.join(metric.states)}."
    if metric.scope is Scope.OPERATOR and metric.tags:
        meaning += f" Labelled {', '.join(f'`{tag}`' for tag in metric.tags)}."
    if metric.roles:
        meaning += f" Roles: {', '.join(metric.roles)}."
    level = str(metric.level)
    if metric.java_level is not None:
        level += f" ({metric.java_level})"
    java = ""
    if metric.is_kafkas and metric.scope is not Scope.DRIVER:
        java = f"`{metric.kafka}`"
        if metric.group != GROUPS[metric.scope]:
            java += f" of `{metric.group}`"
    return f"| {name} | {metric.type} | {metric.unit} | {level} | {java} | {key} | {meaning} |"


def _left_out() -> str:
    rows = [f"| `{group}` | `{name}` | {why} |" for (group, name), why in LEFT_OUT.items()]
    lines = [
        "## What Kafka Streams has beyond",
        "",
        "| Group | Metric | Why it is not here |",
        "| --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"
