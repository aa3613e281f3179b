"""The topologies that are measured; the same as in ``benchmarks/java/Yardstick.java``.

    count       group_by_key().count("counts").to_stream().to(output)
    state       group_by_key().count("counts"), which nobody hears of
    stateless   filter(key does not end in 0).map_values(upper case).to(output)
    words       flat_map_values(split at spaces).group_by(word).count("counts").to_stream()
                .to(output)
    busy        map_values that costs 50 us of Python .to(output)
    tumbling    group_by_key(), windows of 10 s, count("counts").to_stream(key).to(output)
    hopping     the same in windows of 5 s that advance by 1 s
    sliding     the same in sliding windows of 1 s
    session     the same in sessions with a gap of 1 s
    pairs       join with itself within 5 s, .to(output)
    suppress    count in windows of 10 s, .suppress(until the window closes), .to(output)
    stream_join     join with the second topic, a stream, within 5 s, .to(output)
    table_join      join with the second topic, a table of 100,000 rows, .to(output)
    versioned_join  the same with a versioned table, which changes meanwhile
    foreign_join    the table of the input joined with that of the second topic by the foreign key
                    that its values begin with, .to_stream().to(output); the second is not cached

Input and output topics come from the environment, because a topology is named by an import path;
the second topic is called after the input.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater import (
    BufferConfig,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)

if TYPE_CHECKING:
    from headwater import KStream, KTable

INPUT = os.environ.get("HEADWATER_BENCH_INPUT", "bench-input")
OUTPUT = os.environ.get("HEADWATER_BENCH_OUTPUT", "bench-output")
OTHER = "-other"
"""What the name of the second topic ends in."""
BUSY_S = 50e-6
FOREIGN_KEY_CHARACTERS = 10

WINDOWS_OF = {"tumbling": 1, "hopping": 5, "suppress": 1}
"""In how many windows each record is counted."""
WINDOWED = (*WINDOWS_OF, "sliding", "session")
"""Those with a store of counts."""
JOINS = ("pairs", "stream_join", "table_join", "versioned_join", "foreign_join")
_NEAR = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=5))
_SERDES: Any = {
    "key_serde": Serdes.string,
    "value_serde": Serdes.string,
    "other_value_serde": Serdes.string,
}


def count(builder: StreamsBuilder) -> None:
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def state(builder: StreamsBuilder) -> None:
    stream = builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    stream.group_by_key().count(store="counts")


def stateless(builder: StreamsBuilder) -> None:
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .filter(lambda key, _value: not key.endswith("0"))
        .map_values(str.upper)
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    )


def words(builder: StreamsBuilder) -> None:
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(lambda line: line.split(" "))
        .group_by(lambda _key, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="counts")
        .to_stream()
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def _spin(value: str) -> str:
    until = time.thread_time() + BUSY_S
    while time.thread_time() < until:
        pass
    return value


def busy(builder: StreamsBuilder) -> None:
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .map_values(_spin)
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    )


def _windowed(builder: StreamsBuilder, windows: Any) -> None:
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key()
        .windowed_by(windows)
        .count(store="counts")
        .to_stream(lambda windowed, _count: windowed.key)
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def tumbling(builder: StreamsBuilder) -> None:
    _windowed(builder, TimeWindows.of_size_with_no_grace(timedelta(seconds=10)))


def hopping(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=5))
    _windowed(builder, windows.advance_by(timedelta(seconds=1)))


def sliding(builder: StreamsBuilder) -> None:
    _windowed(builder, SlidingWindows.of_time_difference_with_no_grace(timedelta(seconds=1)))


def session(builder: StreamsBuilder) -> None:
    _windowed(builder, SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=1)))


def pairs(builder: StreamsBuilder) -> None:
    stream = _lines(builder, INPUT)
    _written(stream.join(stream, _joined, _NEAR, store="pairs", **_SERDES))


def suppress(builder: StreamsBuilder) -> None:
    (
        _lines(builder, INPUT)
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(timedelta(seconds=10)))
        .count(store="counts")
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream(lambda windowed, _count: windowed.key)
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def stream_join(builder: StreamsBuilder) -> None:
    _written(
        _lines(builder, INPUT).join(
            _lines(builder, INPUT + OTHER), _joined, _NEAR, store="joined", **_SERDES
        )
    )


def table_join(builder: StreamsBuilder) -> None:
    stream = _lines(builder, INPUT)
    _written(stream.join(_table(builder, INPUT + OTHER, store="table"), _joined))


def versioned_join(builder: StreamsBuilder) -> None:
    stream = _lines(builder, INPUT)
    table = _table(builder, INPUT + OTHER, store="table", history_retention=timedelta(hours=1))
    _written(stream.join(table, _joined))


def foreign_join(builder: StreamsBuilder) -> None:
    left = _table(builder, INPUT, store="left")
    right = _table(builder, INPUT + OTHER, store="right", caching=False)
    _written(left.join(right, lambda row: row[:FOREIGN_KEY_CHARACTERS], _joined).to_stream())


def _joined(one: str, other: str) -> str:
    return one + other


def _lines(builder: StreamsBuilder, topic: str) -> KStream[str, str]:
    return builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)


def _table(builder: StreamsBuilder, topic: str, **options: Any) -> KTable[str, str]:
    return builder.table(topic, key_serde=Serdes.string, value_serde=Serdes.string, **options)


def _written(stream: KStream[str, str]) -> None:
    stream.to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.string)
