"""Topics and stores as DataFrames: one contract, which both readers keep.

What holds of any reader of a topic holds of that of a backfill, too (``spark/frames/rows.py``).
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headwater import Serdes
from headwater.errors import ConfigError, MissingTopicError, TopologyError
from headwater.ids import TopicPartition
from headwater.spark import read_store, read_topic
from headwater.spark.frames.kinds import Kind
from headwater.spark.frames.plan import Read
from headwater.spark.frames.rows import PartitionWork, Trouble, Union, read_rows, schema_of
from tests.support.thread_rig import LONG, Topics
from tests.support.topologies import counts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headwater.spark.frames.rows import Gathered

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
both_readers = pytest.mark.parametrize("reader", ["python", "connector"])
BACKFILL = "backfill"
all_readers = pytest.mark.parametrize("reader", ["python", "connector", BACKFILL])

HOUR_MS = 3_600_000


def config(topics: Topics, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": topics.bootstrap_servers, **more}


def seen(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    chosen = columns or ("partition", "offset", "key", "value")
    return sorted(tuple(row) for row in frame.select(*chosen).collect())


def write(topics: Topics, topic: str, records: Sequence[dict[str, Any]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, **settings})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(60) == 0


def topic_of(
    session: SparkSession, topic: str, settings: dict[str, str], *, reader: Any, **told: Any
) -> DataFrame:
    """A topic by any of the readers: partition, offset, key, value and more."""
    if reader != BACKFILL:
        return read_topic(session, topic, settings, reader=reader, **told)
    rows, _ = backfilled(session, topic, settings, **told)
    return rows.filter("src < 0").withColumnsRenamed({"part": "partition", "off": "offset"})


def backfilled(
    session: SparkSession,
    topic: str,
    settings: dict[str, str],
    *,
    partitions: int = 1,
    key: str = "bytes",
    value: str = "bytes",
    start: dict[int, int] | None = None,
    end: dict[int, int] | None = None,
    **_: Any,
) -> tuple[DataFrame, Gathered]:
    """The rows of a topic as DataFrames of a backfill read them, and what readers tell past them.

    A backfill has asked the broker where each partition ends.
    """
    there = [TopicPartition(topic, number) for number in range(partitions)]
    ends = Topics(settings["bootstrap.servers"]).ends(there)
    read = Read(topic=topic, subtopology=0, key=Kind(key), value=Kind(value))
    works = tuple(
        PartitionWork(
            read=read,
            number=0,
            partition=p,
            start=(start or {}).get(p.partition, 0),
            cut=min(ends[p], (end or {}).get(p.partition, ends[p])),
            config={"application.id": topic, **settings},
            group=f"{topic}-reading",
        )
        for p in there
        if start is None or p.partition in start
    )
    lost: Any = session.sparkContext.accumulator(frozenset(), Union())  # type: ignore[arg-type]
    numbers = session.range(0, len(works), 1, len(works))
    runner: Any = partial(read_rows, works, lost)
    return numbers.mapInArrow(runner, schema_of(read)), lost


@both_readers
def test_a_record_is_a_row_with_all_it_has(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name, 2)
    headers = [("a", b"\x00"), ("a", None), ("b", b"")]
    write(
        topics,
        unique_name,
        [
            {"key": b"\xffk", "value": b"", "partition": 0, "timestamp": 1_234, "headers": headers},
            {"key": None, "value": b"v", "partition": 1, "timestamp": 10},
            {"key": b"k", "value": None, "partition": 1, "timestamp": 9},
        ],
    )

    frame = read_topic(spark_session, unique_name, config(topics), reader=reader)

    assert frame.columns == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
    first, second, third = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert (bytes(first.key), bytes(first.value)) == (b"\xffk", b"")
    pairs = [(one.key, None if one.value is None else bytes(one.value)) for one in first.headers]
    assert pairs == headers
    assert (second.key, bytes(second.value), second.headers) == (None, b"v", None)
    assert (bytes(third.key), third.value) == (b"k", None)
    assert {row.topic for row in (first, second, third)} == {unique_name}
    times = frame.selectExpr("partition", "offset", "unix_millis(timestamp)").collect()
    assert sorted(map(tuple, times)) == [(0, 0, 1_234), (1, 0, 10), (1, 1, 9)]


@all_readers
def test_only_what_is_committed_is_read(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name)
    producer = Producer(
        {
            "bootstrap.servers": topics.bootstrap_servers,
            "transactional.id": unique_name,
            "transaction.timeout.ms": 900_000,  # the broker's most: it stays open
        }
    )
    producer.init_transactions(60)
    for value, how in (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "")):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(unique_name, value)
        assert producer.flush(60) == 0
        if how:
            getattr(producer, f"{how}_transaction")(60)

    try:
        found = {}
        for piece in (1, 2, 500):
            frame = topic_of(
                spark_session,
                unique_name,
                config(topics),
                value="string",
                reader=reader,
                piece_records=piece,
            )
            found[piece] = seen(frame, "offset", "value")
    finally:
        producer.abort_transaction(60)

    wanted = [(0, "a"), (1, "a"), (2, "a"), (8, "c"), (9, "c"), (10, "c")]
    assert found == {1: wanted, 2: wanted, 500: wanted}


@all_readers
def test_a_look_begins_and_ends_where_it_is_told_to(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name, 2)
    for hour in range(6):
        for partition in (0, 1):
            at_ms = hour * HOUR_MS
            topics.send(unique_name, [("k", str(hour))], partition, timestamp_ms=at_ms or 1)

    def hours(**told: Any) -> list[tuple[Any, ...]]:
        told = {"partitions": 2, **told} if reader == BACKFILL else told
        frame = topic_of(
            spark_session, unique_name, config(topics), value="string", reader=reader, **told
        )
        return seen(frame, "partition", "value")

    assert hours(start={1: 4}) == [(1, "4"), (1, "5")]
    assert hours(start={0: 1, 1: 5}, end={0: 2, 1: 99}) == [(0, "1"), (1, "5")]
    if reader == BACKFILL:
        return  # which knows offsets only
    between = hours(
        start=datetime.fromtimestamp(2 * 3600, UTC), end=datetime.fromtimestamp(4 * 3600, UTC)
    )
    assert between == [(p, hour) for p in (0, 1) for hour in ("2", "3")]
    assert hours(start=datetime(2999, 1, 1, tzinfo=UTC)) == []


@all_readers
def test_a_large_partition_is_read_whole_and_in_pieces_by_who_looks(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name, 2)
    topics.send(unique_name, [(f"k{n}", f"v{n}") for n in range(25_000)], 0)
    topics.send(unique_name, [("k", "v")], 1)

    told = {"partitions": 2} if reader == BACKFILL else {}
    frame = topic_of(
        spark_session, unique_name, config(topics), reader=reader, piece_records=10_000, **told
    )

    assert reader == BACKFILL or frame.rdd.getNumPartitions() >= 4
    offsets = seen(frame, "partition", "offset")
    assert offsets == [*((0, at) for at in range(25_000)), (1, 0)]


@all_readers
def test_bytes_that_are_not_what_they_are_said_to_be_are_told(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name)
    write(topics, unique_name, [{"value": LONG.pack(7)}, {"value": b"seven"}])

    if reader == BACKFILL:  # a StreamTask will name them
        rows, _ = backfilled(spark_session, unique_name, config(topics), value="long")
        assert seen(rows, "src", "bad") == [(0, Trouble.UNDECODABLE)]
        return
    frame = read_topic(spark_session, unique_name, config(topics), value=Serdes.long, reader=reader)

    with pytest.raises(PySparkException, match=f"{unique_name}-0 offset 1: the value is no long"):
        frame.collect()


@all_readers
def test_records_deleted_after_the_look_was_planned_are_not_passed_over(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    topics.create(unique_name)
    topics.send(unique_name, [("k", "v")] * 20)
    frame: DataFrame
    if reader == BACKFILL:
        frame, lost = backfilled(spark_session, unique_name, config(topics))
    else:
        frame = read_topic(spark_session, unique_name, config(topics), reader=reader)
    gone = ClientPartition(unique_name, 0, 10)
    for future in topics.admin.delete_records([gone]).values():
        future.result(60)

    if reader == BACKFILL:  # it is told twice, lest somebody reads again what was lost
        assert seen(frame, "src", "bad") == [(0, Trouble.DELETED)]
        assert lost.value == {TopicPartition(unique_name, 0)}
        return
    with pytest.raises((PySparkException, Py4JJavaError)) as refused:
        frame.collect()
    assert reader == "connector" or "deleted meanwhile" in str(refused.value)

    again = read_topic(spark_session, unique_name, config(topics), reader=reader)
    assert [offset for (offset,) in seen(again, "offset")] == list(range(10, 20))


# -- stores ----------------------------------------------------------------------------------------


@both_readers
def test_a_store_is_the_last_record_of_each_key(
    spark_session: SparkSession, topics: Topics, unique_name: str, reader: Any
) -> None:
    changelog = topics.create(f"{unique_name}-counts-changelog", 2)
    records: list[dict[str, Any]] = []
    for number in range(1, 101):
        for key, partition in (("a", 0), ("b", 0), ("c", 1)):
            value = LONG.pack(number * partition + number)
            records.append({"key": key, "value": value, "partition": partition})
    records += [
        {"key": "b", "value": None, "partition": 0},
        # A key that keeps the partition of its record may be in both.
        {"key": "a", "value": LONG.pack(-1), "partition": 1},
    ]
    write(topics, changelog, [{**one, "timestamp": 5} for one in records])
    asked = config(topics, **{"application.id": unique_name})
    topology = counts_of("lines")

    frame = read_store(
        spark_session,
        "counts",
        asked,
        topology=topology,
        reader=reader,
        piece_records=120,
    )

    assert dict(frame.dtypes)["key"] == "string"
    assert dict(frame.dtypes)["value"] == "bigint"
    assert seen(frame) == [(0, 198, "a", 100), (1, 99, "c", 200), (1, 100, "a", -1)]
    if reader == "connector":
        return  # which only reads the records
    raw = read_store(spark_session, "counts", asked, reader=reader)
    assert dict(raw.dtypes)["value"] == "binary"
    before = read_store(
        spark_session,
        "counts",
        asked,
        key="string",
        value="long",
        end={0: 200, 1: 1},
        reader=reader,
    )
    assert seen(before) == [(0, 198, "a", 100), (0, 199, "b", 100), (1, 0, "c", 2)]


def test_keys_of_windows_and_sessions_are_columns(
    spark_session: SparkSession, topics: Topics, unique_name: str
) -> None:
    window = topics.create(f"{unique_name}-by-hour-changelog")
    session = topics.create(f"{unique_name}-visits-changelog")
    in_window = struct.Struct(">qi")
    in_session = struct.Struct(">qq")
    write(
        topics,
        window,
        [
            {"key": b"k" + in_window.pack(hour * HOUR_MS, 0), "value": LONG.pack(n)}
            for hour, n in ((1, 1), (2, 1), (1, 2))
        ],
    )
    gone = b"k" + in_session.pack(1_000, 0)
    merged = b"k" + in_session.pack(2_000, 0)
    write(
        topics,
        session,
        [
            {"key": gone, "value": LONG.pack(1)},
            {"key": gone, "value": None},
            {"key": merged, "value": LONG.pack(2)},
        ],
    )
    asked = config(topics, **{"application.id": unique_name})
    told: dict[str, Any] = {"key": "string", "value": "long"}

    hours = read_store(spark_session, "by-hour", asked, layout="window", **told)
    visits = read_store(spark_session, "visits", asked, layout="session", **told)

    at = ("key", "unix_millis(window_start)", "window_sequence", "value")
    assert sorted(map(tuple, hours.selectExpr(*at).collect())) == [
        ("k", HOUR_MS, 0, 2),
        ("k", 2 * HOUR_MS, 0, 1),
    ]
    at = ("key", "unix_millis(session_start)", "unix_millis(session_end)", "value")
    assert list(map(tuple, visits.selectExpr(*at).collect())) == [("k", 0, 2_000, 2)]


# -- refused ---------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_said_at_once(
    spark_session: SparkSession, topics: Topics, unique_name: str
) -> None:
    asked = config(topics, **{"application.id": unique_name})
    topics.create(unique_name)
    topics.send(unique_name, [("k", "v")] * 3)
    gone = ClientPartition(unique_name, 0, 2)
    for future in topics.admin.delete_records([gone]).values():
        future.result(60)

    with pytest.raises(MissingTopicError, match=f"no topic {unique_name}-counts-changelog"):
        read_store(spark_session, "counts", asked)
    with pytest.raises(TopologyError, match=r"'sums' is not in .*those with one are counts"):
        read_store(spark_session, "sums", asked, topology=counts_of("lines"))
    with pytest.raises(ConfigError, match=r"application\.id is missing"):
        read_store(spark_session, "counts", config(topics))
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        read_topic(spark_session, unique_name, {})
    with pytest.raises(ConfigError, match="begins at offset 2, so 1 is not there"):
        read_topic(spark_session, unique_name, asked, start={0: 1})
    with pytest.raises(ConfigError, match="no partition 7"):
        read_topic(spark_session, unique_name, asked, end={7: 1})
    with pytest.raises(ConfigError, match="has no time zone"):
        read_topic(spark_session, unique_name, asked, start=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ConfigError, match="'lang' is not one of string"):
        read_topic(spark_session, unique_name, asked, key="lang")
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location.*reader='python'"):
        read_topic(
            spark_session,
            unique_name,
            {**asked, "ssl.ca.location": "/no/where"},
            reader="connector",
        )
