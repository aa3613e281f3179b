"""Numbers of Spark's driver."""

from __future__ import annotations

from typing import Final

from headwater.model.metrics.declaring import Scope, Unit, counter, gauge

_DRIVER: Final = Scope.DRIVER

SPARK_GENERATION: Final = gauge(
    _DRIVER, "generation", "Generation of the engine record.", key="generation"
)
SPARK_RUNNING: Final = gauge(_DRIVER, "running", "1 while micro-batches are taken.", flag=True)
SPARK_BATCHES: Final = counter(_DRIVER, "batches-total", "Micro-batches done.", key="batches")
SPARK_RECORDS: Final = counter(_DRIVER, "records-total", "Records processed.", Unit.RECORDS)
SPARK_DROPPED_RECORDS: Final = counter(
    _DRIVER, "dropped-records-total", "Records dropped.", Unit.RECORDS
)
SPARK_TASKS_OPENED: Final = counter(_DRIVER, "tasks-opened-total", "Times that a task was opened.")
SPARK_TASKS: Final = gauge(_DRIVER, "tasks", "Tasks of the topology.")
SPARK_BATCH_DURATION_MS: Final = gauge(
    _DRIVER, "batch-duration-ms", "Of the last micro-batch.", Unit.MS
)
SPARK_BUSY_SECONDS: Final = gauge(
    _DRIVER, "busy-seconds", "Since the micro-batch under way began.", Unit.SECONDS
)
SPARK_INPUT_RATE: Final = gauge(
    _DRIVER,
    "input-rows-per-second",
    "Records processed per second, pauses between micro-batches included; smoothed.",
    Unit.PER_SECOND,
    is_scraped=False,
    key="inputRowsPerSecond",
)
SPARK_PROCESSED_RATE: Final = gauge(
    _DRIVER,
    "processed-rows-per-second",
    "Records processed per second of micro-batches; smoothed.",
    Unit.PER_SECOND,
    is_scraped=False,
    key="processedRowsPerSecond",
)
METRICS_OF_DRIVER: Final = (
    SPARK_GENERATION,
    SPARK_RUNNING,
    SPARK_BATCHES,
    SPARK_RECORDS,
    SPARK_DROPPED_RECORDS,
    SPARK_TASKS_OPENED,
    SPARK_TASKS,
    SPARK_BATCH_DURATION_MS,
    SPARK_BUSY_SECONDS,
    SPARK_INPUT_RATE,
    SPARK_PROCESSED_RATE,
)
