"""A task takes its records by timestamp across partitions and waits when it must."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tasks import TaskRig, raw

from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from headwater import StreamsBuilder

TOPICS = ("a", "b", "c")


def merged(builder: StreamsBuilder) -> None:
    first, second, third = (builder.stream(topic) for topic in TOPICS)
    first.merge(second).merge(third).to("out")


def values(rig: TaskRig) -> list[str]:
    return [(value or b"").decode() for _, value, _ in rig.sent()]


def test_the_lowest_timestamp_goes_first() -> None:
    rig = TaskRig(merged)
    rig.add("a", raw(0, "k", "a1", 1), raw(1, "k", "a9", 9), raw(2, "k", "a2", 2))
    rig.add("b", raw(0, "k", "b3", 3), raw(1, "k", "b4", 4))
    rig.add("c", raw(0, "k", "c2", 2))

    # Within a partition the order of offsets holds, so a2 comes after a9.
    assert rig.process() == 6
    assert values(rig) == ["a1", "c2", "b3", "b4", "a9", "a2"]
    assert rig.task.stream_time == 9


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=3, max_size=3),
    st.integers(1, 5),
)
def test_any_batches_of_any_size_come_out_once_each_head_by_head(
    times: list[list[int]], records_max: int
) -> None:
    rig = TaskRig(merged)
    for topic, stamps in zip(TOPICS, times, strict=True):
        half = len(stamps) // 2
        rows = [raw(i, "k", f"{topic}{i}", stamp) for i, stamp in enumerate(stamps)]
        rig.add(topic, *rows[:half])
        rig.add(topic, *rows[half:])

    while rig.process(records_max):
        pass

    queues = {
        topic: [(stamp, f"{topic}{i}") for i, stamp in enumerate(stamps)]
        for topic, stamps in zip(TOPICS, times, strict=True)
    }
    for seen in values(rig):
        heads = {topic: queue[0] for topic, queue in queues.items() if queue}
        stamp, name = heads[seen[0]]
        assert name == seen
        assert stamp == min(head for head, _ in heads.values())
        queues[seen[0]].pop(0)
    assert not any(queues.values())


def test_processing_stops_after_the_given_number() -> None:
    for topics in (TOPICS, ("a",)):
        rig = TaskRig(merged if len(topics) > 1 else lambda b: b.stream("a").to("out"))
        rig.add("a", *(raw(i, "k", "v") for i in range(10)))

        assert [rig.process(3), rig.process(4), rig.process(4), rig.process(4)] == [3, 4, 3, 0]


def test_add_says_how_much_a_partition_holds() -> None:
    rig = TaskRig(merged)

    assert rig.add("a", raw(0, "k", "v"), raw(1, "k", "v")) == 2
    assert rig.add("a", raw(2, "k", "v")) == 3
    rig.process(1)
    assert rig.task.buffered(TopicPartition("a", 0)) == 2
    assert rig.task.buffered(TopicPartition("b", 0)) == 0


@pytest.mark.parametrize(
    ("lag", "waited_ms", "idle_ms", "ready"),
    [
        pytest.param(None, 0, 0, False, id="lag unknown"),
        pytest.param(None, 10_000, 0, False, id="lag unknown for long"),
        pytest.param(5, 10_000, 0, False, id="more on the broker"),
        pytest.param(0, 0, 0, True, id="caught up, no waiting"),
        pytest.param(0, 99, 100, False, id="caught up, waiting"),
        pytest.param(0, 100, 100, True, id="caught up, waited long enough"),
        pytest.param(5, 0, -1, True, id="never waits"),
        pytest.param(None, 0, -1, True, id="never waits, even unknown"),
    ],
)
def test_an_empty_partition_holds_the_task_back(
    lag: int | None, waited_ms: int, idle_ms: int, *, ready: bool
) -> None:
    rig = TaskRig(lambda b: b.stream("a").merge(b.stream("b")).to("out"), max_task_idle_ms=idle_ms)
    rig.task.update_lags({TopicPartition("b", 0): -1 if lag is None else lag})
    rig.add("a", raw(0, "k", "v"))
    rig.task.is_ready(rig.clock.now_ms())

    rig.clock.advance(waited_ms)

    assert rig.task.is_ready(rig.clock.now_ms()) is ready
    assert rig.process() == ready


def test_a_new_record_ends_the_waiting_and_its_clock() -> None:
    rig = TaskRig(lambda b: b.stream("a").merge(b.stream("b")).to("out"), max_task_idle_ms=100)
    rig.add("a", raw(0, "k", "a0"), raw(9, "k", "a9"))
    assert rig.process() == 0
    rig.clock.advance(60)
    rig.add("b", raw(0, "k", "b5", 5))

    # b is empty after b5, and its 100 ms begin anew.
    assert rig.process() == 2
    rig.clock.advance(60)
    assert rig.process() == 0
    rig.clock.advance(40)
    assert rig.process() == 1
    assert values(rig) == ["a0", "b5", "a9"]


@pytest.mark.parametrize("draw", [merged, lambda b: b.stream("a").to("out")], ids=["many", "one"])
def test_the_offset_to_commit_is_that_of_the_next_record(draw: object) -> None:
    rig = TaskRig(draw)  # type: ignore[arg-type]
    a = TopicPartition("a", 0)
    rig.add("a", *(raw(offset, "k", "v") for offset in (3, 4, 8, 9)))

    assert rig.commit() == {a: 3}
    rig.process(2)
    assert rig.commit() == {a: 8}
    rig.process(2)
    assert rig.commit() == {a: 10}
    assert rig.commit() == {}


def test_a_position_beyond_the_last_record_counts_when_nothing_is_buffered() -> None:
    rig = TaskRig(lambda b: b.stream("a").to("out"))
    a = TopicPartition("a", 0)
    rig.add("a", raw(3, "k", "v"))
    rig.task.observe_position(a, 5)

    assert rig.commit() == {a: 3}
    rig.process()
    rig.task.observe_position(a, 5)
    assert rig.commit() == {a: 5}
