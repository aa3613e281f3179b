"""What is declared of a number: its name in Kafka Streams, unit and level, where it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.metrics_settings import RecordingLevel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import Role

Labels: TypeAlias = tuple[str, ...]
"""Whose number it is: ``()``, ``(thread_id,)`` or ``(task_id, ...)``; then its state, if any."""


class MetricType(StrEnum):
    """How a number moves, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    """Only the operator has some."""


class Scope(StrEnum):
    """Of what there is one number each."""

    CLIENT = "client"
    THREAD = "thread"
    TASK = "task"
    NODE = "node"
    TOPIC = "topic"
    STORE = "store"
    CACHE = "cache"
    KAFKA_CLIENT = "kafka client"
    DRIVER = "driver"
    OPERATOR = "operator"
    USER = "user"
    """Declared by a processor of the user's."""


class Unit(StrEnum):
    """What a number counts."""

    NONE = ""
    RECORDS = "records"
    BYTES = "bytes"
    MS = "ms"
    NS = "ns"
    SECONDS = "s"
    RATIO = "0 to 1"
    PER_SECOND = "1/s"
    BYTES_PER_SECOND = "bytes/s"


_CLIENT: Final = ("application_id", "client_id")
_TASK: Final = (*_CLIENT, "thread_id", "task_id")
SCOPE_LABELS: Final[Mapping[Scope, Labels]] = MappingProxyType(
    {
        Scope.CLIENT: _CLIENT,
        Scope.THREAD: (*_CLIENT, "thread_id"),
        Scope.TASK: _TASK,
        Scope.NODE: (*_TASK, "processor_node_id"),
        Scope.TOPIC: (*_TASK, "processor_node_id", "topic"),
        Scope.STORE: (*_TASK, "state_scope", "state_id"),
        Scope.CACHE: (*_TASK, "record_cache_id"),
        Scope.KAFKA_CLIENT: (*_CLIENT, "thread_id", "kafka_client"),
        Scope.DRIVER: ("application_id",),
        Scope.OPERATOR: (),
        Scope.USER: (*_CLIENT, "thread_id"),
    }
)
"""Names of labels; those of a user's metric are followed by its own."""
OF_A_TASK: Final = frozenset({Scope.TASK, Scope.NODE, Scope.TOPIC, Scope.STORE, Scope.CACHE})
"""Scopes whose labels in a Snapshot begin with the task."""
GROUPS: Final[Mapping[Scope, str]] = MappingProxyType(
    {
        Scope.CLIENT: "stream-metrics",
        Scope.THREAD: "stream-thread-metrics",
        Scope.TASK: "stream-task-metrics",
        Scope.NODE: "stream-processor-node-metrics",
        Scope.TOPIC: "stream-topic-metrics",
        Scope.STORE: "stream-state-metrics",
        Scope.CACHE: "stream-record-cache-metrics",
        Scope.KAFKA_CLIENT: "kafka-client-metrics",
        Scope.DRIVER: "headwater-spark-metrics",
        Scope.OPERATOR: "headwater-operator-metrics",
    }
)
"""Kafka's groups of metrics."""


