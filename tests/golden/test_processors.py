"""Descriptions of processors and of topologies built by hand, recorded from Java.

``processors/*.txt`` is what Kafka Streams 4.3.1 prints for the topologies drawn here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater import Processor, Record, StoreSpec, StreamsBuilder, Topology

DIRECTORY = Path(__file__).parent / "processors"


class Silent(Processor[Any, Any, Any, Any]):
    """Does nothing."""

    def process(self, record: Record[Any, Any]) -> None:
        pass


def test_processors_in_the_dsl_are_named_and_grouped_as_in_java() -> None:
    builder = StreamsBuilder()
    for name in ("shared", "other", "third"):
        builder.add_state_store(StoreSpec(name=name))
    first = builder.stream("in")
    second = builder.stream("in2")

    first.process(Silent).to("out")
    first.process(Silent, "shared", "third", name="mine").group_by_key().count()
    second.process(Silent, "shared", "other").filter(lambda _k, _v: True).to("out2")
    builder.stream("in3").process(Silent, "third", name="alone")
    first.peek(print)

    expected = (DIRECTORY / "processors_in_the_dsl.txt").read_text()
    assert builder.build().describe() == expected


def test_a_topology_built_by_hand_is_described_as_in_java() -> None:
    topology = Topology()
    topology.add_source("first", "a", "b").add_source("second", "c").add_source("third", "d")
    topology.add_processor("left", Silent, "first")
    topology.add_processor("right", Silent, "second", "left")
    topology.add_processor("apart", Silent, "third")
    topology.add_state_store(StoreSpec(name="s1"), "left", "right")
    topology.add_state_store(StoreSpec(name="s2"), "apart")
    topology.add_state_store(StoreSpec(name="unused"))
    topology.add_processor("late", Silent, "apart")
    topology.connect_processor_and_state_stores("late", "s2")
    topology.add_sink("sink", "out", "right", "late").add_sink("sink2", "out2", "left")
    topology.add_source("fourth", "e").add_processor("joined", Silent, "fourth")
    topology.connect_processor_and_state_stores("joined", "s2")
    for number in range(14):
        topology.add_state_store(StoreSpec(name=f"many-{number}"), "joined")

    assert topology.describe() == (DIRECTORY / "a_topology_by_hand.txt").read_text()
