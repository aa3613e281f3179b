"""Nodes in a row become one function, and no shape of a topology changes what comes out."""

from __future__ import annotations

import inspect
import re
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tasks import TaskRig, raw

from headwater import Serdes, StreamsBuilder
from headwater.errors import ProcessingError
from headwater.model.metrics import DROPPED_RECORDS
from headwater.processor import code

STEPS: dict[str, tuple[Any, Any]] = {
    "filter": (
        lambda stream: stream.filter(lambda k, v: len(v) % 2 == 0),
        lambda rows: [(k, v) for k, v in rows if len(v) % 2 == 0],
    ),
    "longer": (
        lambda stream: stream.map_values(lambda v: v + "x"),
        lambda rows: [(k, v + "x") for k, v in rows],
    ),
    "rekey": (
        lambda stream: stream.select_key(lambda k, v: k + v[:1]),
        lambda rows: [(k + v[:1], v) for k, v in rows],
    ),
    "swap": (
        lambda stream: stream.map(lambda k, v: (v, k)),
        lambda rows: [(v, k) for k, v in rows],
    ),
    "twice": (
        lambda stream: stream.flat_map_values(lambda v: [v, v + "y"]),
        lambda rows: [(k, each) for k, v in rows for each in (v, v + "y")],
    ),
    "both": (
        lambda stream: stream.flat_map(lambda k, v: ((k, v), (v, k))),
        lambda rows: [pair for k, v in rows for pair in ((k, v), (v, k))],
    ),
    "failing": (
        lambda stream: stream.map_values(lambda v: v if len(v) < 4 else v + 1),
        lambda rows: [(k, v) for k, v in rows if len(v) < 4],
    ),
}


def sent(rig: TaskRig, topic: str = "out") -> list[tuple[str, str]]:
    return [((k or b"").decode(), (v or b"").decode()) for k, v, _ in rig.sent(topic)]


@given(
    st.lists(st.sampled_from(sorted(STEPS)), max_size=7),
    st.integers(0, 7),
    st.lists(st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=3)), max_size=4),
    st.booleans(),
)
def test_any_chain_with_any_fan_out_does_what_its_steps_do(
    steps: list[str], fan_out_at: int, rows: list[tuple[str, str]], several: bool
) -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        for number, step in enumerate(steps):
            if number == fan_out_at:
                stream.to("side")
            stream = STEPS[step][0](stream)
        stream.to("out")
        if several:
            builder.stream("other").to("elsewhere")
            builder.stream("third").merge(stream).for_each(lambda k, v: None)

    rig = TaskRig(draw, processing_exception_handler="log-and-continue")
    rig.add("in", *(raw(offset, key, value) for offset, (key, value) in enumerate(rows)))
    rig.process()

    expected = side = list(rows)
    for number, step in enumerate(steps):
        if number == fan_out_at:
            side = expected
        expected = STEPS[step][1](expected)
    assert sent(rig) == expected
    assert sent(rig, "side") == (side if fan_out_at < len(steps) else [])


def test_loops_nest_deeper_than_python_allows() -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        for _ in range(25):
            stream = stream.flat_map_values(lambda v: [v + "x"])
        stream.to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert sent(rig) == [("k", "v" + 25 * "x")]


def test_what_fails_in_a_loop_skips_its_turn_only() -> None:
    def draw(builder: StreamsBuilder) -> None:
        parts = builder.stream("in").flat_map_values(str.split)
        parts.map_values(lambda v: str(12 // int(v))).to("out")

    rig = TaskRig(draw, processing_exception_handler="log-and-continue")
    rig.add("in", raw(0, "k", "4 0 3"), raw(1, "k", "2"))

    rig.process()

    assert sent(rig) == [("k", "3"), ("k", "4"), ("k", "6")]
    assert rig.task.statistics().total(DROPPED_RECORDS) == 1


def test_a_merge_of_all_kinds_of_parents_is_one_stream() -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        upper = stream.map_values(str.upper)
        merged = stream.merge(upper).merge(stream.filter(lambda k, v: v == "a"))
        merged.map_values(lambda v: v + "!").to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "a"), raw(1, "k", "b"))

    rig.process()

    assert sorted(value for _, value in sent(rig)) == ["A!", "B!", "a!", "a!", "b!"]


def test_a_traceback_shows_the_generated_line() -> None:
    rig = TaskRig(lambda b: b.stream("in").map_values(lambda v: v[9]).to("out"))
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(ProcessingError) as caught:
        rig.process()

    shown = "".join(traceback.format_exception(caught.value))
    assert '"<task 0_0 in-0>"' in shown
    assert "value_1 = mapper(value)" in shown


def test_a_source_is_compiled_once_and_has_the_title_of_each_task() -> None:
    code._compiled.cache_clear()
    rigs = [
        TaskRig(
            lambda b: [b.stream(f"in-{n}").flat_map(nested).to("out") for n in range(3)],
            subtopology=n,
        )
        for n in range(3)
    ]

    for number, rig in enumerate(rigs):
        rig.add(f"in-{number}", raw(0, "k", "v"))
        with pytest.raises(ProcessingError) as caught:
            rig.process()
        shown = "".join(traceback.format_exception(caught.value))
        assert re.search(rf'"<task {number}_0 in-{number}-0>", line \d+, in <listcomp>', shown)

    assert code._compiled.cache_info()[:2] == (4, 2)  # a loop, and what a merge would call


def nested(key: str, value: str) -> Any:
    """Pairs that cannot be taken apart, which shows within the generated comprehension."""
    return [(key, value, "more than a pair")]


def test_the_generated_source_can_be_read() -> None:
    rig = TaskRig(lambda b: b.stream("in").filter(lambda k, v: v).to("out"))
    [lane] = rig.task._buffer.lanes.values()

    source = inspect.getsource(lane._run)

    assert source.startswith("def run(records):")
    assert "if not predicate(key, value):" in source


def test_names_of_nodes_and_topics_stay_out_of_the_source() -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string)
        stream.map_values(lambda v: v, name="import-os").to("class")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert sent(rig, "class") == [("k", "v")]