def prometheus_name(group: str, name: str) -> str:
    """Return the name of a metric of Kafka Streams for Prometheus, without a counter's ``_total``.

    The one rule: the group without ``-metrics``, then the name, all with underscores.
    """
    words = f"{group.removesuffix('-metrics')}-{name}".replace("-", "_").replace(".", "_")
    return words.removesuffix("_total")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """One number, as declared; there is one value for each.

    Attributes:
        kafka: its name in Kafka Streams, or one by the same rule.
        type: counter or gauge.
        scope: of what there is one each.
        help: one sentence for people.
        unit: what it counts.
        group: Kafka's; that of the scope if not given.
        name: as Prometheus knows it, without the ``_total`` of a counter; made of group and name.
        level: from which level it is measured.
        java_level: Kafka Streams', where that is another one.
        is_kafkas: whether Kafka Streams has it.
        states: one sample for each of them, with the label ``state``: 1 for the state that it is.
        roles: tasks in other roles do not have it; empty if all do.
        flag: 1 or 0; JSON shows true or false.
        is_scraped: whether ``/metrics`` shows it.
        key: where ``/tasks``, or ``/status`` of Spark's driver, shows it; ``"outer.inner"`` is
            a key of an inner object. Empty: it does not.
        absent: shown there while nobody has measured it; within an inner object nothing is.
        tags: names of the labels of a user's metric beyond those of its scope.
        rate_of: the counter of whose growth it is the rate, by name.
    """

    kafka: str
    type: MetricType
    scope: Scope
    help: str
    unit: Unit = Unit.NONE
    group: str = ""
    name: str = field(init=False)
    level: RecordingLevel = RecordingLevel.INFO
    java_level: RecordingLevel | None = None
    is_kafkas: bool = True
    states: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    flag: bool = False
    is_scraped: bool = True
    key: str = ""
    absent: float | None = 0
    tags: tuple[str, ...] = ()
    rate_of: str = ""

    def __post_init__(self) -> None:
        group = self.group or GROUPS[self.scope]
        object.__setattr__(self, "group", group)
        object.__setattr__(self, "name", prometheus_name(group, self.kafka))

    @property
    def labels(self) -> Labels:
        """The names of its labels."""
        return (
            *SCOPE_LABELS[self.scope],
            *(tag.replace("-", "_").replace(".", "_") for tag in self.tags),
            *(("state",) if self.states else ()),
        )

    @property
    def sample_name(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name

    def is_of(self, role: Role | None) -> bool:
        """Whether tasks in this role have it."""
        return not self.roles or role in self.roles


def gauge(scope: Scope, kafka: str, help_: str, unit: Unit = Unit.NONE, **more: Any) -> Metric:
    """Declare a number that goes up and down."""
    return Metric(kafka=kafka, type=MetricType.GAUGE, scope=scope, help=help_, unit=unit, **more)


def counter(scope: Scope, kafka: str, help_: str, unit: Unit = Unit.NONE, **more: Any) -> Metric:
    """Declare a number that only grows, but for restarts."""
    return Metric(kafka=kafka, type=MetricType.COUNTER, scope=scope, help=help_, unit=unit, **more)


def rate(of: Metric, kafka: str = "", **more: Any) -> Metric:
    """Declare how fast a counter grows, per second, over the windows of the configuration.

    Args:
        of: the counter.
        kafka: its name; the counter's with ``-rate`` if not given.
        more: as of ``Metric``.
    """
    unit = Unit.BYTES_PER_SECOND if of.unit is Unit.BYTES else Unit.PER_SECOND
    return Metric(
        kafka=kafka or f"{of.kafka.removesuffix('-total')}-rate",
        type=MetricType.GAUGE,
        scope=of.scope,
        help=f"{of.help.removesuffix('.')}, per second.",
        unit=unit,
        group=of.group,
        roles=of.roles,
        rate_of=of.name,
        **{"level": of.level, "java_level": of.java_level, **more},
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """The average, the greatest and maybe the least of what was recorded lately, as metrics."""

    avg: Metric | None
    max: Metric | None
    min: Metric | None = None

    def __iter__(self) -> Any:
        """Return those that are declared, in the order of the page."""
        return iter([metric for metric in (self.avg, self.max, self.min) if metric is not None])


def spread(
    scope: Scope, kafka: str, what: str, unit: Unit, *, least: bool = False, **more: Any
) -> Spread:
    """Declare ``-avg``, ``-max`` and maybe ``-min`` of something.

    Args:
        scope: of what there is one each.
        kafka: the name without the suffix.
        what: in a sentence, after "The average of".
        unit: of the values.
        least: whether there is a ``-min``.
        more: as of ``Metric``.
    """
    return Spread(
        gauge(scope, f"{kafka}-avg", f"The average of {what}.", unit, **more),
        gauge(scope, f"{kafka}-max", f"The greatest of {what}.", unit, **more),
        gauge(scope, f"{kafka}-min", f"The least of {what}.", unit, **more) if least else None,
    )
