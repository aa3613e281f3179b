"""One partition of a topic, up to the cut, as Arrow batches with decoded keys and values.

The last row tells of the whole partition: how many records there were, the latest timestamp, and
whether something was found that only a StreamTask can handle.
"""

from __future__ import annotations

import importlib
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.config import StreamsConfig
from headwater.errors import BackfillError
from headwater.kafka.errors import Connection
from headwater.kafka.settings import batch_records, consumer_settings
from headwater.native.garbage import tune_garbage_collection
from headwater.spark.frames.counted import COUNTED, Counted
from headwater.spark.frames.kinds import Kind
from headwater.spark.frames.reading import Teller
from headwater.spark.reader import ReaderToCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headwater.ids import TopicPartition
    from headwater.kafka.newest import Columns
    from headwater.spark.frames.plan import Read

_POLL_S: Final = 0.1
_BATCH: Final = 50_000
_BATCH_BYTES: Final = 16 << 20
"""So much of keys and values, and what one poll brings, is held as Python objects and in Arrow."""
_SQL: Final = {
    Kind.BYTES: "binary",
    Kind.DOUBLE: "binary",
    Kind.STRING: "string",
    Kind.INTEGER: "bigint",
    Kind.LONG: "bigint",
}
_WIDTH: Final = {Kind.INTEGER: 4, Kind.LONG: 8, Kind.DOUBLE: 8}


class Trouble(IntEnum):
    """What a StreamTask has to look at; the highest is told."""

    NONE = 0
    UNDECODABLE = 1
    NO_TIMESTAMP = 2
    OVERFLOW = 3
    SUM = 4
    DELETED = 5

    @property
    def sentence(self) -> str:
        """What was found."""
        return {
            Trouble.NONE: "",
            Trouble.UNDECODABLE: "a record cannot be decoded, so a handler has to decide",
            Trouble.NO_TIMESTAMP: "a record has no valid timestamp",
            Trouble.OVERFLOW: "a number does not fit in 64 bits",
            Trouble.SUM: "a sum may not fit into its serde on the way to the end",
            Trouble.DELETED: "records were deleted before they were read",
        }[self]


class Gathered(Protocol):
    """Partitions that readers tell the driver of, past the rows (an ``Accumulator`` of Spark's)."""

    @property
    def value(self) -> frozenset[TopicPartition]:
        """All of them, as far as the readers' tasks have ended; for the driver only."""
        ...

    def add(self, term: frozenset[TopicPartition]) -> None:
        """Add some."""
        ...


