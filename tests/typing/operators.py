"""What a type checker makes of the operators that ``dsl.py`` leaves out."""

from typing import Any, assert_type

from headwater import (
    Branched,
    BranchedKStream,
    Consumed,
    EmitStrategy,
    GlobalKTable,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    Record,
    Serdes,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindowedKStream,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    Windowed,
)


class Keeping(Processor[str, int, None, None]):
    """Keeps a global store."""

    def process(self, record: Record[str, int]) -> None:
        """Keep one record."""


def longer(text: str, other: str) -> str:
    return max(text, other, key=len)


def add(_key: object, value: int, total: float) -> float:
    return total + value


def merged(_key: str, one: float, two: float) -> float:
    return one + two


builder = StreamsBuilder()
stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)
table = builder.table("t", key_serde=Serdes.string, value_serde=Serdes.long)

assert_type(stream.filter_not(lambda key, value: value > len(key)), KStream[str, int])
assert_type(stream.map_values(lambda value: value / 2), KStream[str, float])
assert_type(stream.map_values(lambda key, value: key * value, with_key=True), KStream[str, str])
assert_type(stream.flat_map(lambda key, value: [(value, key)] * value), KStream[int, str])
assert_type(stream.flat_map_values(range), KStream[str, int])
assert_type(
    stream.flat_map_values(lambda key, value: key.split()[value:], with_key=True), KStream[str, str]
)
assert_type(stream.peek(print), KStream[str, int])
assert_type(stream.repartition(partitions=3, name="apart"), KStream[str, int])
assert_type(stream.merge(stream.filter(lambda _key, value: value > 1)), KStream[str, int])
assert_type(stream.split("by-size-"), BranchedKStream[str, int])
assert_type(stream.split().branch(lambda _key, value: value > 3), BranchedKStream[str, int])
assert_type(
    stream.split().branch(lambda _key, value: value > 3, name="large").no_default_branch(),
    dict[str, KStream[str, int]],
)
assert_type(
    stream.split()
    .branch(lambda _key, value: value > 3, chain=lambda large: large.peek(print))
    .branch(lambda key, _value: key == "", Branched.with_consumer(lambda rest: rest.to("rest")))
    .default_branch(Branched.with_function(lambda small: small.filter(lambda key, _v: key != ""))),
    dict[str, KStream[str, int]],
)
stream.split().default_branch(chain=lambda small: small.map_values(str))  # type: ignore[arg-type]
stream.for_each(lambda key, value: print(key, value + 1))
stream.print(mapper=lambda key, value: key * value)
stream.to(lambda key, _value, context: f"{key}-{context.partition}", key_serde=Serdes.string)


def known(value: int) -> str | None:
    return str(value) if value else None


assert_type(stream.map_values(known), KStream[str, str | None])
assert_type(stream.map_values(known).to_table(store="known"), KTable[str, str])
assert_type(stream.to_table(), KTable[str, int])

assert_type(table.filter(lambda _key, value: value > 3, store="large"), KTable[str, int])
assert_type(table.filter_not(lambda _key, value: value > 3), KTable[str, int])
assert_type(table.map_values(str), KTable[str, str])
assert_type(table.map_values(lambda key, value: key * value, with_key=True), KTable[str, str])
assert_type(table.to_stream(), KStream[str, int])

by_number = table.group_by(lambda key, value: (value, key), key_serde=Serdes.long)
assert_type(by_number, KGroupedTable[int, str])
assert_type(by_number.count(), KTable[int, int])
assert_type(by_number.reduce(longer, longer), KTable[int, str])
assert_type(
    by_number.aggregate(
        lambda: 0.5, lambda _key, text, sum_: sum_ + len(text), lambda _key, _text, sum_: sum_
    ),
    KTable[int, float],
)

grouped = stream.group_by_key()
assert_type(grouped.aggregate(lambda: 0.5, add), KTable[str, float])
hopping = grouped.windowed_by(TimeWindows.of(size=9, advance=3, grace=0))
assert_type(hopping.aggregate(lambda: 0.5, add), KTable[Windowed[str], float])
sliding = grouped.windowed_by(SlidingWindows.of(time_difference=9, grace=0))
assert_type(sliding.aggregate(lambda: 0.5, add), KTable[Windowed[str], float])
assert_type(sliding.reduce(max), KTable[Windowed[str], int])
closing = EmitStrategy.on_window_close()
assert_type(sliding.emit_strategy(closing), SlidingWindowedKStream[str, int])
sessions = grouped.windowed_by(SessionWindows.of(inactivity_gap=9, grace=0))
assert_type(sessions.emit_strategy(closing), SessionWindowedKStream[str, int])
assert_type(sessions.count(), KTable[Windowed[str], int])
assert_type(sessions.reduce(max), KTable[Windowed[str], int])
assert_type(sessions.aggregate(lambda: 0.5, add, merged), KTable[Windowed[str], float])

everywhere = builder.global_table("glob", key_serde=Serdes.uuid, value_serde=Serdes.string)
assert_type(everywhere.queryable_store_name(), str | None)
untyped: GlobalKTable[Any, Any] = builder.global_table("g2", store="g2")
spec = Stores.key_value_store_builder(
    Stores.in_memory_key_value_store("kept"), Serdes.string, Serdes.long
)
read = Consumed(key_serde=Serdes.string, value_serde=Serdes.long)
assert_type(builder.add_global_store(spec, "kept", read, Keeping), StreamsBuilder)
assert_type(builder.add_state_store(spec), StreamsBuilder)
assert_type(builder.build(), Topology)

stream.map_values(str.upper)  # type: ignore[arg-type]
stream.map_values(lambda key, value: value)  # type: ignore[misc, arg-type]
stream.flat_map_values(lambda value: value)  # type: ignore[arg-type, return-value]
table.map_values(len)  # type: ignore[arg-type]
by_number.reduce(max, len)  # type: ignore[arg-type]
stream.process(Keeping).to_table(store=5)  # type: ignore[call-overload]
