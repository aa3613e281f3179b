"""Units computed from records at hand, and what the native engine makes of the same records."""

from __future__ import annotations

import importlib
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.ids import TopicPartition
from headwater.spark.frames import rows
from headwater.spark.frames.choose import choose
from headwater.spark.frames.computing import Frames
from headwater.spark.frames.rows import PartitionWork, Trouble
from headwater.testing import ProducedRecord, TopologyTestDriver
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headwater.model.topology import Topology
    from headwater.spark.frames.plan import Read, Translation, Unit

CONFIG: dict[str, str | int | float | bool] = {
    "application.id": "app",
    "statestore.cache.max.bytes": 0,
}
SHUFFLED = 3
"""Partitions of every repartition topic."""


class Record(NamedTuple):
    """One record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int


Log: TypeAlias = "Mapping[str, Sequence[Sequence[Record]]]"
"""By topic and partition, in the order of offsets."""
State: TypeAlias = "dict[tuple[str, int, bytes], tuple[bytes | None, int]]"
"""By store, partition and key: value and timestamp of the newest changelog record."""
Run: TypeAlias = "Callable[[Topology, Log], Iterable[tuple[str, bytes, tuple[bytes | None, int]]]]"
"""What one driver with one partition of each topic leaves: the same by store and key."""


class Computed(NamedTuple):
    """What DataFrames have made of a log."""

    state: State
    trouble: Trouble
    times: dict[tuple[str, int], int]
    """By topic and partition: the latest timestamp."""
    dropped: int


def translated(build: Callable[..., Any]) -> tuple[Topology, Translation]:
    topology = build_topology(build)
    return topology, choose(topology, StreamsConfig.parse(CONFIG))


def by_dataframes(session: Any, translation: Translation, log: Log) -> Computed:
    """Compute all units of a topology."""
    state: State = {}
    worst, dropped = Trouble.NONE, 0
    times: dict[tuple[str, int], int] = {}
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for unit in translation.units:
        frames = Frames(
            unit, dict.fromkeys(unit.shuffles, SHUFFLED), partial(_frame, session, log, unit)
        )
        try:
            for row in frames.told():
                worst = max(worst, Trouble(row["bad"]))
                if row["src"] >= 0:
                    times[unit.reads[row["src"]].topic, row["part"]] = row["latest"]
                    continue
                dropped += row["dropped"]
                shuffle = unit.outputs[row["out"]].shuffle
                if shuffle:
                    times[shuffle, row["part"]] = row["latest"]
            for row in frames.rows.filter("n > 0").collect():
                store = unit.outputs[row["out"]].store
                value = None if row["value"] is None else bytes(row["value"])
                state[store, row["part"], bytes(row["key"])] = value, row["t"]
        finally:
            frames.release()
    return Computed(state, worst, times, dropped)


def _frame(session: Any, log: Log, unit: Unit, number: int, read: Read) -> Any:
    pa: Any = importlib.import_module("pyarrow")  # untyped
    batches = []
    for partition, records in enumerate(log[read.topic]):
        work = PartitionWork(
            read=read,
            number=number,
            partition=TopicPartition(read.topic, partition),
            start=0,
            cut=len(records),
            config=CONFIG,
            group="",
            only_counts=unit.only_counts(read),
        )
        raw = [(at, r.timestamp, r.key, r.value) for at, r in enumerate(records)]
        half = len(raw) // 2
        chunks: Any = [
            tuple(map(list, zip(*chunk, strict=True)))
            for chunk in (raw[:half], raw[half:])
            if chunk
        ]
        batches += list(rows.as_batches(work, chunks))
    return session.createDataFrame(pa.Table.from_batches(batches), rows.schema_of(read))


def natively(
    topology: Topology,
    translation: Translation,
    log: Log,
    partitions_behind: int = SHUFFLED,
    *,
    run: Run | None = None,
) -> State:
    """What tasks make of it, one driver for each partition; behind a shuffle, one for all.

    Args:
        topology: of the application.
        translation: says what comes by a shuffle.
        log: the records.
        partitions_behind: how many partitions every repartition topic has.
        run: what a driver does with records; by default the native one.
    """
    run = run or _run
    outputs = [output for unit in translation.units for output in unit.outputs]
    shuffled = {output.store for output in outputs if output.shuffle}
    state: State = {}
    count = max(len(partitions) for partitions in log.values())
    for partition in range(count):
        part: dict[str, list[Sequence[Record]]] = {
            topic: [partitions[partition]] if partition < len(partitions) else [[]]
            for topic, partitions in log.items()
        }
        for store, key, found in run(topology, part):
            if store not in shuffled:
                state[store, partition, key] = found
    for store, key, found in run(topology, log):
        if store in shuffled:
            state[store, partition_for_key(key, partitions_behind), key] = found
    return state


def _run(topology: Topology, log: Log) -> Iterable[tuple[str, bytes, tuple[bytes | None, int]]]:
    newest: dict[tuple[str, bytes], tuple[bytes | None, int]] = {}
    for record in _sent(topology, log):
        if record.topic.endswith("-changelog"):
            assert not record.headers
            store = record.topic.removeprefix("app-").removesuffix("-changelog")
            newest[store, record.key or b""] = record.value, record.timestamp
    return [(store, key, found) for (store, key), found in newest.items()]


def _sent(topology: Topology, log: Log) -> list[ProducedRecord]:
    with TopologyTestDriver(topology, CONFIG) as driver:
        for topic, partitions in log.items():
            for records in partitions:
                for key, value, timestamp in records:
                    driver.pipe_raw(topic, key, value, timestamp)
        return list(driver.history)


def crossed(topology: Topology, log: Log) -> dict[tuple[str, int], int]:
    """The latest timestamp of each partition behind a shuffle that tasks send something to."""
    found: dict[tuple[str, int], int] = {}
    for record in _sent(topology, log):
        topic = record.topic.removeprefix("app-")
        if topic in topology.repartition_topics:
            at = topic, partition_for_key(record.key or b"", SHUFFLED)
            found[at] = max(found.get(at, -1), record.timestamp)
    return found


def latest(log: Log) -> dict[tuple[str, int], int]:
    """The latest timestamp of each partition that is read."""
    found: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    for topic, partitions in log.items():
        for number, records in enumerate(partitions):
            found[topic, number] = max((r.timestamp for r in records), default=-1)
    return found
