"""Joins of two streams: what meets, what waits, and what comes out in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import JoinWindows, Serdes, Stores, StreamJoined, StreamsBuilder, TopologyError
from headwater.serde.stream_join import SideKeySerde, SideValueSerde, SideValuesSerde
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater import KStream

TEXT: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
BOTH: dict[str, Any] = {**TEXT, "other_value_serde": Serdes.string}
FIVE = JoinWindows.of_time_difference_with_no_grace(5)
Sent = tuple[str, str | None, str | None, int]


def sides() -> tuple[StreamsBuilder, KStream[str, str], KStream[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.stream("left", **TEXT), builder.stream("right", **TEXT)


def joined(verb: str, windows: JoinWindows, sent: Sequence[Sent], **options: Any) -> list[Any]:
    """What a join puts out of records ``(topic, key, value, timestamp)``."""
    builder, left, right = sides()
    getattr(left, verb)(right, lambda a, b: f"{a}-{b}", windows, **BOTH, **options).to(
        "out", **TEXT
    )
    with TopologyTestDriver(builder.build(), {"application.id": "a"}) as driver:
        topics = {
            name: driver.create_input_topic(name, Serdes.string, Serdes.string)
            for name in ("left", "right")
        }
        for topic, key, value, timestamp in sent:
            topics[topic].pipe_input(key, value, timestamp=timestamp)
        records = driver.create_output_topic("out", Serdes.string, Serdes.string)
        return [(it.key, it.value, it.timestamp) for it in records.read_records_to_list()]


def test_two_records_meet_within_the_window_and_have_the_later_time() -> None:
    sent = [("left", "k", "a", 10), ("right", "k", "x", 15), ("right", "k", "y", 16)]

    assert joined("join", FIVE, sent) == [("k", "a-x", 15)]


def test_before_and_after_are_those_of_the_left_record() -> None:
    windows = JoinWindows.of(before=0, after=3, grace=0)
    sent = [("right", "k", "x", 9), ("left", "k", "a", 10), ("right", "k", "y", 13)]

    assert joined("join", windows, sent) == [("k", "a-y", 13)]


def test_a_record_alone_has_its_result_once_its_window_has_passed() -> None:
    sent = [("left", "k", "a", 10), ("right", "m", "x", 15), ("right", "m", "y", 16)]

    assert joined("left_join", FIVE, sent) == [("k", "a-None", 10)]


def test_an_outer_join_gives_records_of_both_sides_a_result_in_the_order_of_their_times() -> None:
    sent = [("left", "k", "a", 10), ("right", "m", "x", 9), ("left", "z", "b", 40)]

    assert joined("outer_join", FIVE, sent) == [("m", "None-x", 9), ("k", "a-None", 10)]


def test_grace_puts_off_what_found_nothing() -> None:
    windows = JoinWindows.of_time_difference_and_grace(5, timedelta(milliseconds=20))
    sent = [("left", "k", "a", 10), ("right", "m", "x", 30)]

    assert joined("left_join", windows, sent) == []
    assert joined("left_join", windows, [*sent, ("right", "m", "y", 36)]) == [("k", "a-None", 10)]


def test_a_record_that_met_one_is_not_given_again_as_one_that_found_nothing() -> None:
    sent = [("left", "k", "a", 10), ("right", "k", "x", 12), ("left", "z", "b", 99)]

    assert joined("outer_join", FIVE, sent) == [("k", "a-x", 12)]


def test_a_record_without_a_key_finds_nothing_and_one_without_a_value_is_dropped() -> None:
    sent: list[Sent] = [("left", None, "a", 10), ("right", None, "x", 10), ("left", "k", None, 11)]

    assert joined("join", FIVE, sent) == []
    assert joined("left_join", FIVE, sent) == [(None, "a-None", 10)]
    assert joined("outer_join", FIVE, sent) == [(None, "a-None", 10), (None, "None-x", 10)]


def test_a_joiner_that_raises_is_asked_about_with_the_record_under_way() -> None:
    builder, left, right = sides()
    left.join(right, lambda a, b: int(a) + int(b), FIVE, **BOTH).to(
        "out", key_serde=Serdes.string, value_serde=Serdes.long
    )
    config = {"application.id": "a", "processing.exception.handler": "log-and-continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        lefts = driver.create_input_topic("left", Serdes.string, Serdes.string)
        rights = driver.create_input_topic("right", Serdes.string, Serdes.string)
        lefts.pipe_input("k", "1", timestamp=1)
        rights.pipe_input("k", "one", timestamp=2)
        rights.pipe_input("k", "2", timestamp=3)
        out = driver.create_output_topic("out", Serdes.string, Serdes.long)
        assert [record.value for record in out.read_records_to_list()] == [3]


def test_what_has_no_windows_or_is_of_another_builder_is_refused() -> None:
    _, left, right = sides()
    _, stranger, _ = sides()

    with pytest.raises(TopologyError, match="needs JoinWindows, not 5"):
        left.join(right, lambda a, _: a, 5, **BOTH)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="another builder"):
        left.join(stranger, lambda a, _: a, FIVE, **BOTH)
    with pytest.raises(TopologyError, match="no outer join with a table"):
        left.outer_join(right.to_table(), lambda a, _: a, FIVE)  # type: ignore[arg-type, type-var]


def test_a_store_supplier_has_to_fit_the_windows() -> None:
    _, left, right = sides()

    def join(retention: int, size: int, **more: Any) -> None:
        supplier = Stores.in_memory_window_store("st", retention, size, **more)
        left.join(right, lambda a, _: a, FIVE, StreamJoined(this_store_supplier=supplier))

    with pytest.raises(TopologyError, match="retain_duplicates=True"):
        join(10, 10)
    with pytest.raises(TopologyError, match=r"keeps windows of 10 ms for 11 ms; .* need 10 ms and"):
        join(11, 10, retain_duplicates=True)
    join(10, 10, retain_duplicates=True)


def test_both_suppliers_of_a_join_need_names_of_their_own() -> None:
    _, left, right = sides()
    supplier = Stores.in_memory_window_store("st", 10, 10, retain_duplicates=True)

    with pytest.raises(TopologyError, match="are called 'st': give each its own name"):
        left.join(
            right,
            lambda a, _: a,
            FIVE,
            this_store_supplier=supplier,
            other_store_supplier=supplier,
        )


def test_what_waits_has_javas_bytes() -> None:
    key = SideKeySerde(Serdes.string, "store s")
    values = SideValuesSerde(SideValueSerde(Serdes.string, Serdes.long, "store s"))

    assert key.serializer("t")((730, False, "a")) == bytes.fromhex("00000000000002da0061")
    data = values.serializer("t")([(False, 0)])
    assert data == bytes.fromhex("010000000100000009000000000000000000")
    assert values.deserializer("t")(data) == [(False, 0)]
    assert key.deserializer("t")(key.serializer("t")((1, True, "k"))) == (1, True, "k")


@pytest.mark.parametrize("wanted", ["none", "single.store.self.join"])
def test_topics_of_a_stream_that_is_joined_with_itself_need_equal_counts(wanted: str) -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream(["a", "b"], **TEXT)
    stream.join(stream, lambda left, right: left + right, FIVE).to("out")

    topology = builder.build({"topology.optimization": wanted})

    assert topology.copartition_groups == (("a", "b"),)
