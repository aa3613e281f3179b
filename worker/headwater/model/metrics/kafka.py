"""Numbers as Kafka's clients show them: ``MetricName`` and ``KafkaMetric``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.model.metrics.declaring import OF_A_TASK, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.model.metrics.declaring import Labels, Metric

GLOBAL_TASK: Final = "-1_-1"
"""What Kafka Streams calls the task that keeps global stores."""
_TOLD: Final = (("version",), ("revision",))
"""Labels of metrics whose value is a text: that of the label."""
_NOT_TAGS: Final = frozenset({"application_id", "client_id", "state"})


@dataclass(frozen=True, slots=True)
class MetricName:
    """The name of a metric (Kafka's class of this name); two are equal without the description.

    Attributes:
        name: such as ``process-total``.
        group: such as ``stream-thread-metrics``.
        description: one sentence.
        tags: whose number it is, such as ``{"thread-id": "..."}``.
    """

    name: str
    group: str
    description: str = field(compare=False, default="")
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class KafkaMetric:
    """A metric and its value at one moment (Kafka's ``Metric``)."""

    metric_name: MetricName
    value: float | str

    def metric_value(self) -> float | str:
        """Return the value; a state is a text."""
        return self.value


def kafka_metrics(
    told: Iterable[tuple[Metric, Iterable[tuple[Labels, float]]]],
) -> dict[MetricName, KafkaMetric]:
    """Return numbers by their names in Kafka Streams.

    Args:
        told: metrics with rows: values of all labels, and the number.
    """
    found: dict[MetricName, KafkaMetric] = {}
    for metric, rows in told:
        for labels, number in rows:
            if metric.states and not number:
                continue
            name = MetricName(metric.kafka, metric.group, metric.help, tags_of(metric, labels))
            value = labels[-1] if metric.states else number
            if metric.tags in _TOLD:
                value = labels[-1]
            found[name] = KafkaMetric(name, value)
    return found


def labels_of(metric: Metric, row: Labels, client: Labels, thread_id: str) -> Labels:
    """Return the values of all labels of a row of a Snapshot.

    Args:
        metric: whose row it is.
        row: its labels in the Snapshot.
        client: application id and client id.
        thread_id: of the StreamThread that has the task, if it is a task's.
    """
    return (*client, *((thread_id,) if metric.scope in OF_A_TASK else ()), *row)


def tags_of(metric: Metric, labels: Labels) -> dict[str, str]:
    """Return Kafka's tags of a row: those of the scope's labels."""
    given = dict(zip(metric.labels, labels, strict=True))
    if metric.scope is Scope.CLIENT:
        return {"client-id": given["client_id"]}
    scope = given.pop("state_scope", "")
    if scope:
        given[f"{scope}-id"] = given.pop("state_id")
    names = {tag.replace("-", "_").replace(".", "_"): tag for tag in metric.tags}
    return {
        names.get(label, label.replace("_", "-")): value
        for label, value in given.items()
        if label not in _NOT_TAGS
    }
