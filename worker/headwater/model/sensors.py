"""Sensors as processors see them: Kafka's ``StreamsMetrics`` and ``Sensor``.

    def init(self, context):
        self.predictions = context.metrics.add_latency_rate_total_sensor(
            "model", "prices", "predict", kind="linear")

    def process(self, record):
        self.predictions.record(elapsed_ms)

``/metrics`` then has ``stream_model_predict_latency_avg``, ``_latency_max``, ``_rate`` and
``_total`` with the labels ``thread_id``, ``model_id="prices"`` and ``kind="linear"``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from headwater.metrics_settings import RecordingLevel

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "stream-user-metrics"
"""Of a metric that names no group."""


class Stat(StrEnum):
    """What a metric of a sensor tells of the recorded values (Kafka's ``MeasurableStat``)."""

    AVG = "avg"
    MAX = "max"
    MIN = "min"
    RATE = "rate"
    """Records of the sensor per second."""
    COUNT = "count"
    """How often the sensor was recorded since the thread began (``CumulativeCount``)."""
    SUM = "sum"
    """The sum of all values since the thread began (``CumulativeSum``)."""
    VALUE = "value"
    """The last value."""


class Sensor(Protocol):
    """Takes values that a processor measures (Kafka's ``Sensor``).

    Attributes:
        name: of the sensor, unique in its StreamThread.
        level: from which level it records.
    """

    name: str
    level: RecordingLevel

    def should_record(self) -> bool:
        """Whether the level in use records this sensor: to be asked before costly measurements."""
        ...

    def record(self, value: float = 1.0) -> None:
        """Take in a value; nothing happens if the level in use does not record the sensor."""
        ...

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
        ...


class StreamsMetrics(Protocol):
    """The sensors of one StreamThread (Kafka's ``StreamsMetrics``); its tasks share them."""

    def add_sensor(
        self, name: str, level: RecordingLevel | str = RecordingLevel.INFO, *parents: Sensor
    ) -> Sensor:
        """Return the sensor ``name``, made now if there is none; say with ``add`` what it shows.

        Args:
            name: of the sensor.
            level: from which level it records.
            parents: sensors that record what this one records.

        Raises:
            TopologyError: there is another sensor of this name.
        """
        ...

    def add_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        level: RecordingLevel | str = RecordingLevel.INFO,
        **tags: str,
    ) -> Sensor:
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
        ...

    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        level: RecordingLevel | str = RecordingLevel.INFO,
        **tags: str,
    ) -> Sensor:
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
        ...

    def remove_sensor(self, sensor: Sensor) -> None:
        """Take a sensor and its metrics out; one that is not there is passed over."""
        ...
