"""Computes units of sub-topologies as DataFrames: read, fold, look for trouble, load.

Nothing is written before all of it is computed and nothing was found that only a StreamTask can
handle.
"""

from __future__ import annotations

import importlib
import pickle
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import HeadwaterError
from headwater.ids import TaskId
from headwater.spark.frames.columns import RESULT, folded, functions, walked
from headwater.spark.frames.load import LoadWork, load_rows
from headwater.spark.frames.rows import PartitionWork, Trouble, Union, read_rows, schema_of
from headwater.spark.reader import deleted
from headwater.spark.troubles import troubles
from headwater.spark.work import TaskDone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headwater.ids import TopicPartition
    from headwater.spark.frames.plan import Output, Read, Unit
    from headwater.spark.frames.rows import Gathered

SHUFFLES: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWork:
    """A unit with all that is to be read and written.

    Attributes:
        unit: what is computed.
        partitions: what is read.
        topics: by a shuffle's topic its partitions, by the broker's name.
        load: whoever loads is told this.
    """

    unit: Unit
    partitions: tuple[PartitionWork, ...]
    topics: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    load: LoadWork


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDone:
    """What came of a unit.

    Attributes:
        trouble: why StreamTasks have to compute it; then nothing was written.
        tasks: of all its sub-topologies.
        times: by partition, shuffled ones too, the latest timestamp; -1 without a record.
    """

    trouble: str = ""
    tasks: tuple[TaskDone, ...] = ()
    times: Mapping[TopicPartition, int] = field(default_factory=dict)


def compute(session: Any, work: UnitWork, *, shuffle_partitions: int | None) -> UnitDone:
    """Compute a unit and load its state.

    Args:
        session: of Spark.
        work: the unit.
        shuffle_partitions: how many partitions a shuffle has; ``None`` leaves it to Spark.

    Raises:
        BackfillError: records were deleted between two readings of them.
        FencedError: another driver has taken over.
    """
    if shuffle_partitions is not None:
        session.conf.set(SHUFFLES, str(shuffle_partitions))
    frames = frames_of(session, work)
    try:
        told = frames.told()
        worst = max((row["bad"] for row in told), default=0)
        if worst:
            return UnitDone(trouble=Trouble(worst).sentence)
        frames.load(work.load)
        return _done(work, told)
    finally:
        frames.release()


def frames_of(session: Any, work: UnitWork) -> Frames:
    """Return the DataFrames of a unit, which read its partitions from Kafka."""
    sizes = {topic: len(partitions) for topic, partitions in work.topics.items()}
    lost = session.sparkContext.accumulator(frozenset(), Union())
    return Frames(work.unit, sizes, partial(_read, session, work, lost), lost)


class Frames:
    """The DataFrames of one unit.

    Args:
        unit: what is computed.
        sizes: by a shuffle's topic, how many partitions it has.
        read: gives the rows of a read (``rows.schema_of``) by its number.
        lost: what readers tell of partitions of which records were deleted.
    """

    def __init__(
        self,
        unit: Unit,
        sizes: Mapping[str, int],
        read: Callable[[int, Read], Any],
        lost: Gathered | None = None,
    ) -> None:
        self._lost = lost
        storage: Any = importlib.import_module("pyspark.storagelevel")
        self._level = storage.StorageLevel.MEMORY_AND_DISK
        self._kept: list[Any] = []
        paths = [path for output in unit.outputs for path in output.paths]
        raw: dict[Read, Any] = {}
        for number, one in enumerate(unit.reads):
            frame = read(number, one)
            if sum(path.read == one for path in paths) > 1:
                frame = self._keep(frame)
            raw[one] = frame
        results = [
            _result(number, output, raw, sizes) for number, output in enumerate(unit.outputs)
        ]
        self.rows = self._keep(reduce(_union, results))
        """``columns.RESULT``."""

    def _keep(self, frame: Any) -> Any:
        kept = frame.persist(self._level)
        self._kept.append(kept)
        return kept

    def release(self) -> None:
        """Forget what was computed."""
        # A Spark that is gone has said so already, and remembers nothing.
        with suppress(*troubles()):
            for frame in self._kept:
                frame.unpersist()

    def told(self) -> list[Any]:
        """Compute everything; return what is known of partitions."""
        f = functions()
        there = (f.col("n") > 0) & f.col("value").isNotNull()
        grouped = self.rows.groupBy("out", "sub", "src", "part").agg(
            f.sum("crossed").alias("crossed"),
            f.sum("dropped").alias("dropped"),
            f.max("latest").alias("latest"),
            f.max("bad").alias("bad"),
            f.max("m").alias("m"),
            f.count(f.when(there, 1)).alias("keys"),
        )
        return list(grouped.collect())

    def load(self, load: LoadWork) -> None:
        """Write the changelogs.

        Raises:
            BackfillError: records were deleted between two readings of them.
            FencedError: another driver has taken over.
        """
        f = functions()
        first: dict[int, int] = {}
        for at, task in enumerate(load.tasks):
            first.setdefault(task.subtopology, at - task.partition)
        base = reduce(
            lambda found, sub: f.when(f.col("sub") == sub, f.lit(first[sub])).otherwise(found),
            first,
            f.lit(0),
        )
        rows = self.rows.filter("n > 0").select(
            (base + f.col("part")).cast("int").alias("task"), "out", "key", "value", "t"
        )
        placed = rows.repartitionById(len(load.tasks), f.col("task"))
        results = placed.mapInArrow(partial(load_rows, load), "result binary").collect()
        for row in results:
            result = pickle.loads(bytes(row[0]))  # noqa: S301 - from our own tasks
            if isinstance(result, HeadwaterError):
                raise result
        # What an executor held is read once more if that is lost. By then records may be deleted,
        # of which nobody was told who has asked before; what was loaded lacks them. (Compaction
        # may have come as well; it leaves the last record of each key.)
        if self._lost is not None and self._lost.value:
            raise deleted(sorted(self._lost.value))


