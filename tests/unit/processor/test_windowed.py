"""Aggregations within windows, beside what ``tests/oracle/test_windows.py`` compares with Java."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    EmitStrategy,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    Window,
    Windowed,
)
from headwater.model import metrics
from headwater.testing import TopologyTestDriver
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KGroupedStream, KTable

TEN = timedelta(seconds=10)


def driver_of(
    draw: Callable[[KGroupedStream[str, str]], KTable[Any, Any]], **config: Any
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    grouped = builder.stream(
        "in", key_serde=Serdes.string, value_serde=Serdes.string
    ).group_by_key()
    draw(grouped).to_stream().to("out")
    return TopologyTestDriver(builder.build(), config)


def pipe(driver: TopologyTestDriver, *records: tuple[str | None, str | None, int]) -> None:
    topic = driver.create_input_topic("in", Serdes.string, Serdes.string)
    for key, value, timestamp in records:
        topic.pipe_input(key, value, timestamp)


def counts(driver: TopologyTestDriver, key_serde: Any) -> list[Any]:
    out = driver.create_output_topic("out", key_serde, Serdes.long)
    return [(r.key, r.value, r.timestamp) for r in out.read_records_to_list()]


def test_a_window_is_open_until_stream_time_reaches_its_end_and_grace() -> None:
    windows = TimeWindows.of_size_and_grace(TEN, timedelta(seconds=5))
    with driver_of(lambda grouped: grouped.windowed_by(windows).count()) as driver:
        pipe(driver, ("a", "x", 3_000), ("b", "x", 14_999), ("a", "x", 4_000))
        pipe(driver, ("b", "x", 15_000), ("a", "x", 5_000), (None, "x", 15_000))

        first, second = Window(0, 10_000), Window(10_000, 20_000)
        assert counts(driver, Serdes.time_windowed(Serdes.string, TEN)) == [
            (Windowed("a", first), 1, 3_000),
            (Windowed("b", second), 1, 14_999),
            (Windowed("a", first), 2, 4_000),
            (Windowed("b", second), 2, 15_000),
        ]
        late, without_key = driver.warnings
        assert late.endswith(
            ": Skipping record for expired window. topic=[in] partition=[0] offset=[4] "
            "timestamp=[5000] window=[0,10000) expiration=[10000] streamTime=[15000]"
        )
        assert without_key.endswith(
            ": Skipping record due to null key. topic=[in] partition=[0] offset=[5]"
        )
        dropped = driver.task.statistics().total(metrics.DROPPED_RECORDS)
        assert dropped == 2


@pytest.mark.parametrize(
    "topic", ["out", lambda _key, _value, _context: "out"], ids=["one topic", "a function"]
)
def test_a_key_of_a_window_lies_where_the_key_alone_does(topic: Any) -> None:
    windows = TimeWindows.of_size_with_no_grace(TEN)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string)
    stream.group_by_key().windowed_by(windows).count().to_stream().to(topic)
    with TopologyTestDriver(builder.build(), partitions={"in": 5, "out": 5}) as driver:
        pipe(driver, *((key, "x", at) for key in "abcdef" for at in (0, 20_000)))
        places: dict[str, set[int | None]] = {}
        for record in driver.output_queue("out"):
            assert record.key is not None
            places.setdefault(record.key[:1].decode(), set()).add(record.partition)
        assert len({place for found in places.values() for place in found}) > 1
        assert all(len(found) == 1 for found in places.values())


def test_a_repartition_topic_divides_the_windows_of_a_key() -> None:
    """As in Kafka Streams, where it has no partitioner: what Java has written there is found."""
    windows = TimeWindows.of_size_with_no_grace(TEN)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string)
    counts = stream.group_by_key().windowed_by(windows).count()
    serde = Serdes.time_windowed(Serdes.string, TEN)
    counts.group_by(lambda k, v: (k, v), key_serde=serde, value_serde=Serdes.long).count(store="s")
    with TopologyTestDriver(builder.build(), partitions={"in": 5}) as driver:
        pipe(driver, *(("a", "x", at) for at in range(0, 200_000, 10_000)))
        sent = driver.output_queue(driver.topic_name("s-repartition"))
        assert len({partition_for_key(record.key or b"", 5) for record in sent}) > 1
        assert {record.partition for record in sent} <= {None}


@pytest.mark.parametrize("cache", ["0", "100000"])
def test_final_results_come_once_when_a_window_closes(cache: str) -> None:
    windows = TimeWindows.of(size=10, grace=5)
    close = EmitStrategy.on_window_close()

    def draw(grouped: KGroupedStream[str, str]) -> KTable[Any, Any]:
        return grouped.windowed_by(windows).emit_strategy(close).count(retention=1_000)

    with driver_of(draw, **{"statestore.cache.max.bytes": cache}) as driver:
        pipe(driver, ("a", "x", 1), ("a", "x", 2), ("b", "x", 3), ("a", "x", 14))
        serde = Serdes.time_windowed(Serdes.string, 10)
        assert counts(driver, serde) == []
        pipe(driver, ("a", "x", 15), ("a", "x", 16), ("b", "x", 40))
        assert counts(driver, serde) == [
            (Windowed("a", Window(0, 10)), 2, 2),
            (Windowed("b", Window(0, 10)), 1, 3),
            (Windowed("a", Window(10, 20)), 3, 16),
        ]


def test_how_far_results_were_final_is_committed() -> None:
    windows = TimeWindows.of(size=10, grace=0)
    close = EmitStrategy.on_window_close()
    with driver_of(
        lambda grouped: grouped.windowed_by(windows).emit_strategy(close).count(store="s")
    ) as driver:
        pipe(driver, ("a", "x", 1), ("a", "x", 30))
        committed = driver.task.offsets()
        found = {offsets.partition: (offsets.offset, offsets.metadata) for offsets in committed}
        driver.task.suspend()
        driver.task.restore_metadata(found)
        driver.task.initialize()
        pipe(driver, ("a", "x", 31), ("a", "x", 41))

        assert counts(driver, Serdes.time_windowed(Serdes.string, 10)) == [
            (Windowed("a", Window(0, 10)), 1, 1),
            (Windowed("a", Window(30, 40)), 2, 31),
        ]


def test_a_table_of_windows_is_looked_up_by_windowed_keys() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string)
    table = stream.group_by_key().windowed_by(TimeWindows.of(size=10, grace=5)).count()
    sessions = stream.group_by_key().windowed_by(SessionWindows.of(inactivity_gap=9, grace=5))
    merged = sessions.count().map_values(lambda n: n * 10)
    table.join(table.map_values(lambda n: n * 10), lambda a, b: a + b).to_stream().to(
        "out", value_serde=Serdes.long
    )
    merged.left_join(merged, lambda a, b: (a, b)).to_stream().for_each(lambda k, v: None)
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": "0"}) as driver:
        pipe(driver, ("a", "x", 1), ("a", "x", 2))
        assert counts(driver, Serdes.time_windowed(Serdes.string, 10))[-1] == (
            Windowed("a", Window(0, 10)),
            22,
            2,
        )


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of(size=10, grace=5),
        TimeWindows.of(size=10, advance=3, grace=5),
        SlidingWindows.of(time_difference=5, grace=5),
        SessionWindows.of(inactivity_gap=5, grace=5),
    ],
)
def test_what_the_users_function_raises_is_the_handlers_to_judge(windows: Any) -> None:
    def fold(_key: str, value: str, total: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return total + value

    def draw(grouped: KGroupedStream[str, str]) -> KTable[Any, Any]:
        windowed = grouped.windowed_by(windows)
        extra = [fold] if isinstance(windows, SessionWindows) else []
        return windowed.aggregate(lambda: "", fold, *extra, value_serde=Serdes.string)

    config = {"processing.exception.handler": "log-and-continue"}
    with driver_of(draw, **config) as driver:
        pipe(driver, ("a", "x", 100), ("a", "bad", 101), ("a", "y", 102))
        assert len(driver.output_queue("out")) >= 2
        assert "ValueError" in driver.warnings[0]


def test_what_cannot_be_is_refused() -> None:
    grouped = StreamsBuilder().stream("in").group_by_key()
    close = EmitStrategy.on_window_close()
    with pytest.raises(TopologyError, match="unlimited windows never close"):
        grouped.windowed_by(UnlimitedWindows.of()).emit_strategy(close)
    with pytest.raises(TopologyError, match="windowed_by"):
        grouped.windowed_by(10)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="retention of 12 ms is shorter"):
        grouped.windowed_by(TimeWindows.of(size=10, grace=5)).count(retention=12)
    with pytest.raises(TopologyError, match="retention"):
        grouped.windowed_by(SlidingWindows.of(time_difference=10, grace=5)).count(retention=20)
    with pytest.raises(TopologyError, match="windows have no versions"):
        grouped.windowed_by(TimeWindows.of(size=10, grace=5)).count(store="s", history_retention=20)
    with pytest.raises(TopologyError, match="reduce"):
        grouped.windowed_by(TimeWindows.of(size=10, grace=5)).reduce(None)  # type: ignore[arg-type]