class Union:
    """Adds sets (an ``AccumulatorParam`` of Spark's)."""

    def zero(self, _value: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return what each reader begins with."""
        return frozenset()

    def addInPlace(  # noqa: N802 - Spark's name
        self, left: frozenset[TopicPartition], right: frozenset[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Return both."""
        return left | right


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition to be read.

    Attributes:
        read: of which topic, and what its records are.
        number: of the read among those of its unit.
        partition: which, by the broker's name.
        start: first offset.
        cut: offset of the first record that is not read.
        config: the StreamsConfig as given; there may be a password in it.
        group: where the reader says how far it is (``reading``).
        only_counts: records that have the same key are to be made one row (``Unit.only_counts``).
    """

    read: Read
    number: int
    partition: TopicPartition
    start: int
    cut: int
    config: Mapping[str, str | int | float | bool] = field(repr=False)
    group: str
    only_counts: bool = False


def schema_of(read: Read) -> str:
    """Return the columns of the rows as Spark writes them.

    ``src`` is -1, or in the row that tells of a partition the number of the read. ``m`` is how many
    records a row stands for.
    """
    return (
        f"src int, part int, ts bigint, off bigint, key {_SQL[read.key]}, "
        f"value {_SQL[read.value]}, m bigint, bad int"
    )


def for_dataframes(
    given: Mapping[str, str | int | float | bool],
) -> dict[str, str | int | float | bool]:
    """Return the application's configuration for reading and loading, always exactly-once."""
    name = "processing.guarantee"
    kept = {key: value for key, value in given.items() if key.replace("_", ".") != name}
    return {**kept, name: "exactly_once_v2"}


def read_rows(
    works: Sequence[PartitionWork], lost: Gathered, batches: Iterable[Any]
) -> Iterator[Any]:
    """Read the partitions whose numbers Spark hands to this Python worker."""
    tune_garbage_collection()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from as_batches(works[number], _chunks(works[number], lost))


def as_batches(
    work: PartitionWork,
    chunks: Iterable[Columns | None],
    counted: Callable[[], Counted] = Counted,
) -> Iterator[Any]:
    """Return the records of one partition as Arrow batches, and what is told of it.

    Args:
        work: which partition.
        chunks: its records; ``None`` says that some were deleted before they were read.
        counted: makes what merges those that are only counted.
    """
    pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped
    latest, count, trouble = -1, 0, Trouble.NONE
    merged = counted() if work.only_counts else None
    for columns in chunks:
        if columns is None:
            trouble = Trouble.DELETED
            break
        try:
            batch = decoded(pa, work, columns)
        except (pa.ArrowInvalid, ValueError):
            trouble = Trouble.UNDECODABLE
            break
        times = batch.column("ts").to_numpy()
        if times.min() < 0:
            trouble = Trouble.NO_TIMESTAMP
            break
        latest = max(latest, int(times.max()))
        count += len(columns[1])
        if merged is None:
            yield batch
        else:
            yield from (_of_counted(pa, work, rows) for rows in merged.add(batch))
    if merged is not None:
        yield from (_of_counted(pa, work, rows) for rows in merged.rest())
    told = (work.number, work.partition.partition, latest, -1, None, None, count, int(trouble))
    yield _batch(pa, work.read, [[one] for one in told])


@cache
def _numpy() -> Any:
    return importlib.import_module("numpy")  # heavy; to ask for it costs some microseconds


def decoded(pa: Any, work: PartitionWork, columns: Columns) -> Any:
    """Return records as an Arrow batch, with the columns ``COUNTED`` if they are only counted.

    Raises:
        ValueError: one cannot be decoded (``ArrowInvalid`` is one, too).
    """
    np = _numpy()
    offsets, at, keys, values = columns
    read, times = work.read, np.array(at, np.int64)
    key = bulk_decode(pa, read.key, keys)
    if work.only_counts:
        there = _there(pa, read.value, values)
        ones = np.ones(len(times), np.int64)
        return pa.RecordBatch.from_arrays([key, there, pa.array(times), pa.array(ones)], COUNTED)
    return _rows(pa, work, times, offsets, key, bulk_decode(pa, read.value, values))


def _there(pa: Any, kind: Kind, data: Sequence[bytes | None]) -> Any:
    """Return of each whether there is one; what there is can be decoded.

    Raises:
        ValueError: something cannot be decoded.
    """
    given: Any = data
    with suppress(TypeError):  # one is None
        if kind is Kind.STRING and b"".join(given).isascii():
            return pa.array(_numpy().ones(len(data), bool))
    return bulk_decode(pa, kind, data).is_valid()


def _of_counted(pa: Any, work: PartitionWork, rows: Any) -> Any:
    """Return merged records as rows; their value tells only whether there was one."""
    np = _numpy()
    key, there, times, counts = rows.columns
    kind = work.read.value
    choices = pa.array([None, 0 if kind.is_whole else b""]).cast(_type(pa, kind))
    value = choices.take(there.cast(pa.int8()))
    return _rows(pa, work, times, np.full(len(times), -1, np.int64), key, value, counts)


def _rows(
    pa: Any, work: PartitionWork, times: Any, offsets: Any, key: Any, value: Any, counts: Any = None
) -> Any:
    np = _numpy()
    size = len(times)
    return _batch(
        pa,
        work.read,
        [
            np.full(size, -1, np.int32),
            np.full(size, work.partition.partition, np.int32),
            times,
            offsets,
            key,
            value,
            np.ones(size, np.int64) if counts is None else counts,
            np.zeros(size, np.int32),
        ],
    )


def bulk_decode(pa: Any, kind: Kind, data: Sequence[bytes | None]) -> Any:
    """Return the values of a column of bytes; exactly what the serde decodes is decoded.

    Raises:
        ValueError: something cannot be decoded.
    """
    np = _numpy()
    raw = pa.array(data, pa.binary())
    if kind is Kind.STRING:
        return raw.cast(pa.string())
    width = _WIDTH.get(kind)
    there = [one for one in data if one is not None]
    if width is not None and any(len(one) != width for one in there):
        raise ValueError(f"a {kind.value} has {width} bytes")
    if not kind.is_whole:
        return raw
    numbers = np.zeros(len(data), np.int64)
    is_there = np.fromiter((one is not None for one in data), bool, len(data))
    numbers[is_there] = np.frombuffer(b"".join(there), f">i{width}")
    return pa.array(numbers, pa.int64(), mask=~is_there)


def _batch(pa: Any, read: Read, columns: Sequence[Any]) -> Any:
    key, value = _type(pa, read.key), _type(pa, read.value)
    kinds = [pa.int32(), pa.int32(), pa.int64(), pa.int64(), key, value, pa.int64(), pa.int32()]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    names = ["src", "part", "ts", "off", "key", "value", "m", "bad"]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _type(pa: Any, kind: Kind) -> Any:
    return {"binary": pa.binary(), "string": pa.string(), "bigint": pa.int64()}[_SQL[kind]]


def _chunks(work: PartitionWork, lost: Gathered) -> Iterator[Columns | None]:
    """Read records up to the cut, many at a time; yield ``None`` when some were deleted.

    Spark would take an error for one that may pass, and read again.
    """
    if work.start >= work.cut:
        return
    config = StreamsConfig.parse(for_dataframes(work.config))
    connection = Connection(config.bootstrap_servers)
    client_id = f"{config.client_id or config.application_id}-spark-{work.partition}-consumer"
    consumer = ReaderToCut(
        consumer_settings(config, connection, client_id=client_id, group=work.group, is_bulk=True),
        connection,
        batch_records=batch_records(config),
        cut={work.partition: work.cut},
    )
    teller = Teller(consumer, work.partition)
    try:
        consumer.assign({work.partition: work.start})
        chunk: Columns = ([], [], [], [])
        held = 0
        timeout_s = config.task_timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        while not consumer.is_at_cut:
            for _, run in consumer.poll_runs(_POLL_S):
                if work.only_counts:
                    # Taken apart and counted while it is in the processor's cache.
                    yield run.columns(offsets=False)
                else:
                    for column, more in zip(chunk, run.columns(), strict=True):
                        column.extend(more)
                    held += _bytes(chunk, len(run))
                deadline = time.monotonic() + timeout_s
            consumer.take_lost()
            teller.tell()
            if time.monotonic() > deadline:
                raise connection.problem(f"reading {work.partition}")
            if len(chunk[0]) >= _BATCH or held >= _BATCH_BYTES:
                yield chunk
                chunk, held = ([], [], [], []), 0
        teller.end()
        if chunk[0]:
            yield chunk
    except BackfillError:
        lost.add(frozenset([work.partition]))
        yield None
    finally:
        consumer.close()


def _bytes(columns: Columns, last: int) -> int:
    """Return how long the keys and values of the last records are."""
    _, _, keys, values = columns
    return sum(map(len, filter(None, keys[-last:]))) + sum(map(len, filter(None, values[-last:])))
