"""A keyed count in plain Spark: ``transformWithStateInPandas``, one call and one state per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Count(StatefulProcessor):
    """Counts the records of a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Count one key's records of a batch."""
        before = self._count.get()[0] if self._count.exists() else 0
        count = before + sum(len(one) for one in rows)
        self._count.update((count,))
        yield pd.DataFrame({"key": [key[0]], "count": [count]})

    def close(self) -> None:
        """Release nothing."""


def counted(session: SparkSession, servers: str, topic: str, checkpoint: str) -> int:
    """Count all there is in ``topic``; return the number of keys."""
    session.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(key AS STRING) AS key")
    )
    counts = records.groupBy("key").transformWithStateInPandas(
        Count(), "key string, count bigint", outputMode="Update", timeMode="None"
    )
    name = f"counts_{topic.replace('-', '_')}"
    writer = counts.writeStream.format("memory").queryName(name).outputMode("update")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return session.table(name).select("key").distinct().count()
