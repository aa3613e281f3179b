"""Laws of joins of tables: sides may be swapped, and what is left is what a database would say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Serdes, StreamsBuilder
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
VALUES = st.none() | st.sampled_from("abc")
UPDATES = st.lists(
    st.tuples(st.sampled_from(["t", "u"]), st.sampled_from("kl"), VALUES, st.integers(0, 9)),
    max_size=25,
)
CACHES = st.sampled_from(["0", "10485760"])


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def swapped(right: str | None, left: str | None) -> str:
    return both(left, right)


def run(method: str, sides: str, joiner: Callable[..., str], updates: Any, cache: str) -> Any:
    """The changes of a join, and what its store holds in the end."""
    builder = StreamsBuilder()
    tables = {topic: builder.table(topic, **STRINGS) for topic in "tu"}
    left, right = (tables[side] for side in sides)
    joined = getattr(left, method)(right, joiner, store="joined", value_serde=Serdes.string)
    joined.to_stream().to("out", **STRINGS)
    config = {"application.id": "app", "statestore.cache.max.bytes": cache}
    with TopologyTestDriver(builder.build(), config) as driver:
        inputs = {
            topic: driver.create_input_topic(topic, Serdes.string, Serdes.string) for topic in "tu"
        }
        for topic, key, value, at in updates:
            inputs[topic].pipe_input(key, value, at)
        outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)
        changes = [(one.key, one.value, one.timestamp) for one in outputs.read_records_to_list()]
        return changes, dict(driver.get_state_store("joined").all())


@pytest.mark.parametrize("method", ["join", "outer_join"])
@given(updates=UPDATES, cache=CACHES)
def test_sides_may_be_swapped(method: str, updates: Any, cache: str) -> None:
    assert run(method, "tu", both, updates, cache) == run(method, "ut", swapped, updates, cache)


@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
@given(updates=UPDATES, cache=CACHES)
def test_the_store_holds_the_join_of_the_last_values(method: str, updates: Any, cache: str) -> None:
    last: dict[str, dict[str, str | None]] = {"t": {}, "u": {}}
    for topic, key, value, _ in updates:
        last[topic][key] = value

    def has_result(left: str | None, right: str | None) -> bool:
        given = (left is not None, right is not None)
        return {"join": all(given), "left_join": given[0], "outer_join": any(given)}[method]

    _, held = run(method, "tu", both, updates, cache)

    expected = {
        key: both(left, right)
        for key in "kl"
        if has_result(left := last["t"].get(key), right := last["u"].get(key))
    }
    assert {key: found.value for key, found in held.items()} == expected
