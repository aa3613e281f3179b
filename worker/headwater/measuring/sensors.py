"""The sensors of one StreamThread, as ``model.sensors`` describes them to processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import TopologyError
from headwater.measuring.windows import Rates, Windows
from headwater.model.metrics import (
    BY_NAME,
    Metric,
    MetricType,
    RecordingLevel,
    Scope,
    Snapshot,
    Spread,
    Unit,
)
from headwater.model.sensors import GROUP, Stat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.measuring.windows import Window
    from headwater.model.metrics import Labels
    from headwater.model.sensors import Sensor

_COUNTED: Final = "rate and total"
_TIMED: Final = "latency, rate and total"
_COUNTERS: Final = (Stat.COUNT, Stat.SUM)
_OF_WINDOW: Final = (Stat.AVG, Stat.MAX, Stat.MIN)


class ThreadSensor:
    """Takes values that a processor measures (a ``Sensor``); ``ThreadSensors`` makes it.

    Attributes:
        name: of the sensor, unique in its StreamThread.
        level: from which level it records.
    """

    def __init__(
        self, name: str, level: RecordingLevel, owner: ThreadSensors, parents: tuple[Sensor, ...]
    ) -> None:
        self.name = name
        self.level = level
        self._owner = owner
        self._parents = parents
        self._count = 0
        self._sum = 0.0
        self._last: float | None = None
        self.window: Window = owner.windows.new()
        self._metrics: list[tuple[Metric, Stat, Labels]] = []
        self._is_recording = owner.level.records(level)

    @property
    def parents(self) -> tuple[Sensor, ...]:
        """Sensors that record what this one records."""
        return self._parents

    def should_record(self) -> bool:
        """Whether the level in use records this sensor: to be asked before costly measurements."""
        return self._is_recording

    def record(self, value: float = 1.0) -> None:
        """Take in a value; nothing happens if the level in use does not record the sensor."""
        if not self._is_recording:
            return
        self._count += 1
        self._sum += value
        self._last = value
        self.window.record(value)
        for parent in self._parents:
            parent.record(value)

    def add(
        self,
        name: str,
        stat: Stat | str,
        *,
        group: str = GROUP,
        description: str = "",
        tags: Mapping[str, str] | None = None,
    ) -> bool:
        """Show something of the values as a metric; return ``False`` if the sensor shows it.

        Args:
            name: in Kafka's spelling, such as ``queue-length-avg``.
            stat: what of the values.
            group: Kafka's group, which begins the name on ``/metrics``.
            description: one sentence.
            tags: labels beside ``thread_id``.

        Raises:
            TopologyError: another sensor, or Headwater itself, has a metric of this name.
        """
        chosen = Stat(stat)
        given = dict(tags or {})
        metric = Metric(
            kafka=name,
            type=MetricType.COUNTER if chosen in _COUNTERS else MetricType.GAUGE,
            scope=Scope.USER,
            help=description or f"{name} of the application's own sensor {self.name}.",
            unit=Unit.PER_SECOND if chosen is Stat.RATE else Unit.NONE,
            group=group,
            level=self.level,
            is_kafkas=False,
            tags=tuple(given),
        )
        labels = tuple(map(str, given.values()))
        if any(found.name == metric.name and row == labels for found, _, row in self._metrics):
            return False
        self._owner.claim(metric, labels, self)
        self._metrics.append((metric, chosen, labels))
        return True

    def numbers(self, thread_id: str) -> list[tuple[Metric, Labels, float]]:
        """Return what is to be shown now, but for rates."""
        if not self._is_recording:
            return []
        found: list[tuple[Metric, Labels, float]] = []
        for metric, stat, labels in self._metrics:
            value = self._value(metric, stat)
            if value is not None:
                found.append((metric, (thread_id, *labels), value))
        return found

    def _value(self, metric: Metric, stat: Stat) -> float | None:
        match stat:
            case Stat.COUNT | Stat.RATE:
                return float(self._count)
            case Stat.SUM:
                return self._sum
            case Stat.VALUE:
                return self._last
            case Stat.AVG:
                return self.window.values(Spread(metric, None)).get(metric)
            case Stat.MAX:
                return self.window.values(Spread(None, metric)).get(metric)
            case Stat.MIN:
                return self.window.values(Spread(None, None, metric)).get(metric)

    def rates(self) -> list[Metric]:
        """Return its metrics that are rates."""
        return [metric for metric, stat, _ in self._metrics if stat is Stat.RATE]

    def names(self) -> list[tuple[str, Labels]]:
        """Return which metrics it shows."""
        return [(metric.name, labels) for metric, _, labels in self._metrics]


@dataclass(frozen=True, slots=True)
class _Definition:
    kind: str
    level: RecordingLevel
    more: tuple[Any, ...]


class ThreadSensors:
    """The sensors of one StreamThread (a ``StreamsMetrics``); its tasks share them.

    Args:
        level: what is recorded.
        windows: of averages and the like.
        rates: how fast counters grow.
    """

    def __init__(
        self, level: RecordingLevel, windows: Windows, *, samples: int, window_s: float
    ) -> None:
        self.level = level
        self.windows = windows
        self._samples, self._window_s = samples, window_s
        self._sensors: dict[str, ThreadSensor] = {}
        self._definitions: dict[str, _Definition] = {}
        self._owners: dict[tuple[str, Labels], ThreadSensor] = {}
        self._declared: dict[str, Metric] = {}
        self._rates: Rates | None = None

    def add_sensor(
        self,
        name: str,
        level: RecordingLevel | str = RecordingLevel.INFO,
        *parents: Sensor,
    ) -> ThreadSensor:
        """Return the sensor ``name``, made now if there is none; say with ``add`` what it shows.

        Raises:
            TopologyError: there is another sensor of this name.
        """
        return self._sensor(name, _Definition("sensor", _level(level), parents))

    def add_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        level: RecordingLevel | str = RecordingLevel.INFO,
        **tags: str,
    ) -> ThreadSensor:
        """Return a sensor that counts an operation: ``-rate`` and ``-total``.

        Args:
            scope_name: gives the group, ``stream-<scope>-metrics``, and the label ``<scope>_id``.
            entity_name: the value of that label.
            operation_name: begins the names of the metrics.
            level: from which level it records.
            tags: further labels.

        Raises:
            TopologyError: there is another sensor of this name.
        """
        return self._of_operation(_COUNTED, scope_name, entity_name, operation_name, level, tags)

    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        level: RecordingLevel | str = RecordingLevel.INFO,
        **tags: str,
    ) -> ThreadSensor:
        """Return a sensor that counts an operation and measures its latency.

        As ``add_rate_total_sensor``, with ``-latency-avg`` and ``-latency-max`` of the values.

        Args:
            scope_name: gives the group, ``stream-<scope>-metrics``, and the label ``<scope>_id``.
            entity_name: the value of that label.
            operation_name: begins the names of the metrics.
            level: from which level it records.
            tags: further labels.

        Raises:
            TopologyError: there is another sensor of this name.
        """
        return self._of_operation(_TIMED, scope_name, entity_name, operation_name, level, tags)

    def remove_sensor(self, sensor: Sensor) -> None:
        """Take a sensor and its metrics out; one that is not there is passed over."""
        known = self._sensors.get(sensor.name)
        if known is None or known is not sensor:
            return
        del self._sensors[sensor.name], self._definitions[sensor.name]
        self.windows.drop(known.window)
        for name in known.names():
            del self._owners[name]
        shown = {name for name, _ in self._owners}
        self._declared = {name: m for name, m in self._declared.items() if name in shown}
        self._rates = None

    def sensor(self, name: str) -> ThreadSensor | None:
        """Return the sensor of this name, if there is one."""
        return self._sensors.get(name)

    def _sensor(self, name: str, definition: _Definition) -> ThreadSensor:
        known = self._definitions.get(name)
        if known is not None and known != definition:
            raise TopologyError(
                f"sensor {name!r} was added before as {_told(known)}, now as {_told(definition)}; "
                "give one of them another name"
            )
        if known is None:
            parents = definition.more if definition.kind == "sensor" else ()
            self._sensors[name] = ThreadSensor(name, definition.level, self, parents)
            self._definitions[name] = definition
        return self._sensors[name]

    def _of_operation(
        self,
        kind: str,
        scope: str,
        entity: str,
        operation: str,
        level: RecordingLevel | str,
        tags: Mapping[str, str],
    ) -> ThreadSensor:
        name = f"{scope}.{entity}.{operation}"
        definition = _Definition(kind, _level(level), tuple(sorted(tags.items())))
        is_new = name not in self._definitions
        sensor = self._sensor(name, definition)
        if not is_new:
            return sensor
        labels = {f"{scope}-id": entity, **tags}
        shown = {"rate": Stat.RATE, "total": Stat.COUNT}
        if kind == _TIMED:
            shown = {"latency-avg": Stat.AVG, "latency-max": Stat.MAX, **shown}
        try:
            for suffix, stat in shown.items():
                what = f"{suffix} of the operation {operation}."
                group = f"stream-{scope}-metrics"
                sensor.add(
                    f"{operation}-{suffix}", stat, group=group, description=what, tags=labels
                )
        except TopologyError:
            self.remove_sensor(sensor)
            raise
        return sensor

    def claim(self, metric: Metric, labels: Labels, sensor: ThreadSensor) -> None:
        """Note that a sensor shows a metric.

        Raises:
            TopologyError: it cannot, because something else has the name.
        """
        if metric.name in BY_NAME:
            raise TopologyError(
                f"sensor {sensor.name!r}: {metric.name} is a metric of Headwater's own; "
                "choose another name or group"
            )
        declared = self._declared.setdefault(metric.name, metric)
        if (declared.type, declared.tags) != (metric.type, metric.tags):
            raise TopologyError(
                f"sensor {sensor.name!r}: {metric.name} is declared twice, as a {declared.type} "
                f"with the tags {', '.join(declared.tags) or 'none'} and as a {metric.type} with "
                f"{', '.join(metric.tags) or 'none'}; choose another name"
            )
        owner = self._owners.setdefault((metric.name, labels), sensor)
        if owner is not sensor:
            raise TopologyError(
                f"sensor {sensor.name!r}: sensor {owner.name!r} shows {metric.name} with the same "
                "tags; choose another name or other tags"
            )
        self._rates = None

    def numbers(self, thread_id: str, now_s: float) -> Snapshot:
        """Return what all sensors show now."""
        values: dict[str, dict[Labels, float]] = {}
        declared: dict[str, Metric] = {}
        rates: dict[str, Metric] = {}
        for sensor in self._sensors.values():
            rates |= {metric.name: metric for metric in sensor.rates()}
            for metric, labels, value in sensor.numbers(thread_id):
                values.setdefault(metric.name, {})[labels] = value
                declared[metric.name] = metric
        if not rates:
            return Snapshot(values, declared)
        counts = {name: values.pop(name) for name in rates if name in values}
        shown = self._of_counts(rates).of(Snapshot(counts), now_s)
        declared = {name: m for name, m in declared.items() if name in {*values, *shown.values}}
        return Snapshot.merged([Snapshot(values, declared), shown])

    def _of_counts(self, rates: Mapping[str, Metric]) -> Rates:
        if self._rates is None:
            # The count of a sensor goes by the name of its rate.
            made = [_rate_of_itself(metric) for metric in rates.values()]
            self._rates = Rates(self._samples, self._window_s, made)
        return self._rates


def _rate_of_itself(metric: Metric) -> Metric:
    return Metric(
        kafka=metric.kafka,
        type=metric.type,
        scope=metric.scope,
        help=metric.help,
        group=metric.group,
        tags=metric.tags,
        rate_of=metric.name,
    )


def _told(definition: _Definition) -> str:
    more = ", ".join(
        f"{one[0]}={one[1]}" if isinstance(one, tuple) else one.name for one in definition.more
    )
    return f"{definition.kind} at level {definition.level.upper()}" + (f" ({more})" if more else "")


def _level(level: RecordingLevel | str) -> RecordingLevel:
    try:
        found = RecordingLevel(str(level).lower())
    except ValueError:
        found = RecordingLevel.OFF
    if found is RecordingLevel.OFF:
        raise TopologyError(f"a sensor's level is INFO, DEBUG or TRACE, not {level!r}")
    return found