def _read(session: Any, work: UnitWork, lost: Gathered, number: int, read: Read) -> Any:
    works = tuple(one for one in work.partitions if one.number == number)
    numbers = session.range(0, len(works), 1, max(1, len(works)))
    return numbers.mapInArrow(partial(read_rows, works, lost), schema_of(read))


def _result(number: int, output: Output, raw: Mapping[Read, Any], sizes: Mapping[str, int]) -> Any:
    rows = reduce(_union, [walked(path, raw[path.read]) for path in output.paths])
    result = folded(output, number, rows)
    if not output.shuffle:
        return result
    return result.mapInArrow(partial(place, sizes[output.shuffle]), RESULT)


def _union(left: Any, right: Any) -> Any:
    return left.unionByName(right)


def place(count: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Give each key the partition that a producer would send it to."""
    pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped
    np: Any = importlib.import_module("numpy")
    # It needs numpy, too, and what gives a backfill up needs neither.
    from headwater.spark.frames.murmur import partitions_of  # noqa: PLC0415

    for batch in batches:
        source = batch.column("src").to_numpy()
        part = batch.column("part").to_numpy()
        found = np.where(source < 0, partitions_of(batch.column("key"), count), part)
        at = batch.schema.get_field_index("part")
        yield batch.set_column(at, "part", pa.array(found.astype(np.int32), pa.int32()))


class _Tally:
    """What the told rows say of partitions and tasks; a row that comes by two paths counts once."""

    def __init__(self, work: UnitWork) -> None:
        self._work = work
        self._read = {(one.number, one.partition.partition): one for one in work.partitions}
        shuffled = [p for partitions in work.topics.values() for p in partitions]
        self.times: dict[TopicPartition, int] = dict.fromkeys(
            [*(one.partition for one in work.partitions), *shuffled], -1
        )
        self._counts: dict[TopicPartition, tuple[TaskId, int]] = {}
        self._dropped: Counter[TaskId] = Counter()
        self._keys: Counter[TaskId] = Counter()

    def partition(self, row: Any) -> None:
        """A row that tells of a partition that was read."""
        found = self._read[row["src"], row["part"]]
        self.times[found.partition] = row["latest"]
        task = TaskId(found.read.subtopology, row["part"])
        self._counts[found.partition] = task, row["m"]

    def state(self, row: Any) -> None:
        """What one task has made of one store."""
        task = TaskId(row["sub"], row["part"])
        self._dropped[task] += row["dropped"]
        self._keys[task] += row["keys"]
        shuffle = self._work.unit.outputs[row["out"]].shuffle
        if shuffle:
            partition = self._work.topics[shuffle][row["part"]]
            self.times[partition] = row["latest"]
            self._counts[partition] = task, row["crossed"]

    def done(self) -> UnitDone:
        """All of it."""
        processed: Counter[TaskId] = Counter()
        for task, count in self._counts.values():
            processed[task] += count
        return UnitDone(
            tasks=tuple(
                TaskDone(
                    task=task,
                    processed=processed[task],
                    dropped=self._dropped[task],
                    dead_letters=0,
                    keys=self._keys[task],
                )
                for task in self._work.load.tasks
            ),
            times=self.times,
        )


def _done(work: UnitWork, told: Sequence[Any]) -> UnitDone:
    tally = _Tally(work)
    for row in told:
        if row["src"] >= 0:
            tally.partition(row)
        else:
            tally.state(row)
    return tally.done()
