"""Plans the turns of each micro-batch, from what Kafka says is committed and what there is.

Spark asks at every trigger (a Python data source). What Spark remembers is the turn's number; where
a turn begins and ends is asked of Kafka each time, so that nothing can contradict it.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from headwater.config import StreamsConfig
from headwater.errors import (
    HeadwaterError,
    KafkaUnavailableError,
    MissingTopicError,
    PartitionMismatchError,
    TopicError,
)
from headwater.service.duties import Duties
from headwater.spark.turns.messages import Turn, shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.spark.turns.messages import TurnNumber

FORMAT: Final = "headwater-turns"
SCHEMA: Final = "route bigint, number bigint, turn binary"
_IDLE_S: Final = 0.02
_TOPICS_S: Final = 5.0
"""How often partition counts are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSettings:
    """What the planner is told; it travels pickled.

    Attributes:
        config: the StreamsConfig as given.
        inputs: the input partitions of each task.
        routes: a number for each task whose hash leads to a partition of its own.
        slots: how many tasks an executor runs at a time.
        limit: how many offsets a micro-batch takes at most.
        idle_s: a turn is taken at least so often.
        before: the number before the first turn of the query.
    """

    config: Mapping[str, str | int | float | bool] = field(repr=False)
    inputs: Mapping[TaskId, tuple[TopicPartition, ...]]
    routes: Mapping[TaskId, int]
    slots: int
    limit: int
    idle_s: float
    before: TurnNumber


class Planner:
    """Decides whether there is a turn to take, and up to where."""

    def __init__(self, told: PlannerSettings) -> None:
        self._told = told
        config = StreamsConfig.parse(told.config)
        self._group = config.application_id
        client_id = f"{config.client_id or config.application_id}-spark-planner"
        self._admin = Duties(config, client_id=client_id).admin
        self._inputs = sorted({p for found in told.inputs.values() for p in found})
        # As many as tasks read, whatever the broker says by now: one that nobody reads is noticed.
        self._partitions = Counter(p.topic for p in self._inputs)
        self._promised: dict[TopicPartition, int] = {}
        """Up to where tasks may have read by now."""
        self._taken_at = float("-inf")
        self._looked_at = float("-inf")

    def next(self, number: int) -> list[tuple[int, int, bytes]]:
        """Return a row for each task, or none if there is nothing to do.

        Raises:
            MissingTopicError: a source topic was deleted.
            PartitionMismatchError: one has other partitions now.
            TopicError: one ends before what is committed of it.
            KafkaUnavailableError: nobody answered.
        """
        now = time.monotonic()
        if now - self._looked_at > _TOPICS_S:
            self._check_topics()
            self._looked_at = now
        committed = {
            p: found.offset for p, found in self._admin.committed(self._group, self._inputs).items()
        }
        there = self._admin.end_offsets(self._inputs, committed_only=True)
        self._check_ends({p: at for p, at in committed.items() if at > there[p]})
        is_due = now - self._taken_at >= self._told.idle_s
        if not is_due and all(there[p] <= offset for p, offset in committed.items()):
            return []
        self._taken_at = now
        ends = self._ends(committed, there)
        turn = replace(self._told.before, number=number)
        return [
            (
                self._told.routes[task],
                number,
                pickle.dumps(
                    Turn(
                        number=turn,
                        task=task,
                        slot=index % self._told.slots,
                        ends={p: ends[p] for p in inputs if p in ends},
                        more=frozenset(p for p in inputs if p in ends and there[p] > ends[p]),
                        inputs=frozenset(inputs),
                    )
                ),
            )
            for index, (task, inputs) in enumerate(sorted(self._told.inputs.items()))
        ]

    def _ends(
        self, committed: Mapping[TopicPartition, int], there: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return up to where each partition is read; never less far than it was."""
        self._promised = {
            p: max(end, min(self._promised.get(p, 0), there[p]))
            for p, end in shares(committed, there, self._told.limit).items()
        }
        return self._promised

    def _check_ends(self, beyond: Mapping[TopicPartition, int]) -> None:
        """Refuse turns that could never reach their ends.

        Args:
            beyond: what is committed behind the last record that is committed. Natively records of
                open transactions may have been read, too; so the end of all records decides.
        """
        if not beyond:
            return
        for partition, end in self._admin.end_offsets(list(beyond)).items():
            if beyond[partition] > end:
                raise TopicError(
                    f"{partition} ends at offset {end}, and {beyond[partition]} is committed in "
                    f"group {self._group}: the topic was made anew or has lost records, so the "
                    "state is not of what lies there. Reset the application to begin anew, or "
                    "commit an offset that there is"
                )

    def _check_topics(self) -> None:
        found = self._admin.describe_topics(self._partitions)
        for topic, wanted in self._partitions.items():
            if topic not in found:
                raise MissingTopicError(
                    f"source topic {topic} is gone; create it again, then start the application"
                )
            if found[topic].partitions != wanted:
                raise PartitionMismatchError(
                    f"topic {topic} has {found[topic].partitions} partitions and had {wanted} when "
                    "the application started; start it again, so that there is a task for each. "
                    "(What lies in repartition topics and changelogs stays where it is: their "
                    "counts must fit, or the application be reset)"
                )


class TurnSource(DataSource):  # type: ignore[misc, unused-ignore]
    """The planner as a data source of Spark; made by ``source``."""

    told: PlannerSettings

    @classmethod
    def name(cls) -> str:
        """What ``readStream.format`` is given."""
        return FORMAT

    def schema(self) -> str:
        """A route, a number and a pickled turn."""
        return SCHEMA

    def simpleStreamReader(self, schema: Any) -> TurnReader:  # noqa: N802, ARG002 - Spark's name
        """Return what plans in a Python process beside the driver's JVM."""
        return TurnReader(self.told)


class TurnReader(SimpleDataSourceStreamReader):  # type: ignore[misc, unused-ignore]
    """Reads turns; an offset is the number of a turn."""

    def __init__(self, told: PlannerSettings) -> None:
        self._told = told
        self._planner: Planner | None = None
        self._patience_s = StreamsConfig.parse(told.config).task_timeout_ms / 1000
        self._heard_at = time.monotonic()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before the first turn."""
        return {"turn": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        """Plan the turn after ``start``, if there is anything to do; an error is a row, too."""
        number = start["turn"] + 1
        rows: list[tuple[int, int, bytes]]
        try:
            self._planner = self._planner or Planner(self._told)
            rows = self._planner.next(number)
            self._heard_at = time.monotonic()
        except KafkaUnavailableError as error:
            # As long as a StreamThread would wait: whoever began again would find no broker either.
            if time.monotonic() - self._heard_at < self._patience_s:
                return iter(()), start
            rows = [(0, number, pickle.dumps(KafkaUnavailableError(str(error))))]
        except HeadwaterError as error:
            rows = [(0, number, pickle.dumps(type(error)(str(error))))]
        if not rows:
            time.sleep(_IDLE_S)
            return iter(()), start
        return iter(rows), {"turn": number}

    def readBetweenOffsets(  # noqa: N802 - Spark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[Any, ...]]:
        """Never needed: every driver begins a checkpoint of its own."""
        raise AssertionError(f"turns {start} to {end} are asked for again")

    def commit(self, end: dict[str, int]) -> None:
        """Kafka holds what is committed."""


def source(told: PlannerSettings) -> type[TurnSource]:
    """Return a data source that plans as told; Spark ships classes, not objects."""
    return type("ToldTurnSource", (TurnSource,), {"told": told})
