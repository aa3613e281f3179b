"""Records of which only a count is wanted are merged, and nothing is counted differently for it."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from headwater import Serdes
from headwater import functions as f
from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.ids import TopicPartition
from headwater.spark.frames.choose import choose
from headwater.spark.frames.counted import Counted
from headwater.spark.frames.kinds import Kind
from headwater.spark.frames.plan import Read
from headwater.spark.frames.rows import PartitionWork, Trouble, as_batches, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headwater import StreamsBuilder
    from headwater.kafka.newest import Columns

TEXTS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
WHOLE = bytes(8)


def only_counts(build: Callable[[StreamsBuilder], None]) -> list[bool]:
    found = choose(build_topology(build), StreamsConfig.parse({"application.id": "app"}))
    (unit,) = found.units
    return [unit.only_counts(read) for read in unit.reads]


Records: TypeAlias = "Sequence[tuple[bytes | None, bytes | None, int]]"


def work_on(value: Kind, records: Records) -> PartitionWork:
    return PartitionWork(
        read=Read(topic="in", subtopology=0, key=Kind.STRING, value=value),
        number=3,
        partition=TopicPartition("in", 1),
        start=0,
        cut=len(records),
        config={},
        group="",
        only_counts=True,
    )


def columns_of(records: Records, chunk: int) -> Iterator[Columns]:
    for start in range(0, len(records), chunk):
        part = records[start : start + chunk]
        keys, values, times = (list(one) for one in zip(*part, strict=True))
        yield list(range(start, start + len(part))), times, keys, values


def test_a_count_by_key_or_by_an_expression_of_the_key_is_merged() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", **TEXTS)
        stream.filter(~f.key.starts_with("test-")).group_by(f.key[:2], **TEXTS).count(store="s")

    assert only_counts(build) == [True]


@pytest.mark.parametrize(
    "condition", [f.value.starts_with("a"), f.value.is_null(), f.key == f.value], ids=str
)
def test_what_looks_at_values_is_not_merged(condition: Any) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", **TEXTS).filter(condition).group_by_key(**TEXTS).count(store="s")

    assert only_counts(build) == [False]


def test_a_topic_that_is_also_kept_as_a_table_is_not_merged() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", **TEXTS)
        stream.group_by_key(**TEXTS).count(store="s")
        stream.to_table(store="t", **TEXTS)

    assert only_counts(build) == [False]


@pytest.mark.seeded(20)
@pytest.mark.parametrize("value", [Kind.STRING, Kind.BYTES, Kind.LONG])
def test_merged_rows_stand_for_every_record(seed: str, value: Kind) -> None:
    rng = random.Random(seed)
    records = [
        (rng.choice([None, b"a", b"b", b"c", b"d"]), rng.choice([None, WHOLE]), rng.randrange(50))
        for _ in range(rng.randrange(1, 200))
    ]
    held_rows, held_bytes = rng.choice([1, 5, 1_000]), rng.choice([1, 300, 1 << 20])
    counted = partial(Counted, held_rows=held_rows, held_bytes=held_bytes)

    chunks = columns_of(records, chunk=rng.choice([1, 7, 500]))
    *batches, told = as_batches(work_on(value, records), chunks, counted)

    assert {batch.schema for batch in batches} == {told.schema}
    expected: Counter[tuple[str | None, bool]] = Counter()
    latest: dict[tuple[str | None, bool], int] = {}
    for key, data, at in records:
        kind = (None if key is None else key.decode(), data is not None)
        expected[kind] += 1
        latest[kind] = max(latest.get(kind, -1), at)
    found: Counter[tuple[str | None, bool]] = Counter()
    found_at: dict[tuple[str | None, bool], int] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        kind = (row["key"], row["value"] is not None)
        found[kind] += row["m"]
        found_at[kind] = max(found_at.get(kind, -1), row["ts"])
        assert (row["src"], row["part"], row["bad"]) == (-1, 1, 0)
    assert (found, found_at) == (expected, latest)


def test_the_partition_is_told_of_as_ever() -> None:
    records = [(b"a", WHOLE, 1), (b"a", WHOLE, 7), (b"a", WHOLE, 2)]

    batches = list(as_batches(work_on(Kind.LONG, records), columns_of(records, chunk=2)))

    (row,), (told,) = (batch.to_pylist() for batch in batches)
    assert (row["key"], row["m"], row["ts"]) == ("a", 3, 7)
    assert (told["src"], told["m"], told["ts"], told["bad"]) == (3, 3, 7, 0)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Kind.LONG, [WHOLE, b"short"]),
        (Kind.STRING, [b"a", b"\xff"]),
        (Kind.STRING, [None, b"\xff"]),
        (Kind.STRING, ["\u20ac".encode()[:1], "\u20ac".encode()[1:]]),
    ],
    ids=["long", "text", "text behind none", "text in two halves"],
)
@pytest.mark.parametrize("chunk", [1, 2])
def test_a_record_that_cannot_be_decoded_is_told_all_the_same(
    kind: Kind, values: list[bytes | None], chunk: int
) -> None:
    records = [(b"a", value, 1) for value in values]

    *_, told = as_batches(work_on(kind, records), columns_of(records, chunk))

    assert told.to_pylist()[0]["bad"] == Trouble.UNDECODABLE


def test_text_beyond_ascii_is_counted() -> None:
    records = [("\u00fc".encode(), value, 1) for value in ("\u20ac".encode(), None, b"")]

    *batches, told = as_batches(work_on(Kind.STRING, records), columns_of(records, chunk=3))

    found = {(row["value"], row["m"]) for batch in batches for row in batch.to_pylist()}
    assert found == {("", 2), (None, 1)}
    assert told.to_pylist()[0]["bad"] == Trouble.NONE


@pytest.mark.parametrize("kind", [Kind.BYTES, Kind.DOUBLE, Kind.STRING, Kind.INTEGER])
def test_rows_have_the_columns_that_spark_is_told(kind: Kind) -> None:
    records = [(b"a", None, 3), (b"b", None, -1)]
    work = work_on(kind, records)

    good, told = as_batches(work, columns_of(records, chunk=1))

    assert good.schema == told.schema
    assert [name.split()[0] for name in schema_of(work.read).split(", ")] == good.schema.names
    assert told.to_pylist()[0]["bad"] == Trouble.NO_TIMESTAMP
