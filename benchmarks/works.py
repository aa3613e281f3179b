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

Input and output topics come from the environment, because a topology is named by an import path.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from headwater import (
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)

INPUT = os.environ.get("HEADWATER_BENCH_INPUT", "bench-input")
OUTPUT = os.environ.get("HEADWATER_BENCH_OUTPUT", "bench-output")
BUSY_S = 50e-6

SUBTOPOLOGIES = {"count": 1, "state": 1, "stateless": 1, "words": 2, "busy": 1}
WINDOWS_OF = {"tumbling": 1, "hopping": 5}
"""In how many windows each record is counted."""
TIMED = ("tumbling", "hopping", "sliding", "session", "pairs")
STORES = dict.fromkeys(("count", "state", "words", *TIMED), ("counts",))
STORES["pairs"] = ("pairs-this-join-store", "pairs-other-join-store")
SUBTOPOLOGIES |= dict.fromkeys(TIMED, 1)


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
    stream = builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    stream.join(
        stream,
        lambda one, other: one + other,
        JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=5)),
        store="pairs",
        key_serde=Serdes.string,
        value_serde=Serdes.string,
        other_value_serde=Serdes.string,
    ).to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.string)
