"""Streams that share one aggregate, beside what ``tests/oracle/test_cogroups.py`` compares."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import Serdes, StreamsBuilder, TimeWindows, TopologyError
from headwater.errors import PartitionMismatchError
from headwater.testing import TopologyTestDriver


def draw(builder: StreamsBuilder, windows: Any = None) -> Any:
    text = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    first = builder.stream("a", **text).group_by_key()
    second = builder.stream("b", **text).group_by_key()
    together = first.cogroup(lambda _k, value, total: total + value).cogroup(
        second, lambda _k, value, total: total + value.upper()
    )
    windowed = together if windows is None else together.windowed_by(windows)
    return windowed.aggregate(lambda: "", **text)


@pytest.mark.parametrize("cache", ["0", "100000"])
def test_several_streams_update_one_value_of_a_key(cache: str) -> None:
    builder = StreamsBuilder()
    draw(builder).to_stream().to("out")
    config = {"statestore.cache.max.bytes": cache}
    with TopologyTestDriver(builder.build(), config) as driver:
        first, second = (
            driver.create_input_topic(topic, Serdes.string, Serdes.string) for topic in "ab"
        )
        first.pipe_input("k", "x", 1)
        second.pipe_input("k", "y", 2)
        first.pipe_input("k", "z", 3)
        out = driver.create_output_topic("out", Serdes.string, Serdes.string)
        assert [r.value for r in out.read_records_to_list()] == ["x", "xY", "xYz"]


def test_old_values_come_from_the_streams_of_a_cogroup() -> None:
    builder = StreamsBuilder()
    lengths = draw(builder).group_by(
        lambda key, value: (value[:1], key), key_serde=Serdes.string, value_serde=Serdes.string
    )
    lengths.count().to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("a", Serdes.string, Serdes.string)
        topic.pipe_input("k", "x", 1)
        driver.create_input_topic("b", Serdes.string, Serdes.string).pipe_input("k", "y", 2)
        out = driver.create_output_topic("out", Serdes.string, Serdes.long)
        assert out.read_records_to_list()[-1].value == 1


def test_streams_of_a_cogroup_have_as_many_partitions() -> None:
    builder = StreamsBuilder()
    draw(builder, TimeWindows.of_size_with_no_grace(10))
    with pytest.raises(PartitionMismatchError, match="'a' has 2 and 'b' has 3"):
        TopologyTestDriver(builder.build(), partitions={"a": 2, "b": 3})


def test_what_cannot_be_is_refused() -> None:
    grouped = StreamsBuilder().stream("in").group_by_key()
    with pytest.raises(TopologyError, match="cogroup"):
        grouped.cogroup(None)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="windowed_by"):
        grouped.cogroup(lambda _k, _v, total: total).windowed_by(5)  # type: ignore[call-overload]
