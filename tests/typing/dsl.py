"""What a type checker makes of the DSL; ``tests/unit/test_typing.py`` has it checked."""

from datetime import timedelta
from typing import TypeAlias, assert_type

from headwater import (
    BufferConfig,
    BuiltInDslStoreSuppliers,
    CogroupedKStream,
    Consumed,
    EmitStrategy,
    FixedKeyRecord,
    GlobalKTable,
    Joined,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    Serdes,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindowedKStream,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindowedKStream,
    TimeWindows,
    ValueTransformerWithKey,
    Windowed,
)

WindowedCounts: TypeAlias = KTable[Windowed[str], int]


def repeat(_key: str, times: int, text: str) -> str:
    return text + "x" * times


def both(_key: str, one: str, two: str) -> str:
    return one + two


class Length(ValueTransformerWithKey[str, float, int]):
    def transform(self, key: str, value: float | None) -> int | None:
        return None if value is None else len(key)


builder = StreamsBuilder()
stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)
table = builder.table("t", Consumed(key_serde=Serdes.string, value_serde=Serdes.double))
annotated: KStream[str, str] = builder.stream("untyped")

assert_type(stream, KStream[str, int])
assert_type(table, KTable[str, float])
kept = builder.table("k", Materialized(key_serde=Serdes.string, value_serde=Serdes.long))
assert_type(kept, KTable[str, int])
assert_type(kept.queryable_store_name(), str | None)
assert_type(stream.filter(lambda _key, value: value > 3), KStream[str, int])
assert_type(stream.map(lambda key, value: (value, key)), KStream[int, str])
assert_type(stream.map_values(str), KStream[str, str])
assert_type(stream.select_key(lambda _key, value: value), KStream[int, int])
assert_type(stream.group_by_key(), KGroupedStream[str, int])
assert_type(stream.group_by(lambda _key, value: value).count(store="counts"), KTable[int, int])
assert_type(stream.group_by_key().reduce(max), KTable[str, int])
assert_type(stream.to_table(Materialized(store="kept")).to_stream(), KStream[str, int])
assert_type(stream.group_by_key().count(Materialized.as_("named")), KTable[str, int])
assert_type(
    stream.to_table(Materialized.as_("m").with_store_type(BuiltInDslStoreSuppliers.IN_MEMORY)),
    KTable[str, int],
)
assert_type(
    stream.to_table(Materialized.as_(Stores.lru_map("few", 9)).with_caching_disabled()),
    KTable[str, int],
)
assert_type(stream.to_table(store_type=BuiltInDslStoreSuppliers.IN_MEMORY), KTable[str, int])
assert_type(table.group_by(lambda key, value: (value, key)), KGroupedTable[float, str])
assert_type(table.to_stream(lambda _key, value: int(value)), KStream[int, float])
joined: Joined[str, int, float] = Joined(name="meet", other_value_serde=Serdes.double)
assert_type(stream.join(table, lambda number, share: number * share), KStream[str, float])
assert_type(stream.join(table, lambda number, _share: number, joined), KStream[str, int])
assert_type(stream.join(table, lambda key, _n, _s: key, with_key=True), KStream[str, str])
assert_type(stream.left_join(table, lambda _number, share: share), KStream[str, float | None])
assert_type(
    stream.left_join(table, lambda key, _n, share: (key, share), with_key=True, name="meet"),
    KStream[str, tuple[str, float | None]],
)
counts = stream.group_by_key().count()
assert_type(table.join(counts, lambda share, count: share * count), KTable[str, float])
assert_type(table.left_join(counts, lambda _share, count: count), KTable[str, int | None])
assert_type(
    table.outer_join(counts, lambda share, count: (share, count), name="both"),
    KTable[str, tuple[float | None, int | None]],
)
within = JoinWindows.of_time_difference_with_no_grace(5_000)
assert_type(
    stream.join(stream, lambda a, b: a + b, within, name="pairs"),
    KStream[str, int],
)
assert_type(
    stream.left_join(stream, lambda a, b: (a, b), within), KStream[str, tuple[int, int | None]]
)
assert_type(
    stream.outer_join(
        stream,
        lambda key, a, b: (key, a, b),
        within,
        StreamJoined(other_value_serde=Serdes.integer),
        with_key=True,
    ),
    KStream[str, tuple[str, int | None, int | None]],
)
named: TableJoined[str, int] = TableJoined(name="by-rounded")
by_rounded = stream.group_by(lambda _key, value: value).count()
assert_type(table.join(by_rounded, round, lambda share, n: share * n), KTable[str, float])
assert_type(
    table.join(by_rounded, round, lambda share, n: (share, n), named),
    KTable[str, tuple[float, int]],
)
assert_type(
    table.left_join(by_rounded, lambda key, _share: len(key), lambda _share, n: n, with_key=True),
    KTable[str, int | None],
)
everywhere = builder.global_table("glob", key_serde=Serdes.long, value_serde=Serdes.double)
assert_type(everywhere, GlobalKTable[int, float])
assert_type(
    stream.join(everywhere, lambda _key, value: value, lambda number, share: number * share),
    KStream[str, float],
)
assert_type(
    stream.left_join(
        everywhere, lambda _key, value: value, lambda key, _n, share: (key, share), with_key=True
    ),
    KStream[str, tuple[str, float | None]],
)
assert_type(table.transform_values(Length), KTable[str, int])
assert_type(
    table.suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded())), KTable[str, float]
)
assert_type(stream.split().default_branch(), dict[str, KStream[str, int]])

windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=5)).advance_by(1_000)
windowed = stream.group_by_key().windowed_by(windows)
assert_type(windowed, TimeWindowedKStream[str, int])
assert_type(windowed.emit_strategy(EmitStrategy.on_window_close()).count(), WindowedCounts)
assert_type(windowed.reduce(max, retention=60_000), WindowedCounts)
assert_type(windowed.aggregate(lambda: "", repeat), KTable[Windowed[str], str])
assert_type(windowed.count().to_stream(), KStream[Windowed[str], int])
sliding = stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(9))
assert_type(sliding, SlidingWindowedKStream[str, int])
assert_type(sliding.count(store="slid"), WindowedCounts)
sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(9))
assert_type(sessions, SessionWindowedKStream[str, int])
assert_type(sessions.aggregate(lambda: "", repeat, both), KTable[Windowed[str], str])

together = stream.group_by_key().cogroup(repeat).cogroup(stream.group_by_key(), repeat)
assert_type(together, CogroupedKStream[str, str])
assert_type(together.aggregate(lambda: ""), KTable[str, str])
assert_type(together.windowed_by(windows).aggregate(lambda: ""), KTable[Windowed[str], str])
gap = SessionWindows.of_inactivity_gap_with_no_grace(9)
assert_type(together.windowed_by(gap).aggregate(lambda: "", both), KTable[Windowed[str], str])


async def ask(number: int) -> str:
    return str(number)


async def ask_of_record(record: FixedKeyRecord[str, int]) -> FixedKeyRecord[str, bytes]:
    return record.with_value(b"")


assert_type(stream.map_values_async(ask, order="partition"), KStream[str, str])
assert_type(stream.map_values_async(str, timeout=timedelta(seconds=1)), KStream[str, str])
assert_type(stream.process_values_async(ask_of_record), KStream[str, bytes])
assert_type(stream.map_batch(lambda numbers: [n / 2 for n in numbers]), KStream[str, float])
stream.for_each_async(lambda key, number: ask(number + len(key)))
stream.map_values_async(ask, order="topic")  # type: ignore[call-overload]
stream.map_values_async(ask, in_flight=3)  # type: ignore[call-overload]

stream.to("out", value_serde=Serdes.string)  # type: ignore[arg-type]
stream.filter(lambda _key, value: value.upper())  # type: ignore[attr-defined]
stream.merge(table.to_stream())  # type: ignore[arg-type]
stream.group_by_key(partitions=3)  # type: ignore[call-arg]
stream.left_join(table, lambda number, share: number * share)  # type: ignore[operator]
stream.join(table, lambda number: number)  # type: ignore[misc, arg-type]
table.join(by_rounded, str, lambda share, n: share * n)  # type: ignore[arg-type]
table.join(by_rounded, lambda key, _share: len(key), max)  # type: ignore[misc, arg-type]
table.join(counts, max, store="made", value_serde=Serdes.string)  # type: ignore[arg-type]
