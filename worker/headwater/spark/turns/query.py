"""The streaming query: it places tasks, counts turns, and runs one again that has failed.

turns of the planner ──► one state partition a task (the marker; Spark keeps a partition where
its state is) ──► the task's host ──► what was done, collected by the driver
"""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater import failpoints
from headwater.errors import EnvironmentProblemError, HeadwaterError
from headwater.spark.causes import last_words
from headwater.spark.cluster import start
from headwater.spark.troubles import troubles
from headwater.spark.turns.hosts import take_turns
from headwater.spark.turns.planner import FORMAT, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.spark.turns.messages import HostSettings, TurnDone
    from headwater.spark.turns.planner import PlannerSettings

_ROUTES_TRIED: Final = 40
_SPREAD: Final = "spark.sql.shuffle.partitions"
SETTINGS: Final[Mapping[str, str]] = {
    "spark.app.name": "headwater",
    "spark.executor.cores": "1",
    # Turns leave nothing behind that a later one needs.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # The default asks `readlink` about every file, in a process of its own: half of a micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.stopTimeout": "30s",
}


def session_of(
    master: str, settings: Mapping[str, str], tasks: int, *, is_apart: bool = False
) -> SparkSession:
    """Start Spark with a shuffle partition for each task.

    Raises:
        EnvironmentProblemError: see ``cluster.start``.
    """
    fixed = {_SPREAD: str(tasks)}
    return start(master, {**SETTINGS, **settings, **fixed}, is_apart=is_apart)


def spread_over(session: SparkSession, tasks: int) -> None:
    """Let queries that begin from now on have a shuffle partition for each task."""
    session.conf.set(_SPREAD, str(tasks))


def routes(session: SparkSession, tasks: int) -> list[int]:
    """Return a number for each task, such that Spark hashes each to a partition of its own.

    Raises:
        TurnsFailedError: Spark cannot run a job.
    """
    found: dict[int, int] = {}
    tried = tasks * _ROUTES_TRIED
    while len(found) < tasks:
        with explained("its first job"):
            rows = session.range(tried).selectExpr("id", f"pmod(hash(id), {tasks})").collect()
        for number, partition in rows:
            found.setdefault(partition, number)
        tried *= 2
    return [found[partition] for partition in range(tasks)]


class TurnsFailedError(EnvironmentProblemError):
    """Spark has given the query up."""


class Query:
    """The streaming query of one driver.

    Args:
        session: of Spark.
        planner: what the planner is told.
        told: what task hosts are told.
        checkpoint: a new directory that driver and executors can reach.
        trigger_ms: how long from one micro-batch to the next at the least.
        on_begun: hears that a micro-batch begins.
        on_turns: hears the number of each micro-batch, what it has done, when it ended, and how
            long it took (both in seconds).
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        planner: PlannerSettings,
        told: HostSettings,
        checkpoint: Path | str,
        trigger_ms: int,
        on_begun: Callable[[], None],
        on_turns: Callable[[int, Sequence[TurnDone], float, float], None],
    ) -> None:
        self._on_begun = on_begun
        self._on_turns = on_turns
        self._is_draining = False
        self._turn = threading.Lock()
        self._error: HeadwaterError | None = None
        with self._explained():
            self._query = self._begun(session, planner, told, str(checkpoint), trigger_ms)

    def _begun(
        self,
        session: SparkSession,
        planner: PlannerSettings,
        told: HostSettings,
        checkpoint: str,
        trigger_ms: int,
    ) -> StreamingQuery:
        from pyspark.sql.functions import max_by  # noqa: PLC0415 - heavy

        session.dataSource.register(source(planner))
        turns = session.readStream.format(FORMAT).load()
        # The newest turn of each route is all of Spark's state.
        routed = turns.groupBy("route").agg(max_by("turn", "number").alias("turn"))
        runner: Any = partial(take_turns, told)
        return (
            routed.mapInArrow(runner, "result binary")
            .writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .foreachBatch(self._take)
            .start()
        )

    def _take(self, frame: DataFrame, number: int) -> None:
        with self._turn:
            if self._is_draining:
                return
            self._on_begun()
            began = time.monotonic()
            results = [pickle.loads(bytes(row[0])) for row in frame.collect()]  # noqa: S301 - our own
            for result in results:
                if isinstance(result, HeadwaterError):
                    # Not raised: Spark would print its own stack trace, and Java's, of it.
                    self._error, self._is_draining = result, True
                    return
            self._on_turns(number, results, time.time(), time.monotonic() - began)
        failpoints.hit("spark.batch_done")

    def drain(self, timeout_s: float) -> None:
        """Begin nothing more, and wait for the micro-batch that runs."""
        self._is_draining = True
        if self._turn.acquire(timeout=timeout_s):
            self._turn.release()

    def await_end(self, timeout_s: float) -> bool:
        """Return whether the query has ended.

        Raises:
            HeadwaterError: what has ended it.
        """
        if self._error is not None:
            raise self._error
        with self._explained():
            return bool(self._query.awaitTermination(timeout_s))  # type: ignore[arg-type]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in our words why Spark has given up, or that it is gone."""
        try:
            with explained("a micro-batch"):
                yield
        except TurnsFailedError:
            if self._error is not None:
                raise self._error from None
            raise

    def stop(self) -> None:
        """Stop between micro-batches, or in the midst of one: Kafka then has all or nothing."""
        with suppress(*troubles()):
            self._query.stop()


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Say in our words that Spark has given ``what`` up, or that it is gone.

    Raises:
        TurnsFailedError: in place of what pyspark has raised.
    """
    try:
        yield
    except troubles() as error:
        raise TurnsFailedError(
            f"{last_words(error)} (Spark has given {what} up after all its attempts; start the "
            "application again to go on from what is committed)"
        ) from error
