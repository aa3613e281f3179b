"""Spark's own Kafka connector as a reader, where its jars are at hand.

The registry lacks a token provider of the connector's version, so Spark cannot resolve the
connector by itself; the jars of the lock do without.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError, EnvironmentProblemError, LocalKafkaError
from headwater.local import jar_sets, jars

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headwater.ids import TopicPartition
    from headwater.spark.tables.spans import Span

_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_SECURITY: Final = ("security.", "sasl.", "ssl.")
_OF_THE_CLIENT: Final = frozenset(
    {
        "sasl.username",
        "sasl.password",
        "sasl.mechanisms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
    }
)
"""Names that librdkafka knows, and Java's client does not."""


def connector_jars() -> str:
    """Return the connector's jars as ``spark.jars`` wants them, fetched if need be.

    Raises:
        EnvironmentProblemError: they are neither in the cache nor to be fetched.
    """
    try:
        return ",".join(map(str, jars.class_path(jar_sets.SPARK_KAFKA)))
    except LocalKafkaError as error:
        raise EnvironmentProblemError(
            f"Spark's Kafka connector cannot be had: {error}. `headwater kafka fetch --all` "
            "fetches it beforehand. Headwater's own reader needs no jars: leave "
            "with_connector=True out"
        ) from error


def is_at_hand(session: SparkSession) -> bool:
    """Whether the session was started with the connector's jars."""
    context = getattr(session, "_jvm", None)
    if context is None:  # Spark Connect: the JVM is elsewhere
        return False
    try:
        loader = context.Thread.currentThread().getContextClassLoader()
        context.Class.forName(_PROVIDER, False, loader)  # noqa: FBT003 - Java's signature
    except Exception:  # noqa: BLE001 - py4j: whatever it says, the class is not there
        return False
    return True


def untranslatable(config: Mapping[str, object]) -> list[str]:
    """Return the settings that only our own reader understands."""
    return sorted(set(config) & _OF_THE_CLIENT)


def read(
    session: SparkSession,
    config: Mapping[str, object],
    bootstrap_servers: str,
    spans: Collection[Span],
) -> DataFrame:
    """Return the records of ``spans``; columns as ours, nothing decoded.

    Raises:
        ConfigError: a setting is librdkafka's own.
    """
    if unknown := untranslatable(config):
        raise ConfigError(
            f"{', '.join(unknown)}: Spark's connector uses Java's client, which does not know this "
            "setting; write it as Kafka's documentation does, or use reader='python'"
        )
    partitions = {span.partition for span in spans}
    starts = {p: min(s.start for s in spans if s.partition == p) for p in partitions}
    ends = {p: max(s.end for s in spans if s.partition == p) for p in partitions}
    reader = session.read.format("kafka").options(
        **{
            "kafka.bootstrap.servers": bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps(_nested({p: [] for p in partitions})),
            "startingOffsets": json.dumps(_nested(starts)),
            "endingOffsets": json.dumps(_nested(ends)),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "minPartitions": str(len(spans)),
            **{
                f"kafka.{name}": str(value)
                for name, value in config.items()
                if name.startswith(_SECURITY)
            },
        }
    )
    return reader.load().select(
        "key", "value", "headers", "topic", "partition", "offset", "timestamp"
    )


def _nested(by_partition: Mapping[TopicPartition, object]) -> dict[str, object]:
    """Return what Spark's options have: ``{topic: {partition: value}}``, or a list of them."""
    found: dict[str, object] = {}
    for topic in {p.topic for p in by_partition}:
        mine = {p.partition: value for p, value in by_partition.items() if p.topic == topic}
        is_list = any(value == [] for value in mine.values())
        found[topic] = sorted(mine) if is_list else {str(p): mine[p] for p in sorted(mine)}
    return found
