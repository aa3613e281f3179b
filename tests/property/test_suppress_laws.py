"""A law of suppression: what goes on, and in which order, is what a list by time would say."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater import BufferConfig, Serdes, StreamsBuilder, Suppressed
from headwater.testing import TopologyTestDriver

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
UPDATES = st.lists(
    st.tuples(st.sampled_from("kl") | st.just("kk"), st.sampled_from("abc"), st.integers(0, 30)),
    max_size=25,
)


def by_hand(updates: Any, limit_ms: int, records_max: int) -> list[tuple[str, str, int]]:
    """A key keeps the place of its first update that waits, and the value of its last."""
    waiting: dict[str, tuple[int, str, int]] = {}
    gone, now = [], -1
    for key, value, at in updates:
        now = max(now, at)
        waiting[key] = (waiting.get(key, (at,))[0], value, at)
        while waiting:
            first = min(waiting, key=lambda each: (waiting[each][0], each))
            if waiting[first][0] > now - limit_ms and len(waiting) <= records_max:
                break
            _, last, last_at = waiting.pop(first)
            gone.append((first, last, last_at))
    return gone


@given(updates=UPDATES, limit_ms=st.integers(0, 12), records_max=st.integers(1, 3))
def test_updates_go_on_in_the_order_in_which_their_keys_began_to_wait(
    updates: Any, limit_ms: int, records_max: int
) -> None:
    builder = StreamsBuilder()
    wait = Suppressed.until_time_limit(limit_ms, BufferConfig.max_records(records_max))
    builder.table("t", **STRINGS).suppress(wait).to_stream().to("out", **STRINGS)
    config = {"application.id": "app", "statestore.cache.max.bytes": "0"}

    with TopologyTestDriver(builder.build(), config) as driver:
        table = driver.create_input_topic("t", Serdes.string, Serdes.string)
        for key, value, at in updates:
            table.pipe_input(key, value, at)
        outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)
        gone = [(one.key, one.value, one.timestamp) for one in outputs.read_records_to_list()]

    assert gone == by_hand(updates, limit_ms, records_max)
