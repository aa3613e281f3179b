"""Laws of joins of streams: sides may be swapped, and each kind of join contains a smaller one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import JoinWindows, Serdes, StreamsBuilder
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
BOTH: dict[str, Any] = {**TEXT, "other_value_serde": Serdes.string}
KEYS = st.none() | st.sampled_from("km")
VALUES = st.none() | st.sampled_from("abc")
RECORDS = st.lists(st.tuples(st.sampled_from("lr"), KEYS, VALUES, st.integers(0, 60)), max_size=30)
# The window may lie wholly before or after the record, and holds a millisecond at least.
SPANS = st.tuples(st.integers(-8, 12), st.integers(-8, 12)).filter(lambda it: sum(it) >= 0)
GRACES = st.sampled_from((0, 3, 20, 100))
CACHES = st.sampled_from(("0", "10485760"))

Pair = tuple[str | None, str | None, str | None, int]


def joined(
    method: str,
    sides: str,
    span: tuple[int, int],
    grace: int,
    records: Any,
    joiner: Callable[..., str] = "{}+{}".format,
    cache: str = "0",
) -> Counter[Pair]:
    """What a join of the first side with the second puts out: key, left, right, time."""
    builder = StreamsBuilder()
    streams = {topic: builder.stream(topic, **TEXT) for topic in "lr"}
    first, second = (streams[side] for side in sides)
    windows = JoinWindows.of(before=span[0], after=span[1], grace=grace)
    getattr(first, method)(second, joiner, windows, **BOTH).to("out", **TEXT)
    config = {"application.id": "app", "statestore.cache.max.bytes": cache}
    with TopologyTestDriver(builder.build(), config) as driver:
        inputs = {
            topic: driver.create_input_topic(topic, Serdes.string, Serdes.string) for topic in "lr"
        }
        for topic, key, value, at in records:
            inputs[topic].pipe_input(key, value, at)
        found = driver.create_output_topic("out", Serdes.string, Serdes.string)
        return Counter(
            (
                one.key,
                *(None if side == "None" else side for side in one.value.split("+")),
                one.timestamp,
            )
            for one in found.read_records_to_list()
        )


@pytest.mark.parametrize("method", ["join", "outer_join"])
@given(span=SPANS, grace=GRACES, records=RECORDS, cache=CACHES)
def test_sides_may_be_swapped_with_before_and_after(
    method: str, span: tuple[int, int], grace: int, records: Any, cache: str
) -> None:
    there = joined(method, "lr", span, grace, records, cache=cache)
    back = joined(
        method, "rl", span[::-1], grace, records, lambda right, left: f"{left}+{right}", cache
    )

    assert there == back


@given(span=SPANS, grace=GRACES, records=RECORDS)
def test_a_left_join_is_what_an_outer_join_has_of_the_left_side(
    span: tuple[int, int], grace: int, records: Any
) -> None:
    left = joined("left_join", "lr", span, grace, records)
    outer = joined("outer_join", "lr", span, grace, records)

    assert left == Counter({pair: n for pair, n in outer.items() if pair[1] is not None})


@given(span=SPANS, grace=GRACES, records=RECORDS)
def test_an_inner_join_is_what_a_left_join_has_of_both_sides(
    span: tuple[int, int], grace: int, records: Any
) -> None:
    inner = joined("join", "lr", span, grace, records)
    left = joined("left_join", "lr", span, grace, records)

    assert inner == Counter({pair: n for pair, n in left.items() if pair[2] is not None})
