"""Settings written in Java's way say what the same keywords say."""

from __future__ import annotations

from typing import Any, Final

import pytest

from headwater import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    KStream,
    Materialized,
    Named,
    OffsetReset,
    Produced,
    Repartitioned,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    TableJoined,
)
from headwater.errors import TopologyError
from headwater.testing import TopologyTestDriver

KEY, VALUE, OTHER = Serdes.string, Serdes.long, Serdes.bytes
SERDES: Final[dict[str, Any]] = {"key_serde": KEY, "value_serde": VALUE}


def zero(*_: Any) -> Any:
    return 0


BRANCHED: Final[Branched[Any, Any]] = Branched.with_function(zero, "n")
SAME: Final[dict[str, tuple[object, object]]] = {
    "Named.as": (Named.as_("n"), Named("n")),
    "Consumed.as": (Consumed.as_("n").with_key_serde(KEY), Consumed(name="n", key_serde=KEY)),
    "Consumed.with": (
        Consumed.with_(KEY, VALUE, zero, OffsetReset.LATEST),
        Consumed(**SERDES, timestamp_extractor=zero, offset_reset=OffsetReset.LATEST),
    ),
    "Consumed.with...": (
        Consumed.with_(KEY)
        .with_value_serde(VALUE)
        .with_name("n")
        .with_timestamp_extractor("wallclock")
        .with_offset_reset_policy(OffsetReset.EARLIEST),
        Consumed(
            name="n",
            **SERDES,
            timestamp_extractor="wallclock",
            offset_reset=OffsetReset.EARLIEST,
        ),
    ),
    "Produced": (
        Produced.with_(KEY, VALUE).with_stream_partitioner(zero).with_name("n"),
        Produced(name="n", **SERDES, partitioner=zero),
    ),
    "Produced.as": (Produced.as_("n"), Produced(name="n")),
    "Grouped": (Grouped.with_(KEY, VALUE, name="n"), Grouped(name="n", **SERDES)),
    "Grouped.as": (Grouped.as_("n").with_value_serde(VALUE), Grouped(name="n", value_serde=VALUE)),
    "Joined": (
        Joined.with_(KEY, VALUE, OTHER).with_name("n").with_grace_period(5),
        Joined(name="n", **SERDES, other_value_serde=OTHER, grace=5),
    ),
    "Joined.as": (
        Joined.as_("n").with_other_value_serde(OTHER),
        Joined(name="n", other_value_serde=OTHER),
    ),
    "StreamJoined": (
        StreamJoined.with_(KEY, VALUE, OTHER).with_name("n"),
        StreamJoined(name="n", **SERDES, other_value_serde=OTHER),
    ),
    "StreamJoined.as": (StreamJoined.as_("s"), StreamJoined(store="s")),
    "TableJoined": (
        TableJoined.with_(zero).with_other_partitioner(zero).with_name("n"),
        TableJoined(name="n", partitioner=zero, other_partitioner=zero),
    ),
    "TableJoined.as": (
        TableJoined.as_("n").with_partitioner(zero),
        TableJoined(name="n", partitioner=zero),
    ),
    "Repartitioned": (
        Repartitioned.with_(KEY, VALUE).with_number_of_partitions(3).with_name("n"),
        Repartitioned(name="n", **SERDES, partitions=3),
    ),
    "Repartitioned.as": (
        Repartitioned.as_("n").with_stream_partitioner(zero),
        Repartitioned(name="n", partitioner=zero),
    ),
    "Materialized": (Materialized.with_(KEY, VALUE), Materialized(**SERDES)),
    "Branched.as": (Branched.as_("n"), Branched(name="n")),
    "Branched.withFunction": (BRANCHED, Branched(name="n", chain=zero)),
}


@pytest.mark.parametrize(("written", "same"), SAME.values(), ids=SAME)
def test_settings_say_the_same_in_javas_way(written: object, same: object) -> None:
    assert written == same


def test_what_a_branch_is_only_used_for_is_no_branch_of_the_result() -> None:
    builder = StreamsBuilder()
    texts: Consumed[str, str] = Consumed.with_(Serdes.string, Serdes.string)
    written: Produced[str, str] = Produced.with_(Serdes.string, Serdes.string)

    def write(branch: KStream[str, str]) -> None:
        branch.to("x", written)

    branches = (
        builder.stream("in", texts)
        .split(Named.as_("b-"))
        .branch(lambda key, value: value == "x", Branched.with_consumer(write))
        .default_branch(Branched.as_("rest"))
    )
    branches["b-rest"].to("rest", written)

    with TopologyTestDriver(builder.build()) as driver:
        for value in ("x", "y"):
            driver.create_input_topic("in", Serdes.string, Serdes.string).pipe_input("k", value)
        found = {
            topic: driver.create_output_topic(
                topic, Serdes.string, Serdes.string
            ).read_values_to_list()
            for topic in ("x", "rest")
        }

    assert branches.keys() == {"b-rest"}
    assert found == {"x": ["x"], "rest": ["y"]}


def test_a_wrong_value_is_refused_where_it_is_said() -> None:
    with pytest.raises(TopologyError, match="Produced: key_serde is 'text'; pass a Serde"):
        Produced.with_("text")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="Branched"):
        Branched.with_consumer(5)  # type: ignore[arg-type]
